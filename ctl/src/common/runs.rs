//! The run that a command line names: by its id, by the end of its id, or as the newest one.
//!
//! The ids begin with the time (`UUIDv7`), so those of one day begin alike. Their ends are random: people see and type
//! those.

use crate::common::candidates;
use crate::common::filter::{Filter, RunFilter};
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use crate::text::distance;
use fnd_core::api::InvocationView;
use fnd_wire::ids::InvocationId;
use jiff::Timestamp;

/// A run on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct ListedRun {
    /// Id of the run, or its last characters, as `fndctl history` shows them.
    #[arg(required_unless_present = "last", add = candidates::runs())]
    id: Option<String>,

    /// Use the newest run, or the newest run of this function, instead of an id.
    #[arg(long, value_name = "FUNCTION", num_args = 0..=1, conflicts_with = "id", add = candidates::functions())]
    last: Option<Option<String>>,
}

impl ListedRun {
    /// Returns the whole id.
    ///
    /// # Errors
    /// As [`find`] and [`newest`].
    pub(crate) async fn id(&self, context: &Context) -> Result<String, CommandFailure> {
        match &self.id {
            Some(id) => find(context, id).await,
            None => newest(context, self.last.as_ref().and_then(Option::as_deref)).await,
        }
    }
}

/// How many of the newest runs are searched for the end of an id. Ten pages of the API take less than a second.
const SEARCHED: u32 = 10_000;
/// Most runs that are listed where several are meant.
const LISTED: usize = 10;

/// Returns the whole id for one that was typed. Asks the daemon only if it is shortened.
///
/// # Errors
/// It is no id, no run or several runs have it, or the daemon does not answer.
pub(crate) async fn find(context: &Context, typed: &str) -> Result<String, CommandFailure> {
    if let Some(id) = InvocationId::parse(typed) {
        return Ok(id.to_string());
    }
    let end = end_of_id(typed)?;
    let now = Timestamp::now();
    // The search is here and not in the API: no index helps for the ends of ids, so fnd would read its whole history.
    let runs = list(context, None, SEARCHED, now).await?;
    let searched = format!("the newest {SEARCHED} runs");
    let found = only(&end, &runs.iter().collect::<Vec<_>>(), &searched, now);
    found.map_err(|failure| match failure.help {
        // Several runs with this end are a failure that has its own advice.
        None => failure.help("`fndctl history -o wide` prints whole ids, which also name older runs"),
        Some(_) => failure,
    })
}

/// Returns the whole id of the run that a word names where a function may stand, too; nothing if it names no run.
///
/// # Errors
/// The daemon does not answer.
pub(crate) async fn run_of_word(context: &Context, word: &str) -> Result<Option<String>, CommandFailure> {
    if let Some(id) = InvocationId::parse(word) {
        return Ok(Some(id.to_string()));
    }
    let (Ok(_), Ok(path)) = (end_of_id(word), function_path(word)) else {
        return Ok(None);
    };
    // The end of an id looks like a name, so a function of this name comes first.
    match context.client.get(&path).await.map_err(CommandFailure::from) {
        Err(failure) if failure.exit == Exit::NoSuchThing => Ok(find(context, word).await.ok()),
        Err(failure) => Err(failure),
        Ok(_) => Ok(None),
    }
}

/// Fewest characters of an id: fewer are rarely unique.
const SHORTEST: usize = 4;

/// Returns what was typed as the end of an id.
///
/// # Errors
/// It cannot be one.
pub(crate) fn end_of_id(typed: &str) -> Result<String, CommandFailure> {
    // Ids are compared as they are printed: in lower case.
    let end = typed.to_lowercase();
    let is_part = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    if end.len() < SHORTEST || !end.bytes().all(is_part) {
        let failure = CommandFailure::usage(format!(
            "`{typed}` is not the id of a run: expected an id as `fndctl history` shows it, or at least {SHORTEST} of its \
             last characters"
        ));
        // A number or a part of an id is no name that somebody would give.
        let is_name = function_path(typed).is_ok() && !end.bytes().all(is_part);
        return Err(if is_name {
            failure.help(format!("`--last {typed}` is the newest run of the function `{typed}`"))
        } else {
            failure
        });
    }
    Ok(end)
}

/// Returns the id of the newest run: of all, or of a function.
///
/// # Errors
/// There is none, or the daemon does not answer.
pub(crate) async fn newest(context: &Context, function: Option<&str>) -> Result<String, CommandFailure> {
    let runs = list(context, function, 1, Timestamp::now()).await?;
    runs.first().map(|run| run.id.to_string()).ok_or_else(|| {
        let message = match function {
            Some(function) => format!("the history has no run of a function `{function}`"),
            None => "the history has no runs".to_owned(),
        };
        CommandFailure::new(Exit::NoSuchThing, message)
    })
}

async fn list(
    context: &Context,
    function: Option<&str>,
    limit: u32,
    now: Timestamp,
) -> Result<Vec<InvocationView>, CommandFailure> {
    let filter = Filter {
        function: function.map(str::to_owned),
        limit: Some(limit),
        ..Filter::default()
    };
    RunFilter::new(&filter, now)?.runs(context).await
}

/// Returns the id of the only run whose id ends like this, among those that `searched` names.
///
/// # Errors
/// No run or several runs have it.
pub(crate) fn only(
    end: &str,
    runs: &[&InvocationView],
    searched: &str,
    now: Timestamp,
) -> Result<String, CommandFailure> {
    let ids = runs.iter().map(|run| (run.id.to_string(), *run));
    let found: Vec<_> = ids.filter(|(id, _)| id.ends_with(end)).collect();
    if let [(id, _)] = found.as_slice() {
        return Ok(id.clone());
    }
    if found.is_empty() {
        let message = format!("none of {searched} has an id that ends with `{end}`");
        return Err(CommandFailure::new(Exit::NoSuchThing, message));
    }
    let line = |(id, run): &(String, &InvocationView)| {
        let accepted = distance(Some(&run.accepted_at), now);
        format!("\n  {id}  {}  {}  {accepted}", run.function, run.state.as_str())
    };
    let mut lines: Vec<String> = found.iter().take(LISTED).map(line).collect();
    if found.len() > LISTED {
        lines.push(format!("\n  and {} more", found.len() - LISTED));
    }
    let message = format!("the ids of {} runs end with `{end}`", found.len());
    let help = format!("type more of the end of one of them:{}", lines.concat());
    Err(CommandFailure::usage(message).help(help))
}

#[cfg(test)]
mod tests {
    use crate::common::runs::*;

    fn run(end: &str) -> InvocationView {
        serde_json::from_value(serde_json::json!({
            "id": format!("01934567-89ab-7def-8123-{end:0>12}"), "function": "hello", "trigger": "manual",
            "state": "succeeded", "reason": "ok", "message": "", "exhausted": null,
            "accepted_at": "2026-11-21T08:00:00Z", "started_at": null, "ended_at": null, "next_attempt_at": null,
            "attempts": 1, "polls": 0,
        }))
        .unwrap()
    }

    #[test]
    fn the_end_of_an_id_has_to_be_unique() {
        let now: Timestamp = "2026-11-21T08:01:00Z".parse().unwrap();
        let runs = ["1beef", "2beef", "face"].map(run);
        let choose = |end, now| only(end, &runs.iter().collect::<Vec<_>>(), "these", now);
        assert_eq!(crate::text::short(runs[0].id), "0001beef");
        for end in ["face", "0000face", "8123-00000000face"] {
            assert_eq!(choose(end, now).unwrap(), runs[2].id.to_string());
        }
        let several = choose("beef", now).unwrap_err();
        assert_eq!(several.exit, Exit::Usage);
        assert_eq!(
            several.help.unwrap(),
            "type more of the end of one of them:\
             \n  01934567-89ab-7def-8123-00000001beef  hello  succeeded  60s ago\
             \n  01934567-89ab-7def-8123-00000002beef  hello  succeeded  60s ago"
        );
        assert_eq!(choose("dead", now).unwrap_err().exit, Exit::NoSuchThing);
    }
}
