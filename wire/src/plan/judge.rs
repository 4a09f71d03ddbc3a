//! The messages to the judge and from it, in every protocol that a spawner may have.

use super::*;
use crate::frame::{PROTOCOL_AGE, PROTOCOL_BUILDS, PROTOCOL_REQUESTS, PROTOCOL_SANDBOX, PROTOCOL_SECRETS};

/// Path below the state directory of the last settings that were put in force, stored as the message
/// ([`JudgeRequest::Settings`]) that the judge accepted.
pub const LAST_SETTINGS: &str = "spawner/settings";

/// Largest answer of the judge in bytes. The spawner passes the judge's document to fnd in a frame that holds a little
/// more.
pub const ANSWER_MAX: usize = crate::frame::FRAME_MAX / 2;

/// How many bytes of a code file the judge gets.
pub const CODE_MAX: usize = 1 << 20;

wire_enum! {
    /// A message to the judge, in [`packets`](crate::frame::packets).
    pub enum JudgeRequest {
        /// Settings and runtimes; the judge keeps them for the functions that follow.
        1 = Settings(JudgeSettings),
        /// A function to judge.
        2 = Function(JudgeFunction),
        /// A function whose code is to be checked; from protocol 12 on. Answered like [`JudgeRequest::Function`]: the build
        /// is that of [`CHECK`], and absent if there is nothing to check.
        3 = Check(JudgeFunction),
    }
}

wire_enum! {
    /// The judge's answer, in the order of the requests; in packets, too.
    pub enum JudgeReply {
        /// Answers [`JudgeRequest::Settings`] to a spawner before protocol 4.
        1 = OldSettings(SettingsVerdict),
        /// Answers [`JudgeRequest::Function`] to a spawner before protocol 4.
        2 = OldFunction(Box<FunctionVerdict>),
        /// Answers [`JudgeRequest::Settings`] to a spawner before protocol 6.
        3 = SettingsBefore6(SettingsAndTls),
        /// Answers [`JudgeRequest::Function`] to a spawner before protocol 6.
        4 = FunctionBefore6(Box<FunctionAndSecrets>),
        /// Answers [`JudgeRequest::Settings`] to a spawner before protocol 8.
        5 = SettingsBefore8(SettingsAndSandbox),
        /// Answers [`JudgeRequest::Function`] to a spawner before protocol 7.
        6 = FunctionBefore7(Box<FunctionAndSandbox>),
        /// Answers [`JudgeRequest::Function`] to a spawner before protocol 11.
        7 = FunctionBefore11(Box<FunctionAndCredentials>),
        /// Answers [`JudgeRequest::Settings`].
        8 = Settings(SettingsAndKey),
        /// Answers [`JudgeRequest::Function`].
        9 = Function(Box<FunctionAndBuild>),
    }
}

wire_structs! {
    /// A file passed to the judge.
    pub struct JudgedFile {
        /// The file's path, for diagnostics.
        pub path: String,
        /// The file's content; of code at most the first [`CODE_MAX`] bytes.
        pub bytes: Bytes,
        /// Permission bits (`st_mode & 0o7777`).
        pub mode: u32,
        /// Whether root owns the file (or the spawner's user, if the spawner is not root): only then may the file ask
        /// for more rights.
        pub trusted: bool,
    }

    /// Asks the judge for a verdict on a function.
    pub struct JudgeFunction {
        /// The function's name, from the file name.
        pub name: FunctionName,
        /// The code file. In directory form every regular file of the directory, sorted by name, with the beginning of
        /// each as far as there is room.
        pub files: Vec<JudgedFile>,
        /// The sidecar manifest or `function.toml`, if there is one.
        pub manifest: Option<JudgedFile>,
        /// How the files lie on the disk.
        pub form: CodeLayout,
    }

    /// Configuration and runtimes, in the order in which they are merged.
    pub struct JudgeSettings {
        /// `fnd.toml`, then `conf.d/*.toml`.
        pub files: Vec<JudgedFile>,
        /// `runtimes/ID/runtime.toml`, the shipped ones first; a later file replaces an earlier one of the same id.
        pub runtimes: Vec<JudgedFile>,
    }

    /// The judge's verdict on a function.
    pub struct FunctionVerdict {
        /// The plan; absent if the function is refused.
        pub plan: Option<Plan>,
        /// `fnd_manifest::judge::Verdict` as JSON, for fnd; the spawner passes it on without reading it.
        pub document: Bytes,
    }

    /// A verdict, and the secrets that the routes of the function name.
    pub struct FunctionAndSecrets {
        /// The verdict, with the plan.
        pub verdict: FunctionVerdict,
        /// Names of secrets, sorted, each once; empty if the function is refused.
        pub secrets: Vec<String>,
    }

    /// A verdict with its secrets, and the sandbox.
    pub struct FunctionAndSandbox {
        /// The verdict, with the names of the secrets.
        pub function: FunctionAndSecrets,
        /// The sandbox; absent if the function is refused.
        pub sandbox: Option<Sandbox>,
    }

    /// A verdict with its sandbox, and what the function gets.
    pub struct FunctionAndCredentials {
        /// Verdict, secrets of routes, and sandbox.
        pub function: FunctionAndSandbox,
        /// Secrets and service bindings of the function.
        pub credentials: Credentials,
    }

    /// A verdict with everything that the function gets, and the build of its dependencies.
    pub struct FunctionAndBuild {
        /// Verdict, secrets, sandbox and credentials.
        pub function: FunctionAndCredentials,
        /// The build; absent if nothing is to be built.
        pub build: Option<PlannedBuild>,
    }

    /// The judge's verdict on the settings.
    pub struct SettingsVerdict {
        /// The policy; absent if the settings are refused.
        pub policy: Option<Policy>,
        /// Settings or diagnostics as JSON, for fnd.
        pub document: Bytes,
    }

    /// A verdict, and the files and secrets that the listener needs.
    pub struct SettingsAndTls {
        /// The verdict, with the policy.
        pub verdict: SettingsVerdict,
        /// Absolute paths of the certificates and of the private key in `[http] tls`.
        pub tls: Option<(String, String)>,
        /// Names of the secrets of `[http] events`.
        pub secrets: Vec<String>,
    }

    /// A verdict with its files and secrets, and the profile of functions that name none.
    pub struct SettingsAndSandbox {
        /// Verdict, files and secrets.
        pub settings: SettingsAndTls,
        /// `[sandbox] profile`.
        pub profile: Profile,
    }

    /// A verdict on the settings, and the key of encrypted secrets.
    pub struct SettingsAndKey {
        /// Verdict, files, secrets and profile.
        pub settings: SettingsAndSandbox,
        /// `[secrets] age_key`; absent: `age.key` beside fnd.toml.
        pub age_key: Option<String>,
    }
}

impl JudgeReply {
    /// Returns the answer in the form that a spawner of a protocol reads. After an upgrade the old spawner may start
    /// the judge of the new fnd.
    #[must_use]
    pub fn in_protocol(self, protocol: u16) -> Self {
        match self {
            Self::Function(all) if protocol < PROTOCOL_BUILDS => {
                let mut function = all.function;
                if all.build.is_some() {
                    // Such a spawner would start it without its dependencies.
                    function.function.function.verdict.plan = None;
                }
                Self::FunctionBefore11(Box::new(function)).in_protocol(protocol)
            }
            Self::Settings(all) if protocol < PROTOCOL_REQUESTS => Self::OldSettings(all.settings.settings.verdict),
            Self::FunctionBefore11(all) if protocol < PROTOCOL_REQUESTS => {
                Self::OldFunction(Box::new(all.function.function.verdict))
            }
            Self::Settings(all) if protocol < PROTOCOL_SANDBOX => Self::SettingsBefore6(all.settings.settings),
            Self::FunctionBefore11(all) if protocol < PROTOCOL_SANDBOX => {
                Self::FunctionBefore6(Box::new(all.function.function))
            }
            Self::Settings(all) if protocol < PROTOCOL_AGE => Self::SettingsBefore8(all.settings),
            Self::FunctionBefore11(all) if protocol < PROTOCOL_SECRETS => Self::FunctionBefore7(Box::new(all.function)),
            reply => reply,
        }
    }
}
