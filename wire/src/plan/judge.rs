//! The messages to the judge and from it, also in the form of fnd 0.1.

use super::*;

/// Path below the state directory of the last settings that were put in force, stored as the message
/// ([`JudgeRequest::Settings`]) that the judge accepted.
pub const LAST_SETTINGS: &str = "spawner/settings";

/// Largest answer of the judge in bytes. The spawner passes the judge's document to fnd in a frame, which may be twice as
/// long.
pub const ANSWER_MAX: usize = 8 << 20;

/// How many bytes of a code file the judge gets.
pub const CODE_MAX: usize = 1 << 20;

wire_enum! {
    /// A message to the judge, in [`packets`](crate::frame::packets).
    pub enum JudgeRequest {
        /// Settings and runtimes; the judge keeps them for the functions that follow.
        1 = Settings(JudgeSettings),
        /// A function to judge.
        2 = Function(JudgeFunction),
        /// A function whose code is to be checked; from protocol 4 on. Answered like [`JudgeRequest::Function`]: the build
        /// is that of [`CHECK`], and absent if there is nothing to check.
        3 = Check(JudgeFunction),
        /// A stored version of a function; from protocol 4 on. Answered like [`JudgeRequest::Function`], but a group that the
        /// configuration has no more does not refuse it: a start of fnd would lose a function that served.
        4 = Stored(JudgeFunction),
    }
}

wire_enum! {
    /// The judge's answer, in the order of the requests; in packets, too.
    pub enum JudgeReply {
        /// Answers [`JudgeRequest::Settings`] to a spawner of fnd 0.1.
        1 = OldSettings(SettingsVerdict),
        /// Answers [`JudgeRequest::Function`] to a spawner of fnd 0.1.
        2 = OldFunction(Box<FunctionVerdict>),
        /// Answers [`JudgeRequest::Settings`].
        8 = Settings(SettingsJudgment),
        /// Answers [`JudgeRequest::Function`].
        9 = Function(Box<FunctionJudgment>),
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

    /// A verdict with everything that the function gets, and the build of its dependencies.
    pub struct FunctionJudgment {
        /// The verdict.
        pub verdict: FunctionVerdict,
        /// Names of the secrets that its routes name, sorted, each once; empty if the function is refused.
        pub secrets: Vec<String>,
        /// The sandbox; absent if the function is refused.
        pub sandbox: Option<Sandbox>,
        /// Secrets and service bindings of the function.
        pub credentials: Credentials,
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

    /// A verdict on the settings, with everything that the spawner needs of them.
    pub struct SettingsJudgment {
        /// The verdict.
        pub verdict: SettingsVerdict,
        /// Absolute paths of the certificates and of the private key in `[http] tls`.
        pub tls: Option<(String, String)>,
        /// Names of the secrets of `[http] events`.
        pub secrets: Vec<String>,
        /// `[sandbox] profile`, of functions that name none.
        pub profile: Profile,
        /// `[secrets] age_key`; absent: `age.key` beside fnd.toml.
        pub age_key: Option<String>,
    }
}

impl JudgeReply {
    /// Returns the answer in the form that the spawner of fnd 0.1 reads. After an upgrade the old spawner may start the judge
    /// of the new fnd.
    #[must_use]
    pub fn for_0_1(self) -> Self {
        match self {
            Self::Settings(judgment) => Self::OldSettings(judgment.verdict),
            Self::Function(judgment) => {
                let FunctionJudgment { mut verdict, build, .. } = *judgment;
                if build.is_some() {
                    // Such a spawner would start it without its dependencies.
                    verdict.plan = None;
                }
                Self::OldFunction(Box::new(verdict))
            }
            reply => reply,
        }
    }
}
