//! One bash invocation: bare, through the socket, through `fndctl`; one after the other and eight at once.

use crate::table::{Table, Times};
use fnd_tests::programs::program;
use fnd_tests::{Fnd, now};
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Callers at once in the parallel part.
const CALLERS: usize = 8;

/// A caller that keeps its connection, as a program would.
struct Socket {
    runtime: Runtime,
    sender: SendRequest<Full<Bytes>>,
    /// Owns the task that drives the connection.
    _connection: JoinSet<hyper::Result<()>>,
}

impl Socket {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (sender, connection) = runtime.block_on(async {
            let stream = tokio::net::UnixStream::connect(path).await?;
            let (sender, connection) = handshake(TokioIo::new(stream)).await?;
            let mut tasks = JoinSet::new();
            tasks.spawn(connection);
            anyhow::Ok((sender, tasks))
        })?;
        Ok(Self {
            runtime,
            sender,
            _connection: connection,
        })
    }

    fn invoke(&mut self) {
        let request = Request::post("/v1/functions/noop/invoke")
            .header("host", "fnd")
            .body(Full::default());
        let request = request.expect("a constant request is well-formed");
        let Self { runtime, sender, .. } = self;
        runtime.block_on(async {
            let answer = sender.send_request(request).await.expect("fnd answers");
            assert!(answer.status().is_success(), "{answer:?}");
            answer.into_body().collect().await.expect("the answer is whole");
        });
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

/// Bash with the environment a function gets: next to none.
fn bare_clean() {
    run(Command::new("/usr/bin/env").args(["-i", "bash", "-c", ":"]));
}

fn through_fndctl(fndctl: &Path, socket: &Path) {
    run(Command::new(fndctl).args(["invoke", "noop"]).env("FND_SOCKET", socket));
}

fn timed(mut action: impl FnMut()) -> Duration {
    let start = now();
    action();
    start.elapsed()
}

/// Measures all of it.
pub(crate) fn measure(fnd: &Fnd, rounds: usize, table: &mut Table) {
    let (fndctl, path) = (program("fndctl"), fnd.socket());
    let mut socket = Socket::open(&path).expect("fnd accepts connections");
    for _ in 0..20 {
        // Until caches are warm and the function's launcher stands.
        socket.invoke();
        bare();
    }
    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..rounds {
        // In turns, so that whatever disturbs the machine disturbs all of them.
        times[0].push(timed(bare));
        times[1].push(timed(bare_clean));
        times[2].push(timed(|| socket.invoke()));
        times[3].push(timed(|| through_fndctl(&fndctl, &path)));
    }
    let [bare_times, clean, by_socket, by_fndctl] = times.map(Times::new);
    table.times("bash -c :", &bare_times, &bare_times);
    table.times("env -i bash -c :", &clean, &bare_times);
    table.times("fnd: bash script, control socket", &by_socket, &bare_times);
    table.times("fnd: bash script, fndctl invoke", &by_fndctl, &bare_times);

    let per_caller = (rounds / CALLERS * 2).max(1);
    let floor = parallel(per_caller, || (), |()| bare());
    let rate = parallel(
        per_caller,
        || Socket::open(&path).expect("fnd accepts connections"),
        Socket::invoke,
    );
    let fndctl_rate = parallel(
        per_caller,
        || (fndctl.clone(), path.clone()),
        |(fndctl, path): &mut (PathBuf, PathBuf)| {
            through_fndctl(fndctl, path);
        },
    );
    table.rate("bash -c :, 8 at once", floor, floor);
    table.rate("fnd: control socket, 8 at once", rate, floor);
    table.rate("fnd: fndctl invoke, 8 at once", fndctl_rate, floor);
}

/// Returns how many actions a second eight callers do together.
fn parallel<S>(per_caller: usize, prepare: impl Fn() -> S + Sync, action: impl Fn(&mut S) + Sync) -> f64 {
    let ready = Barrier::new(CALLERS + 1);
    let elapsed = std::thread::scope(|scope| {
        let caller = || {
            let mut state = prepare();
            ready.wait();
            for _ in 0..per_caller {
                action(&mut state);
            }
        };
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(caller)).collect();
        ready.wait();
        let start = now();
        for caller in callers {
            caller.join().expect("a caller does not panic");
        }
        start.elapsed()
    });
    let count = u32::try_from(per_caller * CALLERS).unwrap_or(u32::MAX);
    f64::from(count) / elapsed.as_secs_f64()
}
