//! Messages of NATS: what fnd adds to one beside a bare consumer of the same client library, how many a second it handles, what
//! messages that wait on the server cost it, how large a claim is, and how soon another node goes on when one is gone.
//!
//! Files:
//! - `bare`: the bare consumer
//! - `journal`: the messages that a function has handled
//! - `takeover`: a node that is killed, and another one

mod bare;
mod journal;
mod takeover;

use crate::http::{Caller, Server};
use crate::load::run_at;
use crate::memory::memory_of;
use crate::table::{ROUNDS, Table, Times};
use bare::BareConsumer;
use fnd_tests::nats::{NatsClient, NatsServer};
use fnd_tests::{Fnd, Setup, install, now, programs, wait_until};
use journal::Journal;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// A measurement that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(600);
/// Warm handlers of each function.
const HANDLERS: usize = 16;
/// Messages of each kind before the first one that counts.
const WARM_UP: usize = 30;

/// Writes how long after its publication it has begun, unless it is called without a message. It can be held up, so that messages
/// wait before they are handled.
const HANDLER: &str = "import os, time
HELD = os.path.join(os.environ['STATE_DIRECTORY'], 'held')
JOURNAL = os.open(os.path.join(os.environ['STATE_DIRECTORY'], 'journal'), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
def handler(event, context):
    begun = time.time_ns()
    published = event['data']
    while os.path.exists(HELD):
        time.sleep(0.01)
    if published:
        os.write(JOURNAL, b'%d\\n' % (begun - published))
";

/// Measures everything, with so many messages that wait.
pub(crate) fn measure(rounds: usize, waiting: usize, table: &mut Table) {
    if programs::nats().is_none() {
        table.value("nats-server", "not installed: scripts/setup.sh --ci".to_owned());
        return;
    }
    let server = NatsServer::start();
    let client = server.client();
    let mut setup = setup(&server, "bench");
    for ack in ["done", "accept"] {
        client.make_stream(stream_of(ack), &[subject_of(ack).as_str()], "workqueue");
        let file = format!("{ack}.py");
        setup = setup.file(&file, &install::with_manifest(&file, &manifest(ack), HANDLER));
    }
    client.make_stream(stream_of("bare"), &[subject_of("bare").as_str()], "workqueue");
    let mut fnd = Fnd::prepare(&setup);
    let _run = crate::run_directory_in_memory(&fnd);
    fnd.launch();
    for ack in ["done", "accept"] {
        fnd.wait_ready(ack);
        client.wait_consumer(stream_of(ack), &format!("fnd-{ack}"));
    }
    let mut bench = Bench { server, client, fnd };
    bench.one_by_one(rounds, table);
    bench.many(waiting, table);
    bench.register(table);
    bench.fnd.stop();
    takeover::measure(&bench.server, &bench.client, if rounds < 100 { 1 } else { 3 }, table);
}

/// Returns the set-up of a node with the profile that functions have on a machine.
fn setup(server: &NatsServer, node: &str) -> Setup {
    let config = format!(
        "[events.nats]\nservers = \"{}\"\nnode = \"{node}\"\n{}",
        server.url(),
        crate::AS_SHIPPED
    );
    Setup::default().config(&config)
}

fn manifest(ack: &str) -> String {
    format!(
        "[[nats]]\nsubject = \"{ack}.>\"\nstream = \"{}\"\nack = \"{ack}\"\n[pool]\nmin = {HANDLERS}\nmax = {HANDLERS}\n",
        stream_of(ack)
    )
}

fn stream_of(name: &str) -> &'static str {
    match name {
        "done" => "DONE",
        "accept" => "ACCEPT",
        _ => "BARE",
    }
}

fn subject_of(name: &str) -> String {
    format!("{name}.>")
}

/// Returns the wall clock, which handlers have as well, in nanoseconds.
fn now_ns() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_nanosecond()).expect("a time after 1970")
}

/// A server, and a node with both functions.
struct Bench {
    server: NatsServer,
    client: NatsClient,
    fnd: Fnd,
}

impl Bench {
    /// One message after the other, each published when the one before has begun; a block of one kind after a block of the other.
    fn one_by_one(&self, rounds: usize, table: &mut Table) {
        let block = rounds.div_ceil(ROUNDS);
        let bare = BareConsumer::begin(&self.server.url(), stream_of("bare"), &subject_of("bare"));
        let mut times: [Vec<Duration>; 3] = Default::default();
        for round in 0..=ROUNDS {
            let count = if round == 0 { WARM_UP } else { block };
            let of_bare = (0..count).map(|_| {
                self.publish("bare");
                let time = bare.next(PATIENCE);
                // Those of fnd are as far apart, since their journal is looked at.
                fnd_tests::wait::pause();
                time
            });
            let of_bare: Vec<Duration> = of_bare.collect();
            let [of_done, of_accept] = ["done", "accept"].map(|ack| self.begin_one_by_one(ack, count));
            if round > 0 {
                for (all, some) in times.iter_mut().zip([of_bare, of_done, of_accept]) {
                    all.extend(some);
                }
            }
        }
        bare.end();
        let [bare, done, accept] = times.map(Times::new);
        table.times("bare consumer: published until received", &bare, &bare);
        for (ack, times) in [("done", done), ("accept", accept)] {
            let what = format!("fnd, ack = \"{ack}\"");
            table.times(&format!("{what}: published until its handler has begun"), &times, &bare);
            let added = |percent| {
                let [with, without] = [&times, &bare].map(|times| times.percentile(percent).as_secs_f64());
                (with - without) * 1e3
            };
            table.value(
                &format!("{what}: added, p50 / p99"),
                format!("{:.3} / {:.3} ms", added(50), added(99)),
            );
        }
    }

    /// Publishes a message with the time as its payload.
    fn publish(&self, name: &str) {
        let subject = format!("{name}.one");
        self.client.publish(&subject, &[], &now_ns().to_string());
    }

    /// Publishes so many messages, and returns how long each took until its handler had begun.
    fn begin_one_by_one(&self, ack: &str, count: usize) -> Vec<Duration> {
        let mut journal = self.journal(ack);
        for number in 1..=count {
            self.publish(ack);
            wait_until("the message to be handled", PATIENCE, || {
                (journal.count() >= number).then_some(())
            });
        }
        journal.into_times()
    }

    /// Messages that wait on the server while all handlers are busy, and then are handled.
    fn many(&self, waiting: usize, table: &mut Table) {
        let per_second =
            |count: usize, time: Duration| f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / time.as_secs_f64();
        for _ in 0..waiting {
            self.publish("bare");
        }
        let begun = now();
        let bare = BareConsumer::begin(&self.server.url(), stream_of("bare"), &subject_of("bare"));
        for _ in 0..waiting {
            bare.next(PATIENCE);
        }
        let bare_rate = per_second(waiting, begun.elapsed());
        bare.end();
        table.value(
            &format!("bare consumer: {waiting} messages"),
            format!("{bare_rate:.0}/s"),
        );
        let server = Server::Unix(self.fnd.socket());
        let called = run_at(
            (HANDLERS, 20),
            waiting,
            || Caller::open(&server, "/v1/functions/done/invoke"),
            Caller::call,
        );
        table.load(
            &format!("fnd: the same handler, called, {HANDLERS} at once"),
            &called,
            &called,
        );
        for ack in ["done", "accept"] {
            let what = format!("fnd, ack = \"{ack}\"");
            self.memory(&format!("{what}: RSS / PSS, nothing pending"), table);
            let held = self.home(ack).join("held");
            fs::write(&held, "").expect("the function has a home");
            let mut journal = self.journal(ack);
            for _ in 0..waiting {
                self.publish(ack);
            }
            let consumer = format!("fnd-{ack}");
            // With `accept`, a message is acknowledged when it is here, so that none is both here and not acknowledged.
            let rest = u64::try_from(waiting.saturating_sub(HANDLERS)).unwrap_or(u64::MAX);
            wait_until("the handlers to be busy", PATIENCE, || {
                (self.client.waiting(stream_of(ack), &consumer).0 <= rest).then_some(())
            });
            self.memory(&format!("{what}: RSS / PSS, {waiting} pending on the server"), table);
            let begun = now();
            fs::remove_file(held).expect("the functions are let go");
            wait_until("all messages to be handled", PATIENCE, || {
                (journal.count() >= waiting).then_some(())
            });
            self.client.wait_acknowledged(stream_of(ack), &consumer);
            let rate = per_second(waiting, begun.elapsed());
            table.value(
                &format!("{what}: {waiting} messages, {HANDLERS} warm handlers"),
                format!(
                    "{rate:.0}/s, {:.2}x bare, {:.2}x called",
                    rate / bare_rate,
                    rate / called.rates.median()
                ),
            );
        }
    }

    /// The size of a claim, and the time for an answer of the server, with which each claim is written.
    fn register(&self, table: &mut Table) {
        let bucket = self.client.stream("KV_fnd-claims").expect("fnd has made the bucket");
        let [claims, bytes] = ["messages", "bytes"].map(|key| bucket["state"][key].as_u64().unwrap_or(0));
        let each = bytes.checked_div(claims).unwrap_or(0);
        table.value(
            "a claim in the bucket, as the server stores it",
            format!("{each} bytes"),
        );
        let view: serde_json::Value =
            serde_json::from_str(&self.fnd.client().get("/v1/nats").text()).unwrap_or_default();
        let took = view["round_trip_ms"].as_f64().unwrap_or_default();
        table.value(
            "round trip to the server, as `fndctl nats` shows it",
            format!("{took:.2} ms"),
        );
    }

    fn memory(&self, what: &str, table: &mut Table) {
        let (resident, proportional) = memory_of(self.fnd.pid()).unwrap_or_default();
        table.value(what, format!("{resident} / {proportional} KiB"));
    }

    fn home(&self, function: &str) -> PathBuf {
        self.fnd.path("state/home").join(function)
    }

    fn journal(&self, function: &str) -> Journal {
        Journal::from_now(self.home(function).join("journal"))
    }
}
