//! Turns the bytes of configuration, runtimes, manifests and code into plans for the spawner and documents for fnd.
//!
//! The daemon (`fnd-helper --judge`), `fnd --check` and `fndctl validate` use the same code. It opens no file: the spawner
//! finds out whether an interpreter, a user or a group exists.
//!
//! Files:
//! - `sibling_files`: files of a directory that a manifest names
//! - `build`: the plan that installs dependencies
//! - `check`: the plan that checks the syntax of code
//! - `choose`: the runtime of a file and the order of its interpreters
//! - `command`: command line and environment of a plan
//! - `dependencies`: finds the dependencies of a function
//! - `entry`: the file that runs
//! - `foreign`: functions that were made of files of other systems
//! - `function`: judges one function
//! - `imports`: finds the dependencies that code in JavaScript and TypeScript imports
//! - `input`: the schema of its payloads, and whether those in its manifest match
//! - `mode`: script, handler, service or HTTP
//! - `sandbox`: makes the sandbox of a plan
//! - `source`: finds where code comes from, and makes the plan that fetches it

mod build;
mod check;
mod choose;
mod command;
mod dependencies;
mod entry;
mod foreign;
mod function;
mod imports;
mod input;
mod mode;
mod sandbox;
mod sibling_files;
mod source;
#[cfg(test)]
pub(crate) mod tests;

use crate::diagnostic::Diagnostic;
use crate::function::forms::Claims;
use crate::function::{Manifest, credentials};
use crate::runtime::{self, Runtime, RuntimeSummary};
use crate::settings::resolve::{Configuration, configuration, configuration_on};
use crate::settings::{Settings, UserSettings};
use crate::warning::Warning;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fnd_wire::form::Bytes;
use fnd_wire::ids::FunctionName;
use fnd_wire::plan::{
    FunctionJudgment, FunctionVerdict, JudgeFunction, JudgeReply, JudgeRequest, JudgeSettings, JudgedFile, Policy,
    SettingsJudgment, SettingsVerdict, is_as_root, with_capabilities,
};
use serde::{Deserialize, Serialize};

pub use check::checked_name;
pub use command::package;
pub use function::Judged;
pub use source::SourceOrigin;

/// The verdict on a function; [`fnd_wire::plan::FunctionVerdict::document`] holds it as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The function that was judged.
    #[serde(with = "crate::text::id")]
    pub function: FunctionName,
    /// The resolved manifest; absent if the function is refused.
    pub manifest: Option<Manifest>,
    /// Why the function has its mode, for people: "no handler found".
    pub mode_reason: String,
    /// The runtime version that the manifest asks for, such as `3.11`; absent: any version.
    pub runtime_version: Option<String>,
    /// The version that the manifest asks for where one interpreter serves all versions; the judge cannot know its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchecked_version: Option<String>,
    /// The interpreters that are tried, in order. If one of them changes, another one may be chosen. Empty from the
    /// judge of an older fnd.
    #[serde(default)]
    pub interpreters: Vec<String>,
    /// The modules that a single Python file imports, without those of Python itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<String>,
    /// Where its code comes from, if it has a source. Without a manifest beside it, the code is still to be fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceOrigin>,
    /// Whether its build compiles it, and does not only install its dependencies.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compiled: bool,
    /// Whether the syntax of its code can be checked before it serves, without running it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checkable: bool,
    /// Of a check: the part of its input that is about one function, in base64 ([`checked_files`](Self::checked_files)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked: Option<String>,
    /// Whether the function's own manifest says whether it runs by itself.
    #[serde(default)]
    pub says_on_load: bool,
    /// Whether root owns all of its files. Not so from the judge of an older fnd.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trusted: bool,
    /// The problems, in the order of the file. An error among them refuses the function.
    pub diagnostics: Vec<Diagnostic>,
}

impl Verdict {
    /// Returns the part of a check's input that is about one function: entries of a tar archive, without its end.
    #[must_use]
    pub fn checked_files(&self) -> Option<Vec<u8>> {
        BASE64_STANDARD.decode(self.checked.as_ref()?).ok()
    }

    /// Returns where its code is to be fetched from, if that is to be done before the function can be judged.
    #[must_use]
    pub fn to_fetch(&self) -> Option<&SourceOrigin> {
        self.source.as_ref().filter(|_| self.manifest.is_none())
    }
}

/// The verdict on the configuration; [`fnd_wire::plan::SettingsVerdict::document`] holds it as JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SettingsDocument {
    /// The configuration; absent if it is refused.
    pub settings: Option<Settings>,
    /// The runtimes without errors, by id.
    pub runtimes: Vec<RuntimeSummary>,
    /// The problems. Errors in the configuration refuse it; an error in a `runtime.toml` only leaves that runtime out.
    pub diagnostics: Vec<Diagnostic>,
}

/// Judges functions under the configuration that was set last.
#[derive(Debug)]
pub struct Judge {
    configuration: Configuration,
    runtimes: Vec<Runtime>,
    /// CPUs of the machine for which configurations are judged.
    cpus: usize,
    /// Path of `fnd-helper`, for runtimes whose functions it serves.
    helper: String,
}

/// The path of `fnd-helper` in an installation.
pub const HELPER: &str = "/usr/libexec/fnd/fnd-helper";

impl Default for Judge {
    fn default() -> Self {
        Self::new()
    }
}

impl Judge {
    /// Returns the settings under which functions are judged.
    #[must_use]
    pub fn settings_now(&self) -> &Settings {
        &self.configuration.settings
    }

    /// Returns a judge with the default configuration and without runtimes.
    ///
    /// # Panics
    /// Never: the defaults have no problems.
    #[must_use]
    pub fn new() -> Self {
        let configuration = configuration([]).expect("defaults are without problems");
        Self {
            configuration,
            runtimes: Vec::new(),
            cpus: usize::MAX,
            helper: HELPER.to_owned(),
        }
    }

    /// Returns the judge for an installation with `fnd-helper` at this path.
    #[must_use]
    pub fn with_helper(mut self, path: String) -> Self {
        self.helper = path;
        self
    }

    /// Returns the judge for a machine with `cpus` CPUs. Without this, a configuration is judged for any machine.
    #[must_use]
    pub fn with_cpus(mut self, cpus: usize) -> Self {
        self.cpus = cpus;
        self
    }

    /// Returns the answer to a request; settings are kept for the functions that follow.
    ///
    /// # Panics
    /// Never: the keys of the answer are names and texts, which JSON can hold.
    pub fn answer(&mut self, request: &JudgeRequest) -> JudgeReply {
        match request {
            JudgeRequest::Settings(settings) => {
                let (policy, document) = self.settings(settings);
                let http = document.settings.as_ref().map(|settings| &settings.http);
                let tls = http.and_then(|http| http.tls.clone());
                let events = http.and_then(|http| http.events.as_ref());
                let credentials = events.into_iter().flat_map(|events| &events.auth.0);
                let mut secrets: Vec<String> = credentials.map(|credential| credential.secret.clone()).collect();
                let all = document.settings.as_ref();
                // fnd itself proves with it to the servers of NATS who it is.
                let nats = all.and_then(|all| all.events.nats.as_ref());
                secrets.extend(nats.and_then(|nats| nats.credentials.clone()));
                JudgeReply::Settings(SettingsJudgment {
                    verdict: SettingsVerdict {
                        policy,
                        document: json(&document),
                    },
                    tls: tls.map(|tls| (tls.certificate, tls.key)),
                    secrets,
                    profile: self.configuration.profile().into(),
                    age_key: all.and_then(|all| all.secrets.age_key.clone()),
                })
            }
            JudgeRequest::Function(function) | JudgeRequest::Check(function) | JudgeRequest::Stored(function) => {
                let mut judged = match request {
                    JudgeRequest::Stored(_) => self.stored(function),
                    _ => self.function(function),
                };
                if matches!(request, JudgeRequest::Check(_)) && judged.plan.is_some() {
                    judged.build = self.check(function, &judged);
                }
                let Judged { plan, verdict, build } = judged;
                let manifest = plan.as_ref().and(verdict.manifest.as_ref());
                let sandbox = manifest.map(|manifest| sandbox::of(manifest, is_trusted(function)));
                let credentials = manifest.map(credentials::of).unwrap_or_default();
                JudgeReply::Function(Box::new(FunctionJudgment {
                    // The names are beside the plan and not in it: plans are stored, and other versions of the spawner
                    // read them.
                    secrets: verdict.manifest.as_ref().map(Manifest::secrets).unwrap_or_default(),
                    verdict: FunctionVerdict {
                        plan,
                        document: json(&verdict),
                    },
                    sandbox,
                    credentials,
                    build,
                }))
            }
        }
    }

    /// Sets configuration and runtimes. If the configuration is refused, the previous configuration and runtimes stay.
    pub fn settings(&mut self, files: &JudgeSettings) -> (Option<Policy>, SettingsDocument) {
        let mut diagnostics = Vec::new();
        let texts = files
            .files
            .iter()
            .map(|file| (file.path.as_str(), file.bytes.0.as_slice()));
        let configuration = match configuration_on(texts, self.cpus) {
            Ok(configuration) => configuration,
            Err(diagnostics) => {
                let document = SettingsDocument {
                    diagnostics,
                    ..SettingsDocument::default()
                };
                return (None, document);
            }
        };
        let mut runtimes: Vec<Runtime> = Vec::new();
        for file in &files.runtimes {
            match runtime::read::runtime(&file.path, &file.bytes.0) {
                Ok(mut runtime) => {
                    if let Some(settings) = configuration.settings.runtimes.get(&runtime.summary.id) {
                        runtime.configure(settings);
                    }
                    // A person's own runtime replaces the shipped one with the same id.
                    runtimes.retain(|known| known.summary.id != runtime.summary.id);
                    runtimes.push(runtime);
                }
                Err(problems) => diagnostics.extend(problems),
            }
        }
        // If two runtimes claim a suffix, the order of the files must not decide which one gets it.
        runtimes.sort_by(|one, two| one.summary.id.cmp(&two.summary.id));
        let names: Vec<&str> = runtimes.iter().map(|runtime| runtime.summary.id.as_str()).collect();
        for id in configuration
            .settings
            .runtimes
            .keys()
            .filter(|id| !names.contains(&id.as_str()))
        {
            let message = format!("`[runtimes]` of the configuration names the runtime `{id}`, which does not exist");
            let help = format!("known runtimes: {}", crate::schema::read::list(&names));
            diagnostics.push(Diagnostic::warning(Warning::UnknownRuntime, message).with_help(help));
        }
        let settings = configuration.settings.clone();
        diagnostics.extend(without_root(&settings.users));
        let policy = Policy {
            uid_range: settings.users.range,
            allow_users: with_capabilities(&settings.users.allow, &settings.users.capabilities),
            allow_root: settings.users.allow_root,
            best_effort_limits: settings.best_effort_limits,
            memory: settings.node.memory,
            reserve_memory: settings.node.reserve_memory,
        };
        self.configuration = configuration;
        self.runtimes = runtimes;
        let document = SettingsDocument {
            settings: Some(settings),
            runtimes: self.runtimes.iter().map(Runtime::summary).collect(),
            diagnostics,
        };
        (Some(policy), document)
    }

    /// Returns the suffixes of files that the runtimes claim.
    pub(crate) fn claims(&self) -> Claims {
        Claims::of(self.runtimes.iter().flat_map(|runtime| &runtime.summary.suffixes))
    }

    /// Returns the known runtimes, by id.
    #[must_use]
    pub fn runtimes(&self) -> &[Runtime] {
        &self.runtimes
    }

    /// Returns the current configuration.
    #[must_use]
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }
}

/// Returns the warning about capabilities that no function gets, because they need `allow_root`.
fn without_root(users: &UserSettings) -> Option<Diagnostic> {
    let names = users.capabilities.iter().map(String::as_str);
    let names: Vec<&str> = names.filter(|name| is_as_root(name)).collect();
    if users.allow_root || names.is_empty() {
        return None;
    }
    let names = crate::schema::read::list(&names);
    let message = format!("`[users] capabilities`: no function gets {names}, which makes it as good as root");
    let help = "set `allow_root = true` in `[users]` of `fnd.toml`, or remove it from the list";
    Some(Diagnostic::warning(Warning::Pointless, message).with_help(help))
}

/// Returns a file for the judge. Its owner is not known, so it counts as root's.
pub(crate) fn judged(path: &str, bytes: Vec<u8>, executable: bool) -> JudgedFile {
    JudgedFile {
        path: path.to_owned(),
        bytes: Bytes(bytes),
        mode: if executable { 0o755 } else { 0o644 },
        trusted: true,
    }
}

/// Says whether root owns all files of a function.
fn is_trusted(function: &JudgeFunction) -> bool {
    let manifest = function.manifest.as_ref();
    function.files.iter().chain(manifest).all(|file| file.trusted)
}

fn json<T: Serialize>(document: &T) -> Bytes {
    Bytes(serde_json::to_vec(document).expect("keys are text"))
}
