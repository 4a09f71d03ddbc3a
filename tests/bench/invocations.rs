//! One bash invocation: bare, through the socket, through `fndctl`; one after the other and eight at once.

use crate::cpu::Cpu;
use crate::http::{Caller, Server};
use crate::load::{in_turns, run as load};
use crate::table::Table;
use fnd_tests::Fnd;
use fnd_tests::programs::program;
use std::path::Path;
use std::process::{Command, Stdio};

/// The request to fnd.
pub(crate) const INVOKE: &str = "/v1/functions/noop/invoke";

/// A function that prints the environment that it was started with.
pub(crate) const PRINTS_ENVIRONMENT: &str =
    "#!/usr/bin/env bash\n# /// fnd\n# on_load = false\n# ///\ntr '\\0' '\\n' < /proc/$$/environ\n";

/// The environment of a function, as fnd makes it.
pub(crate) struct Environment(Vec<(String, String)>);

impl Environment {
    /// Asks the function `environment`.
    pub(crate) fn of(fnd: &Fnd) -> Self {
        fnd.wait_ready("environment");
        let answer = fnd.client().call("POST", "/v1/functions/environment/invoke", &[], b"");
        let lines = answer.text();
        let variables = lines.lines().filter_map(|line| line.split_once('='));
        let variables: Vec<_> = variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        assert!(variables.iter().any(|(name, _)| name == "FND_FUNCTION"), "{lines}");
        Self(variables)
    }

    /// Runs a bash that does nothing, in this environment.
    pub(crate) fn bare(&self) {
        let variables = self.0.iter().map(|(name, value)| (name, value));
        run(Command::new("/bin/bash").args(["-c", ":"]).env_clear().envs(variables));
    }
}

fn run(command: &mut Command) {
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .expect("the program starts");
    assert!(status.success(), "{command:?}: {status}");
}

fn bare() {
    run(Command::new("bash").args(["-c", ":"]));
}

fn through_fndctl(fndctl: &Path, socket: &Path) {
    run(Command::new(fndctl).args(["invoke", "noop"]).env("FND_SOCKET", socket));
}

/// Measures all of it.
pub(crate) fn measure(fnd: &Fnd, rounds: usize, table: &mut Table) {
    let (fndctl, path) = (program("fndctl"), fnd.socket());
    let environment = Environment::of(fnd);
    let server = Server::Unix(path.clone());
    let mut caller = Caller::open(&server, INVOKE);
    let mut open = Caller::open(&server, "/v1/functions/open/invoke");
    let times = in_turns(
        rounds,
        &mut [
            Box::new(bare),
            Box::new(|| environment.bare()),
            Box::new(|| caller.call()),
            Box::new(|| open.call()),
            Box::new(|| through_fndctl(&fndctl, &path)),
        ],
    );
    let [bare_times, floor, by_socket, without_sandbox, by_fndctl]: [_; 5] =
        times.try_into().expect("each action has its times");
    table.times("bash -c :, a function's environment", &floor, &floor);
    table.times("bash -c :, the environment of this shell", &bare_times, &floor);
    table.times("fnd: bash script, control socket", &by_socket, &floor);
    table.times("fnd: the same with profile off", &without_sandbox, &floor);
    table.times("fnd: bash script, fndctl invoke", &by_fndctl, &floor);

    let floor_load = load(rounds, || (), |()| environment.bare());
    let before = Cpu::of(fnd);
    let socket_load = load(rounds, || Caller::open(&server, INVOKE), Caller::call);
    let used = Cpu::of(fnd).since(&before).each(socket_load.times.count());
    let fndctl_load = load(rounds, || (), |()| through_fndctl(&fndctl, &path));
    table.load("bash -c :, 8 at once", &floor_load, &floor_load);
    table.load("fnd: control socket, 8 at once", &socket_load, &floor_load);
    table.value("fnd: control socket, 8 at once: CPU a call", used);
    table.load("fnd: fndctl invoke, 8 at once", &fndctl_load, &floor_load);
}
