//! One page, executed from top to bottom against an fnd of its own: files are saved, commands are run in a shell.

use fnd_tests::documents::blocks::{Block, Recording, Use, blocks, rewritten};
use fnd_tests::documents::commands::{Example, examples};
use fnd_tests::programs::{deno, program, promtool, repository, runtimes};
use fnd_tests::wait::{PATIENCE, pause};
use fnd_tests::{Fnd, Setup};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long an output that a page leaves out gets to become the one of a settled fnd, before it is recorded.
const SETTLED: Duration = Duration::from_secs(10);

/// Executes a page and returns how many commands it has. With `UPDATE_DOCUMENTS=1`, the page gets what they print.
pub(crate) fn execute(page: &str) -> usize {
    let records = std::env::var_os("UPDATE_DOCUMENTS").is_some_and(|value| value == "1");
    let session = Session::start(records);
    let path = repository().join(page);
    let mut recordings = Vec::new();
    let mut commands = 0;
    for block in blocks(&path) {
        match block.use_of() {
            Use::Save(file) => session.save(&file, &block),
            Use::Configure { applied } => session.configure(&block, applied),
            Use::Execute => {
                for example in examples(&block.text) {
                    let printed = session.run(&example, &block.place);
                    recordings.push(recording(&block, &example, &printed));
                    commands += 1;
                }
            }
            Use::Skip(_) | Use::Systemd | Use::Unit(_) | Use::Validate(_) | Use::Show => {}
        }
    }
    session.fnd.finish();
    if records {
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, rewritten(&text, &recordings)).unwrap();
    }
    commands
}

/// The output of a command.
struct Printed {
    text: String,
    /// Whether the command was ended: it follows.
    begun: bool,
}

/// Returns what the page shows of an output from now on.
fn recording(block: &Block, example: &Example, printed: &Printed) -> Recording {
    let lines = example.recorded(&printed.text, printed.begun, block.is_shortened());
    let indented = |line: String| match line.is_empty() {
        true => line,
        false => format!("{:1$}{line}", "", block.indent),
    };
    Recording {
        begin: block.begin + example.begin,
        count: example.expected.len(),
        lines: lines.into_iter().map(indented).collect(),
    }
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

/// Returns the user of the tests, by name or number.
fn user() -> String {
    let uid = nix::unistd::geteuid();
    let user = nix::unistd::User::from_uid(uid).unwrap();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}

struct Session {
    fnd: Fnd,
    /// Places in the pages, and what stands for each here.
    places: Vec<(&'static str, String)>,
    /// Whether the page gets what its commands print.
    records: bool,
}

impl Session {
    fn start(records: bool) -> Self {
        // With the sandbox, as readers have it.
        let fnd = Fnd::start_with(&Setup::default().config("[sandbox]\n"));
        let here = |path: &Path| path.display().to_string();
        let mut places = vec![
            ("/etc/fnd/functions", here(&fnd.path("functions"))),
            ("/srv/in", here(&fnd.shared_directory("in"))),
            ("/run/fnd", here(&fnd.path("run"))),
            ("/var/lib/fnd", here(&fnd.path("state"))),
            // Where a person works: files that are no functions.
            ("/home/ada", here(&fnd.path("work"))),
            // The directory of all these, so it comes after them.
            ("/etc/fnd", here(fnd.path("run").parent().unwrap())),
            (
                "/usr/share/doc/fnd/examples/functions",
                here(&repository().join("examples/functions")),
            ),
            ("/usr/share/doc/fnd/examples", here(&repository().join("packaging"))),
            ("/usr/lib/fnd/runtimes", here(&runtimes())),
            ("127.0.0.1:9640", crate::metrics::free_address().to_string()),
            // Another address, so that it is no other place.
            (
                "127.0.0.1:8080",
                format!("127.0.0.2:{}", crate::metrics::free_address().port()),
            ),
        ];
        places.extend(deno().map(|deno| ("/usr/local/bin/deno", here(&deno))));
        fs::create_dir(fnd.path("work")).unwrap();
        Self { fnd, places, records }
    }

    fn here(&self, text: &str) -> String {
        let replace = |text: String, (place, here): &(&str, String)| text.replace(place, here);
        self.places.iter().fold(text.to_owned(), replace)
    }

    /// Returns an output as root has it on the machine `vm1`.
    fn as_in_the_page(&self, text: &str) -> String {
        let replace = |text: String, (place, here): &(&str, String)| text.replace(here, place);
        let text = self.places.iter().fold(text.to_owned(), replace);
        // In a column.
        let text = text.replace(&format!(" {} ", user()), " root ");
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        // A report begins with the name of its machine.
        match text.strip_prefix(&format!("{}: ", host.trim())) {
            Some(report) => format!("vm1: {report}"),
            None => text,
        }
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

    /// Runs a command until it prints what the page shows; to record it, until that can be expected to be there.
    #[track_caller]
    fn run(&self, example: &Example, place: &str) -> Printed {
        let begin = fnd_tests::wait::now();
        let patience = if self.records { SETTLED } else { PATIENCE };
        // A command that follows is ended; on a busy machine its output takes longer.
        let mut seconds = if example.follows() { 2 } else { PATIENCE.as_secs() };
        let printed = loop {
            let (code, text) = self.shell(&example.command, seconds);
            let begun = code == 124 && example.follows();
            let ended_well = code == example.code || begun;
            let again = example.reads() && begin.elapsed() < patience;
            // Any output fits a page that leaves it out.
            let waits = self.records && again && example.leaves_out();
            let fits = ended_well && example.fits(&text, begun) && !waits;
            if fits || (self.records && ended_well && !again) {
                break Printed { text, begun };
            }
            let expected = example.expected.join("\n");
            assert!(
                again,
                "{place}: $ {}\n--- expected, exit code {}\n{expected}\n--- printed, exit code {code}\n{text}",
                example.command, example.code
            );
            seconds = (seconds * 2).min(PATIENCE.as_secs());
            pause();
        };
        if example.command.contains("/etc/fnd/functions") {
            self.settle();
        }
        printed
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
