//! Why fnd ends an attempt, and the messages for it.

use super::rules::{FunctionKind, Rules};
use crate::records::outcome::Reason;
use fnd_wire::units::print_duration;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::time::Duration;

/// Why fnd ends an attempt. The adoption record of a worker that is being ended has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EndCause {
    /// The attempt's timeout was reached.
    Timeout,
    /// The invocation's deadline was reached.
    Deadline,
    /// The time of the caller that waits for the invocation was over.
    CallersDeadline,
    /// Somebody cancelled it; contains the message.
    Cancelled(Cow<'static, str>),
    /// The lease of this node on a message was not renewed in time; for how long it was not, where that is known.
    LeaseLost(Option<Duration>),
    /// fnd stops at once.
    Stopped,
    /// A service was not ready in time; contains the cause where it is known.
    NotReady(Option<String>),
}

impl EndCause {
    /// Returns the reason of the attempt's record.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Timeout => Reason::Timeout,
            Self::Deadline | Self::CallersDeadline => Reason::Deadline,
            Self::Cancelled(_) => Reason::Cancelled,
            Self::LeaseLost(_) => Reason::LeaseLost,
            Self::Stopped => Reason::Interrupted,
            Self::NotReady(_) => Reason::Load,
        }
    }

    /// Returns the message. People read it next to the reason, so the message does not repeat the reason. `limits` are absent if no
    /// version serves, which matters only for an invocation that does not run.
    pub(crate) fn words(&self, limits: Option<&Rules>, timeout: Option<Duration>) -> String {
        match self {
            Self::Timeout => {
                let limit = timeout.map(print_duration).unwrap_or_default();
                let whose = if limits.is_some_and(|limits| timeout == limits.timeout) {
                    "limits.timeout"
                } else {
                    "set by the caller"
                };
                format!("it did not end within {limit} ({whose})")
            }
            Self::Deadline => match limits.and_then(|limits| limits.deadline) {
                Some(limit) => format!("it did not end within {} (limits.deadline)", print_duration(limit)),
                // The version with the deadline was replaced by one without, the function is gone, or an earlier fnd took the
                // deadline from the caller.
                None => "it did not end in time (limits.deadline, or the time of its caller)".to_owned(),
            },
            Self::CallersDeadline => "the time of its caller, which waited for it, was over".to_owned(),
            Self::Cancelled(why) => why.clone().into_owned(),
            Self::LeaseLost(silent) => {
                let why = match silent {
                    Some(silent) => format!("the server of NATS did not answer for {}", print_duration(*silent)),
                    None => "fnd did not renew its lease in time".to_owned(),
                };
                format!("{why}, and another node may begin the message soon (nats.ack_wait)")
            }
            Self::Stopped => "fnd was stopped during the attempt".to_owned(),
            Self::NotReady(why) => {
                let limit = match limits.map(|limits| &limits.kind) {
                    Some(FunctionKind::Service(service)) => print_duration(service.start_timeout),
                    Some(FunctionKind::Script | FunctionKind::Handler(_) | FunctionKind::Http(..)) | None => {
                        String::new()
                    }
                };
                let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                format!("it was not ready within {limit}{why}")
            }
        }
    }
}

/// The message of a cancel that an earlier fnd carried out.
pub(crate) const CANCELLED_BEFORE: &str = "cancelled before fnd was restarted";

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the word of the reason. The compiler asks for an arm of each cause, and the test below for its row.
    fn word(cause: &EndCause) -> &'static str {
        match cause {
            EndCause::Timeout => "timeout",
            EndCause::Deadline | EndCause::CallersDeadline => "deadline",
            EndCause::Cancelled(_) => "cancelled",
            EndCause::LeaseLost(_) => "lease-lost",
            EndCause::Stopped => "interrupted",
            EndCause::NotReady(_) => "load",
        }
    }

    #[test]
    fn the_reason_of_an_end_by_fnd_is_no_reason_of_a_function() {
        for cause in [
            EndCause::Timeout,
            EndCause::Deadline,
            EndCause::CallersDeadline,
            EndCause::Cancelled("on request".into()),
            EndCause::LeaseLost(None),
            EndCause::Stopped,
            EndCause::NotReady(None),
        ] {
            assert_eq!(cause.reason().to_string(), word(&cause));
            assert!(cause.reason().is_given_by_fnd(), "{cause:?}");
        }
        let own = [
            "ok",
            "transient",
            "failed",
            "error",
            "oom",
            "exit-3",
            "signal-KILL",
            "result-too-large",
            "input",
        ];
        for reason in own.map(|word| Reason::parse(word).expect("a reason")) {
            assert!(!reason.is_given_by_fnd(), "{reason}");
        }
    }
}
