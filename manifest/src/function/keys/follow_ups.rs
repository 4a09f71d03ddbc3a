//! Keys of `[hooks]` and `[alert]`: what follows the end of an invocation, and a change of the function's health.

use crate::schema::keys::keys;
use crate::schema::pick::{FromValue, Pick};
use crate::schema::tree::TomlValue;
use crate::schema::{TextKind, ValueKind};
use crate::text;
use crate::words;
use fnd_wire::ids::FunctionName;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const FUNCTION: ValueKind = ValueKind::Either(&ValueKind::Text(TextKind::Function), &ValueKind::Table(CALL));

keys! {
    const CALL {
        /// The function to call.
        call = Text(TextKind::Function), example "notify", required true;
        /// What to do if the called function fails or cannot be called. `continue`: nothing. `fail`: the record of the invocation that made the call gets `hook: "failed"`; its state stays as it is.
        on_failure = Word(OnHookFailure::WORDS), default "continue", example "fail";
    }
}

words! {
    /// The consequence if a function that a hook called fails.
    pub enum OnHookFailure {
        /// The failure is in the history of the called function.
        Continue = "continue",
        /// The record of the first invocation says it too.
        Fail = "fail",
    }
}

/// An item of `[hooks]`: a function that is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookCall {
    /// The function that is called.
    #[serde(with = "text::id")]
    pub call: FunctionName,
    /// The consequence for the invocation that made the call, if the called function fails.
    pub on_failure: OnHookFailure,
}

/// A name, or a table of the keys of [`CALL`].
impl FromValue for HookCall {
    fn from_value(value: Option<TomlValue>) -> Option<Self> {
        match value? {
            TomlValue::Table(table) => {
                let pick = Pick {
                    table: &table,
                    keys: CALL,
                };
                // A table without `call` is refused, and its value is never used.
                let call = pick
                    .get::<Option<FunctionName>>("call")
                    .or_else(|| FunctionName::new("absent").ok())?;
                Some(Self {
                    call,
                    on_failure: pick.get("on_failure"),
                })
            }
            name => Some(Self {
                call: FunctionName::from_value(Some(name))?,
                on_failure: OnHookFailure::Continue,
            }),
        }
    }
}

keys! {
    /// `[hooks]`: functions that are called after the final record of an invocation.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Hooks {
        /// Functions to call after an invocation that succeeded.
        on_success: Vec<HookCall> = List(&FUNCTION), example ["notify"];
        /// Functions to call after an invocation that failed or was interrupted, when no retry is left.
        on_failure: Vec<HookCall> = List(&FUNCTION), example ["page"];
        /// Functions to call after every invocation that was not skipped.
        on_completion: Vec<HookCall> = List(&FUNCTION), example ["notify"];
    }
}

impl Hooks {
    /// Says whether no function is called.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// Returns all items: those for success, for failure and for every end.
    pub fn all(&self) -> impl Iterator<Item = &HookCall> {
        self.on_success
            .iter()
            .chain(&self.on_failure)
            .chain(&self.on_completion)
    }
}

words! {
    /// A change that calls the function of `[alert]`.
    pub enum AlertOn {
        /// Invocations failed, after their retries.
        Failed = "failed",
        /// The workers die before they are ready.
        CrashLooping = "crash-looping",
        /// The newest content cannot serve.
        Invalid = "invalid",
        /// There was no success for longer than `expect_success_every`.
        Missed = "missed",
        /// The function is well again.
        Recovered = "recovered",
        /// A problem of the node itself.
        Node = "node",
    }
}

keys! {
    /// `[alert]`: a function that is called once when this one turns bad and once when it is well again.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Alert {
        /// The function to call. Default: the one in `[alert]` of `fnd.toml`.
        call: Option<FunctionName> [default, with = "text::id_or_null"] = Text(TextKind::Function), example "page";
        // `node` is missing: problems of the machine belong to no function, so only `fnd.toml` names it.
        /// Which changes to call for: `failed` (an invocation failed after its retries), `crash-looping` (processes die before they are ready), `invalid` (the newest content cannot serve), `missed` (see `expect_success_every`), `recovered` (the function works again).
        on: Vec<AlertOn> = List(&Word(&["failed", "crash-looping", "invalid", "missed", "recovered"])),
            default ["failed", "crash-looping", "invalid", "missed", "recovered"], example ["failed", "recovered"];
        /// Number of invocations in a row that must fail before the function counts as failed.
        after: u32 = Whole(1..=1_000_000), default 1, example 3;
        /// How often the function must succeed at least. If there is no success for this time, `call` is called with `missed`.
        expect_success_every: Option<Duration> [default, with = "text::duration_or_none"] = Duration(Zero::Refused),
            example "26h";
    }
}
