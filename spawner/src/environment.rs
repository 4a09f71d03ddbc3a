//! What a function's process is told: command line and environment (contract, section 3).

use crate::places::{AttemptFiles, FunctionPlaces};
use fnd_core::plan::{Plan, Text};
use fnd_core::wire::Bytes;
use std::path::{Path, PathBuf};

/// What is known of an attempt beside its plan.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// The plan; its `interpreters` holds the one chosen at install, or none.
    pub plan: &'a Plan,
    /// Directories of the function.
    pub dirs: FunctionPlaces,
    /// Installed code.
    pub code: PathBuf,
    /// User name.
    pub user: &'a str,
    /// Files of the attempt.
    pub files: &'a AttemptFiles,
    /// Whether `FND_PREVIOUS` was written.
    pub previous: bool,
    /// Variables fnd gives.
    pub given: &'a [(String, Bytes)],
    /// The machine's time zone.
    pub zone: &'a str,
}

/// Says whether fnd may give a variable of this name: those of the contract that only fnd knows. Never what steers the
/// loader, a shell or an interpreter, nor what the spawner itself sets.
pub fn may_be_given(name: &str) -> bool {
    let own = name.strip_prefix("FND_").is_some_and(|rest| {
        !rest.is_empty()
            && !matches!(rest, "RESULT" | "PREVIOUS")
            && rest.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
    });
    own || matches!(name, "DATA" | "KEPTN_CONTEXT" | "CONTEXT" | "TRACEPARENT" | "RUNTIME")
}

impl Attempt<'_> {
    fn entry(&self) -> PathBuf {
        self.code.join(&self.plan.entry)
    }

    /// Returns the command line.
    pub fn argv(&self) -> Vec<Bytes> {
        let program = self.plan.interpreters.first().cloned().unwrap_or_else(|| shown(&self.entry()));
        let rest = self.plan.argv.iter().map(|text| self.fill(text));
        [program].into_iter().chain(rest).map(|text| Bytes(text.into_bytes())).collect()
    }

    /// Returns the environment: what is always set, then runtime and manifest, then what fnd gives; later wins.
    pub fn environment(&self) -> Vec<Bytes> {
        let home = shown(&self.dirs.home);
        let always = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME", home.clone()),
            ("USER", self.user.to_owned()),
            ("LOGNAME", self.user.to_owned()),
            ("SHELL", "/bin/sh".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("TZ", self.zone.to_owned()),
            ("TMPDIR", shown(&self.files.tmp)),
            ("STATE_DIRECTORY", home),
            ("CACHE_DIRECTORY", shown(&self.dirs.cache)),
            ("CREDENTIALS_DIRECTORY", shown(&self.dirs.credentials)),
            ("SERVICE_BINDING_ROOT", shown(&self.dirs.bindings)),
            ("FND_RESULT", shown(&self.files.result)),
            ("SCRIPT", shown(&self.entry())),
        ];
        let mut all: Vec<(&str, Vec<u8>)> = Vec::new();
        let mut set = |name, value: Vec<u8>| match all.iter_mut().find(|(found, _)| *found == name) {
            Some(found) => found.1 = value,
            None => all.push((name, value)),
        };
        for (name, value) in always {
            set(name, value.into_bytes());
        }
        if self.previous {
            set("FND_PREVIOUS", shown(&self.files.previous).into_bytes());
        }
        for (name, text) in &self.plan.environment {
            set(name, self.fill(text).into_bytes());
        }
        for (name, value) in self.given {
            set(name, value.0.clone());
        }
        all.into_iter().map(|(name, value)| Bytes([name.as_bytes(), b"=", &value].concat())).collect()
    }

    fn fill(&self, text: &Text) -> String {
        if !text.template || !text.text.contains('{') {
            return text.text.clone();
        }
        let values = [
            ("{code}", &self.code),
            ("{entry}", &self.entry()),
            ("{tmp}", &self.files.tmp),
            ("{state}", &self.dirs.home),
            ("{cache}", &self.dirs.cache),
            ("{result}", &self.files.result),
            ("{credentials}", &self.dirs.credentials),
            ("{bindings}", &self.dirs.bindings),
        ];
        // Paths hold no braces of ours (names are checked), so replacing one after the other can't meet itself.
        values.iter().fold(text.text.clone(), |filled, (name, value)| filled.replace(name, &shown(value)))
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Returns the machine's time zone by name, as `TZ` takes it: from `/etc/localtime`, else `UTC`.
pub fn machine_zone() -> String {
    let target = std::fs::canonicalize("/etc/localtime").unwrap_or_default();
    let name = target.to_str().and_then(|path| path.split_once("zoneinfo/")).map(|(_, name)| name);
    name.unwrap_or("UTC").to_owned()
}
