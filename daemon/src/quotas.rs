//! Quotas of home and cache: the processes that measure (`fnd-helper --measure`). When a function is measured is decided by
//! [`QuotaBooks`]; which functions are over their quota is kept by the supervisor.

use fnd_core::api::StorageUse;
use fnd_core::instant;
use fnd_core::quota::books::{MeasurementFailure, QuotaBooks};
use fnd_core::quota::{LINE_MAX, Measured, Paths};
use fnd_core::report::FunctionNews;
use fnd_core::run::Now;
use fnd_wire::frame::{ExitStatus, Exited};
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, WorkerId};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

/// After this time a measurement is killed: it gives up by itself before.
pub(crate) const LASTS: Duration = Duration::from_secs(15);

/// The text of `status` about quotas that an old spawner cannot measure.
const OLD_SPAWNER: &str = "the running fnd-spawner is older than quotas: start it again (`systemctl stop fnd && systemctl start \
     fnd`, which ends running functions)";

/// The quotas of all functions.
pub(crate) struct Measurements {
    pub(crate) books: QuotaBooks,
    /// The state directory, with homes and caches.
    state: String,
    running: BTreeMap<WorkerId, Measurement>,
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

/// The next step of the driver about a measurement.
#[derive(Debug)]
pub(crate) enum MeasurementEffect {
    /// The process printed no result, and is killed.
    Kill,
    /// The measurement of this function is over. The driver removes its temporary files, and tells the supervisor whether the
    /// function has room ([`Measurements::exceeded`]).
    Over {
        tmp: (FunctionId, InvocationId),
        function: FunctionName,
    },
}

impl Measurements {
    /// Returns a table without functions. `state` is fnd's state directory.
    pub(crate) fn new(state: String) -> Self {
        Self {
            books: QuotaBooks::default(),
            state,
            running: BTreeMap::new(),
        }
    }

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
    pub(crate) fn not_started(&mut self, worker: WorkerId, why: &str, now: Duration) -> Option<MeasurementEffect> {
        let Measurement { function, tmp, .. } = self.running.remove(&worker)?;
        let why = MeasurementFailure::NotPossible(format!("it cannot be started: {why}"));
        Some(self.over(function, tmp, Err(why), now))
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
    pub(crate) fn said(
        &mut self,
        worker: WorkerId,
        said: Option<Measured>,
        now: Duration,
    ) -> Option<MeasurementEffect> {
        let is_result = said.is_some();
        self.running.get_mut(&worker)?.said = Some(said);
        let still_runs = (!is_result).then_some(MeasurementEffect::Kill);
        self.done(worker, now).or(still_runs)
    }

    /// Records the end of a process.
    pub(crate) fn ended(&mut self, exited: &Exited, now: Duration) -> Option<MeasurementEffect> {
        self.running.get_mut(&exited.worker)?.ended = Some(failure(exited));
        self.done(exited.worker, now)
    }

    fn done(&mut self, worker: WorkerId, now: Duration) -> Option<MeasurementEffect> {
        let measurement = self.running.get(&worker)?;
        // Output and end come from two tasks, in any order.
        if measurement.said.is_none() || measurement.ended.is_none() {
            return None;
        }
        let over = self.running.remove(&worker)?;
        let result = over.said.flatten().ok_or(over.ended?);
        Some(self.over(over.function, over.tmp, result, now))
    }

    fn over(
        &mut self,
        function: FunctionName,
        tmp: (FunctionId, InvocationId),
        result: Result<Measured, MeasurementFailure>,
        now: Duration,
    ) -> MeasurementEffect {
        if let Err(MeasurementFailure::NotPossible(why) | MeasurementFailure::CutOff(why)) = &result {
            tracing::debug!(FND_FUNCTION = %function, "failed to measure the home of `{function}`: {why}");
        }
        self.books.measured(&function, result, now);
        MeasurementEffect::Over { tmp, function }
    }

    /// Returns why a function may not run, by its quotas and the last measurement; nothing if it may.
    pub(crate) fn exceeded(&self, function: &FunctionName) -> Option<String> {
        let name = function.file_form();
        let paths = Paths {
            home: &format!("{}/home/{name}", self.state),
            cache: &format!("{}/cache/{name}", self.state),
        };
        self.books.exceeded(function, paths)
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
}

/// Returns the news that a function is over its quota, or within it again: `before` and `now` are the reasons why it may not run.
pub(crate) fn news(before: Option<&str>, now: Option<&str>) -> Option<FunctionNews> {
    match (before, now) {
        (None, Some(why)) => Some(FunctionNews::QuotaExceeded(why.to_owned())),
        (Some(_), None) => Some(FunctionNews::QuotaKept),
        // The reason may change while it lasts, for example with a size.
        (Some(_), Some(_)) | (None, None) => None,
    }
}

/// Returns the limits that an old spawner keeps fnd from enforcing, each with the reason.
pub(crate) fn unmeasured(is_old: bool) -> impl Iterator<Item = (String, String)> {
    let keys: &[&str] = if is_old { &["home", "cache"] } else { &[] };
    keys.iter().map(|key| ((*key).to_owned(), OLD_SPAWNER.to_owned()))
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
    use fnd_core::quota::Quotas;
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

    const NOW: Duration = Duration::from_secs(100);

    fn function() -> FunctionName {
        FunctionName::new("f").unwrap()
    }

    fn home(bytes: u64) -> Quotas {
        Quotas {
            home: Some(bytes),
            cache: None,
        }
    }

    /// Returns the measurements of one function, whose home a process measures now.
    fn part() -> Measurements {
        let mut part = Measurements::new("/state".to_owned());
        part.books.needs(&function(), Some(home(10)));
        part.books
            .ended(&function(), (InvocationId(2), Some(1), Some(1)), false, NOW);
        assert_eq!(part.books.due(NOW), Some(function()));
        part.starting(WorkerId(3), function(), (FunctionId(1), InvocationId(2)));
        part
    }

    fn of(bytes: u64) -> Option<Measured> {
        let mut measured = Measured::default();
        measured.home.bytes = bytes;
        Some(measured)
    }

    fn is_over(effect: Option<MeasurementEffect>) -> bool {
        let Some(MeasurementEffect::Over { tmp, function: name }) = effect else {
            return false;
        };
        assert_eq!((tmp, name), ((FunctionId(1), InvocationId(2)), function()));
        true
    }

    #[test]
    fn a_measurement_is_over_when_its_line_is_read_and_its_process_has_ended() {
        let ok = exited(ExitStatus::Code(0), 0);
        let mut part = part();
        assert!(part.ended(&ok, NOW).is_none());
        assert!(is_over(part.said(WorkerId(3), of(5), NOW)));
        assert!(!part.is_running(WorkerId(3)) && part.ended(&ok, NOW).is_none());
        assert_eq!(part.books.found(&function()).unwrap().0.measured, of(5));
    }

    #[test]
    fn a_home_is_full_until_it_has_room() {
        let mut part = part();
        assert_eq!(part.exceeded(&function()), None);
        part.ended(&exited(ExitStatus::Code(0), 0), NOW);
        assert!(is_over(part.said(WorkerId(3), of(11), NOW)));
        let why = part.exceeded(&function()).unwrap();
        assert!(why.contains("/state/home/f"), "{why}");
        part.books.needs(&function(), Some(home(100)));
        assert_eq!(part.exceeded(&function()), None);
    }

    #[test]
    fn a_quota_is_news_when_it_is_exceeded_and_when_it_is_kept_again() {
        let reasons = [None, Some("11 of 10"), Some("12 of 10"), None];
        let told: Vec<_> = reasons.windows(2).map(|pair| news(pair[0], pair[1])).collect();
        let exceeded = FunctionNews::QuotaExceeded("11 of 10".to_owned());
        assert_eq!(told, [Some(exceeded), None, Some(FunctionNews::QuotaKept)]);
    }

    #[test]
    fn a_process_without_a_result_is_killed_and_the_reason_depends_on_its_end() {
        for (end, is_cut_off) in [
            (exited(ExitStatus::Code(0), 0), true),
            (exited(ExitStatus::Signal(9), 0), true),
            (exited(ExitStatus::Signal(9), 1), false),
            (exited(ExitStatus::Code(1), 0), false),
        ] {
            let mut part = part();
            let effect = part.said(WorkerId(3), None, NOW);
            assert!(matches!(effect, Some(MeasurementEffect::Kill)), "{effect:?}");
            assert!(is_over(part.ended(&end, NOW)));
            let failure = part.books.found(&function()).unwrap().0.failure.as_ref().unwrap();
            assert_eq!(matches!(failure, MeasurementFailure::CutOff(_)), is_cut_off);
        }
        let mut part = part();
        assert!(is_over(part.not_started(WorkerId(3), "no memory", NOW)));
        assert!(part.is_idle() && part.said(WorkerId(3), None, NOW).is_none());
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
