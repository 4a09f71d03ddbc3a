//! `kubeless trigger cronjob`: entries of `[[schedule]]`.

use super::super::code::fetched;
use super::super::options::Namespace;
use super::super::{print_object, print_rows};
use super::{NamedTrigger, TriggerKind};
use crate::common::candidates;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use fnd_import::kubeless::manifest::CRONJOBS;
use fnd_import::kubeless::object::NAMESPACE;
use fnd_import::kubeless::values;
use serde_json::json;
use toml::{Table, Value};

/// The key and the label of such triggers.
pub(in crate::commands::kubeless) const PLACE: (&str, &str) = ("schedule", CRONJOBS);

const KIND: TriggerKind = TriggerKind {
    place: PLACE,
    name: "Cronjob",
    entries: |schedule| vec![schedule.clone()],
};

/// The verbs.
#[derive(Debug, clap::Subcommand)]
pub(in crate::commands::kubeless) enum CronjobVerb {
    /// Let a function run at the times of a line of cron.
    #[command(after_help = "Example:\n  kubeless trigger cronjob create t --function hello --schedule '*/5 * * * *'")]
    Create(CreateCronjob),
    /// Change such a trigger.
    Update(UpdateCronjob),
    /// Remove such a trigger.
    Delete(NamedTrigger),
    /// List such triggers.
    #[command(visible_alias = "ls")]
    List(Namespace),
}

/// Options of `create`.
#[derive(Debug, clap::Args)]
pub(in crate::commands::kubeless) struct CreateCronjob {
    /// Name of the trigger.
    name: String,

    /// The function.
    #[arg(long, value_name = "FUNCTION", add = candidates::functions())]
    function: String,

    /// The times, as a line of cron.
    #[arg(long, value_name = "CRON")]
    schedule: String,

    #[command(flatten)]
    payload: CronjobPayload,

    /// Print the object that Kubeless has for the trigger, and change nothing.
    #[arg(long)]
    dryrun: bool,

    #[command(flatten)]
    namespace: Namespace,
}

/// Options of `update`.
#[derive(Debug, clap::Args)]
pub(in crate::commands::kubeless) struct UpdateCronjob {
    /// Name of the trigger.
    name: String,

    /// Another function.
    #[arg(long, value_name = "FUNCTION", add = candidates::functions())]
    function: Option<String>,

    /// Other times.
    #[arg(long, value_name = "CRON")]
    schedule: Option<String>,

    #[command(flatten)]
    payload: CronjobPayload,

    #[command(flatten)]
    namespace: Namespace,
}

/// The payload of scheduled runs.
#[derive(Debug, clap::Args)]
struct CronjobPayload {
    /// The payload, as JSON.
    #[arg(short, long, value_name = "JSON", conflicts_with = "payload_from_file")]
    payload: Option<String>,

    /// A file with the payload, or a URL of one.
    #[arg(short = 'f', long, value_name = "FILE")]
    payload_from_file: Option<String>,
}

/// # Errors
/// A value is wrong, there is no such trigger or function, or fnd refuses the change.
pub(super) async fn run(context: &Context, verb: CronjobVerb) -> Result<Exit, CommandFailure> {
    match verb {
        CronjobVerb::Create(args) => {
            args.namespace.report(context);
            let name = values::trigger(&args.name)?;
            let data = args.payload.read()?;
            if args.dryrun {
                let object = json!({
                    "apiVersion": "kubeless.io/v1beta1",
                    "kind": "CronJobTrigger",
                    "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"created-by": "kubeless"}},
                    "spec": {"function-name": args.function, "schedule": args.schedule, "payload": data},
                });
                return print_object(context, &object);
            }
            let entry = schedule(&args.schedule, data);
            KIND.create(context, &args.function, name, &entry).await
        }
        CronjobVerb::Update(args) => {
            args.namespace.report(context);
            let cron = args.schedule.map(|cron| ("cron".to_owned(), Value::String(cron)));
            let data = args.payload.read()?.map(|data| ("data".to_owned(), data));
            let change = |entry: &mut Table| entry.extend(cron.into_iter().chain(data));
            let named = (args.name.as_str(), args.function.as_deref());
            KIND.update(context, named, change).await
        }
        CronjobVerb::Delete(args) => KIND.delete(context, &args).await,
        CronjobVerb::List(namespace) => {
            namespace.report(context);
            list(context).await
        }
    }
}

/// Returns the entry of a trigger. Runs may overlap, as with Kubeless.
pub(in crate::commands::kubeless) fn schedule(cron: &str, data: Option<Value>) -> Table {
    let pairs = [
        ("cron", Some(cron.into())),
        ("overlap", Some("queue".into())),
        ("data", data),
    ];
    pairs
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

impl CronjobPayload {
    /// Returns the payload as a value of the manifest.
    fn read(&self) -> Result<Option<Value>, CommandFailure> {
        let text = match (&self.payload, &self.payload_from_file) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some(file)) => fetched(file)?.bytes,
            (None, None) => return Ok(None),
        };
        // `null` is no value of TOML.
        serde_json::from_slice::<Value>(&text).map(Some).map_err(|error| {
            CommandFailure::usage(format!("Unable to parse the payload: {error}"))
                .help("the payload is JSON without `null`, such as `{\"hello\": \"world\"}`")
        })
    }
}

async fn list(context: &Context) -> Result<Exit, CommandFailure> {
    let found = KIND.list(context).await?;
    let rows = found.iter().map(|(name, function, entry)| {
        let cron = entry["cron"].as_str().map(str::to_owned);
        // An entry that a person has written may have `every` or `at` in place of a line of cron.
        let other = || match entry["at"].as_str() {
            Some(at) => format!("at {at}"),
            None => format!("every {}", entry["every"].as_str().unwrap_or_default()),
        };
        json!({"name": name, "namespace": NAMESPACE, "schedule": cron.unwrap_or_else(other), "function-name": function})
    });
    let heads = ["NAME", "NAMESPACE", "SCHEDULE", "FUNCTION NAME"];
    let keys = ["name", "namespace", "schedule", "function-name"];
    print_rows(context, &rows.collect::<Vec<_>>(), (&heads, &keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_json() {
        let read = |text: &str| {
            let payload = CronjobPayload {
                payload: Some(text.to_owned()),
                payload_from_file: None,
            };
            payload.read()
        };
        let data = read("{\"a\": [1, \"it's\"]}").unwrap();
        let entry = schedule("* * * * *", data);
        let expected: Table = "cron = \"* * * * *\"\noverlap = \"queue\"\ndata = { a = [1, \"it's\"] }"
            .parse()
            .unwrap();
        assert_eq!(entry, expected);
        for text in ["{", "{\"a\": null}", ""] {
            assert!(
                read(text)
                    .unwrap_err()
                    .message
                    .starts_with("Unable to parse the payload"),
                "{text}"
            );
        }
    }
}
