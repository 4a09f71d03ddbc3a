//! How an attempt ended: its reason and its message, from the end of its worker or from an answer.

use super::failure_message;
use super::worker::{Run, Worker};
use crate::messages::event::{Answered, Exited, TooLarge};
use crate::messages::rules::{FunctionKind, Rules};
use crate::records::outcome::Reason;
use crate::records::{RunResult, Usage};
use fnd_wire::frame::ExitStatus;
use fnd_wire::units::spell_size;
use std::time::Duration;

/// SIGTRAP and SIGABRT: a program that ends itself by them has printed why. V8 does so if its heap is full.
const ENDS_ITSELF: [u8; 2] = [5, 6];

/// The message of a successful run that left processes in the background: without it, their work would end without a
/// trace.
const STRAGGLERS: &str = "processes that it left in the background were killed when it ended; `wait` waits for them";

/// How an attempt ended.
#[derive(Debug)]
pub(crate) struct AttemptVerdict {
    pub(crate) reason: Reason,
    pub(crate) message: String,
    pub(crate) exit_code: Option<u8>,
    pub(crate) signal: Option<u8>,
    pub(crate) usage: Usage,
    pub(crate) result: Option<RunResult>,
    /// How long ago the attempt ended and how long it had run, where fnd heard of the end late.
    pub(crate) late: Option<(Duration, Duration)>,
}

impl AttemptVerdict {
    fn new(reason: Reason, message: String) -> Self {
        Self {
            reason,
            message,
            exit_code: None,
            signal: None,
            usage: Usage::default(),
            result: None,
            late: None,
        }
    }

    /// Returns the verdict of an attempt without an exit of a process.
    pub(crate) fn without_exit(rules: &Rules, run: &Run, reason: Reason, message: String) -> Self {
        let by_itself = || (reason, failure_message::bounded(message));
        let (reason, message) = run.ended_by_fnd(rules).unwrap_or_else(by_itself);
        Self::new(reason, message)
    }

    /// Returns the verdict of a call that has ended while its worker goes on, or has not begun.
    pub(crate) fn of_call_alone(reason: Reason, message: String, result: Option<RunResult>) -> Self {
        let mut verdict = Self::new(reason, message);
        verdict.result = result;
        // The resources of a call cannot be told from those of its worker.
        verdict.usage.scope_worker = true;
        verdict
    }

    /// Returns the verdict of a call with this answer. If fnd was ending the call, the answer does not count.
    pub(crate) fn of_answer(rules: &Rules, run: &Run, answered: Answered) -> Self {
        if let Some((reason, message)) = run.ended_by_fnd(rules) {
            return Self::of_call_alone(reason, message, None);
        }
        // Without `[poll]` nothing would ask again. Exit code 99 of a script is an error then, too.
        let reason = match answered.reason {
            Reason::ExecuteAgain if rules.poll.is_none() => Reason::Error,
            reason => reason,
        };
        let message = if reason == Reason::Ok {
            String::new()
        } else {
            failure_message::of_code(rules, answered.message)
        };
        Self::of_call_alone(reason, message, answered.result)
    }

    /// Returns the verdict of an exit. `asks_for_result` says whether the run was started by somebody who wants its result.
    pub(crate) fn of(rules: &Rules, run: &Run, asks_for_result: bool, exited: &Exited) -> Self {
        // If fnd ended the attempt, the exit status does not count: a process that exits 0 on SIGTERM still did not end
        // in time.
        let by_itself = || judge(rules, asks_for_result, exited);
        let (reason, message) = run.ended_by_fnd(rules).unwrap_or_else(by_itself);
        Self {
            result: exited.result.clone(),
            ..Self::with_exit(reason, message, exited)
        }
    }

    /// Returns the verdict of a call whose worker ended without an answer.
    pub(crate) fn of_call(worker: &Worker, run: &Run, exited: &Exited) -> Self {
        let rules = &worker.serving.rules;
        let broken = worker.member().and_then(|member| member.broken.as_ref());
        let ended_by_fnd = worker.phase.was_ended();
        let (reason, message) = match (run.ended_by_fnd(rules), broken) {
            (Some(ended), _) => ended,
            // The kernel's counter comes first: a worker that is killed for memory closes its connection, too.
            (None, _) if exited.oom_kills > 0 => (Reason::Oom, oom_words(rules, exited.oom_kills)),
            (None, Some(broken)) if ended_by_fnd => (Reason::BadAnswer, broken.clone()),
            (None, None) if ended_by_fnd => {
                let why = "its worker was ended because of another invocation that it served";
                (Reason::Interrupted, why.to_owned())
            }
            (None, _) if exited.status == ExitStatus::Code(0) => {
                (Reason::Exit(0), "its worker ended before it answered".to_owned())
            }
            (None, _) => match (judge(rules, false, exited), exited.status) {
                // The exit codes with a special meaning apply to scripts only.
                ((_, message), ExitStatus::Code(code)) => (Reason::Exit(code), message),
                (judged, ExitStatus::Signal(_)) => judged,
            },
        };
        let mut verdict = Self::with_exit(reason, message, exited);
        verdict.usage.scope_worker = true;
        verdict
    }

    /// Returns why a worker's code could not be loaded.
    pub(crate) fn of_load(worker: &Worker, exited: &Exited) -> String {
        let member = worker.member();
        let ended_by_fnd = worker.phase.was_ended() && exited.oom_kills == 0;
        let broken = || member?.broken.as_ref().filter(|_| ended_by_fnd);
        match member.and_then(|member| member.load_error.as_ref()).or_else(broken) {
            Some(error) => failure_message::bounded(error.clone()),
            None => match judge(&worker.serving.rules, false, exited) {
                (Reason::Ok, _) => {
                    let line = exited.last_error_line.as_deref().filter(|line| !line.is_empty());
                    let line = line.map(|line| format!(": {line}")).unwrap_or_default();
                    failure_message::bounded(format!("its worker exited before it was ready{line}"))
                }
                (_, message) => failure_message::bounded(message),
            },
        }
    }

    fn with_exit(reason: Reason, message: String, exited: &Exited) -> Self {
        let (exit_code, signal) = match exited.status {
            ExitStatus::Code(code) => (Some(code), None),
            ExitStatus::Signal(number) => (None, Some(number)),
        };
        Self {
            exit_code,
            signal,
            usage: exited.usage,
            ..Self::new(reason, failure_message::bounded(message))
        }
    }
}

/// Returns the message for a result that is too large.
fn too_large_words(rules: &Rules, large: TooLarge) -> String {
    let (bytes, limit) = (large.bytes, spell_size(rules.result_max));
    if large.is_output {
        format!("standard output has {bytes} bytes, a result may have {limit} (limits.result)")
    } else {
        format!("the result has {bytes} bytes, the limit is {limit} (limits.result)")
    }
}

/// Returns reason and message for an end that fnd did not cause. The kernel's counters come before the status: a
/// program may outlive its killed child and exit 0.
fn judge(rules: &Rules, asks_for_result: bool, exited: &Exited) -> (Reason, String) {
    let succeeded = exited.status == ExitStatus::Code(0);
    // If all workers of the function share the counters, an exit 0 shows that another worker was meant.
    if exited.oom_kills > 0 && !(exited.oom_shared && succeeded) {
        return (Reason::Oom, oom_words(rules, exited.oom_kills));
    }
    let code = match exited.status {
        ExitStatus::Signal(number) => {
            let reason = Reason::Signal(number);
            let text = reason.to_string();
            let words = match text.strip_prefix("signal-") {
                Some(name) if name.starts_with(|c: char| c.is_ascii_uppercase()) => format!("killed by SIG{name}"),
                _ => format!("killed by signal {number}"),
            };
            let words = match &exited.last_error_line {
                Some(line) if ENDS_ITSELF.contains(&number) && !line.is_empty() => format!("{words}: {line}"),
                _ => words,
            };
            return (reason, words);
        }
        ExitStatus::Code(code) => code,
    };
    // sysexits.h: 75 is EX_TEMPFAIL, 65 is EX_DATAERR.
    let reason = match code {
        0 => Reason::Ok,
        75 => Reason::Transient,
        65 => Reason::Failed,
        99 if rules.poll.is_some() => Reason::ExecuteAgain,
        other => Reason::Exit(other),
    };
    if let (Reason::Ok, Some(why)) = (reason, &exited.bad_answer) {
        return (Reason::BadAnswer, why.clone());
    }
    match (reason, exited.result_too_large) {
        // A result of `ExecuteAgain` would be `previous` for the next poll, which holds the state of the polls. That
        // state must not be lost silently.
        (Reason::Ok | Reason::ExecuteAgain, Some(large))
            if asks_for_result || !large.is_output || reason == Reason::ExecuteAgain =>
        {
            return (Reason::ResultTooLarge, too_large_words(rules, large));
        }
        // A schedule that logs a lot has done its work: a failure would be retried, and alert somebody. The message says why
        // the result is missing.
        (Reason::Ok, Some(large)) if !matches!(rules.kind, FunctionKind::Service(_)) => {
            return (reason, format!("{}: it is log only", too_large_words(rules, large)));
        }
        // Standard error of a successful run goes to the log, not into the message.
        (Reason::Ok, _) if exited.stragglers => return (reason, STRAGGLERS.to_owned()),
        (Reason::Ok, _) => return (reason, String::new()),
        (Reason::Exit(_), _) if exited.pids_refused > 0 => {
            let words = format!(
                "a fork was refused at the limit of {} processes (limits.pids)",
                rules.pids
            );
            return (Reason::Pids, words);
        }
        _ => {}
    }
    let message = match &exited.last_error_line {
        Some(line) if !line.is_empty() => failure_message::of_code(rules, line.clone()),
        _ => format!("exit code {code}"),
    };
    (reason, message)
}

fn oom_words(rules: &Rules, kills: u64) -> String {
    let processes = if kills == 1 { "process" } else { "processes" };
    format!(
        "at the limit of {}, {kills} {processes} killed (limits.memory)",
        rules.memory_text
    )
}
