//! The functions in addition to those of the crash tests, and their callers: a script that is moved around, an HTTP
//! server, a service; and callers that break off.

use crate::crash::findings::{Findings, short};
use crate::crash::functions::Journal;
use crate::crash::{drops, follows, slots};
use fastrand::Rng;
use fnd_core::api::Queued;
use fnd_core::records::outcome::RunState;
use fnd_tests::{Client, Fnd};
use fnd_wire::ids::InvocationId;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const MOVES: &str = "# /// fnd
# on_load = false
# [queue]
# max = 50
# [history]
# keep = 1000000
# ///
echo \"begin moves $FND_INVOCATION $FND_ATTEMPT -\" >>GATE/moves
[[ $RANDOM -gt 9000 ]] || sleep 0.0$((RANDOM % 10))
echo \"end moves $FND_INVOCATION $FND_ATTEMPT -\" >>GATE/moves
";

const WEB: &str = r#"# /// fnd
# [http_server]
# listen = "unix"
# [pool]
# max = 2
# [queue]
# max = 20
# [history]
# keep = 1000000
# ///
import http.server, os, socketserver
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def address_string(self): return "fnd"
    def log_message(self, *_): pass
    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        key = f"web {self.headers['fnd-invocation']} {self.headers['fnd-attempt']} -"
        with open("GATE/web", "a") as journal: journal.write(f"begin {key}\n")
        with open("GATE/web", "a") as journal: journal.write(f"end {key}\n")
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
class Unix(socketserver.ThreadingMixIn, socketserver.UnixStreamServer): daemon_threads = True
Unix(os.environ["FND_SOCKET_PATH"], Handler).serve_forever()
"#;

const KEEPER: &str = "#!/usr/bin/env bash
# /// fnd
# [service]
# [retry]
# interval = \"20ms\"
# max_interval = \"200ms\"
# [history]
# keep = 1000000
# ///
echo up
exec sleep 1000
";

/// Returns the files of these functions.
pub(super) fn files() -> Vec<(&'static str, String)> {
    let own = [("moves.sh", MOVES), ("web.py", WEB), ("keeper.sh", KEEPER), slots::FILE];
    let own = own.map(|(file, code)| (file, code.to_owned()));
    own.into_iter().chain(follows::files()).chain([drops::file()]).collect()
}

/// The answers that callers of these functions got.
#[derive(Default)]
pub(super) struct Crowd {
    stop: Arc<AtomicBool>,
    callers: Vec<JoinHandle<Replies>>,
}

#[derive(Default)]
pub(super) struct Replies {
    accepted: BTreeSet<InvocationId>,
    answered: BTreeSet<InvocationId>,
}

impl Crowd {
    pub(super) fn begin(client: &Client, rng: &mut Rng, pauses: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let callers = (0..2).map(|_| {
            let (client, mut rng, stop) = (client.clone(), rng.fork(), Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut replies = Replies::default();
                while !stop.load(Ordering::Relaxed) {
                    replies.ask(&client, rng.u32(..3));
                    (0..pauses).for_each(|_| fnd_tests::wait::pause());
                }
                replies
            })
        });
        let callers = callers.collect();
        Self { stop, callers }
    }

    pub(super) fn end(self) -> Replies {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Replies::default();
        for caller in self.callers {
            let replies = caller.join().expect("a caller that does not panic");
            all.accepted.extend(replies.accepted);
            all.answered.extend(replies.answered);
        }
        all
    }
}

impl Replies {
    fn ask(&mut self, client: &Client, what: u32) {
        let json = [("content-type", "application/json")];
        let path = match what {
            0 => "/v1/functions/moves/invocations",
            1 => "/v1/functions/moves/invoke",
            _ => "/v1/functions/web/http/x",
        };
        let Ok(answer) = client.try_call("POST", path, &json, b"{}") else {
            return;
        };
        if answer.status == 202 {
            self.accepted.insert(answer.json::<Queued>().id);
        } else if answer.status == 200 {
            self.answered
                .extend(answer.header("fnd-invocation").and_then(InvocationId::parse));
        }
    }

    /// Compares the answers with the history. Work accepted for a function that is deleted afterwards may be skipped.
    pub(super) fn check(&self, fnd: &Fnd, journal: &Journal, spawner_killed: bool, found: &mut Findings) {
        for id in self.accepted.union(&self.answered) {
            let answer = fnd.client().get(&format!("/v1/invocations/{id}"));
            if answer.status != 200 {
                found
                    .lost
                    .push(format!("{id} was accepted or answered and is not in the history"));
                continue;
            }
            let view: fnd_core::api::InvocationView = answer.json();
            let begun = journal.begun.keys().any(|(begun, _)| begun == id);
            match view.state {
                RunState::Succeeded if begun => {}
                RunState::Skipped | RunState::Cancelled if !begun && self.accepted.contains(id) => {}
                RunState::Interrupted if spawner_killed && self.accepted.contains(id) => {}
                _ => found
                    .wrong
                    .push(format!("it cannot have ended so (it ran: {begun}): {}", short(&view))),
            }
        }
        for ((id, attempt), count) in &journal.begun {
            if *count > 1 {
                found
                    .doubled
                    .push(format!("attempt {attempt} of {id} ran {count} times"));
            }
            if fnd.client().get(&format!("/v1/invocations/{id}")).status != 200 {
                found.lost.push(format!("{id} ran and is not in the history"));
            }
        }
    }
}

/// Lets callers begin requests and break off, all at once.
pub(super) fn break_off(socket: &Path, count: u32, how: u32, meanwhile: impl FnOnce()) {
    let mut rng = Rng::with_seed(u64::from(how));
    let callers: Vec<Option<UnixStream>> = (0..count).map(|_| break_one(socket, rng.u32(..6)).ok()).collect();
    meanwhile();
    drop(callers);
}

fn break_one(socket: &Path, how: u32) -> std::io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    let time = Some(Duration::from_secs(2));
    stream.set_write_timeout(time)?;
    stream.set_read_timeout(time)?;
    let call = "POST /v1/functions/moves/invoke HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
    match how {
        // Sends nothing.
        0 => {}
        1 => stream.write_all(&call.as_bytes()[..40])?,
        // Announces more bytes than it sends.
        2 => {
            stream.write_all(format!("{call}content-length: 1000\r\n\r\n{{").as_bytes())?;
            stream.shutdown(Shutdown::Write)?;
        }
        3 => stream.write_all(&[0, 255, b'\r', b'\n', b'\r', b'\n'])?,
        // Sends a request and does not wait for the answer.
        4 => stream.write_all(format!("{call}content-length: 2\r\n\r\n{{}}").as_bytes())?,
        // Follows the events, and reads the first bytes.
        _ => {
            stream.write_all(b"GET /v1/stream HTTP/1.1\r\nhost: x\r\n\r\n")?;
            let _ = stream.read(&mut [0; 16])?;
        }
    }
    Ok(stream)
}
