//! Quotas of home and cache: the processes that measure (`fnd --measure`), and what was told of their results. When a
//! function is measured is decided by [`QuotaBooks`].

use fnd_core::api::StorageUse;
use fnd_core::instant;
use fnd_core::quota::books::{MeasurementFailure, QuotaBooks};
use fnd_core::quota::{LINE_MAX, Measured, Paths};
use fnd_core::supervisor::Now;
use fnd_wire::frame::{ExitStatus, Exited};
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, WorkerId};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

/// After this time a measurement is killed: it gives up by itself before.
pub(crate) const LASTS: Duration = Duration::from_secs(15);

/// The text of `status` about quotas that nobody measures.
const OLD_SPAWNER: &str = "the running fnd-spawner is older than quotas: start it again (`systemctl stop fnd && systemctl start \
     fnd`, which ends running functions)";

/// The quotas of all functions.
#[derive(Default)]
pub(crate) struct Measurements {
    pub(crate) books: QuotaBooks,
    running: BTreeMap<WorkerId, Measurement>,
    /// Why functions may not run, as the supervisor knows it.
    told: BTreeMap<FunctionName, String>,
}

/// A process that measures.
struct Measurement {
    function: FunctionName,
    /// Its temporary files.
    tmp: (FunctionId, InvocationId),
    /// The result that the process printed, once it is read; the inner value is absent if the output was no result.
    said: Option<Option<Measured>>,
    /// Why there may be no result, once it has ended.
    ended: Option<MeasurementFailure>,
}

/// The end of a measurement.
pub(crate) struct MeasurementEnd {
    pub(crate) function: FunctionName,
    pub(crate) tmp: (FunctionId, InvocationId),
    pub(crate) result: Result<Measured, MeasurementFailure>,
}

impl Measurements {
    /// Records that the spawner was asked for a process.
    pub(crate) fn starting(&mut self, worker: WorkerId, function: FunctionName, tmp: (FunctionId, InvocationId)) {
        let measurement = Measurement {
            function,
            tmp,
            said: None,
            ended: None,
        };
        self.running.insert(worker, measurement);
    }

    /// Records that a process was not started.
    pub(crate) fn not_started(&mut self, worker: WorkerId, why: String) -> Option<MeasurementEnd> {
        let Measurement { function, tmp, .. } = self.running.remove(&worker)?;
        let result = Err(MeasurementFailure::NotPossible(why));
        Some(MeasurementEnd { function, tmp, result })
    }

    /// Returns whether a process of this number measures.
    pub(crate) fn is_running(&self, worker: WorkerId) -> bool {
        self.running.contains_key(&worker)
    }

    /// Returns whether no process measures.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Wants no results any more: each measurement is over when its process has ended. Returns the processes.
    pub(crate) fn stop(&mut self) -> Vec<WorkerId> {
        for measurement in self.running.values_mut() {
            measurement.said.get_or_insert(None);
        }
        self.running.keys().copied().collect()
    }

    /// Records what a process has printed.
    pub(crate) fn said(&mut self, worker: WorkerId, said: Option<Measured>) -> Option<MeasurementEnd> {
        self.running.get_mut(&worker)?.said = Some(said);
        self.done(worker)
    }

    /// Records the end of a process.
    pub(crate) fn ended(&mut self, exited: &Exited) -> Option<MeasurementEnd> {
        self.running.get_mut(&exited.worker)?.ended = Some(failure(exited));
        self.done(exited.worker)
    }

    fn done(&mut self, worker: WorkerId) -> Option<MeasurementEnd> {
        let measurement = self.running.get(&worker)?;
        // Output and end come from two tasks, in any order.
        if measurement.said.is_none() || measurement.ended.is_none() {
            return None;
        }
        let Measurement {
            function,
            tmp,
            said,
            ended,
        } = self.running.remove(&worker)?;
        let result = said.flatten().ok_or(ended?);
        Some(MeasurementEnd { function, tmp, result })
    }

    /// Returns why a function may not run, if that differs from what was returned last.
    pub(crate) fn change(&mut self, function: &FunctionName, paths: Paths<'_>) -> Option<QuotaChange> {
        let now = self.books.exceeded(function, paths);
        let before = match &now {
            Some(why) => self.told.insert(function.clone(), why.clone()),
            None => self.told.remove(function),
        };
        (now != before).then_some(QuotaChange {
            began: before.is_none(),
            why: now,
        })
    }

    /// Returns what a function keeps on the disk, as far as it was measured.
    pub(crate) fn storage(&self, function: &FunctionName, now: Now) -> Option<StorageUse> {
        let (found, at) = self.books.found(function)?;
        let ago = at.map(|at| u64::try_from(now.mono.saturating_sub(at).as_millis()).unwrap_or(u64::MAX));
        let measured = found.measured.as_ref();
        let failure = found.failure.as_ref().map(|failure| match failure {
            MeasurementFailure::NotPossible(why) | MeasurementFailure::CutOff(why) => {
                format!("the last measurement failed: {why}")
            }
        });
        let unfinished = measured.and_then(Measured::unfinished);
        Some(StorageUse {
            home_bytes: measured.map(|measured| measured.home.bytes),
            cache_bytes: measured.map(|measured| measured.cache.bytes),
            measured_at: ago.map(|ago| instant::text(now.unix_ms.saturating_sub(ago))),
            problem: failure.or_else(|| unfinished.map(|why| format!("at least this much: {why}"))),
        })
    }

    /// Returns why a function may not run, as the supervisor knows it.
    pub(crate) fn full(&self, function: &FunctionName) -> Option<&str> {
        self.told.get(function).map(String::as_str)
    }
}

/// Returns the limits that an old spawner keeps fnd from enforcing, each with the reason.
pub(crate) fn unmeasured(is_old: bool) -> impl Iterator<Item = (String, String)> {
    let keys: &[&str] = if is_old { &["home", "cache"] } else { &[] };
    keys.iter().map(|key| ((*key).to_owned(), OLD_SPAWNER.to_owned()))
}

/// A change of the reason for which a function may not run.
pub(crate) struct QuotaChange {
    /// Whether the function could run before.
    pub(crate) began: bool,
    /// Why the function may not run now; absent if it may.
    pub(crate) why: Option<String>,
}

/// Returns why a process that has ended may have no result.
fn failure(exited: &Exited) -> MeasurementFailure {
    match exited.status {
        _ if exited.oom_kills > 0 => {
            MeasurementFailure::NotPossible("measuring needs more memory than `limits.memory` leaves".to_owned())
        }
        ExitStatus::Code(0) => MeasurementFailure::CutOff("it printed no result".to_owned()),
        ExitStatus::Code(code) => MeasurementFailure::NotPossible(format!("it ended with code {code}")),
        ExitStatus::Signal(signal) => MeasurementFailure::CutOff(format!("signal {signal} ended it")),
    }
}

/// Reads the result that a process prints; nothing if it prints none in time. A process of the function could keep the pipe
/// open, so a line is enough.
pub(crate) async fn read(stdout: OwnedFd) -> Option<Measured> {
    let mut stdout = pipe::Receiver::from_owned_fd(stdout).ok()?;
    let line = async {
        let mut line = Vec::new();
        let mut buffer = [0; 4096];
        while !line.contains(&b'\n') && line.len() < LINE_MAX {
            match stdout.read(&mut buffer).await {
                Ok(count @ 1..) => line.extend_from_slice(buffer.get(..count)?),
                Ok(0) | Err(_) => break,
            }
        }
        serde_json::from_slice(line.split(|byte| *byte == b'\n').next()?).ok()
    };
    tokio::time::timeout(LASTS, line).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn exited(status: ExitStatus, oom_kills: u64) -> Exited {
        Exited {
            worker: WorkerId(3),
            late: None,
            status,
            cpu_us: 0,
            memory_peak: None,
            peak_of_largest: false,
            oom_kills,
            oom_shared: false,
            pids_refused: 0,
            throttled_us: 0,
            stragglers: false,
        }
    }

    fn part() -> Measurements {
        let mut part = Measurements::default();
        part.starting(
            WorkerId(3),
            FunctionName::new("f").unwrap(),
            (FunctionId(1), InvocationId(2)),
        );
        part
    }

    #[test]
    fn a_measurement_is_done_when_its_line_is_read_and_its_process_has_ended() {
        let ok = || exited(ExitStatus::Code(0), 0);
        let mut part_one = part();
        assert!(part_one.ended(&ok()).is_none());
        let done = part_one.said(WorkerId(3), Some(Measured::default())).unwrap();
        assert_eq!(done.result, Ok(Measured::default()));
        assert!(!part_one.is_running(WorkerId(3)) && part_one.ended(&ok()).is_none());
        let mut other = part();
        assert!(other.said(WorkerId(3), None).is_none());
        let cut_off = |done: Option<MeasurementEnd>| matches!(done.unwrap().result, Err(MeasurementFailure::CutOff(_)));
        assert!(cut_off(other.ended(&ok())));
        for (end, is_cut_off) in [
            (exited(ExitStatus::Signal(9), 0), true),
            (exited(ExitStatus::Signal(9), 1), false),
            (exited(ExitStatus::Code(1), 0), false),
        ] {
            let mut part = part();
            part.said(WorkerId(3), None);
            assert_eq!(cut_off(part.ended(&end)), is_cut_off);
        }
    }

    #[tokio::test]
    async fn one_line_is_read_and_nothing_else() {
        for (text, is_result) in [
            (r#"{"home":{"bytes":5},"cache":{"bytes":0}}"#, false),
            ("{\"home\":{\"bytes\":5},\"cache\":{\"bytes\":0}}\nmore", true),
            ("nonsense\n", false),
            ("", false),
        ] {
            let (read_end, write_end) = rustix::pipe::pipe().unwrap();
            let mut write_end = std::fs::File::from(write_end);
            write_end.write_all(text.as_bytes()).unwrap();
            // Without a newline only the end says that there is no more.
            let _kept = text.contains('\n').then_some(write_end);
            let found = read(read_end).await;
            assert_eq!(
                found.is_some(),
                is_result || text.starts_with("{\"home") && !text.contains('\n')
            );
        }
    }
}
