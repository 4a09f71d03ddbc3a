//! Makes the plan that installs dependencies or fetches code: that of a script of fnd's own, [`BUILD`], which is judged like
//! any other.

use super::dependencies::Dependencies;
use super::{Judge, Verdict, check, command, json, judged, sandbox};
use crate::function::BuildNetwork;
use crate::function::keys::Build as Own;
use crate::runtime::{Runtime, RuntimePhase};
use crate::schema::tree::TomlTable;
use fnd_wire::form::Bytes;
use fnd_wire::ids::FunctionName;
use fnd_wire::plan::{BUILD, CHECK, CodeLayout, Credentials, JudgeFunction, Mapped, OFFLINE, Plan, PlannedBuild};
use fnd_wire::units::{print_duration, print_size};
use std::collections::{BTreeMap, BTreeSet};

/// The file that the judge makes: the task as JSON.
const MADE: &str = "fnd-build.json";

/// A task of [`BUILD`].
pub(super) struct BuildPlan<'a> {
    /// The task in words, for people.
    pub(super) description: &'static str,
    /// The task as JSON.
    pub(super) made: Vec<u8>,
    /// The files of the function that it reads.
    pub(super) inputs: Vec<String>,
    /// How it is started.
    pub(super) phase: &'a RuntimePhase,
    /// Arguments behind those of the phase.
    pub(super) arguments: Vec<String>,
    /// Secrets that it gets: the name that each has for it, and the name of the secret.
    pub(super) secrets: Vec<(String, String)>,
    /// Environment that wins over that of the configuration.
    pub(super) env: BTreeMap<String, String>,
    /// The network that it has.
    pub(super) network: BuildNetwork,
    /// A path that it sees although the sandbox hides it.
    pub(super) shown: Option<String>,
    /// As [`PlannedBuild::fresh_for`].
    pub(super) fresh_for: Option<u64>,
    /// Of a task of [`CHECK`]: as [`Verdict::checked`].
    pub(super) checked: Option<String>,
}

impl Judge {
    /// Returns the build of a function's dependencies, or of its program; `trusted`: whether root owns all of the function's files. `plan` is the
    /// function's: both use the same interpreter.
    pub(super) fn dependencies_build(
        &self,
        dependencies: &Dependencies,
        (runtime, own, trusted): (&Runtime, &Own, bool),
        plan: &Plan,
    ) -> Option<PlannedBuild> {
        // An install script can read the secrets, so only root may name the packages then.
        let secrets = self.configuration.settings.build.secrets.iter().chain(&own.secrets);
        let secrets: BTreeSet<&String> = secrets.filter(|_| trusted).collect();
        let task = BuildPlan {
            description: match runtime.install {
                Some(_) => "Installs the dependencies of functions",
                None => "Compiles functions",
            },
            // Equal lists make equal texts, so functions with the same packages share one tree.
            made: serde_json::to_vec(dependencies).expect("texts only"),
            inputs: dependencies.inputs.clone(),
            phase: runtime.build()?,
            arguments: Vec::new(),
            secrets: secrets.into_iter().map(|name| (name.clone(), name.clone())).collect(),
            env: own.env.clone(),
            network: own.network,
            shown: None,
            fresh_for: None,
            checked: None,
        };
        self.build(task, runtime, Some(plan))
    }

    /// Returns the build of a task; with the interpreter of `like`, if there is one.
    ///
    /// # Panics
    /// Never: the manifest is made here, and a test judges it.
    pub(super) fn build(&self, task: BuildPlan<'_>, runtime: &Runtime, like: Option<&Plan>) -> Option<PlannedBuild> {
        let settings = &self.configuration.settings.build;
        let shown = task
            .shown
            // Written as a TOML value, a path cannot end its text and add keys to the manifest.
            .map(|path| format!("read_only = [{}]\n", toml::Value::String(path)));
        // An installer says by its exit code that the network failed: only that is transient and tried again. Functions
        // at work come first, so the weight of the CPU is below their default. Home and cache have no limit, because
        // the packages lie there until the spawner copies them, within limits of its own.
        let manifest = format!(
            "description = \"{}\"\n\
             runtime = \"{}\"\nmode = \"script\"\non_load = false\nentry = \"{MADE}\"\n\
             [limits]\ntimeout = \"{}\"\nmemory = \"{}\"\n{}cpu_weight = 20\npids = 512\nopen_files = 65536\n\
             home = \"none\"\ncache = \"none\"\n\
             [retry]\nretries = 3\ninterval = \"5s\"\non = [\"transient\"]\n\
             [pool]\nmax = 1\n\
             [sandbox]\nprofile = \"strict\"\nnetwork = \"{}\"\n{}",
            task.description,
            runtime.summary.id,
            print_duration(settings.timeout),
            print_size(settings.memory),
            settings
                .cpu
                .map(|cpu| format!("cpu = \"{cpu}m\"\n"))
                .unwrap_or_default(),
            task.network.as_str(),
            shown.unwrap_or_default(),
        );
        let (name, manifest) = match task.checked {
            Some(_) => (CHECK, check::manifest(task.description, MADE, runtime, settings)),
            None => (BUILD, manifest),
        };
        // Defaults are for functions of people.
        let mut configuration = self.configuration.clone();
        configuration.defaults = TomlTable::new();
        let judge = Self {
            configuration,
            // A build has no build of its own.
            runtimes: vec![Runtime {
                install: None,
                compile: None,
                ..runtime.clone()
            }],
            cpus: self.cpus,
            helper: self.helper.clone(),
        };
        let found = judge.function(&JudgeFunction {
            name: FunctionName::new(name).expect("a name"),
            files: vec![judged(MADE, task.made.clone(), false)],
            manifest: Some(judged(name, manifest.into_bytes(), false)),
            form: CodeLayout::Directory,
        });
        let (mut plan, manifest) = found.plan.zip(found.verdict.manifest.clone())?;
        if let Some(like) = like {
            plan.interpreters.clone_from(&like.interpreters);
            plan.interpreter_help.clone_from(&like.interpreter_help);
        }
        // An interpreter that a `#!` line asks for may belong to the owner of the file. A build runs none but those of
        // root.
        plan.asked_interpreters = 0;
        plan.argv = command::installer(task.phase, runtime);
        plan.argv
            .extend(task.arguments.iter().map(|argument| command::plain(argument)));
        let environment = task.phase.env.iter();
        let environment = environment.map(|(name, value)| (name.clone(), command::template(value)));
        // A value that a person wrote is no template: its braces stay as they are.
        let own = settings.env.iter().chain(&task.env);
        let own = own.map(|(name, value)| (name.clone(), command::plain(value)));
        // An installer without a network shall fail at once, and not after the attempts that it makes for a network
        // that is down.
        let offline = settings.offline || task.network == BuildNetwork::None;
        let offline = offline.then(|| (OFFLINE.to_owned(), command::plain("1")));
        let mapped = |(name, secret)| Mapped {
            name,
            secret,
            variable: false,
        };
        // The last value of a name counts.
        command::set(&mut plan.environment, environment.chain(own).chain(offline));
        Some(PlannedBuild {
            plan,
            sandbox: sandbox::of(&manifest, true),
            document: json(&Verdict {
                mode_reason: task.description.to_owned(),
                checked: task.checked,
                ..found.verdict
            }),
            inputs: task.inputs,
            made: (MADE.to_owned(), Bytes(task.made)),
            credentials: Credentials {
                secrets: task.secrets.into_iter().map(mapped).collect(),
                bindings: Vec::new(),
            },
            fresh_for: task.fresh_for,
        })
    }
}
