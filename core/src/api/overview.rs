//! Bodies about the node at a glance, and about the caller: what needs a person, what runs, what comes next.

use super::InvocationView;
use crate::access::Permissions;
use crate::hours::HourCount;
use fnd_manifest::settings::Role;
use fnd_manifest::{text, words};
use fnd_wire::ids::{FunctionName, InvocationId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most important facts of the node. It is made of kept numbers, so that it takes little time with ten thousand functions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Overview {
    /// When it was made.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
    /// Functions that need a person, by name; at most 20.
    pub attention: Vec<AttentionView>,
    /// Number of all of them.
    pub attention_count: u64,
    /// Problems of the node; empty without a role for the node.
    pub problems: Vec<NodeProblemView>,
    /// Number of dead letters of the functions that the caller may view.
    pub dead_letters: u64,
    /// When the oldest dead letter ended; null if there is none, and without a role for the node.
    #[schemars(extend("format" = "date-time"))]
    pub dead_letters_since: Option<String>,
    /// Runs that run now, oldest first; at most 10.
    pub running: Vec<InvocationView>,
    /// Number of all of them.
    pub running_count: u64,
    /// Number of functions that the caller may view.
    pub functions: u64,
    /// The next scheduled runs, the first one first; at most 10.
    pub next: Vec<NextRun>,
    /// The last 24 hours, oldest first; the last one has not ended. Empty without a role for the node.
    pub hours: Vec<HourCount>,
    /// Since when the hours are counted: the start of fnd.
    #[schemars(extend("format" = "date-time"))]
    pub hours_since: String,
}

words! {
    /// Why a function needs a person.
    pub enum Attention {
        /// Its last run failed.
        Failed = "failed",
        /// Its processes die before they are ready.
        CrashLooping = "crash-looping",
        /// It has no version that can run.
        Invalid = "invalid",
        /// Its newest content does not serve; the version before does.
        NotServing = "not-serving",
        /// A release gets a share of the calls until a person lets it serve.
        Canary = "canary",
    }
}

/// A function that needs a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttentionView {
    /// The function.
    #[serde(with = "text::id")]
    #[schemars(with = "String")]
    pub function: FunctionName,
    /// Why.
    pub why: Attention,
    /// Since when, or when that was last seen; null if it is not known.
    #[schemars(extend("format" = "date-time"))]
    pub since: Option<String>,
    /// The last line of its output, or what is wrong.
    pub message: String,
    /// The run that failed.
    #[serde(default, with = "text::id_or_null")]
    #[schemars(with = "Option<String>", extend("format" = "uuid"))]
    pub invocation: Option<InvocationId>,
}

/// A problem of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeProblemView {
    /// The problem, its place, and what to do.
    pub text: String,
    /// Since when fnd has known it; an alert about it outlives a restart. Null if it is not known.
    #[schemars(extend("format" = "date-time"))]
    pub since: Option<String>,
}

/// The next scheduled run of a function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct NextRun {
    /// When.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
    /// The function.
    #[serde(with = "text::id")]
    #[schemars(with = "String")]
    pub function: FunctionName,
}

/// The caller of the control socket, and what it may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallerView {
    /// Host name of the node.
    pub node: String,
    /// The user.
    pub uid: u32,
    /// The role for the node and for every function; null if there is none.
    pub role: Option<Role>,
    /// Further roles, each for some functions.
    pub functions: Vec<RoleOfFunctions>,
}

/// A role for some functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoleOfFunctions {
    /// The role.
    pub role: Role,
    /// Names of functions, and patterns of names.
    pub functions: Vec<String>,
}

impl CallerView {
    /// Returns the view of a caller.
    #[must_use]
    pub fn of(node: String, uid: u32, reach: &Permissions) -> Self {
        let further = reach.further().map(|(role, functions)| RoleOfFunctions {
            role,
            functions: functions.to_vec(),
        });
        Self {
            node,
            uid,
            role: reach.node(),
            functions: further.collect(),
        }
    }

    /// Returns the roles, to find out what the caller may do. fnd checks each request all the same.
    #[must_use]
    pub fn permissions(&self) -> Permissions {
        let everywhere = self.role.map(|role| (role, None));
        let further = self
            .functions
            .iter()
            .map(|entry| (entry.role, Some(entry.functions.as_slice())));
        Permissions::of(everywhere.into_iter().chain(further))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_view_of_a_caller_has_all_its_roles() {
        let some = ["web/*".to_owned()];
        for entries in [
            vec![],
            vec![(Role::Admin, None)],
            vec![(Role::Viewer, None), (Role::Operator, Some(&some[..]))],
        ] {
            let reach = Permissions::of(entries);
            let view = CallerView::of("vm1".to_owned(), 1000, &reach);
            let sent = serde_json::to_string(&view).unwrap();
            let read: CallerView = serde_json::from_str(&sent).unwrap();
            assert_eq!(read.permissions(), reach, "{sent}");
        }
    }
}
