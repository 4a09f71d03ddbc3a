//! The documents about one function: its status, which its status file contains, and its details.

use super::trees::{packages, tree_bytes, trees};
use super::{View, count};
use crate::report::problems::ReportedProblem;
use crate::settings::NOT_OPERATED;
use crate::workers::listening::Listening;
use crate::workers::usage;
use fnd_core::api::{
    AlertState, FunctionDetail, FunctionMore, FunctionStatus, FunctionUsage, GroupPlaces, HeldBack, LastEnd,
    NewerVersion, ServiceStop, WaitsFor, milliseconds,
};
use fnd_core::instant;
use fnd_core::lifecycle::function::Function;
use fnd_core::lifecycle::held_words;
use fnd_core::lifecycle::installed_version::ServingVersion;
use fnd_core::records::RunResult;
use fnd_core::records::outcome::Class;
use fnd_core::run::FunctionView;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::{Manifest, Mode};
use fnd_manifest::warning::Warning;
use fnd_wire::ids::FunctionName;
use fnd_wire::naming::UPLOADS;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::path::Path;

impl View<'_> {
    /// Returns a function's status.
    pub(crate) fn function_status(&self, view: &FunctionView<'_>) -> FunctionStatus {
        let name = view.name;
        let known = self.lifecycle.registry.get(name);
        let serving = known.and_then(|function| function.serving(view.version));
        let last = view.last.map(|last| &last.attempt);
        let result = view.last.and_then(|last| last.result.as_ref());
        let status = match last.map(|attempt| attempt.reason.class()) {
            None => LastEnd::Pending,
            Some(Class::Success) => LastEnd::Succeeded,
            Some(_) => LastEnd::Failed,
        };
        FunctionStatus {
            status,
            message: last.map(|attempt| attempt.message.clone()).unwrap_or_default(),
            timestamp: instant::text(self.now.unix_ms),
            function: name.clone(),
            version: view.version,
            state: view.state,
            invocation: last.map(|attempt| attempt.invocation),
            trigger: view.last.map(|last| last.trigger),
            attempt: last.map(|attempt| attempt.attempt.0),
            poll: last.map(|attempt| attempt.poll),
            reason: last.map(|attempt| attempt.reason),
            exit_code: last.and_then(|attempt| attempt.exit_code),
            started_at: last.map(|attempt| instant::text(attempt.started_ms)),
            duration_ms: last.map(|attempt| milliseconds(attempt.duration_us)),
            cpu_ms: last.and_then(|attempt| attempt.usage.cpu()).map(milliseconds),
            memory_peak_bytes: last.and_then(|attempt| attempt.usage.memory_peak()),
            // Left out here: this status is made for each change of a function, and memory and ports would have to be
            // read from files of the kernel each time.
            memory_bytes: None,
            next_attempt_at: view.next_attempt_ms.map(instant::text),
            next_run_at: self.schedules.table.next_of(name).map(instant::text),
            result: result.and_then(shown),
            runs: view.runs,
            failures: view.failures,
            up_since: view.up_since_ms.map(instant::text),
            ports: Vec::new(),
            // A problem of the file; else a problem of the installed version, such as code that cannot be loaded or a
            // limit too large.
            error: self.error(view),
            alert: self.alerts.unhealthy(name).map(|(alert, since_ms)| AlertState {
                alert,
                since: instant::text(since_ms),
                not_delivered: self.alerts.not_delivered(name).map(str::to_owned),
            }),
            stopped: self.stopped(view, known),
            warning: self.warnings(view, known),
            runtime: serving.map(|serving| serving.how.runtime.clone()).unwrap_or_default(),
            labels: serving
                .map(|serving| serving.manifest.labels.clone())
                .unwrap_or_default(),
            p50_ms: view.duration_us(0.5).map(milliseconds),
            p99_ms: view.duration_us(0.99).map(milliseconds),
            running: count(view.running),
            queued: count(view.queued),
            // Left out here, as the memory: it changes with each run of the group.
            waits_for: None,
            dead_letters: self.ledger.dead_letters_of(name),
            mcp: serving.is_some_and(|serving| serving.manifest.mcp),
        }
    }

    /// Returns the person who has stopped a service.
    fn stopped(&self, view: &FunctionView<'_>, known: Option<&Function>) -> Option<ServiceStop> {
        let by = self.functions.disabled.get(view.name).filter(|_| !view.enabled)?;
        let is_service = known?.serving(view.version)?.manifest.mode == Mode::Service;
        is_service.then(|| ServiceStop {
            uid: by.uid,
            since: instant::text(by.since_ms),
        })
    }

    /// Returns everything that does not work in a function as its author expects, one line each.
    fn warnings(&self, view: &FunctionView<'_>, known: Option<&Function>) -> Option<String> {
        let name = view.name;
        let release = self.lifecycle.releases.get(name);
        let groups = &self.node.settings.settings.groups;
        let lines = [
            view.full
                .map(|why| format!("over its quota, new runs are refused: {why}")),
            self.quotas.books.nearly(name),
            self.lifecycle.builds.words(name),
            self.lifecycle.installer.checks.words(name, view.version),
            release.and_then(|releases| held_words(name, releases)),
            known.and_then(|function| unknown_group(function, |group| groups.contains_key(group))),
            self.watchers.problem_of(name).map(str::to_owned),
        ];
        let lines = lines.into_iter().flatten();
        let lines: Vec<_> = lines.chain(known.into_iter().flat_map(Function::warnings)).collect();
        Some(lines.join("\n")).filter(|text| !text.is_empty())
    }

    /// Returns a function's status with the current memory use and the ports of its processes.
    pub(crate) fn function_now(&self, view: &FunctionView<'_>, listening: &Listening) -> FunctionStatus {
        let mut status = self.function_status(view);
        status.waits_for = waits_for(view);
        if status.running > 0 {
            status.memory_bytes = usage::memory_now(&self.workers.welcome.memory, &view.name.file_form());
        }
        if status.up_since.is_some() {
            status.ports = self.ports(view, listening).unwrap_or_default();
        }
        status
    }

    /// Returns the ports on which a function's user listens; nothing if another function or fnd has the same user.
    fn ports(&self, view: &FunctionView<'_>, listening: &Listening) -> Option<Vec<u16>> {
        let user = self.lifecycle.registry.get(view.name)?.serving(view.version)?.uid;
        let functions = self.lifecycle.registry.iter();
        let users = functions.filter_map(|(_, function)| Some(function.newest.as_ref()?.uid));
        (!listening.is_shared(user, users)).then(|| listening.of(user))
    }

    /// Returns the warnings about functions that a manifest calls and that its author may not operate.
    fn refused_calls(&self, name: &FunctionName, manifest: &Manifest) -> Vec<Diagnostic> {
        let alert = manifest.alert.as_ref().and_then(|alert| alert.call.as_ref());
        // A manifest may name a function in several hooks; one warning is enough.
        let called: BTreeSet<_> = manifest.hooks.all().map(|item| &item.call).chain(alert).collect();
        let refused = called.into_iter().filter(|called| {
            // A function that does not exist has a warning of its own.
            self.lifecycle.registry.get(called).is_some() && !self.node.settings.may_call(self.lifecycle, name, called)
        });
        refused
            .map(|called| {
                let message = format!("it does not call `{called}`: {NOT_OPERATED}");
                let help = "give that user the role in `[[access]]`, or let root own the files (`chown root:root`; for an upload, ask root)";
                Diagnostic::warning(Warning::NotOperated, message).with_help(help)
            })
            .collect()
    }

    /// Returns the problems of calls that are not made because of who the author is.
    pub(super) fn refused_call_problems(&self) -> Vec<ReportedProblem> {
        let mut problems = Vec::new();
        for name in self.lifecycle.of_others() {
            let known = self.lifecycle.registry.get(name);
            let newest = known.and_then(|known| known.newest.as_ref());
            for warning in newest.map_or_else(Vec::new, |newest| self.refused_calls(name, &newest.manifest)) {
                let about = format!("{name} {}", warning.message);
                problems.push(ReportedProblem::about(
                    Warning::NotOperated.as_str(),
                    about,
                    format!("{name}: {}", warning.text()),
                ));
            }
        }
        problems
    }

    /// Returns all details of a function; nothing where none of its files is known.
    pub(crate) fn function_detail(&self, view: &FunctionView<'_>) -> Option<FunctionDetail> {
        let name = view.name;
        let status = self.function_now(view, &Listening::default());
        let function = self.lifecycle.registry.get(name)?;
        let serving = function.serving(view.version);
        let mut calls = serving
            .map(|serving| self.lifecycle.call_warnings(name, &serving.manifest))
            .unwrap_or_default();
        calls.extend(
            serving
                .into_iter()
                .flat_map(|serving| self.refused_calls(name, &serving.manifest)),
        );
        let text = |of: fn(&ServingVersion) -> &str| serving.map(of).unwrap_or_default().to_owned();
        let tree = serving.and_then(|serving| serving.tree.as_deref().copied());
        let path = tree.map(|tree| trees(&self.node.places.state).join(tree.hex()));
        let candidate = &function.candidate;
        let more = FunctionMore {
            mode: text(|serving| serving.manifest.mode.as_str()),
            mode_reason: text(|serving| &serving.how.mode_reason),
            uploaded: self.is_uploads(candidate.directory),
            source: format!(
                "{}/{}",
                self.directory(candidate.directory).unwrap_or_default(),
                candidate.source
            ),
            manifest: serving
                // The schema is in `input`, and would be twice in the document.
                .map(|serving| Manifest {
                    input_schema: None,
                    ..serving.whole_manifest()
                })
                .and_then(|manifest| serde_json::to_value(manifest).ok())
                .unwrap_or_default(),
            input: serving.and_then(|serving| serving.manifest.input_schema.clone()),
            interpreter: text(|serving| &serving.how.interpreter),
            uid: serving.map(|serving| serving.uid),
            newer: self.newer(name),
            storage: self.quotas.storage(name, self.now),
            tree,
            packages: path.as_deref().map(packages).unwrap_or_default(),
            tree_bytes: path.as_deref().and_then(tree_bytes),
            // A build of an earlier fnd is known only by the release that it has made.
            build: self.lifecycle.builds.last(name).or_else(|| {
                let releases = self.lifecycle.releases.get(name)?;
                releases.get(releases.serving()?)?.build.as_deref().copied()
            }),
            diagnostics: function
                .findings
                .diagnostics
                .iter()
                .chain(&calls)
                .map(|d| serde_json::to_value(d).unwrap_or_default())
                .collect(),
        };
        Some(FunctionDetail { status, more })
    }

    /// Returns the functions directory of an index.
    pub(crate) fn directory(&self, index: u16) -> Option<&str> {
        let directories = &self.workers.welcome.functions_dirs;
        directories.get(usize::from(index)).map(String::as_str)
    }

    /// Returns whether a functions directory, by its index, is that of uploads.
    pub(crate) fn is_uploads(&self, index: u16) -> bool {
        self.directory(index)
            .is_some_and(|path| Path::new(path) == Path::new(&self.node.places.state).join(UPLOADS))
    }

    /// Returns the content that is newer than the serving version.
    pub(crate) fn newer(&self, name: &FunctionName) -> Option<NewerVersion> {
        let view = self.supervisor.function(name)?;
        // Without a version that serves, nothing is newer: the error of the only content is in the status.
        view.version?;
        let refused = self.lifecycle.registry.get(name)?.findings.error.clone();
        if refused.is_none() && view.trial.is_none() {
            return None;
        }
        // Refused content is newer than a version on trial.
        let trial = view.trial.filter(|_| refused.is_none());
        Some(NewerVersion {
            version: trial.map(|trial| trial.version),
            failed_trials: trial.map_or(0, |trial| trial.failures),
            next_trial_at: trial.and_then(|trial| trial.again_ms).map(instant::text),
            error: refused.or_else(|| view.error.as_deref().map(str::to_owned)),
        })
    }

    /// Returns a function's usage; absent if no version is known. The values of cgroups are left out.
    pub(crate) fn usage_of(&self, view: &FunctionView<'_>) -> Option<FunctionUsage> {
        let serving = self.lifecycle.registry.get(view.name)?.serving(view.version);
        let limits = serving.map(|serving| &serving.manifest.limits);
        Some(FunctionUsage {
            function: view.name.clone(),
            state: view.state,
            running: count(view.running),
            queued: count(view.queued),
            waits_for: waits_for(view),
            runs: view.runs,
            failures: view.failures,
            cpu_ms: None,
            cpu_limit: limits.and_then(|limits| Some(f64::from(limits.cpu?) / 1000.0)),
            cpu_periods: None,
            throttled_periods: None,
            throttled_ms: None,
            memory_bytes: None,
            memory_limit_bytes: limits.map(|limits| limits.memory),
            pids: None,
        })
    }
}

/// Returns which group of a version that serves, or may serve, the configuration has no more, and what follows from that.
fn unknown_group(function: &Function, is_known: impl Fn(&str) -> bool) -> Option<String> {
    let groups = function
        .versions()
        .map(|version| version.manifest.queue.group.as_deref());
    let unknown = groups.flatten().find(|group| !is_known(group))?;
    let follows = "its functions have one attempt at once, all together; name another group, or add it to `[groups]`";
    Some(format!(
        "its release names the group `{unknown}`, which `fnd.toml` does not have: {follows}"
    ))
}

/// Returns what keeps invocations of a function from beginning although a process is free.
fn waits_for(view: &FunctionView<'_>) -> Option<WaitsFor> {
    let waits_for = WaitsFor {
        group: view.held_up_by.map(|(name, taken, max)| GroupPlaces {
            name: name.to_owned(),
            taken: count(taken),
            max: count(max),
        }),
        key: view.held_back.map(|(invocations, value)| HeldBack {
            value: value.to_owned(),
            invocations: count(invocations),
        }),
    };
    (waits_for.group.is_some() || waits_for.key.is_some()).then_some(waits_for)
}

/// Returns a result for a status file: JSON unchanged, text as a string, nothing for other bytes.
fn shown(result: &RunResult) -> Option<Box<RawValue>> {
    let text = str::from_utf8(&result.data).ok()?;
    if result.json {
        RawValue::from_string(text.trim().to_owned()).ok()
    } else {
        serde_json::value::to_raw_value(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_shown_as_json_or_as_text() {
        for (json, data, expected) in [
            (true, &b" {\"a\": 1}\n"[..], Some("{\"a\": 1}")),
            (true, b"{", None),
            (false, b"a \"b\"\n", Some("\"a \\\"b\\\"\\n\"")),
            (false, b"\xff", None),
        ] {
            let result = RunResult {
                json,
                data: data.to_vec().into(),
                response: None,
                kept: None,
            };
            assert_eq!(shown(&result).as_deref().map(RawValue::get), expected);
        }
    }
}
