//! `kubeless function call`: one request to a function, with the headers that Kubeless sends, and its answer.

use super::super::options::Namespace;
use crate::client::request;
use crate::common::candidates;
use crate::common::results::refuse_failed;
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use hyper::Method;
use hyper::body::Bytes;
use jiff::Timestamp;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without data the function gets a GET, with data a POST. If it fails or does not answer in time, its answer goes to \
    standard error, and the exit code is 1.\n\n\
    Examples:\n  kubeless function call hello\n  kubeless function call hello --data '{\"hello\": \"world\"}'"
)]
pub(in crate::commands::kubeless) struct Args {
    /// Name of the function.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    function: String,

    /// The data: a JSON object is sent as JSON, anything else as a form.
    #[arg(short, long, value_name = "DATA", allow_hyphen_values = true)]
    data: Option<String>,

    #[command(flatten)]
    namespace: Namespace,
}

/// Letters and digits of an id.
const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// # Errors
/// The function failed, or cannot be called.
pub(super) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    args.namespace.report(context);
    called(context, &args).await.map_err(in_words_of_kubeless)
}

async fn called(context: &Context, args: &Args) -> Result<Exit, CommandFailure> {
    let path = function_path(&args.function)?;
    let detail = context.detail(&args.function).await?;
    let data = args.data.as_deref().filter(|data| !data.is_empty());
    let headers = headers(data, Timestamp::now(), &id());
    let body = Bytes::from(data.unwrap_or_default().to_owned());
    let method = if data.is_some() { Method::POST } else { Method::GET };
    // A script gets no request, only its body.
    let (method, place) = match detail.more.mode.as_str() {
        "script" => (Method::POST, "invoke"),
        _ => (method, "http/"),
    };
    let request = request(method, &format!("{path}/{place}"), &headers, body)?;
    let reply = context.client.send(request).await?;
    // Kubeless, too, prints the answer of a function that failed to standard error.
    let aside = |_: &CommandFailure| context.out.aside(&String::from_utf8_lossy(&reply.body));
    refuse_failed(&reply).inspect_err(aside)?;
    // With the line end that Kubeless prints behind an answer.
    context.out.result(&[&reply.body[..], b"\n"].concat())?;
    Ok(Exit::Fine)
}

/// Returns the headers of a request with some data, or without.
fn headers(data: Option<&str>, now: Timestamp, id: &str) -> Vec<(String, String)> {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut headers = vec![
        header("event-id", id),
        header("event-time", &now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        header("event-namespace", "cli.kubeless.io"),
    ];
    if let Some(data) = data {
        // Kubeless parses the data into a map, so an array or a number counts as a form.
        let is_object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(data).is_ok();
        let kind = if is_object {
            "application/json"
        } else {
            "application/x-www-form-urlencoded"
        };
        headers.extend([header("content-type", kind), header("event-type", kind)]);
    }
    headers
}

/// Returns 11 random letters and digits.
fn id() -> String {
    let mut bytes = [0_u8; 11];
    // Without random numbers all ids would be the same, and nothing depends on an id.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    let letter = |byte: u8| char::from(LETTERS[usize::from(byte) % LETTERS.len()]);
    bytes.map(letter).iter().collect()
}

/// Gives a failure the exit code and, of a timeout, the words that Kubeless has. That fnd cannot be reached, or does not allow
/// the call, keeps its own code.
fn in_words_of_kubeless(mut failure: CommandFailure) -> CommandFailure {
    if failure.exit == Exit::Timeout {
        failure.message = "Request timeout exceeded".to_owned();
    }
    // Kubeless ends with 1 after every failure. These two are problems of the machine, not of the call.
    if !matches!(failure.exit, Exit::NotReachable | Exit::NotAllowed | Exit::Fine) {
        failure.exit = Exit::FunctionFailed;
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_of_kubeless() {
        let now: Timestamp = "2026-11-21T08:00:00.5Z".parse().unwrap();
        let sent = |data| {
            let headers = headers(data, now, "abc").into_iter();
            headers
                .map(|(name, value)| format!("{name}: {value}"))
                .collect::<Vec<_>>()
        };
        let always = [
            "event-id: abc",
            "event-time: 2026-11-21T08:00:00Z",
            "event-namespace: cli.kubeless.io",
        ];
        assert_eq!(sent(None), always);
        for (data, kind) in [
            ("{\"a\": 1}", "application/json"),
            ("a=1", "application/x-www-form-urlencoded"),
            ("5", "application/x-www-form-urlencoded"),
        ] {
            let expected = [format!("content-type: {kind}"), format!("event-type: {kind}")];
            assert_eq!(sent(Some(data))[3..], expected, "{data}");
        }
        let id = id();
        assert!(id.len() == 11 && id.bytes().all(|byte| LETTERS.contains(&byte)), "{id}");
    }

    #[test]
    fn every_failure_of_a_call_is_1() {
        let ended = |exit| in_words_of_kubeless(CommandFailure::new(exit, "why"));
        let timeout = ended(Exit::Timeout);
        assert_eq!(
            (timeout.exit, timeout.message.as_str()),
            (Exit::FunctionFailed, "Request timeout exceeded")
        );
        for exit in [Exit::FunctionFailed, Exit::NoSuchThing, Exit::Busy, Exit::Usage] {
            assert_eq!(
                (ended(exit).exit, ended(exit).message.as_str()),
                (Exit::FunctionFailed, "why")
            );
        }
        assert_eq!(ended(Exit::NotReachable).exit, Exit::NotReachable);
    }
}
