//! Records as the API shows them.

use crate::clock::rfc3339;
use fnd_core::api::{AttemptView, InvocationView};
use fnd_core::outcome::Reason;
use fnd_core::record::{AttemptRecord, InvocationRecord};

/// Returns an invocation for the API; `attempts` is empty in lists.
#[must_use]
pub fn invocation_view(record: InvocationRecord, attempts: &[AttemptRecord]) -> InvocationView {
    InvocationView {
        id: record.id,
        function: record.function,
        trigger: record.trigger,
        state: record.state,
        reason: record.reason,
        message: record.message,
        exhausted: record.exhausted,
        version: record.version,
        accepted_at: rfc3339(record.accepted_ms),
        started_at: record.started_ms.map(rfc3339),
        ended_at: record.ended_ms.map(rfc3339),
        next_attempt_at: record.next_attempt_ms.map(rfc3339),
        attempts: record.attempts,
        polls: record.polls,
        attempt_records: attempts.iter().map(attempt_view).collect(),
    }
}

/// Returns an attempt for the API.
#[must_use]
pub fn attempt_view(attempt: &AttemptRecord) -> AttemptView {
    let usage = &attempt.usage;
    let scope = if usage.peak_of_largest {
        "largest-process"
    } else {
        "attempt"
    };
    AttemptView {
        attempt: attempt.attempt.0,
        poll: attempt.poll,
        started_at: rfc3339(attempt.started_ms),
        ended_at: rfc3339(attempt.ended_ms),
        duration_ms: millis(attempt.duration_us),
        exit_code: attempt.exit_code,
        // A reason has the signal's name without `SIG` behind `signal-`.
        signal: attempt
            .signal
            .map(|number| Reason::Signal(number).to_string().replace("signal-", "SIG")),
        class: attempt.reason.class(),
        reason: attempt.reason,
        message: attempt.message.clone(),
        cpu_ms: millis(usage.cpu_us),
        memory_peak_bytes: usage.memory_peak_bytes,
        scope: usage.memory_peak_bytes.map(|_| scope.to_owned()),
        throttled_ms: millis(usage.throttled_us),
        worker: attempt.worker.map(|worker| worker.0),
        // Every attempt has a process of its own until warm workers exist.
        cold: true,
        version: attempt.version,
        stdout_bytes: usage.stdout_bytes,
        stderr_bytes: usage.stderr_bytes,
        dropped_bytes: usage.dropped_bytes,
    }
}

/// Returns milliseconds with their fraction; exact up to 285 years.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "53 bits hold 285 years of microseconds")]
pub fn millis(micros: u64) -> f64 {
    micros as f64 / 1000.0
}
