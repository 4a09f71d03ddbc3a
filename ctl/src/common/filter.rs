//! The selection of runs: the options of `history` and `dead-letters`. The pages of the API are joined to one list.

use crate::common::candidates;
use crate::context::{Context, Parameters, function_path};
use crate::exit::CommandFailure;
use fnd_core::api::{InvocationList, InvocationView};
use fnd_core::records::outcome::{RunState, Trigger};
use fnd_manifest::schema::one_of;
use fnd_manifest::schema::read::nearest;
use jiff::Timestamp;
use serde::de::DeserializeOwned;

/// The runs to select.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Filter {
    /// Select only runs of this function.
    #[arg(add = candidates::functions())]
    pub(crate) function: Option<String>,

    // The two lists are made of the words themselves: none is missing when one is added.
    #[arg(
        long,
        help = format!("Select only runs in this state: {}", RunState::WORDS.join(", ")),
        add = candidates::states()
    )]
    pub(crate) state: Option<String>,

    /// Select only runs that ended with this reason, such as timeout or exit-1.
    #[arg(long, add = candidates::reasons())]
    pub(crate) reason: Option<String>,

    #[arg(
        long,
        help = format!("Select only runs with this trigger: {}", Trigger::WORDS.join(", ")),
        add = candidates::triggers()
    )]
    pub(crate) trigger: Option<String>,

    /// Select only runs whose last attempt ran this version; the first digits are enough.
    #[arg(long, value_name = "HASH")]
    pub(crate) version: Option<String>,

    /// Select only runs with this text in the message.
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,

    /// Select only runs accepted since then: how long ago, such as `1h`; `yesterday` or `09:00`; or an instant such as 2026-11-21T08:00:00Z.
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub(crate) since: Option<String>,

    /// Select only runs accepted before then: how long ago, such as `10m`; `yesterday` or `09:00`; or an instant.
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub(crate) until: Option<String>,

    /// Select at most this many runs [default: 100; no limit for `redrive` and `drop`].
    #[arg(short = 'n', long, value_name = "RUNS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,

    /// Select only runs after this place in the list, which are older; the previous page prints it.
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
}

impl Filter {
    /// Says whether an option selects among runs, besides the function.
    pub(crate) fn selects_more(&self) -> bool {
        self.narrows() || self.after.is_some() || self.limit.is_some()
    }

    /// Says whether an option selects runs by what they are, besides the function.
    pub(crate) fn narrows(&self) -> bool {
        let texts = [&self.state, &self.reason, &self.trigger, &self.version, &self.text];
        texts.into_iter().chain([&self.since, &self.until]).any(Option::is_some)
    }
}

/// Words of other tools, and the word for the same here.
const SAME: &[(&str, &str)] = fnd_manifest::texts! {
    "success": "succeeded",
    "successful": "succeeded",
    "ok": "succeeded",
    "done": "succeeded",
    "completed": "succeeded",
    "error": "failed",
    "pending": "queued",
    "canceled": "cancelled",
    "active": "running",
    "cron": "schedule",
    "timer": "schedule",
    "webhook": "http",
    "api": "manual",
};

/// Refuses a word that is none of those that an option knows.
fn known(option: &str, typed: Option<&str>, words: &[&'static str]) -> Result<(), CommandFailure> {
    let Some(typed) = typed.filter(|typed| !words.contains(typed)) else {
        return Ok(());
    };
    let same = SAME.iter().find(|(word, _)| *word == typed.to_ascii_lowercase());
    let same = same.map(|(_, same)| *same).filter(|same| words.contains(same));
    let failure = CommandFailure::usage(format!("`{option} {typed}`: expected {}", one_of(words)));
    Err(match same.or_else(|| nearest(typed, words)) {
        Some(near) => failure.help(format!("did you mean `{near}`?")),
        None => failure,
    })
}

/// Most elements on one page of the API.
const PAGE: u32 = 1000;

/// A query that is sent page by page.
#[derive(Debug)]
pub(crate) struct RunFilter {
    parameters: Parameters,
    /// How many more elements are wanted.
    remaining: u32,
    /// The cursor of the next page; absent before the first and after the last page.
    pub(crate) next: Option<String>,
}

impl RunFilter {
    /// Returns the query of a filter.
    ///
    /// # Errors
    /// A name or an instant is not valid.
    pub(crate) fn new(filter: &Filter, now: Timestamp) -> Result<Self, CommandFailure> {
        if let Some(function) = &filter.function {
            // Only checks the name: it goes into a parameter, not into the path.
            function_path(function)?;
        }
        known("--state", filter.state.as_deref(), RunState::WORDS)?;
        known("--trigger", filter.trigger.as_deref(), Trigger::WORDS)?;
        let mut parameters = Parameters::default();
        for (name, value) in [
            ("function", &filter.function),
            ("state", &filter.state),
            ("reason", &filter.reason),
            ("trigger", &filter.trigger),
            ("version", &filter.version),
            ("text", &filter.text),
        ] {
            parameters.add(name, value.as_deref());
        }
        parameters.add_span((filter.since.as_deref(), filter.until.as_deref()), now)?;
        Ok(Self::of(parameters, filter.limit.unwrap_or(100), filter.after.clone()))
    }

    /// Returns a query with other parameters, for at most `limit` elements after a place in the list.
    pub(crate) fn of(parameters: Parameters, limit: u32, after: Option<String>) -> Self {
        Self {
            parameters,
            remaining: limit,
            next: after,
        }
    }

    /// Returns the query with a further parameter.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.parameters.add(name, Some(value));
        self
    }

    /// Returns runs, newest first.
    ///
    /// # Errors
    /// As for [`Self::all`].
    pub(crate) async fn runs(&mut self, context: &Context) -> Result<Vec<InvocationView>, CommandFailure> {
        let parts = |page: InvocationList| (page.invocations, page.next);
        self.all(context, "/v1/invocations", parts).await
    }

    /// Returns all elements, newest first. A page covers a bounded number of runs, so it may be empty and not the last.
    ///
    /// # Errors
    /// The daemon refuses the request, or it cannot be reached.
    pub(crate) async fn all<P, T>(
        &mut self,
        context: &Context,
        path: &str,
        parts: impl Fn(P) -> (Vec<T>, Option<String>),
    ) -> Result<Vec<T>, CommandFailure>
    where
        P: DeserializeOwned,
    {
        let mut all = Vec::new();
        loop {
            let mut parameters = Parameters(self.parameters.0.clone());
            // fnd refuses a limit of 0, and one above the size of its pages.
            parameters.add("limit", Some(&self.remaining.clamp(1, PAGE).to_string()));
            parameters.add("after", self.next.as_deref());
            let (found, next) = parts(context.read(&format!("{path}{}", parameters.0)).await?);
            self.remaining = self
                .remaining
                .saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
            all.extend(found);
            self.next = next;
            if self.remaining == 0 || self.next.is_none() {
                return Ok(all);
            }
        }
    }
}
