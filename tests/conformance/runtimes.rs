//! The runtimes under test, and how a worker of each is started.

use fnd_tests::programs::{self, repository};
use fnd_tests::require;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Functions that every runtime must have.
const REQUIRED: [&str; 5] = ["echo", "kinds", "prints", "context", "broken"];
/// Those of them that a client of AWS Lambda cannot have: it knows one kind of failure, and nothing of fnd.
const NOT_OF_LAMBDA: [&str; 2] = ["kinds", "context"];

/// A runtime, as its directory describes it.
pub(crate) struct Runtime {
    pub(crate) id: String,
    directory: PathBuf,
    functions: PathBuf,
    /// Empty: the entry is executed itself.
    interpreter: Option<PathBuf>,
    description: Description,
    /// The value of `{concurrency}`; none: the item is left out, and the shim takes several calls at once.
    concurrency: Option<u32>,
}

#[derive(serde::Deserialize)]
struct Description {
    id: String,
    #[serde(default)]
    interpreters: Vec<PathBuf>,
    shim: Option<String>,
    installer: Option<String>,
    phases: BTreeMap<String, Phase>,
    #[serde(default)]
    permissions: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    dependencies: Dependencies,
}

#[derive(Default, serde::Deserialize)]
struct Dependencies {
    /// Arguments of a function without dependencies.
    #[serde(default)]
    args_without: Vec<String>,
}

#[derive(serde::Deserialize)]
struct Phase {
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    permissions: BTreeMap<String, Vec<String>>,
}

/// Returns the runtimes that this machine has, and reports the missing ones. A runtime that wants to know the concurrency
/// is there twice: for several calls at once, and for one.
pub(crate) fn all() -> Vec<Runtime> {
    let shipped = repository().join("runtimes");
    let mut directories: Vec<PathBuf> = fs::read_dir(&shipped)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("runtime.toml").exists())
        .collect();
    directories.push(of_the_page().to_path_buf());
    directories.push(repository().join("examples/runtimes/dotnet"));
    if let Some(more) = std::env::var_os("FND_CONFORMANCE") {
        directories.extend(std::env::split_paths(&more));
    }
    directories.sort();
    let found: Vec<Runtime> = directories.iter().flat_map(|path| Runtime::read(path)).collect();
    assert!(!found.is_empty());
    found
}

/// Returns a runtime by its id, if this machine has it.
pub(crate) fn one(id: &str) -> Option<Runtime> {
    all().into_iter().find(|runtime| runtime.id == id)
}

/// The same runtime, which is told that a worker gets one call at a time.
pub(crate) fn one_at_a_time(id: &str) -> Option<Runtime> {
    all()
        .into_iter()
        .find(|runtime| runtime.id == id && runtime.concurrency == Some(1))
}

/// The files of the runtime that docs/new-runtime.md adds, with the words of their blocks.
const FILES_OF_THE_PAGE: [(&str, &str); 2] = [("toml", "runtime.toml"), ("perl", "shim.pl")];

/// Returns a directory with the runtime of that page, made from its text, so that the page stays true.
fn of_the_page() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let page = fs::read_to_string(repository().join("docs/new-runtime.md")).unwrap();
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("perl-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        for (kind, file) in FILES_OF_THE_PAGE {
            let (_, block) = page.split_once(&format!("```{kind} {file}\n")).unwrap();
            let (text, _) = block.split_once("\n```").unwrap();
            fs::write(directory.join(file), format!("{text}\n")).unwrap();
        }
        directory
    })
}

impl Runtime {
    fn read(directory: &Path) -> Vec<Self> {
        let asks = |runtime: &Self| {
            runtime.description.phases["handle"]
                .command
                .iter()
                .any(|item| item == "{concurrency}")
        };
        let several = Self::read_with(directory, None);
        let one = several.as_ref().filter(|runtime| asks(runtime));
        let one = one.and_then(|_| Self::read_with(directory, Some(1)));
        several.into_iter().chain(one).collect()
    }

    fn read_with(directory: &Path, concurrency: Option<u32>) -> Option<Self> {
        let text = fs::read_to_string(directory.join("runtime.toml")).unwrap();
        let description: Description =
            toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let id = description.id.clone();
        // Nothing is skipped: a runtime for scripts only has no worker.
        if !description.phases.contains_key("handle") {
            return None;
        }
        let executes = description.interpreters.is_empty();
        let interpreter = match id.as_str() {
            "deno" => programs::deno(),
            _ => description.interpreters.iter().find(|path| path.exists()).cloned(),
        };
        if !executes && interpreter.is_none() {
            let need = if id == "dotnet" { "mono" } else { &id };
            require::skip(need, &format!("no interpreter of runtime {id}"));
            return None;
        }
        let own = directory.join("functions");
        let functions = if own.exists() {
            own
        } else {
            repository().join("tests/conformance/functions").join(&id)
        };
        let runtime = Self {
            id,
            directory: directory.to_path_buf(),
            functions,
            interpreter,
            description,
            concurrency,
        };
        for name in REQUIRED {
            let is_excused = runtime.id == "lambda" && NOT_OF_LAMBDA.contains(&name);
            assert!(
                is_excused || runtime.function(name).is_some(),
                "{} has no function `{name}`",
                runtime.id
            );
        }
        Some(runtime)
    }

    /// Returns the path of the interpreter.
    pub(crate) fn interpreter(&self) -> &Path {
        self.interpreter.as_deref().unwrap()
    }

    /// Returns the file of a function, whatever its suffix; of a directory, its `bootstrap`.
    pub(crate) fn function(&self, name: &str) -> Option<PathBuf> {
        let files = fs::read_dir(&self.functions)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mut found: Vec<PathBuf> = files
            .filter(|path| path.file_stem().is_some_and(|stem| stem == name))
            .collect();
        found.sort();
        let found = found.into_iter().next()?;
        Some(if found.is_dir() { found.join("bootstrap") } else { found })
    }

    /// Returns the file of a function, or reports that the runtime does not have it.
    pub(crate) fn supports(&self, name: &str) -> Option<PathBuf> {
        if ["gate", "cancel"].contains(&name) && self.concurrency == Some(1) {
            return None;
        }
        let found = self.function(name);
        if found.is_none() {
            require::skip("conformance", &format!("runtime {} has no function `{name}`", self.id));
        }
        found
    }

    /// Compiles a function, and returns the path of its program; nothing if the runtime does not compile. `handler` is
    /// the one that the manifest names.
    ///
    /// # Errors
    /// The message of the compiler.
    pub(crate) fn compiled(&self, entry: &Path, handler: &str, scratch: &Path) -> Result<Option<PathBuf>, String> {
        let Some(phase) = self.description.phases.get("compile") else {
            return Ok(None);
        };
        let tree = scratch.join("state/tree");
        let code = scratch.join("tree/code");
        fs::create_dir_all(&tree).unwrap();
        fs::create_dir_all(&code).unwrap();
        let name = entry.file_name().unwrap().to_str().unwrap();
        fs::copy(entry, code.join(name)).unwrap();
        let program = serde_json::json!({"entry": name, "handler": handler, "mode": "handler"});
        let request = serde_json::json!({"list": [], "file": null, "language": null, "program": program});
        let made = code.join("fnd-build.json");
        fs::write(&made, request.to_string()).unwrap();
        // Kept from one run to the next, as fnd keeps it for all functions.
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cache-{}", self.id));
        let state = scratch.join("state");
        let installer = self.directory.join(self.description.installer.as_ref().unwrap());
        let fill = |template: &String| match template.as_str() {
            "{interpreter}" => self.interpreter.as_ref().unwrap().display().to_string(),
            "{installer}" => installer.display().to_string(),
            "{entry}" => made.display().to_string(),
            other => other
                .replace("{cache}", cache.to_str().unwrap())
                .replace("{state}", state.to_str().unwrap()),
        };
        let command: Vec<String> = phase.command.iter().map(fill).collect();
        let output = Command::new(&command[0])
            .args(&command[1..])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("STATE_DIRECTORY", &state)
            .env("HOME", &state)
            .env("GOPROXY", "off")
            .envs(phase.env.iter().map(|(name, value)| (name, fill(value))))
            .output()
            .unwrap();
        if !output.status.success() {
            return Err(String::from_utf8(output.stderr).unwrap());
        }
        Ok(Some(tree.join("program")))
    }

    /// Returns whether functions are compiled before a worker can start.
    pub(crate) fn compiles(&self) -> bool {
        self.description.phases.contains_key("compile")
    }

    /// Says whether a worker connects to a socket, in place of getting descriptor 3.
    pub(crate) fn connects(&self) -> bool {
        self.description.phases["handle"]
            .command
            .iter()
            .any(|item| item == "{socket}")
    }

    /// Returns the command line of a worker, and the variables that the description adds to its environment.
    pub(crate) fn command(
        &self,
        entry: &Path,
        program: Option<&Path>,
        scratch: &Path,
        names: &[&str],
    ) -> (Vec<String>, Vec<(String, String)>) {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let shim = self
            .description
            .shim
            .as_ref()
            .map(|shim| text(&self.directory.join(shim)));
        let values = [
            ("{program}", program.map(text)),
            ("{interpreter}", self.interpreter.as_deref().map(text)),
            ("{shim}", shim),
            ("{entry}", Some(text(entry))),
            ("{code}", entry.parent().map(text)),
            ("{tmp}", Some(text(scratch))),
            ("{cache}", Some(text(&scratch.join("cache")))),
            ("{state}", Some(text(&scratch.join("state")))),
            ("{result}", Some(text(&scratch.join("result")))),
            ("{credentials}", Some(text(&scratch.join("credentials")))),
            ("{bindings}", Some(text(&scratch.join("bindings")))),
            ("{socket}", Some(text(&scratch.join("socket")))),
        ];
        let fill = |template: &str| {
            let filled = values.iter().fold(template.to_owned(), |filled, (name, value)| {
                value
                    .as_ref()
                    .map_or(filled.clone(), |value| filled.replace(name, value))
            });
            assert!(!filled.contains('{'), "{}: `{template}` is not known here", self.id);
            filled
        };
        let phase = &self.description.phases["handle"];
        let mut command = Vec::new();
        for item in &phase.command {
            match item.as_str() {
                "{interpreter_args}" | "{args}" => {}
                "{helper}" => command.push(text(&programs::program("fnd-helper"))),
                // A client of Lambda asks for one call at a time unless it is told otherwise.
                "{concurrency}" if self.id == "lambda" => command.push(self.concurrency.unwrap_or(1).to_string()),
                "{concurrency}" => command.extend(self.concurrency.map(|count| count.to_string())),
                "{dependencies}" => command.extend(self.description.dependencies.args_without.iter().cloned()),
                "{permissions}" => {
                    let own = phase.env.keys().map(String::as_str);
                    let names: Vec<&str> = names.iter().copied().chain(own).collect();
                    command.push(format!("--allow-env={}", names.join(",")));
                    for (name, paths) in self.description.permissions.iter().chain(&phase.permissions) {
                        let paths: Vec<String> = paths.iter().map(|path| fill(path)).collect();
                        command.push(format!("--allow-{name}={}", paths.join(",")));
                    }
                }
                other => command.push(fill(other)),
            }
        }
        let env = phase
            .env
            .iter()
            .map(|(name, value)| (name.clone(), fill(value)))
            .collect();
        (command, env)
    }
}
