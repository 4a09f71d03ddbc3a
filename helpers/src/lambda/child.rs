//! The processes of the function: `bootstrap`, and the executables of its directory `extensions`. They inherit standard output
//! and error, which are the function's output, and the environment with the variables of Lambda.

use super::complain;
use super::extensions::EXTENSIONS_MAX;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

const REGION: &str = "us-east-1";
/// The variables of the region: the first one that is set counts.
const REGIONS: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];
/// Lambda's least memory in MB, for a function without a limit: clients need a number.
const MEMORY_LEAST: u64 = 128;
/// The library that each program of this system loads, if the system has the GNU C library.
const C_LIBRARY: &str = "libc.so.6";
/// How long processes have to end, as in Lambda with extensions.
pub(super) const END_MAX: Duration = Duration::from_secs(2);

/// The facts about the function that its clients see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FunctionFacts {
    pub(super) name: String,
    pub(super) handler: String,
    pub(super) arn: String,
    pub(super) concurrency: u32,
    region: String,
    /// In MB.
    memory: u64,
}

impl FunctionFacts {
    /// Reads the facts from the environment of a worker; `entry` is the path of `bootstrap`.
    pub(super) fn of(variable: &dyn Fn(&str) -> Option<String>, entry: &Path, concurrency: u32) -> Self {
        let text = |name: &str| variable(name).filter(|value| !value.is_empty());
        let name = text("AWS_LAMBDA_FUNCTION_NAME").or_else(|| text("FND_FUNCTION"));
        let name = name.unwrap_or_else(|| "function".to_owned());
        let region = REGIONS.into_iter().find_map(text).unwrap_or_else(|| REGION.to_owned());
        // fnd splits `handler = "app.work"` at its first point; without a handler, the module is the name of the file.
        let module = text("MOD_NAME").or_else(|| Some(entry.file_stem()?.to_str()?.to_owned()));
        let handler = module.into_iter().chain(text("FUNC_HANDLER"));
        let handler = handler.collect::<Vec<_>>().join(".");
        let memory = text("FUNC_MEMORY_LIMIT").and_then(|bytes| bytes.parse::<u64>().ok());
        let memory = memory.map(|bytes| bytes >> 20).filter(|memory| *memory > 0);
        Self {
            arn: format!("arn:aws:lambda:{region}:000000000000:function:{name}"),
            handler: text("_HANDLER").unwrap_or(handler),
            memory: memory.unwrap_or(MEMORY_LEAST),
            name,
            concurrency,
            region,
        }
    }
}

/// Returns the variables that the processes get besides those of the worker. A variable that the worker has stays as it is, since
/// `[env]` may have set it; the address of the API does not.
pub(super) fn environment(
    variable: &dyn Fn(&str) -> Option<String>,
    facts: &FunctionFacts,
    root: &Path,
    port: u16,
) -> Vec<(&'static str, String)> {
    let libraries = library_path(root);
    let root = root.display().to_string();
    let concurrency = facts.concurrency.to_string();
    let usual: [(&'static str, &str); 14] = [
        ("_HANDLER", &*facts.handler),
        ("LAMBDA_TASK_ROOT", &root),
        ("LAMBDA_RUNTIME_DIR", &root),
        ("LD_LIBRARY_PATH", &libraries),
        ("AWS_LAMBDA_FUNCTION_NAME", &facts.name),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", &facts.memory.to_string()),
        ("AWS_LAMBDA_LOG_GROUP_NAME", &format!("/aws/lambda/{}", facts.name)),
        ("AWS_LAMBDA_LOG_STREAM_NAME", "[$LATEST]fnd"),
        ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand"),
        ("AWS_REGION", &facts.region),
        ("AWS_DEFAULT_REGION", &facts.region),
        ("AWS_EXECUTION_ENV", "AWS_Lambda_provided.al2023"),
        ("AWS_LAMBDA_MAX_CONCURRENCY", &concurrency),
    ];
    // Clients that see this variable take several calls at once, even if it says 1.
    let is_meant = |name: &str| name != "AWS_LAMBDA_MAX_CONCURRENCY" || facts.concurrency > 1;
    let missing = usual
        .into_iter()
        .filter(|(name, _)| is_meant(name) && variable(name).is_none());
    let mut all: Vec<_> = missing.map(|(name, value)| (name, value.to_owned())).collect();
    all.push(("AWS_LAMBDA_RUNTIME_API", format!("127.0.0.1:{port}")));
    // fnd always sets the zone. Its default is the same one in Lambda's spelling.
    if variable("TZ").is_none_or(|zone| zone == "UTC") {
        all.push(("TZ", ":UTC".to_owned()));
    }
    all
}

/// Returns the directories of the function where its programs find libraries, as in Lambda: a `bootstrap` in C++ may lie beside the
/// ones that it needs. In Lambda those of the system come first; their names differ between systems. So a directory with a C library
/// is left out: the system's shell that runs `bootstrap` would load it, and crash.
fn library_path(root: &Path) -> String {
    let directories = [root.to_owned(), root.join("lib")];
    let usable = directories
        .iter()
        .filter(|directory| !directory.join(C_LIBRARY).exists());
    let usable: Vec<String> = usable.map(|directory| directory.display().to_string()).collect();
    usable.join(":")
}

/// Returns the variable of this process, if it is text.
pub(super) fn own_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The processes of a function.
pub(super) struct Children {
    pub(super) bootstrap: Child,
    /// Each returns its name and how it ended.
    pub(super) extensions: JoinSet<(String, io::Result<ExitStatus>)>,
    /// The names of the extensions.
    pub(super) names: Vec<String>,
}

impl Children {
    /// Starts the extensions, and then `bootstrap`.
    ///
    /// # Errors
    /// Why one of them cannot be started.
    pub(super) fn start(entry: &Path, environment: &[(&'static str, String)]) -> Result<Self, String> {
        let (mut extensions, mut names) = (JoinSet::new(), Vec::new());
        let files = ExtensionFiles::of(&entry.with_file_name("extensions"))?;
        for name in &files.ignored {
            complain(&format!(
                "`extensions/{name}` is not started, because it is not executable: `chmod +x` it"
            ));
        }
        for path in files.programs {
            let name = file_name(&path);
            let mut child = start(&path, environment).map_err(|error| format!("the extension {error}"))?;
            names.push(name.clone());
            extensions.spawn_local(async move { (name, child.wait().await) });
        }
        let bootstrap = start(entry, environment)?;
        Ok(Self {
            bootstrap,
            extensions,
            names,
        })
    }

    /// Asks `bootstrap` to end.
    pub(super) fn terminate(&self) {
        let id = self.bootstrap.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = id.and_then(Pid::from_raw) {
            // An error: it has ended, and is not yet waited for.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits until `bootstrap` and, if asked, the extensions have ended, but no longer than they have for it.
    pub(super) async fn ended(&mut self, with_extensions: bool) {
        let all = async {
            let _ = self.bootstrap.wait().await;
            while with_extensions && self.extensions.join_next().await.is_some() {}
        };
        // An error: the time is over. All processes that still run are killed with this worker.
        let _ = tokio::time::timeout(END_MAX, all).await;
    }
}

fn start(path: &Path, environment: &[(&'static str, String)]) -> Result<Child, String> {
    let mut command = Command::new(path);
    command
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .kill_on_drop(true);
    command.spawn().map_err(|error| {
        let message = format!("`{}` cannot be started: {error}", file_name(path));
        // The kernel says "no such file" of the interpreter, too.
        match missing_interpreter(path).filter(|_| error.kind() == ErrorKind::NotFound) {
            Some(name) => format!("{message}: its `#!` line names `{name}`, which does not exist"),
            None => message,
        }
    })
}

/// Returns the interpreter in the `#!` line of a program, if there is no such file.
fn missing_interpreter(program: &Path) -> Option<String> {
    let mut head = Vec::new();
    // The kernel reads no longer lines.
    fs::File::open(program).ok()?.take(256).read_to_end(&mut head).ok()?;
    let text = String::from_utf8_lossy(head.strip_prefix(b"#!")?);
    let line = text.split('\n').next()?.trim_start_matches([' ', '\t']);
    // A carriage return is a part of the name for the kernel.
    let name = line.split([' ', '\t']).next().filter(|name| !name.is_empty())?;
    Path::new(name)
        .try_exists()
        .is_ok_and(|exists| !exists)
        .then(|| name.escape_debug().to_string())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The files of the directory `extensions`.
#[derive(Debug, Default, PartialEq, Eq)]
struct ExtensionFiles {
    /// The executable files, in the order of their names.
    programs: Vec<PathBuf>,
    /// The names of the other files.
    ignored: Vec<String>,
}

impl ExtensionFiles {
    /// Reads the directory; there are no files if it is missing.
    fn of(directory: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("the directory `extensions` cannot be read: {error}");
        let mut files = Self::default();
        let entries = match fs::read_dir(directory) {
            Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => return Ok(files),
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            match fs::metadata(&path) {
                Ok(file) if file.is_file() && file.permissions().mode() & 0o111 != 0 => files.programs.push(path),
                Ok(file) if file.is_file() => files.ignored.push(file_name(&path)),
                _ => {}
            }
            if files.programs.len() > EXTENSIONS_MAX {
                return Err(format!(
                    "the directory `extensions` has more than {EXTENSIONS_MAX} executable files"
                ));
            }
        }
        files.programs.sort();
        // More lines would only fill the log of each start.
        files.ignored.truncate(EXTENSIONS_MAX);
        Ok(files)
    }
}

/// Returns how a process ended, in words.
pub(super) fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(own: &[(&str, &str)], concurrency: u32) -> Vec<(&'static str, String)> {
        let own = |name: &str| {
            let found = own.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let facts = FunctionFacts::of(&own, Path::new("/code/bootstrap"), concurrency);
        environment(&own, &facts, Path::new("/code"), 4000)
    }

    fn value<'a>(all: &'a [(&'static str, String)], name: &str) -> Option<&'a str> {
        let found = all.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| &**value)
    }

    #[test]
    fn bootstrap_has_the_variables_of_lambda() {
        let own = [
            ("FND_FUNCTION", "shop"),
            ("FUNC_MEMORY_LIMIT", "134217728"),
            ("TZ", "UTC"),
        ];
        let all = variables(&own, 1);
        for (name, expected) in [
            ("_HANDLER", "bootstrap"),
            ("LAMBDA_TASK_ROOT", "/code"),
            ("LD_LIBRARY_PATH", "/code:/code/lib"),
            ("AWS_LAMBDA_FUNCTION_NAME", "shop"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128"),
            ("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/shop"),
            ("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:4000"),
            ("AWS_REGION", REGION),
            ("TZ", ":UTC"),
        ] {
            assert_eq!(value(&all, name), Some(expected), "{name}");
        }
        assert_eq!(value(&all, "AWS_LAMBDA_MAX_CONCURRENCY"), None);
        assert_eq!(value(&variables(&own, 4), "AWS_LAMBDA_MAX_CONCURRENCY"), Some("4"));
    }

    #[test]
    fn variables_of_the_function_stay() {
        let all = variables(
            &[
                ("AWS_REGION", "eu-west-1"),
                ("TZ", "Europe/Berlin"),
                ("_HANDLER", "x"),
                ("LD_LIBRARY_PATH", "/opt/lib"),
                ("AWS_LAMBDA_RUNTIME_API", "elsewhere"),
            ],
            1,
        );
        for (name, expected) in [
            ("AWS_REGION", None),
            ("AWS_DEFAULT_REGION", Some("eu-west-1")),
            ("TZ", None),
            ("_HANDLER", None),
            ("LD_LIBRARY_PATH", None),
            ("AWS_LAMBDA_RUNTIME_API", Some("127.0.0.1:4000")),
        ] {
            assert_eq!(value(&all, name), expected, "{name}");
        }
    }

    #[test]
    fn libraries_are_found_beside_bootstrap() {
        let code = tempfile::tempdir().unwrap();
        let (root, lib) = (code.path().display().to_string(), code.path().join("lib"));
        let both = format!("{root}:{root}/lib");
        assert_eq!(library_path(code.path()), both);
        fs::create_dir(&lib).unwrap();
        fs::write(lib.join("libssl.so.3"), "").unwrap();
        assert_eq!(library_path(code.path()), both);
        fs::write(lib.join(C_LIBRARY), "").unwrap();
        assert_eq!(library_path(code.path()), root);
        fs::write(code.path().join(C_LIBRARY), "").unwrap();
        assert_eq!(library_path(code.path()), "");
    }

    #[test]
    fn the_handler_is_that_of_the_manifest() {
        for (module, function, expected) in [
            ("bootstrap", "", "bootstrap"),
            ("app", "lambda_handler", "app.lambda_handler"),
            ("src/app", "a.b", "src/app.a.b"),
        ] {
            let all = variables(&[("MOD_NAME", module), ("FUNC_HANDLER", function)], 1);
            assert_eq!(value(&all, "_HANDLER"), Some(expected));
        }
    }

    #[test]
    fn extensions_are_the_executable_files() {
        let code = tempfile::tempdir().unwrap();
        let directory = code.path().join("extensions");
        assert_eq!(ExtensionFiles::of(&directory), Ok(ExtensionFiles::default()));
        fs::create_dir_all(directory.join("directory")).unwrap();
        for (name, mode) in [("b", 0o755), ("a", 0o755), ("read.me", 0o644)] {
            fs::write(directory.join(name), "").unwrap();
            fs::set_permissions(directory.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let files = ExtensionFiles::of(&directory).unwrap();
        assert_eq!(files.programs, ["a", "b"].map(|name| directory.join(name)));
        assert_eq!(files.ignored, ["read.me"]);
        for number in 0..EXTENSIONS_MAX {
            fs::copy(directory.join("a"), directory.join(format!("c{number}"))).unwrap();
        }
        assert!(ExtensionFiles::of(&directory).unwrap_err().contains("more than 10"));
    }

    #[test]
    fn a_missing_interpreter_is_named() {
        let code = tempfile::tempdir().unwrap();
        let program = code.path().join("bootstrap");
        for (text, expected) in [
            ("#!/usr/bin/nosuch -e\nx\n", Some("/usr/bin/nosuch")),
            ("#! /bin/sh\r\nx\n", Some("/bin/sh\\r")),
            ("#!/bin/sh\nx\n", None),
            ("x", None),
            ("#!\n", None),
        ] {
            fs::write(&program, text).unwrap();
            assert_eq!(missing_interpreter(&program).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn an_end_is_told_in_words() {
        for (status, expected) in [(0x0100, "exit code 1"), (0, "exit code 0"), (9, "signal 9")] {
            assert_eq!(words(ExitStatus::from_raw(status)), expected);
        }
    }
}
