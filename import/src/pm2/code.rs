//! The script that starts an app, as pm2 chooses interpreter and arguments (`lib/Common.js` of pm2 6).

use super::app::App;
use super::keys::entry;
use crate::script::{ScriptCode, split};
use crate::tree::NamedValue;
use fnd_manifest::regular_file;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The note on the word for which pm2 starts a web server of its own.
const SERVE: &str = "pm2 serves the files itself, and fnd does not: let your web server do so, or write `script` as a command \
                     line, such as `python3 -m http.server 8080`; a program of this name has its path";

/// Says whether a file is a text, by its first bytes; nothing if there is no such file. A directory is one of JavaScript: node
/// starts the file in it.
pub(super) fn is_text(path: &Path) -> Option<bool> {
    if path.is_dir() {
        return Some(true);
    }
    let file = regular_file::open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(1024).read_to_end(&mut bytes).ok()?;
    Some(!bytes.contains(&0))
}

/// Returns the interpreter by which pm2 starts a file with this suffix.
fn by_suffix(script: &str) -> Option<&'static str> {
    Some(match script.rsplit_once('.')?.1 {
        "js" | "cjs" | "mjs" => "node",
        "py" => "python3",
        "sh" => "bash",
        "rb" => "ruby",
        "pl" => "perl",
        "php" => "php",
        "ts" | "tsx" => "bun",
        "coffee" => "coffee",
        "ls" => "lsc",
        _ => return None,
    })
}

impl App<'_> {
    /// Writes the script: it starts the program where it is.
    pub(super) fn script(&mut self, app: &NamedValue<'_>) {
        let Some(item) = entry(app, "script") else {
            return;
        };
        let mut code = ScriptCode::new("/bin/bash");
        let directory = self.directory(app);
        code.begin_in(&directory.display().to_string());
        let script = item.text().unwrap_or_default();
        if script == "serve" {
            self.report.refused(&item.field(), SERVE);
        }
        if script.starts_with('/') {
            code.places.add(&script, false);
        }
        let (words, more) = if script.contains(' ') {
            code.places.of_command(&script);
            (self.line(app, &script), "; pm2 starts it with `bash -c`")
        } else {
            self.program(app, &directory, &script)
        };
        code.exec(&words);
        let notes = code.put(&mut self.made);
        let note = format!(
            "the program stays where it is; it runs in the sandbox, as a user of its own, with the default limits{notes}{more}"
        );
        self.report.differs(&item.field(), "entry", &note);
    }

    /// Returns the directory in which the app begins.
    fn directory(&mut self, app: &NamedValue<'_>) -> PathBuf {
        let directory = match entry(app, "cwd") {
            Some(cwd) => {
                self.report.works(&cwd.field(), "entry");
                self.machine.base.join(cwd.text().unwrap_or_default())
            }
            None => {
                let note = "pm2 begins where it is started; the app begins in the directory of this file";
                self.report.differs(&app.named("cwd"), "entry", note);
                self.machine.base.to_owned()
            }
        };
        // Parts such as `.` are left out, since a place with them would not be shown.
        directory.components().collect()
    }

    /// Returns the words of a script that is a whole command line. pm2 passes no other arguments then.
    fn line(&mut self, app: &NamedValue<'_>, script: &str) -> Vec<String> {
        for key in ["args", "node_args", "exec_interpreter"] {
            if let Some(item) = entry(app, key) {
                let why = "`script` has blanks: pm2 runs it with `bash -c`, and does not use this, either";
                self.report.not_here(&item.field(), why);
            }
        }
        ["bash", "-c", script].map(str::to_owned).to_vec()
    }

    /// Returns the words of a program, its interpreter before it, and what a note says about the interpreter.
    fn program(&mut self, app: &NamedValue<'_>, directory: &Path, script: &str) -> (Vec<String>, &'static str) {
        let interpreter = entry(app, "exec_interpreter");
        if let Some(item) = &interpreter {
            self.report.works(&item.field(), "entry");
        }
        let file = (self.machine.is_text)(&directory.join(script));
        let suffix = by_suffix(script);
        let named = interpreter.and_then(|item| item.text());
        let more = match suffix {
            Some("bun") if named.is_none() => "; pm2 6 starts it with bun, earlier ones with ts-node",
            _ => "",
        };
        // pm2 starts a text without a known suffix with node. A program that is not there is one of `PATH`, such as `npm`.
        let otherwise = suffix.or_else(|| (file == Some(true)).then_some("node"));
        let interpreter = named.or_else(|| otherwise.map(str::to_owned));
        if interpreter.as_deref().is_some_and(|name| name.contains("python")) {
            // As pm2 does, so that the output comes at once.
            self.made.manifest.set_in("env", "PYTHONUNBUFFERED", "1", None);
        }
        // With the interpreter `none` pm2 starts the file itself.
        let mut words: Vec<String> = interpreter.into_iter().filter(|name| name != "none").collect();
        words.extend(self.words(app, "node_args"));
        let is_program = words.is_empty();
        let here = script.contains('/') || file.is_some();
        words.push(if is_program && here && !script.starts_with('/') {
            format!("./{}", script.trim_start_matches("./"))
        } else {
            script.to_owned()
        });
        words.extend(self.words(app, "args"));
        (words, more)
    }

    /// Returns the words of a key: a list, or a text that is split.
    fn words(&mut self, app: &NamedValue<'_>, key: &str) -> Vec<String> {
        let Some(item) = entry(app, key) else {
            return Vec::new();
        };
        self.report.works(&item.field(), "entry");
        if item.is_list() {
            return item.items().iter().filter_map(NamedValue::text).collect();
        }
        let words = split(&item.text().unwrap_or_default());
        if words.is_none() {
            self.report.refused(&item.field(), "a quote is not closed");
        }
        words.unwrap_or_default()
    }
}
