//! Functions of AWS Lambda's runtime interface: a warm call, and a start for each call; beside the same program behind a stub, which
//! answers its requests and does nothing else.

use crate::handlers::{FIRST, WARM};
use crate::http::{Caller, Server};
use crate::load::{in_turns, in_turns_after};
use crate::table::{Table, Times};
use fnd_tests::Fnd;
use fnd_tests::programs::lambda_rust;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// The functions: name and manifest. A spare worker would hide the start.
const FUNCTIONS: [(&str, &str); 2] = [
    ("warm", "runtime = \"lambda\"\n"),
    (
        "fresh",
        "runtime = \"lambda\"\n[pool]\nisolation = \"invocation\"\nspare = 0\n",
    ),
];

/// Measures the program that set-up built.
pub(crate) fn measure(rounds: usize, table: &mut Table) {
    let Some(program) = lambda_rust() else {
        return table.value("lambda", "no program: scripts/setup.sh --ci".to_owned());
    };
    let bytes = std::fs::read(&program).expect("the program is there");
    let mut setup = crate::as_shipped();
    for (name, manifest) in FUNCTIONS {
        let manifest = manifest.as_bytes().to_vec();
        setup.files.push((format!("{name}/function.toml"), manifest, 0o644));
        setup.files.push((format!("{name}/bootstrap"), bytes.clone(), 0o755));
    }
    let mut fnd = Fnd::prepare(&setup);
    let _run = crate::run_directory_in_memory(&fnd);
    fnd.launch();
    let caller = |name: &str| {
        fnd.wait_ready(name);
        Caller::open(&Server::Unix(fnd.socket()), &format!("/v1/functions/{name}/invoke"))
    };
    let (mut stub, mut warm) = (Stub::start(&program), caller("warm"));
    let times = in_turns_after(
        FIRST,
        rounds * WARM,
        &mut [Box::new(|| stub.call()), Box::new(|| warm.call())],
    );
    rows(table, "warm", times);
    let mut fresh = caller("fresh");
    let start = || {
        let mut stub = Stub::start(&program);
        stub.call();
        // Ending it is no part of the start.
        drop(std::thread::spawn(move || drop(stub)));
    };
    let times = in_turns(rounds, &mut [Box::new(start), Box::new(|| fresh.call())]);
    rows(table, "fresh each", times);
    fnd.stop();
}

/// Adds the rows of the stub and of fnd.
fn rows(table: &mut Table, what: &str, times: Vec<Times>) {
    let [floor, ours] = <[Times; 2]>::try_from(times).expect("each action has its times");
    table.times(&format!("lambda: bootstrap behind a stub, {what}"), &floor, &floor);
    table.times(&format!("fnd: lambda bootstrap, {what}"), &ours, &floor);
}

/// The answer to a request for the next call.
const EVENT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
    Lambda-Runtime-Aws-Request-Id: 01990000-0000-7000-8000-000000000000\r\nLambda-Runtime-Deadline-Ms: 4102444800000\r\n\
    Lambda-Runtime-Invoked-Function-Arn: arn:aws:lambda:us-east-1:000000000000:function:stub\r\n\r\n{}";

/// The answer to a result.
const ACCEPTED: &[u8] = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";

/// A program with its runtime interface; killed when it is dropped.
struct Stub {
    child: Child,
    address: SocketAddr,
    has_ended: Arc<AtomicBool>,
    events: Sender<()>,
    results: Receiver<()>,
}

impl Stub {
    fn start(program: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has an address");
        let has_ended = Arc::new(AtomicBool::new(false));
        let ((events, waiting), (told, results)) = (channel(), channel());
        let ended = Arc::clone(&has_ended);
        drop(std::thread::spawn(move || serve(&listener, waiting, &told, &ended)));
        let mut command = Command::new(program);
        command.env_clear().env("AWS_LAMBDA_RUNTIME_API", address.to_string());
        for (name, value) in [
            ("AWS_LAMBDA_FUNCTION_NAME", "stub"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128"),
            ("_HANDLER", "bootstrap"),
        ] {
            command.env(name, value);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Self {
            child: command.spawn().expect("the program starts"),
            address,
            has_ended,
            events,
            results,
        }
    }

    fn call(&mut self) {
        self.events.send(()).expect("the stub serves");
        self.results.recv().expect("the program answers");
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it has ended by itself
        let _ = self.child.wait();
        self.has_ended.store(true, Ordering::Relaxed);
        // The listener waits for a connection: this one lets it see the end.
        let _ = TcpStream::connect(self.address);
    }
}

/// Serves each connection of the program until the stub ends.
fn serve(listener: &TcpListener, waiting: Receiver<()>, told: &Sender<()>, has_ended: &AtomicBool) {
    let waiting = Arc::new(Mutex::new(waiting));
    for stream in listener.incoming().map_while(Result::ok) {
        if has_ended.load(Ordering::Relaxed) {
            return;
        }
        let (waiting, told) = (Arc::clone(&waiting), told.clone());
        // A connection that the program closes, or leaves at its end, is no failure.
        drop(std::thread::spawn(move || answer(stream, &waiting, &told)));
    }
}

fn answer(mut stream: TcpStream, waiting: &Mutex<Receiver<()>>, told: &Sender<()>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(head) = request(&mut reader)? {
        if !head.starts_with("GET") {
            // The stub is dropped before its last connection.
            let _ = told.send(());
            stream.write_all(ACCEPTED)?;
        } else if waiting.lock().is_ok_and(|waiting| waiting.recv().is_ok()) {
            stream.write_all(EVENT)?;
        } else {
            break;
        }
    }
    Ok(())
}

/// Reads a request, and returns its head; nothing at the end of the connection.
fn request(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(None);
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<u64>().ok()).flatten()
    });
    io::copy(&mut reader.take(length.unwrap_or_default()), &mut io::sink())?;
    Ok(Some(head))
}
