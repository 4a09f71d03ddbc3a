//! Every key of `runtime.toml`: its values, its default and its meaning.

use crate::schema::ValueKind::{List, Text};
use crate::schema::keys::keys;
use crate::schema::{Schema, TextKind, ValueKind};
use crate::words;
use std::collections::BTreeMap;

/// A runtime's `runtime.toml`.
pub const SCHEMA: Schema = Schema {
    keys: Description::KEYS,
    what: "a runtime's description",
};

const TEXTS: ValueKind = List(&Text(TextKind::Some));

keys! {
    /// The top of `runtime.toml`.
    #[derive(Debug)]
    pub(crate) struct Description {
        /// Name of the runtime and of its directory.
        id: String = Text(TextKind::Name), example "python", required true;
        /// What the runtime is, for people.
        description: String = Text(TextKind::Any), example "Python 3";
        /// Suffixes of files that the runtime claims, with the dot.
        suffixes: Vec<String> = TEXTS, example [".py"];
        /// Other names of the runtime.
        aliases: Vec<String> = TEXTS, example ["py"];
        /// Base names of the interpreters that a `#!` line may name.
        names: Vec<String> = TEXTS, example ["python", "python3"];
        /// Interpreters to try if the function names no version.
        interpreters: Vec<String> = List(&Text(TextKind::Absolute)), example ["/usr/bin/python3"];
        /// The file that lists the packages a function needs.
        dependency_file = Text(TextKind::Relative), example "requirements.txt";
        /// The program beside this file that serves handlers; `{shim}` in `[phases.handle] command`.
        shim: Option<String> = Text(TextKind::Relative), example "shim.py";
        // A shell takes a carriage return for a part of the last word of its line.
        /// `unix`: byte-order mark and carriage returns are removed from the entry.
        text: TextForm = Word(TextForm::WORDS), default "as-is", example "unix";
        /// Command that prints the version.
        probe: Vec<String> = TEXTS, example ["{interpreter}", "--version"];
        /// The least version that the runtime needs; `fndctl doctor` compares it with the first number that `probe` prints.
        min_version: Option<String> = Text(TextKind::Some), example "2.9";
        /// Versions by name.
        versions: BTreeMap<String, VersionKeys> = Map(TextKind::Name, &Table(VersionKeys::KEYS));
        /// Commands.
        phases: Phases = Table(Phases::KEYS);
        /// The program beside this file that installs dependencies, compiles, or fetches code; `{installer}` in the command of `[phases.install]`, `[phases.compile]` or `[phases.fetch]`.
        installer: Option<String> = Text(TextKind::Relative), example "install.py";
        /// How functions get at dependencies that were installed for them.
        dependencies: Dependencies = Table(Dependencies::KEYS);
        /// Values that are always granted, for each permission.
        permissions: Option<BTreeMap<String, Vec<String>>>
            = Map(TextKind::Permission, &List(&Text(TextKind::Some))), example { read = ["{code}"] };
        /// Smallest limits with which the runtime can start.
        floors: Floors = Table(Floors::KEYS);
    }
}

words! {
    /// How the entry is read.
    pub enum TextForm {
        /// Unchanged.
        AsIs = "as-is",
        /// Without byte-order mark and carriage returns.
        Unix = "unix",
    }
}

keys! {
    /// An entry of `[versions]`.
    #[derive(Debug)]
    pub(crate) struct VersionKeys {
        /// Path of the interpreter.
        interpreter: String = Text(TextKind::Absolute), example "/usr/bin/python3.11", required true;
    }
}

keys! {
    /// `[phases]`.
    #[derive(Debug)]
    pub(crate) struct Phases {
        /// Installs dependencies. Without it the runtime has none.
        install: Option<RuntimePhase> = Table(RuntimePhase::KEYS);
        /// Fetches code for functions of any runtime. One runtime has it.
        fetch: Option<RuntimePhase> = Table(RuntimePhase::KEYS);
        /// Compiles functions: leaves `program` in the tree of dependencies, which `{program}` in the other phases names.
        compile: Option<RuntimePhase> = Table(RuntimePhase::KEYS);
        /// Checks the syntax of `{entry}`, and runs nothing of it: for scripts, services and programs that serve HTTP. Exit code 0: it is good; 75, 126 or 127, or a signal: it could not be checked; any other: it is wrong, and the output says where.
        check: Option<RuntimePhase> = Table(RuntimePhase::KEYS);
        /// Runs an attempt of a script. Without it the runtime has only handlers.
        run: Option<RuntimePhase> = Table(RuntimePhase::KEYS);
        /// Starts a worker of a handler, which uses the worker protocol. Without it the runtime has no handlers.
        handle: Option<RuntimePhase> = Table(RuntimePhase::KEYS);
        /// Starts a worker of a module with `export default { fetch }`, which serves HTTP. Without it the runtime has none.
        serve: Option<RuntimePhase> = Table(RuntimePhase::KEYS);
    }
}

keys! {
    /// A command with its environment.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RuntimePhase {
        /// Command line; begins with `{interpreter}`, with `{entry}` if there is no interpreter, with `{program}` if it is compiled, or in `[phases.handle]` with `{helper}`, fnd's own program for the functions of AWS Lambda.
        command: Vec<String> = TEXTS, example ["{interpreter}", "{entry}", "{args}"], required true;
        /// Environment.
        env: BTreeMap<String, String> = Map(TextKind::Variable, &Text(TextKind::Any)), example { PYTHONUNBUFFERED = "1" };
        /// Base names of the interpreters that a `#!` line may name in this phase; absent: all of `names`.
        names: Vec<String> = TEXTS, example ["bash"];
        /// Values that are granted in this phase in addition to `[permissions]`.
        permissions: BTreeMap<String, Vec<String>>
            = Map(TextKind::Permission, &List(&Text(TextKind::Some))), example { net = ["127.0.0.1:0"] };
    }
}

keys! {
    /// `[dependencies]`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Dependencies {
        /// Files of a function that list its dependencies. The first one that lists any is used.
        files: Vec<String> = List(&Text(TextKind::Relative)), example ["requirements.txt"];
        /// Other files that are read while dependencies are installed, where a function has them.
        beside: Vec<String> = List(&Text(TextKind::Relative)), example ["package-lock.json"];
        /// A directory of the function that already has its dependencies: then nothing is installed.
        copied: Option<String> = Text(TextKind::Relative), example "node_modules";
        /// Beginnings of imports in JavaScript or TypeScript that are dependencies, in addition to those in `files`.
        imports: Vec<String> = TEXTS, example ["npm:", "https://"];
        /// Arguments of a function with dependencies, in place of `{dependencies}` in its command. `{file}` is the one of `files` that it has; without one, arguments with `{file}` are dropped.
        args: Vec<String> = TEXTS, example ["--lock={deps}/deno.lock"];
        /// Arguments of a function without dependencies, in place of `{dependencies}`.
        args_without: Vec<String> = TEXTS, example ["--no-lock"];
        /// Environment of a function with dependencies; `{deps}` is the directory that has them.
        env: BTreeMap<String, String> = Map(TextKind::Variable, &Text(TextKind::Any)), example { PYTHONPATH = "{deps}/site" };
    }
}

keys! {
    /// `[floors]`.
    #[derive(Debug)]
    pub(crate) struct Floors {
        /// Memory.
        memory: u64 = Size(ANY_SIZE), default "1M", example "16M";
        /// Processes and threads.
        pids: u32 = Whole(1..=4_194_304), default 1, example 8;
    }
}
