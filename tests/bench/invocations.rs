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

/// Variables of a function that cost bash time: with `LANG` it loads a locale.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("LANG", "C.UTF-8"),
    ("TZ", "UTC"),
];

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

/// The same with a function's environment.
pub(crate) fn bare_like_a_function() {
    run(Command::new("/bin/bash")
        .args(["-c", ":"])
        .env_clear()
        .envs(ENVIRONMENT));
}

fn through_fndctl(fndctl: &Path, socket: &Path) {
    run(Command::new(fndctl).args(["invoke", "noop"]).env("FND_SOCKET", socket));
}

/// Measures all of it.
pub(crate) fn measure(fnd: &Fnd, rounds: usize, table: &mut Table) {
    let (fndctl, path) = (program("fndctl"), fnd.socket());
    let server = Server::Unix(path.clone());
    let mut caller = Caller::open(&server, INVOKE);
    let mut open = Caller::open(&server, "/v1/functions/open/invoke");
    let times = in_turns(
        rounds,
        &mut [
            Box::new(bare),
            Box::new(bare_like_a_function),
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

    let floor_load = load(rounds, || (), |()| bare_like_a_function());
    let before = Cpu::of(fnd);
    let socket_load = load(rounds, || Caller::open(&server, INVOKE), Caller::call);
    let used = Cpu::of(fnd).since(&before).each(socket_load.times.count());
    let fndctl_load = load(rounds, || (), |()| through_fndctl(&fndctl, &path));
    table.load("bash -c :, 8 at once", &floor_load, &floor_load);
    table.load("fnd: control socket, 8 at once", &socket_load, &floor_load);
    table.value("fnd: control socket, 8 at once: CPU a call", used);
    table.load("fnd: fndctl invoke, 8 at once", &fndctl_load, &floor_load);
}
