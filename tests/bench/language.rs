//! The languages whose handlers are measured: the same work for fnd, for a bare process, and for a shim without fnd.

use fnd_tests::programs::{deno, repository};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Variables of a function that cost an interpreter time.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("LANG", "C.UTF-8"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
];

pub(crate) struct Language {
    /// Name of its runtime.
    pub(crate) id: &'static str,
    pub(crate) suffix: &'static str,
    /// The beginning of each line of its manifest.
    pub(crate) comment: &'static str,
    interpreter: PathBuf,
    /// Between interpreter and program.
    options: &'static [&'static str],
    shim: PathBuf,
    bare: &'static str,
    handler: &'static str,
    heavy: &'static str,
    scratch: TempDir,
}

impl Language {
    pub(crate) fn python() -> Self {
        Self {
            id: "python",
            suffix: "py",
            comment: "#",
            interpreter: "/usr/bin/python3".into(),
            options: &[],
            shim: repository().join("runtimes/python/shim.py"),
            bare: "print('hello')\n",
            handler: "def handler(event, context):\n    return 'hello'\n",
            // As much work as a package of some size; all of it is on every machine. At ten a second it must fit into a core.
            heavy: "import decimal, email.mime.multipart, http.server, sqlite3, xml.dom.minidom\n",
            scratch: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    /// Returns deno, if there is one.
    pub(crate) fn deno() -> Option<Self> {
        Some(Self {
            id: "deno",
            suffix: "ts",
            comment: "//",
            interpreter: deno()?,
            options: &["run", "--no-prompt", "--no-lock", "--allow-all"],
            shim: repository().join("runtimes/deno/shim.mjs"),
            bare: "console.log('hello');\n",
            handler: "export default (_event: unknown) => 'hello';\n",
            heavy: "import 'node:crypto'; import 'node:http2'; import 'node:readline'; import 'node:sqlite';\n",
            scratch: tempfile::tempdir().expect("a temporary directory"),
        })
    }

    /// Returns a handler's file with a manifest, importing much or nothing.
    pub(crate) fn function(&self, manifest: &[&str], imports: bool) -> String {
        let lines = ["/// fnd"].iter().chain(manifest).chain(&["///"]);
        let head: String = lines.map(|line| format!("{} {line}\n", self.comment)).collect();
        let heavy = if imports { self.heavy } else { "" };
        format!("{head}{heavy}{}", self.handler)
    }

    /// Returns the command that starts the interpreter on a program that prints a word.
    pub(crate) fn bare(&self) -> Command {
        let program = self.write("bare", self.bare);
        let mut command = self.command(&program);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Returns the command that starts the shim on the handler.
    pub(crate) fn shim(&self) -> Command {
        let entry = self.write("handler", self.handler);
        let mut command = self.command(&self.shim);
        command.arg(entry);
        if self.id == "python" {
            // `{concurrency}` of its command.
            command.arg("1");
        }
        command
            .env("FND_FUNCTION", "handler")
            .env("MOD_NAME", "handler")
            .env("FUNC_HANDLER", "")
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(&self.interpreter);
        command
            .args(self.options)
            .arg(program)
            .env_clear()
            .envs(ENVIRONMENT)
            .env("DENO_DIR", self.scratch.path())
            .env("DENO_NO_UPDATE_CHECK", "1");
        command
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.scratch.path().join(format!("{name}.{}", self.suffix));
        std::fs::write(&path, text).expect("a program is written");
        path
    }
}
