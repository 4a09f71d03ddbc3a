//! One page, executed from top to bottom against an fnd of its own: files are saved, commands are run in a shell.

use fnd_tests::documents::blocks::{Block, Use, blocks};
use fnd_tests::documents::commands::{Example, examples};
use fnd_tests::programs::{deno, program, promtool, repository};
use fnd_tests::wait::{PATIENCE, pause};
use fnd_tests::{Fnd, Setup};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Executes a page and returns how many commands it has.
pub(crate) fn execute(page: &str) -> usize {
    let session = Session::start();
    let mut commands = 0;
    for block in blocks(&repository().join(page)) {
        match block.use_of() {
            Use::Save(file) => session.save(&file, &block),
            Use::Configure { applied } => session.configure(&block, applied),
            Use::Execute => {
                for example in examples(&block.text) {
                    session.run(&example, &block.place);
                    commands += 1;
                }
            }
            Use::Skip(_) | Use::Systemd | Use::Unit(_) | Use::Validate(_) | Use::Show => {}
        }
    }
    session.fnd.finish();
    commands
}

/// Returns a bash function in which `fndctl` is the program under test: on a reader's machine it is in the functions' `PATH`.
fn with_fndctl(file: &str, text: String) -> String {
    let end = "# ///\n";
    match text.contains("fndctl ") && file.ends_with(".sh") {
        true => text.replacen(
            end,
            &format!("{end}fndctl() {{ '{}' \"$@\"; }}\n", program("fndctl").display()),
            1,
        ),
        false => text,
    }
}

struct Session {
    fnd: Fnd,
    /// Places in the pages, and what stands for each here.
    places: Vec<(&'static str, String)>,
}

impl Session {
    fn start() -> Self {
        // With the sandbox, as readers have it.
        let fnd = Fnd::start_with(&Setup::default().config("[sandbox]\n"));
        let here = |path: &Path| path.display().to_string();
        let places = vec![
            ("/etc/fnd/functions", here(&fnd.path("functions"))),
            ("/srv/in", here(&fnd.shared_directory("in"))),
            ("/run/fnd", here(&fnd.path("run"))),
            ("/etc/fnd", here(fnd.path("run").parent().unwrap())),
            (
                "/usr/share/doc/fnd/examples/functions",
                here(&repository().join("examples/functions")),
            ),
            ("/usr/share/doc/fnd/examples", here(&repository().join("packaging"))),
            ("127.0.0.1:9640", crate::metrics::free_address().to_string()),
            // Another address, so that it is no other place.
            (
                "127.0.0.1:8080",
                format!("127.0.0.2:{}", crate::metrics::free_address().port()),
            ),
        ];
        // Where a person works: files that are no functions.
        fs::create_dir(fnd.path("work")).unwrap();
        Self { fnd, places }
    }

    fn here(&self, text: &str) -> String {
        let replace = |text: String, (place, here): &(&str, String)| text.replace(place, here);
        self.places.iter().fold(text.to_owned(), replace)
    }

    fn as_in_the_page(&self, text: &str) -> String {
        let replace = |text: String, (place, here): &(&str, String)| text.replace(here, place);
        self.places.iter().fold(text.to_owned(), replace)
    }

    /// Saves a file of a functions directory; one that has a `#!` line and no suffix is executable.
    fn save(&self, file: &str, block: &Block) {
        let mode = if file.contains('.') { 0o644 } else { 0o755 };
        self.fnd
            .drop_bytes(file, with_fndctl(file, self.here(&block.text)).as_bytes(), mode);
        self.settle();
    }

    /// Waits until fnd has read what was saved: a person types slower than that.
    fn settle(&self) {
        let _ = self.fnd.ctl(&["reload", "--ignore-invalid"]);
    }

    /// Checks an `fnd.toml`, and applies it.
    fn configure(&self, block: &Block, applied: bool) {
        let text = self.here(&block.text);
        let alone = self.fnd.path("work/fnd.toml");
        fs::write(&alone, &text).unwrap();
        let mut check = Command::new(program("fnd"));
        let output = check
            .arg("--check=config")
            .arg("--config")
            .arg(&alone)
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {message}", block.place);
        if applied {
            let directory = self.fnd.path("conf.d");
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("page.toml"), text).unwrap();
            self.settle();
        }
    }

    /// Runs a command until it prints what the page shows.
    #[track_caller]
    fn run(&self, example: &Example, place: &str) {
        let begin = fnd_tests::wait::now();
        // A command that follows is ended; on a busy machine its output takes longer.
        let mut seconds = if example.follows() { 2 } else { PATIENCE.as_secs() };
        loop {
            let (code, printed) = self.shell(&example.command, seconds);
            let ended = code == 124 && example.follows();
            let fits = example.fits(&printed, ended) && (code == example.code || ended);
            if fits {
                break;
            }
            let again = example.reads() && begin.elapsed() < PATIENCE;
            let expected = example.expected.join("\n");
            assert!(
                again,
                "{place}: $ {}\n--- expected, exit code {}\n{expected}\n--- printed, exit code {code}\n{printed}",
                example.command, example.code
            );
            seconds = (seconds * 2).min(PATIENCE.as_secs());
            pause();
        }
        if example.command.contains("/etc/fnd/functions") {
            self.settle();
        }
    }

    /// Runs a command in a shell that keeps the variables of the commands before; returns its exit code and its output.
    fn shell(&self, command: &str, seconds: u64) -> (i32, String) {
        let command = self.here(command);
        let programs = [Some(program("fndctl")), promtool(), deno()];
        let directories = programs.iter().flatten().filter_map(|program| program.parent());
        let mut path: String = directories
            .map(|directory| format!("{}:", directory.display()))
            .collect();
        path += "/usr/local/bin:/usr/bin:/bin";
        let variables = self.fnd.path("work/.variables");
        // Written to a file, as a pipe would stay open in what the command leaves behind.
        let output = self.fnd.path("work/.output");
        let script = format!(
            "sudo() {{ \"$@\"; }}\nset -a\n[[ ! -e {0} ]] || . {0}\n{{ {command}\n}} >{1} 2>&1 </dev/null\ncode=$?\nexport -p >{0}\nexit $code\n",
            variables.display(),
            output.display(),
        );
        let file = self.fnd.path("work/.script");
        fs::write(&file, script).unwrap();
        let mut bash = Command::new("/usr/bin/timeout");
        bash.arg(Duration::from_secs(seconds).as_secs().to_string())
            .args(["/bin/bash", "--norc"]);
        bash.arg(&file).current_dir(self.fnd.path("work")).env_clear();
        bash.env("PATH", path)
            .env("FND_SOCKET", self.fnd.socket())
            .env("FND_CONFIG", self.fnd.path("fnd.toml"))
            .env("HOME", self.fnd.path("work"))
            .env("TZ", "UTC");
        let status = bash.stdin(Stdio::null()).status().unwrap();
        let printed = String::from_utf8_lossy(&fs::read(&output).unwrap_or_default()).into_owned();
        (status.code().unwrap_or(-1), self.as_in_the_page(&printed))
    }
}
