//! When each function is measured, and what was found.
//!
//! ```text
//!         ended, refused                due               measured, failed
//! (quiet) ──────────────▶ waits for at ─────▶ is measured ────────────────▶ (quiet), or waits if it is full,
//!                              ▲                  │ ended                        or if the measurement failed
//!                              └──────────────────┴── and waits again
//! ```
//! A function that runs rarely is measured after each run. The pause doubles while it runs often, up to a minute. A full
//! function is measured again as soon as somebody wants to run it, so that a person who makes room need not wait.

use super::{Measured, Paths, Quotas, exceeded, nearly};
use crate::interned::packed;
use fnd_wire::ids::{FunctionName, InvocationId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Most measurements at once. A second one keeps a slow directory from holding up all others.
pub const AT_ONCE: usize = 2;
/// Shortest pause between two measurements of a function.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause between two measurements of a function that runs often. A function that was quiet for this long begins
/// with the shortest pause again.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// A measurement is followed by a pause of this many times its own duration.
const SHARE: u32 = 10;
/// How often a full function is measured although nobody wants to run it.
const FULL_EVERY: Duration = Duration::from_secs(30);
/// Pause after the first failure; it doubles, up to the second.
const FAILED: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));
/// Number of measurements in a row that were cut off before a function counts as full.
const CUT_OFF_MAX: u32 = 3;
/// Distance between the measurements of functions that ran before fnd was started.
const EARLIER_EVERY: Duration = Duration::from_millis(100);

/// The last attempt of a function that has ended: by its change the books see that another one has ended.
pub type LastEnd = (InvocationId, Option<u32>, Option<u32>);

/// Why a measurement has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MeasurementFailure {
    /// It could not be started, or the kernel ended it for lack of memory. What was known before stays.
    NotPossible(String),
    /// It was ended or stopped from outside. Only the function itself, or root, can do that.
    CutOff(String),
}

/// All functions with quotas.
#[derive(Debug, Default)]
pub struct QuotaBooks {
    functions: BTreeMap<FunctionName, QuotaState>,
    /// The functions that wait, by their time.
    line: BTreeSet<(Duration, FunctionName)>,
    running: BTreeMap<FunctionName, Duration>,
    /// Time of the next function that ran before fnd was started.
    earlier: Duration,
}

/// A function with quotas.
#[derive(Debug)]
struct QuotaState {
    quotas: Quotas,
    /// Absent until the function has run: most of ten thousand functions do not run for a long time.
    course: Option<Box<Course>>,
}

/// The measurements of a function.
#[derive(Debug)]
struct Course {
    last_end: Option<LastEnd>,
    /// When it is measured; absent: not until something happens.
    at: Option<Duration>,
    /// Whether something happened during the measurement that runs.
    again: bool,
    pause: Duration,
    /// The end of the last measurement, how long it took, and until when the pause lasts.
    last: Option<(Duration, Duration)>,
    free_at: Duration,
    found: QuotaFindings,
}

/// The findings of the measurements of a function's directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaFindings {
    /// The result of the last measurement that had one; absent: none has had one yet.
    pub measured: Option<Measured>,
    /// Why the newest measurement has no result.
    pub failure: Option<MeasurementFailure>,
    /// Number of failures in a row.
    failures: u32,
    /// Number of those that were cut off.
    cut_off: u32,
}

impl QuotaBooks {
    /// Sets the quotas of the version that serves; absent if the function needs no measurement.
    pub fn needs(&mut self, function: &FunctionName, quotas: Option<Quotas>) {
        match (quotas.filter(Quotas::any), self.functions.get_mut(function)) {
            (Some(quotas), Some(entry)) => entry.quotas = quotas,
            (Some(quotas), None) => {
                let course = None;
                self.functions.insert(function.clone(), QuotaState { quotas, course });
            }
            (None, Some(_)) => {
                // The function leaves the line first: without its entry, its time in the line would not be known.
                self.set(function, None);
                self.functions.remove(function);
            }
            (None, None) => {}
        }
    }

    /// Gives back the room for more functions. To be called when all functions of a scan are here.
    pub fn pack(&mut self) {
        self.functions = packed(std::mem::take(&mut self.functions));
    }

    /// Records the last attempt of a function that has ended. The first one that fnd sees may be one of an earlier fnd.
    pub fn ended(&mut self, function: &FunctionName, last_end: LastEnd, is_earlier: bool, now: Duration) {
        let Some(entry) = self.functions.get_mut(function) else {
            return;
        };
        let course = entry.course.get_or_insert_default();
        if course.last_end.replace(last_end) == Some(last_end) {
            return;
        }
        let mut at = course.free_at.max(now);
        // After a start every function has an earlier run. The measurements are spread, so that the disk is not busy
        // with all.
        if is_earlier {
            at = at.max(self.earlier);
            self.earlier = at.saturating_add(EARLIER_EVERY);
        }
        self.wait(function, at);
    }

    /// Records that somebody wanted to run a function, and was refused.
    pub fn refused(&mut self, function: &FunctionName, now: Duration) {
        // Others are refused for another reason.
        let entry = self.functions.get(function).filter(|entry| entry.is_full());
        if let Some(course) = entry.and_then(|entry| entry.course.as_ref()) {
            let soonest = course.soonest();
            self.wait(function, soonest.max(now));
        }
    }

    /// Returns when [`Self::due`] next has something.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        let first = self.line.first().map(|(at, _)| *at);
        first.filter(|_| self.running.len() < AT_ONCE)
    }

    /// Returns a function that is to be measured now. It counts as being measured until [`Self::measured`].
    pub fn due(&mut self, now: Duration) -> Option<FunctionName> {
        self.next_due().filter(|at| *at <= now)?;
        let (_, function) = self.line.pop_first()?;
        let course = self.course_mut(&function)?;
        let was_quiet = now >= course.free_at.saturating_add(PAUSE_MAX);
        course.pause = match was_quiet {
            true => PAUSE_MIN,
            false => course.pause.saturating_mul(2).min(PAUSE_MAX),
        };
        (course.at, course.again) = (None, false);
        self.running.insert(function.clone(), now);
        Some(function)
    }

    /// Records the end of a measurement.
    pub fn measured(&mut self, function: &FunctionName, result: Result<Measured, MeasurementFailure>, now: Duration) {
        let Some(began) = self.running.remove(function) else {
            return;
        };
        let Some(entry) = self.functions.get_mut(function) else {
            return;
        };
        // A function that had no quota for a moment has lost its course, and the pause counts from now on nevertheless.
        let course = entry.course.get_or_insert_default();
        let took = now.saturating_sub(began);
        course.last = Some((now, took));
        course.free_at = now.saturating_add(course.pause.max(took.saturating_mul(SHARE)));
        course.found.add(result);
        let failed = course.found.failure.is_some().then(|| {
            // `failures` is 1 after the first failure, so half of its power of two is 1. The bound keeps the shift
            // small.
            let pause = FAILED.0.saturating_mul(1 << course.found.failures.min(10)) / 2;
            now.saturating_add(pause.min(FAILED.1))
        });
        let again = course.again.then_some(course.free_at);
        let soonest = course.soonest().max(now.saturating_add(FULL_EVERY));
        let is_full = self.functions.get(function).is_some_and(QuotaState::is_full);
        let full = is_full.then_some(soonest);
        if let Some(at) = failed.into_iter().chain(again).chain(full).min() {
            self.wait(function, at);
        }
    }

    /// Returns why a function may not run, for people; nothing if it may.
    #[must_use]
    pub fn exceeded(&self, function: &FunctionName, paths: Paths<'_>) -> Option<String> {
        let entry = self.functions.get(function)?;
        let found = &entry.course.as_ref()?.found;
        let of = |measured| exceeded(&entry.quotas, measured, paths);
        found.measured.as_ref().and_then(of).or_else(|| {
            let cut_off = "its home and cache count as full, because what measures them was killed or stopped";
            found.is_cut_off().then(|| {
                let count = found.cut_off;
                format!("{cut_off} {count} times: end the processes of the function")
            })
        })
    }

    /// Returns why a function may not run soon, for people: it has nearly used up a quota.
    #[must_use]
    pub fn nearly(&self, function: &FunctionName) -> Option<String> {
        let entry = self.functions.get(function).filter(|entry| !entry.is_full())?;
        nearly(&entry.quotas, entry.course.as_ref()?.found.measured.as_ref()?)
    }

    /// Returns what is known of a function's directories; nothing if it has no quota.
    #[must_use]
    pub fn found(&self, function: &FunctionName) -> Option<(&QuotaFindings, Option<Duration>)> {
        let course = self.functions.get(function)?.course.as_ref();
        Some(course.map_or((QuotaFindings::NOTHING, None), |course| {
            (&course.found, course.last.map(|(at, _)| at))
        }))
    }

    /// Has a function measured at this time, or earlier if it waits for an earlier one.
    fn wait(&mut self, function: &FunctionName, at: Duration) {
        let is_running = self.running.contains_key(function);
        let Some(course) = self.course_mut(function) else {
            return;
        };
        if is_running {
            course.again = true;
        } else if course.at.is_none_or(|before| at < before) {
            self.set(function, Some(at));
        }
    }

    fn course_mut(&mut self, function: &FunctionName) -> Option<&mut Course> {
        self.functions.get_mut(function)?.course.as_deref_mut()
    }

    fn set(&mut self, function: &FunctionName, at: Option<Duration>) {
        let Some(course) = self.course_mut(function) else {
            return;
        };
        if let Some(before) = std::mem::replace(&mut course.at, at) {
            self.line.remove(&(before, function.clone()));
        }
        self.line.extend(at.map(|at| (at, function.clone())));
    }
}

impl QuotaState {
    fn is_full(&self) -> bool {
        let Some(course) = &self.course else { return false };
        // The message is not used here, so it needs no paths.
        let none = Paths { home: "", cache: "" };
        let is_exceeded = |measured| exceeded(&self.quotas, measured, none).is_some();
        course.found.is_cut_off() || course.found.measured.as_ref().is_some_and(is_exceeded)
    }
}

impl Default for Course {
    fn default() -> Self {
        Self {
            last_end: None,
            at: None,
            again: false,
            pause: PAUSE_MIN,
            last: None,
            free_at: Duration::ZERO,
            found: QuotaFindings::default(),
        }
    }
}

impl Course {
    /// Returns the earliest time of the next measurement if somebody waits for it.
    fn soonest(&self) -> Duration {
        let (ended, took) = self.last.unwrap_or_default();
        ended.saturating_add(PAUSE_MIN.max(took.saturating_mul(SHARE)))
    }
}

impl QuotaFindings {
    /// The facts about a function that has not run.
    const NOTHING: &Self = &Self {
        measured: None,
        failure: None,
        failures: 0,
        cut_off: 0,
    };

    fn is_cut_off(&self) -> bool {
        self.cut_off >= CUT_OFF_MAX
    }

    fn add(&mut self, result: Result<Measured, MeasurementFailure>) {
        match result {
            Ok(measured) => {
                *self = Self {
                    measured: Some(measured.after(self.measured.take())),
                    ..Self::default()
                };
            }
            Err(failure) => {
                self.failures = self.failures.saturating_add(1);
                self.cut_off = match &failure {
                    // The measuring process runs with the rights of the function, which could kill it again and again to evade
                    // its quota.
                    MeasurementFailure::CutOff(_) => self.cut_off.saturating_add(1),
                    // Here the machine is the reason, so the function is not refused for it.
                    MeasurementFailure::NotPossible(_) => self.cut_off,
                };
                self.failure = Some(failure);
            }
        }
    }
}
