//! Counts what happens.

use super::*;

/// The receivers of the bytes of a connection that speaks another protocol after an upgrade.
const RECEIVERS: [&str; 2] = ["caller", "function"];

impl Metrics {
    pub(crate) fn hooks(&self, state: RunState) -> Counter {
        let labels = Labels(None, Some(("outcome", state.as_str())));
        self.counted.hooks.get_or_create_owned(&labels)
    }

    pub(crate) fn alerts(&self, word: AlertCondition) -> Counter {
        let labels = Labels(None, Some(("alert", word.as_str())));
        self.counted.alerts.get_or_create_owned(&labels)
    }

    /// Counts events that were sent, by what became of them.
    pub(crate) fn events(&self, outcome: &'static str, events: u64) {
        self.counted
            .events
            .get_or_create(&[("outcome", outcome)])
            .inc_by(events);
    }

    /// Returns the label of a function.
    pub(crate) fn label(&mut self, function: &FunctionName) -> Arc<str> {
        Arc::clone(&series(&mut self.functions, &mut self.other, function).label)
    }

    /// Adds a function. Counters that alerts watch begin at 0 now: Prometheus does not see an increase in a counter
    /// that first appears with the value 1.
    pub(crate) fn known(&mut self, function: &FunctionName) {
        let label = self.label(function);
        // Of ten thousand functions, nine thousand share these series.
        if &*label == OTHER && std::mem::replace(&mut self.other_known, true) {
            return;
        }
        let (with, counted) = (|pair| Labels(Some(Arc::clone(&label)), pair), &self.counted);
        // Only three reasons (an alert watches `oom`): each further one is a series for each of a thousand functions.
        for reason in ["ok", "timeout", "oom"] {
            drop(counted.attempts.get_or_create(&with(Some(("reason", reason)))));
        }
        for reason in ["skipped-queue-full", "skipped-rate", "skipped-expired", "skipped-quota"] {
            drop(counted.dropped.get_or_create(&with(Some(("reason", reason)))));
        }
        let own = with(None);
        for counts in self.plain_counts() {
            drop(counts.get_or_create(&own));
        }
        drop(counted.cpu.get_or_create(&own));
        drop(counted.throttled.get_or_create(&own));
    }

    /// Returns the counters with no label but the function.
    fn plain_counts(&self) -> [&MetricCounts; 6] {
        let counted = &self.counted;
        [
            &counted.missed,
            &counted.retries,
            &counted.gave_up,
            &counted.cold_starts,
            &counted.workers_started,
            &counted.output_dropped,
        ]
    }

    /// Counts an invocation that has run and is over, and says by which method it was requested.
    pub(crate) fn call_ended(&mut self, record: &InvocationRecord, method: &'static str) {
        // A function of two fields and not a method, so that the other fields can be used while its result is borrowed.
        let series = series(&mut self.functions, &mut self.other, &record.function);
        let labels = || Labels(Some(Arc::clone(&series.label)), Some(("method", method)));
        let (calls, failures) = series.by_method.of(method, || {
            (
                self.counted.calls.get_or_create_owned(&labels()),
                self.counted.failures.get_or_create_owned(&labels()),
            )
        });
        calls.inc();
        failures.inc_by(u64::from(record.state.is_failure()));
    }

    /// Counts a request to the public listener. A route is named as its manifest writes it, so that callers cannot make
    /// series.
    pub(crate) fn requested(&mut self, request: &RequestEnd<'_>) {
        // Without a route the path is left out: a stranger could make a new series with each request.
        let path = request.route.map_or("", |(_, path)| path);
        let route = || ("route", path.to_owned());
        if !path.is_empty() && !self.routes.contains(path) {
            self.routes.insert(path.to_owned());
        }
        // By class: a function may answer with hundreds of different numbers.
        let status = ("status", request.class().to_owned());
        self.counted.requests.get_or_create(&vec![route(), status]).inc();
        let durations = self.counted.request_durations.get_or_create(&vec![route()]);
        durations.observe(request.took.as_secs_f64());
        if let Some(upgraded) = request.upgraded {
            for (to, bytes) in RECEIVERS.into_iter().zip([upgraded.to_caller, upgraded.from_caller]) {
                let labels = vec![route(), ("to", to.to_owned())];
                self.counted.upgraded_bytes.get_or_create(&labels).inc_by(bytes);
            }
        }
    }

    /// Removes the series of routes whose paths are not among these.
    pub(crate) fn keep_routes(&mut self, paths: &HashSet<&str>) {
        let counted = &self.counted;
        self.routes.retain(|path| {
            let is_kept = paths.contains(path.as_str());
            if !is_kept {
                let route = || ("route", path.clone());
                for class in RequestEnd::CLASSES {
                    counted.requests.remove(&vec![route(), ("status", class.to_owned())]);
                }
                counted.request_durations.remove(&vec![route()]);
                for to in RECEIVERS {
                    counted.upgraded_bytes.remove(&vec![route(), ("to", to.to_owned())]);
                }
            }
            is_kept
        });
    }

    /// Counts slots of a schedule: how late the run is, and how many slots were missed.
    pub(crate) fn slots_due(&mut self, function: &FunctionName, late: Option<Duration>, missed: u64) {
        if let Some(late) = late {
            self.counted.lateness.observe(late.as_secs_f64());
        }
        if missed > 0 {
            let series = series(&mut self.functions, &mut self.other, function);
            let own = Labels(Some(Arc::clone(&series.label)), None);
            self.counted.missed.get_or_create_owned(&own).inc_by(missed);
        }
    }

    /// Counts an attempt that has ended.
    pub(crate) fn attempt_ended(&mut self, attempt: &AttemptRecord, method: &'static str) {
        let series = series(&mut self.functions, &mut self.other, &attempt.function);
        let label = &series.label;
        let counted = &self.counted;
        let with = |key, value| Labels(Some(Arc::clone(label)), Some((key, value)));
        let own = || Labels(Some(Arc::clone(label)), None);
        let durations = || counted.durations.get_or_create_owned(&with("method", method));
        series
            .durations
            .of(method, durations)
            .observe(micros(attempt.duration_us));
        let ended_well = attempt.reason.final_state() == RunState::Succeeded;
        let reason = attempt.reason.word();
        let by_reason = || counted.attempts.get_or_create_owned(&with("reason", reason));
        series.by_reason.of(reason, by_reason).inc();
        // From the first attempt on, so that a function that never succeeds has a time, 0, that an alert can see.
        let last_success = || counted.last_success.get_or_create_owned(&own());
        let last_success = series.last_success.get_or_insert_with(last_success);
        if ended_well {
            last_success.set(millis(attempt.ended_ms));
        }
        // For a script each attempt starts a process.
        if attempt.cold.unwrap_or(attempt.worker.is_some()) {
            counted.cold_starts.get_or_create(&own()).inc();
        }
        // A poll is followed by another attempt, too, but nothing has failed.
        if attempt.next_attempt_ms.is_some() && attempt.reason != Reason::ExecuteAgain {
            counted.retries.get_or_create(&own()).inc();
        }
        if attempt.usage.dropped_bytes > 0 {
            counted
                .output_dropped
                .get_or_create(&own())
                .inc_by(attempt.usage.dropped_bytes);
        }
    }

    /// Sets the time of the last success from the history of an earlier fnd: that of its last attempt, or `success_ms` if the
    /// attempt did not succeed.
    pub(crate) fn ran_before(&mut self, attempt: &AttemptRecord, success_ms: Option<u64>) {
        let ended_well = attempt.reason.final_state() == RunState::Succeeded;
        let at_ms = if ended_well { Some(attempt.ended_ms) } else { success_ms };
        let own = Labels(Some(self.label(&attempt.function)), None);
        // 0 says that the function has never succeeded, which an alert can see.
        self.counted
            .last_success
            .get_or_create(&own)
            .set(at_ms.map_or(0.0, millis));
    }

    /// Counts an invocation that has ended. Each one that failed is given up, also without any `[retry]`: no attempt follows.
    pub(crate) fn invocation_ended(&mut self, function: &FunctionName, state: RunState) {
        let series = series(&mut self.functions, &mut self.other, function);
        let label = &series.label;
        let counted = &self.counted;
        let by_state = || {
            let pair = ("state", state.as_str());
            counted
                .invocations
                .get_or_create_owned(&Labels(Some(Arc::clone(label)), Some(pair)))
        };
        series.by_state.of(state.as_str(), by_state).inc();
        if state.is_failure() {
            counted
                .gave_up
                .get_or_create(&Labels(Some(Arc::clone(label)), None))
                .inc();
        }
    }

    /// Counts a request that was not run.
    pub(crate) fn dropped(&mut self, function: &FunctionName, reason: Reason) {
        let by_reason = Labels(Some(self.label(function)), Some(("reason", reason.word())));
        self.counted.dropped.get_or_create(&by_reason).inc();
    }

    /// Counts a process that was asked for.
    pub(crate) fn worker_started(&mut self, function: &FunctionName) {
        let own = Labels(Some(self.label(function)), None);
        self.counted.workers_started.get_or_create(&own).inc();
    }

    /// Counts the usage of a process that has ended, independent of the calls it had.
    pub(crate) fn worker_ended(&mut self, function: &FunctionName, usage: &Usage) {
        let own = Labels(Some(self.label(function)), None);
        let counted = &self.counted;
        counted.cpu.get_or_create(&own).inc_by(micros(usage.cpu_us));
        if usage.throttled_us > 0 {
            counted.throttled.get_or_create(&own).inc_by(micros(usage.throttled_us));
        }
        if let Some(peak) = usage.memory_peak_bytes {
            counted.memory_peak.get_or_create(&own).set(number(peak));
        }
    }

    /// Removes the series of a function that is gone.
    pub(crate) fn forget(&mut self, function: &FunctionName) {
        // A function without series of its own counts in `_other`. Those series stay, because other functions count
        // there, too.
        let Some(Series { label, .. }) = self.functions.remove(function) else {
            return;
        };
        let with = |pair| Labels(Some(Arc::clone(&label)), pair);
        let counted = &self.counted;
        // Each label that a series may have is removed, since nothing records which of them exist.
        for method in METHODS {
            let labels = with(Some(("method", method)));
            counted.calls.remove(&labels);
            counted.failures.remove(&labels);
            counted.durations.remove(&labels);
        }
        for reason in Reason::words() {
            let labels = with(Some(("reason", reason)));
            counted.attempts.remove(&labels);
            counted.dropped.remove(&labels);
        }
        for state in RunState::ALL {
            counted.invocations.remove(&with(Some(("state", state.as_str()))));
        }
        let own = with(None);
        for counts in self.plain_counts() {
            counts.remove(&own);
        }
        counted.cpu.remove(&own);
        counted.throttled.remove(&own);
        counted.memory_peak.remove(&own);
        counted.last_success.remove(&own);
    }
}
