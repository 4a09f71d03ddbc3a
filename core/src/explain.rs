//! Explains the reasons of ends, for `fndctl explain`.
//!
//! Reasons are matched by their type, so that none can be forgotten. [`fnd_manifest::explain`] explains keys and codes of
//! diagnostics, [`crate::api::problem`] the error codes of the control API.

use crate::records::outcome::{Reason, Skip};

/// Returns the meaning of a reason or of a class of ends (docs/errors-and-reasons.md), for people.
#[must_use]
pub fn reason(word: &str) -> Option<&'static str> {
    match word {
        // The text is the same for every code and every signal, so any number stands for all.
        "exit-N" => Some(of(Reason::Exit(1))),
        "signal-NAME" | "signal" => Some(of(Reason::Signal(15))),
        "skipped" => Some(
            "The invocation never started; the rest of the word says why: overlap, queue-full, rate, expired, disabled, deleted, missed, unknown, invalid, depth, quota.",
        ),
        "success" => Some(of(Reason::Ok)),
        _ => Reason::parse(word).map(of),
    }
}

/// Returns the meaning of a reason.
fn of(reason: Reason) -> &'static str {
    match reason {
        Reason::Ok => "The attempt exited with 0, or the handler returned.",
        Reason::Transient => {
            "The attempt exited with 75 or raised TransientException, which asks for a retry. Class `transient`: retried if `retry.on` names it and `retry.retries` is not exhausted."
        }
        Reason::ExecuteAgain => {
            "The attempt exited with 99 and the function has a `[poll]` table: it is executed again every `poll.repeat` until `poll.until`; this does not count as a retry. The next attempt finds what this one wrote to `$FND_RESULT` in the file `$FND_PREVIOUS`."
        }
        Reason::Failed => {
            "The attempt exited with 65 or raised FailedException: a retry would be useless. Never retried."
        }
        Reason::Exit(_) => {
            "The attempt exited with this code, which has no special meaning for fnd. A shell ends with 126 if it may not start a program, with 127 if it finds none. Class `error`: retried if `retry.on` names it and `retry.not_on_exit` does not name the code. Exit 99 without a `[poll]` table is such a code."
        }
        Reason::Error => "The handler raised an exception. Class `error`.",
        Reason::Timeout => {
            "The attempt was still running after `limits.timeout`. It got SIGTERM, and after `limits.grace` every process in its cgroup was killed. Class `timeout`."
        }
        Reason::Oom => {
            "The kernel killed the attempt because all processes of the function together reached `limits.memory`, as the kernel's counters show. Class `oom`."
        }
        Reason::Signal(_) => {
            "A signal that fnd did not send ended the attempt, such as SEGV for an invalid memory access. Class `signal`."
        }
        Reason::Spawn => {
            "The attempt could not be started: no interpreter, no permission, no resources. The message says the cause. Class `spawn`."
        }
        Reason::Load => {
            "The code of the function could not be loaded; `fndctl logs F` shows what it printed meanwhile. Class `error`."
        }
        Reason::BadAnswer => "The function gave no valid answer. Class `error`.",
        Reason::ResultTooLarge => "The result is larger than `limits.result`. Class `error`.",
        Reason::Pids => {
            "The attempt failed, and before that the kernel refused it a process or thread because of `limits.pids`. Class `error`."
        }
        Reason::Interrupted => {
            "fnd, its spawner or the machine went down during the attempt. Class `interrupted`: retried only if `retry.on` names it."
        }
        Reason::LeaseLost => {
            "The server of NATS did not answer for so long that another node may begin the message, so this node ended its attempt before. Class `interrupted`: retried only if `retry.on` names it."
        }
        Reason::Input => {
            "The payload is none that the function takes: not as `[input] schema` asks, or a message larger than `limits.body`, or no CloudEvent although its headers say so. It is a dead letter. Class `failed`."
        }
        Reason::Cancelled => "The invocation was cancelled, by `fndctl cancel` or by the overlap policy `replace`.",
        Reason::Deadline => {
            "The invocation took longer than `limits.deadline`: queue, attempts, retries and polls together."
        }
        Reason::Skipped(Skip::Overlap) => {
            "Never started: another invocation was running and `queue.overlap` is `skip`, or a newer one replaced it (`replace`)."
        }
        Reason::Skipped(Skip::QueueFull) => "Never started: the queue was full (`queue.max`).",
        Reason::Skipped(Skip::Rate) => "Never started: more invocations were requested than `queue.rate` allows.",
        Reason::Skipped(Skip::Expired) => "Never started: it expired while it waited (`Fnd-Expires`).",
        Reason::Skipped(Skip::Disabled) => "Never started: the function is disabled.",
        Reason::Skipped(Skip::Deleted) => "Never started: the function was removed while it waited.",
        Reason::Skipped(Skip::Missed) => "Never started: its time passed while fnd was not running.",
        Reason::Skipped(Skip::Unknown) => {
            "Never started: a hook (`[hooks]`) or an alert (`[alert]`) names this function, and there is none of that name."
        }
        Reason::Skipped(Skip::Invalid) => {
            "Never started: a hook or an alert called this function, and no version of it could run, or it is a service."
        }
        Reason::Skipped(Skip::Quota) => {
            "Never started: the home or the cache of the function was over its quota (`limits.home`, `limits.cache`). `fndctl show F` says how much is there. The next run starts once there is room."
        }
        Reason::Skipped(Skip::Depth) => "Never started: the chain of hooks that led here already had 8 calls.",
    }
}

/// Words of reasons that [`reason`] knows.
pub const REASONS: &[&str] = &[
    "ok",
    "transient",
    "execute-again",
    "failed",
    "exit-N",
    "error",
    "timeout",
    "oom",
    "signal-NAME",
    "spawn",
    "load",
    "bad-answer",
    "result-too-large",
    "pids",
    "interrupted",
    "lease-lost",
    "input",
    "cancelled",
    "deadline",
    "skipped-overlap",
    "skipped-queue-full",
    "skipped-rate",
    "skipped-expired",
    "skipped-disabled",
    "skipped-deleted",
    "skipped-missed",
    "skipped-unknown",
    "skipped-invalid",
    "skipped-depth",
    "skipped-quota",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_text() {
        for word in REASONS.iter().chain(&["exit-3", "signal-SEGV", "signal", "skipped"]) {
            assert!(reason(word).is_some(), "{word}");
        }
        assert_eq!(reason("nonsense"), None);
        for word in Reason::words() {
            let listed = match word {
                "exit" => "exit-N",
                "signal" => "signal-NAME",
                word => word,
            };
            assert!(REASONS.contains(&listed), "{word} is not listed");
        }
        for word in fnd_manifest::function::RetryOn::WORDS {
            assert!(reason(word).is_some(), "{word}");
        }
    }
}
