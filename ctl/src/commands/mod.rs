//! The verbs, one file each: each asks the daemon, then prints.
//!
//! Files:
//! - `status`, `list`, `show`, `top`, `cat`, `edit`: functions
//! - `emit`: sends an event
//! - `invoke`, `cancel`, `replay`, `result`, `wait`: one run
//! - `audit`: who did what
//! - `history`, `dead_letters`, `report`: many runs
//! - `logs`, `events`: what is printed and what happens
//! - `build`: the dependencies of a function
//! - `releases`, `canary`, `diff`: the releases of a function
//! - `deploy`, `remove`: uploaded functions
//! - `home`: the homes of a function, one for each owner of its files
//! - `enable`, `drain`, `reload`, `log_level`: change how fnd works
//! - `kubeless`: the command line of Kubeless
//! - `new`, `run`, `validate`, `explain`, `schema`, `completion`: need no daemon
//! - `import`: functions made of other systems' files
//! - `runtimes`, `sizes`, `routes`, `config`, `version`: what is there
//! - `schedules`: when functions run by themselves
//! - `binding`: service bindings
//! - `state`: values that functions share
//! - `secret`: secrets of functions, and those that requests are checked with
//! - `backup`, `restore`: everything in one archive, and back
//! - `verify`, `doctor`, `bundle`: find out what is wrong
//! - `examine`: runs `fnd --examine` for `verify` and `backup`
//! - `interpreters`: what `runtimes` installs and removes
//! - `filter`: the options that select runs, and pages put together
//! - `names`: names of functions, with patterns
//! - `payload`: the payload of `invoke` and `emit`
//! - `runs`: the run that an id, the end of one, or `--last` names
//! - `source`: the files of a function
//! - `selection`: the options of `status` and `list` that select and sort functions
//! - `text`: instants, durations and sizes for people
//! - `tree`: which run called which
//! - `waiting`: what `invoke` waits for
//! - `watch`: `--watch` of `list` and `status`
//! - `working`: says what is being waited for

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod binding;
pub(crate) mod build;
pub(crate) mod bundle;
pub(crate) mod canary;
pub(crate) mod cancel;
pub(crate) mod cat;
pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod dead_letters;
pub(crate) mod deploy;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod drain;
pub(crate) mod edit;
pub(crate) mod emit;
pub(crate) mod enable;
pub(crate) mod events;
mod examine;
pub(crate) mod explain;
mod filter;
pub(crate) mod history;
pub(crate) mod home;
pub(crate) mod import;
mod interpreters;
pub(crate) mod invoke;
pub(crate) mod kubeless;
pub(crate) mod list;
pub(crate) mod log_level;
pub(crate) mod logs;
pub(crate) mod names;
pub(crate) mod new;
mod payload;
pub(crate) mod releases;
pub(crate) mod reload;
pub(crate) mod remove;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod restore;
pub(crate) mod result;
pub(crate) mod routes;
pub(crate) mod run;
mod runs;
pub(crate) mod runtimes;
pub(crate) mod schedules;
pub(crate) mod schema;
pub(crate) mod secret;
mod selection;
pub(crate) mod show;
pub(crate) mod sizes;
mod source;
pub(crate) mod state;
pub(crate) mod status;
mod text;
pub(crate) mod top;
mod tree;
pub(crate) mod validate;
pub(crate) mod verify;
pub(crate) mod version;
pub(crate) mod wait;
mod waiting;
mod watch;
mod working;

use crate::client::Client;
use crate::exit::CommandFailure;
use crate::output::Output;
use fnd_core::api::InvocationView;
use jiff::Timestamp;

/// The values that every verb needs.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) out: Output,
    /// Whether the user's own fnd is meant.
    pub(crate) user: bool,
}

/// Returns the path of a function, checked before anything is sent.
fn function_path(name: &str) -> Result<String, CommandFailure> {
    let name = fnd_wire::ids::FunctionName::new(name).map_err(|error| CommandFailure::usage(error.to_string()))?;
    Ok(format!("/v1/functions/{}", crate::client::encode(name.as_str())))
}

/// Returns the path of an invocation, by its whole id.
fn invocation_path(id: &str) -> String {
    format!("/v1/invocations/{id}")
}

/// Returns runs as candidates of completion: the end of an id, and a few words about the run.
pub(crate) fn candidates_of_runs(runs: &[InvocationView]) -> impl Iterator<Item = (String, String)> {
    let now = Timestamp::now();
    runs.iter().map(move |run| {
        let accepted = text::distance(Some(&run.accepted_at), now);
        (
            runs::short(run.id),
            format!("{} {} {accepted}", run.function, run.state.as_str()),
        )
    })
}

/// The parameters of a request, as its query string.
#[derive(Debug, Default)]
struct Parameters(String);

impl Parameters {
    fn add(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.0.push(if self.0.is_empty() { '?' } else { '&' });
            self.0.push_str(&format!("{name}={}", crate::client::encode(value)));
        }
    }

    /// Adds an instant that a person typed: a time, or how long ago.
    fn add_instant(&mut self, name: &str, typed: Option<&str>, now: Timestamp) -> Result<(), CommandFailure> {
        let instant = typed.map(|typed| text::since(typed, now)).transpose()?;
        self.add(name, instant.as_deref());
        Ok(())
    }
}
