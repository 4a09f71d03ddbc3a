//! `kubeless trigger`: which function has a trigger, and its change by a new upload of the same code.
//!
//! Files:
//! - `cronjob`: entries of `[[schedule]]`
//! - `http`: entries of `[[http]]`

pub(super) mod cronjob;
mod http;

use super::code::{upload, uploaded};
use super::function::list::details;
use super::options::{Anything, Namespace};
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::FunctionList;
use fnd_import::kubeless::manifest::{entry, names, remove_entry, set_entries};
use toml::Table;

/// The name of a trigger.
#[derive(Debug, clap::Args)]
pub(super) struct NamedTrigger {
    /// Name of the trigger.
    name: String,

    #[command(flatten)]
    namespace: Namespace,
}

/// The kinds of triggers.
#[derive(Debug, clap::Subcommand)]
pub(super) enum KubelessTriggerVerb {
    /// Triggers by time.
    Cronjob {
        #[command(subcommand)]
        verb: cronjob::CronjobVerb,
    },
    /// Triggers by requests to the public listener.
    Http {
        #[command(subcommand)]
        verb: http::HttpTriggerVerb,
    },
    /// Not here: fnd has no message system of its own.
    #[command(hide = true)]
    Kafka(Anything),
    /// Not here: fnd has no message system of its own.
    #[command(hide = true)]
    Nats(Anything),
    /// Not here: fnd has no message system of its own.
    #[command(hide = true)]
    Kinesis(Anything),
}

impl KubelessTriggerVerb {
    /// Returns whether the command prints a table.
    pub(super) fn prints_table(&self) -> bool {
        match self {
            Self::Cronjob { verb } => matches!(verb, cronjob::CronjobVerb::List(_)),
            Self::Http { verb } => matches!(verb, http::HttpTriggerVerb::List(_)),
            Self::Kafka(_) | Self::Nats(_) | Self::Kinesis(_) => false,
        }
    }
}

/// # Errors
/// There is no such kind of triggers, or the verb fails.
pub(super) async fn run(context: &Context, verb: KubelessTriggerVerb) -> Result<Exit, CommandFailure> {
    match verb {
        KubelessTriggerVerb::Cronjob { verb } => cronjob::run(context, verb).await,
        KubelessTriggerVerb::Http { verb } => http::run(context, verb).await,
        KubelessTriggerVerb::Kafka(words) => Err(words.refused("trigger kafka")),
        KubelessTriggerVerb::Nats(words) => Err(words.refused("trigger nats")),
        KubelessTriggerVerb::Kinesis(words) => Err(words.refused("trigger kinesis")),
    }
}

/// A kind of trigger.
#[derive(Debug, Clone, Copy)]
struct TriggerKind {
    /// The key of the manifest, and the label that keeps the names.
    place: (&'static str, &'static str),
    /// Its name for people, at the beginning of a sentence.
    name: &'static str,
    /// Returns all entries of a trigger; the first one is the given one.
    entries: fn(&Table) -> Vec<Table>,
}

impl TriggerKind {
    /// Adds a trigger to a function.
    ///
    /// # Errors
    /// There is a trigger of that name, there is no such function, or fnd refuses the change.
    async fn create(self, context: &Context, function: &str, name: &str, new: &Table) -> Result<Exit, CommandFailure> {
        // Kubeless's triggers are objects of a cluster, so a name is unique over all functions.
        if let Some(other) = self.function_of(context, name).await? {
            let message = format!("{} trigger `{name}` exists already, for `{other}`", self.name);
            return Err(CommandFailure::new(Exit::Busy, message).help(format!("delete it first, or `update {name}`")));
        }
        let mut code = uploaded(context, function).await?;
        set_entries(&mut code.manifest, self.place, name, (self.entries)(new))?;
        upload(context, &code, function, false).await?;
        self.say(context, name, "created")
    }

    /// Changes a trigger, of which `change` gets the entry before; `to` is another function that gets it.
    ///
    /// # Errors
    /// There is no such trigger or function, or fnd refuses the change.
    async fn update(
        self,
        context: &Context,
        (name, to): (&str, Option<&str>),
        change: impl FnOnce(&mut Table),
    ) -> Result<Exit, CommandFailure> {
        let function = self.known(context, name).await?;
        let mut code = uploaded(context, &function).await?;
        // The label may name a trigger whose entry somebody has removed by hand.
        let mut changed = entry(&code.manifest, self.place, name)?.unwrap_or_default();
        change(&mut changed);
        let changed = (self.entries)(&changed);
        match to.filter(|to| *to != function) {
            None => {
                set_entries(&mut code.manifest, self.place, name, changed)?;
                upload(context, &code, &function, false).await?;
            }
            Some(to) => {
                // The other function first: if it refuses the trigger, this one keeps it.
                let mut other = uploaded(context, to).await?;
                set_entries(&mut other.manifest, self.place, name, changed)?;
                upload(context, &other, to, false).await?;
                remove_entry(&mut code.manifest, self.place, name)?;
                upload(context, &code, &function, false).await?;
            }
        }
        self.say(context, name, "updated")
    }

    /// # Errors
    /// There is no such trigger, or fnd refuses the change.
    async fn delete(self, context: &Context, named: &NamedTrigger) -> Result<Exit, CommandFailure> {
        named.namespace.report(context);
        let name = &named.name;
        let function = self.known(context, name).await?;
        let mut code = uploaded(context, &function).await?;
        remove_entry(&mut code.manifest, self.place, name)?;
        upload(context, &code, &function, false).await?;
        self.say(context, name, "deleted")
    }

    fn say(self, context: &Context, name: &str, done: &str) -> Result<Exit, CommandFailure> {
        context.out.remark(&format!("{} trigger {name} {done}", self.name))?;
        Ok(Exit::Fine)
    }

    /// Returns the function of a trigger.
    async fn known(self, context: &Context, name: &str) -> Result<String, CommandFailure> {
        let found = self.function_of(context, name).await?;
        found.ok_or_else(|| {
            let message = format!("there is no {} trigger `{name}`", self.name.to_lowercase());
            CommandFailure::new(Exit::NoSuchThing, message).help("`list` shows those that there are")
        })
    }

    async fn function_of(self, context: &Context, name: &str) -> Result<Option<String>, CommandFailure> {
        let list: FunctionList = context.read("/v1/functions").await?;
        let has = |label: &String| names(label).any(|known| known == name);
        let mut functions = list.functions.iter();
        let found = functions.find(|function| function.labels.get(self.place.1).is_some_and(has));
        Ok(found.map(|function| function.function.to_string()))
    }

    /// Returns the triggers of all functions: the name of each, its function, and its first entry with all keys. An entry that
    /// was not made by Kubeless's command line has the name of its function.
    ///
    /// # Errors
    /// fnd cannot be reached.
    async fn list(self, context: &Context) -> Result<Vec<(String, String, serde_json::Value)>, CommandFailure> {
        let mut found = Vec::new();
        for detail in details(context, &[]).await? {
            let function = detail.status.function.as_str();
            let label = detail.status.labels.get(self.place.1).map_or("", String::as_str);
            // The label names entries in their order. Entries beyond it were not made by this command line.
            let names = label.split(',').chain(std::iter::repeat(""));
            let entries = detail.more.manifest[self.place.0].as_array().into_iter().flatten();
            let mut last = "";
            for (name, entry) in names.zip(entries) {
                // An HTTP trigger has several routes, for its path and those below it; it is listed once.
                if std::mem::replace(&mut last, name) == name && !name.is_empty() {
                    continue;
                }
                let name = if name.is_empty() { function } else { name };
                found.push((name.to_owned(), function.to_owned(), entry.clone()));
            }
        }
        Ok(found)
    }
}
