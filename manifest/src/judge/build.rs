//! Makes the plan that installs dependencies: that of a script of fnd's own, [`BUILD`], which is judged like any other.

use super::dependencies::Dependencies;
use super::{Judge, Verdict, command, json, sandbox};
use crate::runtime::Runtime;
use crate::schema::tree::Table;
use fnd_wire::form::Bytes;
use fnd_wire::ids::FunctionName;
use fnd_wire::plan::{BUILD, Build, Form, JudgeFunction, JudgedFile, Plan};
use fnd_wire::units::{print_duration, print_size};

/// The file that the judge makes: the dependencies as JSON.
const MADE: &str = "fnd-build.json";

impl Judge {
    /// Returns the build of a function's dependencies. `plan` is the function's: both use the same interpreter.
    ///
    /// # Panics
    /// Never: the manifest is made here, and a test judges it.
    pub(super) fn build(&self, dependencies: &Dependencies, runtime: &Runtime, plan: &Plan) -> Option<Build> {
        let install = runtime.install.as_ref()?;
        let settings = &self.configuration.settings.build;
        let manifest = format!(
            "description = \"Installs the dependencies of functions\"\n\
             runtime = \"{}\"\nmode = \"script\"\non_load = false\nentry = \"{MADE}\"\n\
             [limits]\ntimeout = \"{}\"\nmemory = \"{}\"\ncpu_weight = 20\npids = 512\nopen_files = 65536\n\
             home = \"none\"\ncache = \"none\"\n\
             [retry]\nretries = 3\ninterval = \"5s\"\non = [\"transient\"]\n\
             [pool]\nmax = 1\n\
             [sandbox]\nprofile = \"strict\"\nnetwork = \"host\"\n",
            runtime.summary.id,
            print_duration(settings.timeout),
            print_size(settings.memory),
        );
        // Defaults are for functions of people.
        let mut configuration = self.configuration.clone();
        configuration.defaults = Table::new();
        let judge = Self {
            configuration,
            runtimes: vec![runtime.clone()],
        };
        let made = Bytes(serde_json::to_vec(dependencies).expect("texts only"));
        let file = |path: &str, bytes: Bytes| JudgedFile {
            path: path.to_owned(),
            bytes,
            mode: 0o644,
            trusted: true,
        };
        let judged = judge.function(&JudgeFunction {
            name: FunctionName::new(BUILD).expect("a name"),
            files: vec![file(MADE, made.clone())],
            manifest: Some(file(BUILD, Bytes(manifest.into_bytes()))),
            form: Form::Directory,
        });
        let (mut made_plan, manifest) = judged.plan.zip(judged.verdict.manifest.clone())?;
        made_plan.interpreters.clone_from(&plan.interpreters);
        made_plan.asked_interpreters = 0;
        made_plan.interpreter_help.clone_from(&plan.interpreter_help);
        made_plan.argv = command::installer(install, runtime);
        let environment = install
            .env
            .iter()
            .map(|(name, value)| (name.clone(), command::template(value)));
        let own = settings
            .env
            .iter()
            .map(|(name, value)| (name.clone(), command::plain(value)));
        // The last value of a name counts.
        command::set(&mut made_plan.environment, environment.chain(own));
        Some(Build {
            plan: made_plan,
            sandbox: sandbox::of(&manifest, true),
            document: json(&Verdict {
                mode_reason: "it installs dependencies".to_owned(),
                ..judged.verdict
            }),
            inputs: dependencies.inputs.clone(),
            made: (MADE.to_owned(), made),
        })
    }
}
