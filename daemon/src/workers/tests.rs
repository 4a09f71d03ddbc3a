use super::*;
use crate::buffers::Buffers;
use crate::effects::fuse;
use crate::output::AttemptOutput;
use crate::output::{Output, Piped, SpoolPlaces};
use crate::workers::environment::tests::order;
use crate::workers::requests::Starting;
use fnd_core::run::CallOrder;
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Containment, Masked, MemoryGroups, PROTOCOL_0_1, PROTOCOL_MAX, RetainedWorker, Spawned, decode};
use fnd_wire::ids::Attempt;
use fnd_wire::mask::Masks;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
use std::fs::File;
use std::io::{Read as _, Write as _};
use tokio::task::LocalSet;

const WORKER: WorkerId = WorkerId(7);

/// The part, and the spawner's end of its connection.
fn workers() -> (Workers, OwnedFd) {
    let (ours, spawner) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let welcome = Welcome {
        protocol: PROTOCOL_0_1,
        version: String::new(),
        containment: Containment::Cgroup,
        layout: String::new(),
        missing: Vec::new(),
        next_worker: WORKER,
        functions_dirs: Vec::new(),
        memory: MemoryGroups::None,
    };
    let inbox = Inbox::new(|_| false);
    let connection = SpawnerConnection::new(ours).unwrap();
    let workers = Workers::new(
        connection,
        (welcome, std::path::PathBuf::new()),
        None,
        (
            Clock::start(),
            inbox,
            Buffers::new(1 << 20, std::path::PathBuf::from("/nonexistent")),
        ),
        Arc::new(|_, _| ()),
    );
    (workers, spawner)
}

/// Returns the requests that the spawner has received.
fn requests(spawner: &OwnedFd) -> Vec<Request> {
    let mut packet = vec![0; 32 << 10];
    let mut requests = Vec::new();
    while let Ok((_, bytes)) = recv(spawner, &mut packet[..], RecvFlags::DONTWAIT) {
        let (_, request) = decode::<Request>(&packet[1..bytes]).unwrap();
        requests.push(request);
    }
    requests
}

fn attached(kill: Option<OwnedFd>, member: Option<WarmWorker>) -> Attached {
    Attached {
        kill,
        result: None,
        member,
        readiness_probe: None,
        tmp: Some((FunctionId(3), InvocationId(4))),
    }
}

fn local(test: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    LocalSet::new().block_on(&runtime.unwrap(), test());
}

fn release() -> Request {
    Request::Release(Release {
        function: FunctionId(3),
        invocation: InvocationId(4),
    })
}

#[test]
fn a_worker_is_killed_by_its_descriptor_or_by_the_spawner() {
    local(async || {
        let (mut workers, spawner) = workers();
        let (reading, writing) = std::io::pipe().unwrap();
        workers.attached.insert(WORKER, attached(Some(writing.into()), None));
        workers.kill(WORKER);
        let mut written = [0];
        File::from(OwnedFd::from(reading)).read_exact(&mut written).unwrap();
        assert_eq!((written, requests(&spawner)), (*b"1", vec![]));
        // Nobody reads the pipe any more: writing fails, as for a cgroup that is gone.
        workers.kill(WORKER);
        workers.kill(WorkerId(8));
        assert_eq!(requests(&spawner), [Request::Kill(WORKER), Request::Kill(WorkerId(8))]);
    });
}

#[test]
fn a_worker_that_is_gone_leaves_nothing() {
    local(async || {
        let (mut workers, spawner) = workers();
        workers.attached.insert(WORKER, attached(None, None));
        assert!(matches!(workers.detach(WORKER), (None, calls) if calls.is_empty()));
        assert_eq!(requests(&spawner), [release()]);
        workers.detach(WORKER);
        assert_eq!(requests(&spawner), []);
    });
}

#[test]
fn a_lease_is_for_a_worker_that_is_there() {
    local(async || {
        let (mut workers, spawner) = workers();
        workers.attached.insert(WORKER, attached(None, None));
        let deadline = Some(Duration::from_micros(5_000_999));
        workers.lease(WORKER, deadline);
        assert_eq!(requests(&spawner), [], "a spawner of fnd 0.1 would end the connection");
        workers.welcome.protocol = PROTOCOL_MAX;
        let lease = |worker, until_ms| Request::Lease(Lease { worker, until_ms });
        workers.lease(WORKER, deadline);
        workers.lease(WORKER, None);
        let both = [lease(WORKER, Some(5000)), lease(WORKER, None)];
        assert_eq!(requests(&spawner), both);
        workers.detach(WORKER);
        workers.lease(WORKER, None);
        assert_eq!(requests(&spawner), [release()], "fnd may have acknowledged its end");

        let started = WorkerId(8);
        let order = order(None);
        let meta = AttemptOutput {
            function: order.function,
            invocation: InvocationId(4),
            attempt: Attempt(1),
            output_max: 1,
            result_max: 1,
            cgi: false,
            mask: None,
        };
        let starting = Starting {
            worker: started,
            meta,
            rules: order.rules,
            tmp: None,
            endpoint: Default::default(),
        };
        workers.pending.insert(1, PendingRequest::Spawn(Box::new(starting)));
        workers.lease(started, deadline);
        assert_eq!(requests(&spawner), [lease(started, Some(5000))]);
    });
}

#[test]
fn a_broken_connection_takes_no_request() {
    local(async || {
        let (mut workers, spawner) = workers();
        assert_eq!((workers.send(&release(), Vec::new()), workers.is_cut), (Some(1), false));
        drop(spawner);
        assert_eq!((workers.send(&release(), Vec::new()), workers.is_cut), (None, true));
        workers.connection = None;
        assert_eq!(workers.send(&release(), Vec::new()), None);
    });
}

/// Returns the output thread, with its files in this directory.
fn output_in(dir: &std::path::Path) -> Output {
    let spool = SpoolPlaces {
        state: dir.join("spool"),
        memory: dir.join("memory"),
    };
    Output::start(dir.join("logs"), spool, Default::default(), Box::new(|_, _| {})).unwrap()
}

/// Returns a call of the worker, with the number 5.
fn call_order() -> CallOrder {
    let order = order(Some(b"17"));
    CallOrder {
        worker: WORKER,
        call: 5,
        function: order.function,
        rules: order.rules,
        attempt: order.attempt.unwrap(),
    }
}

/// Returns the ends of the worker's output.
fn piped(call: &CallOrder) -> Piped {
    Piped {
        worker: WORKER,
        stdout: std::io::pipe().unwrap().0.into(),
        stderr: std::io::pipe().unwrap().0.into(),
        meta: AttemptOutput {
            function: call.function.clone(),
            invocation: call.attempt.invocation,
            attempt: call.attempt.attempt,
            output_max: 1,
            result_max: 1,
            cgi: false,
            mask: None,
        },
    }
}

/// Attaches the worker, and returns its end of the socket.
fn attach(workers: &mut Workers, call: &CallOrder, output: &Output) -> std::os::unix::net::UnixStream {
    let (ours, worker) = std::os::unix::net::UnixStream::pair().unwrap();
    let channel = (Some(ours.into()), None);
    let member = workers.take_on(WORKER, channel, &call.rules, (output, piped(call), vec![]));
    workers.attached.insert(WORKER, attached(None, member));
    worker
}

/// fnd is killed after the first of the two.
#[test]
fn the_spawner_knows_when_a_call_ends_with_the_lease_before_the_worker_gets_it() {
    local(async || {
        let dir = tempfile::tempdir().unwrap();
        let output = output_in(dir.path());
        let (mut workers, spawner) = workers();
        workers.welcome.protocol = PROTOCOL_MAX;
        let call = call_order();
        let worker = attach(&mut workers, &call, &output);
        worker.set_nonblocking(true).unwrap();
        let deadline = Some(Duration::from_secs(5));
        fuse::set(Some(1));
        assert!(workers.call(&call, deadline).is_none());
        fuse::set(None);
        let lease = Lease {
            worker: WORKER,
            until_ms: Some(5000),
        };
        assert_eq!(requests(&spawner), [Request::Lease(lease)]);
        let mut head = [0; 16];
        assert!((&worker).read_exact(&mut head).is_err(), "nothing has reached it");
        output.stop();
    });
}

#[test]
fn a_call_reaches_its_worker_and_ends_once() {
    local(async || {
        let dir = tempfile::tempdir().unwrap();
        let output = output_in(dir.path());
        let (mut workers, spawner) = workers();
        let call = call_order();
        assert!(
            workers.call(&call, None).is_none(),
            "a worker that is gone is reported otherwise"
        );
        let none = workers.take_on(WORKER, (None, None), &call.rules, (&output, piped(&call), vec![]));
        assert!(none.is_none(), "fnd cannot reach it");
        let worker = attach(&mut workers, &call, &output);
        assert!(workers.call(&call, None).is_none());
        assert_eq!(requests(&spawner), [], "it does not end with a lease");
        // The head of a message: its length, its type, the number of the call.
        let mut head = [0; 16];
        (&worker).read_exact(&mut head).unwrap();
        assert_eq!(head[8..], 5_u64.to_le_bytes());
        let key = (call.attempt.invocation, Attempt(2));
        assert!(workers.end_call(WORKER, 5).is_none_or(|ended| ended == key));
        assert_eq!(workers.end_call(WORKER, 5), None);
        output.stop();
    });
}

/// Returns a worker that the spawner holds, whose standard output has these bytes.
fn held(record: &[u8], printed: &[u8]) -> (RetainedWorker, Vec<OwnedFd>) {
    let spawned = Spawned {
        worker: WORKER,
        pid: 17,
        stdout: true,
        stderr: true,
        result: false,
        kill: false,
    };
    let held = RetainedWorker {
        spawned,
        age_ms: 1,
        termed: None,
        record: Bytes(record.to_vec()),
    };
    let (out, mut printing) = std::io::pipe().unwrap();
    printing.write_all(printed).unwrap();
    (held, vec![out.into(), std::io::pipe().unwrap().0.into()])
}

#[test]
fn an_adopted_worker_is_masked_with_what_the_spawner_reports() {
    local(async || {
        let dir = tempfile::tempdir().unwrap();
        let logs = dir.path().join("logs");
        let output = output_in(dir.path());
        let (mut workers, _spawner) = workers();
        let record = include_bytes!("../../../tests/fuzz/seeds/notes/attempt");
        let masks = Masks::of(1 << 60, [&b"hunter22"[..]]).unwrap();
        let of = |worker| Masked {
            worker,
            masks: masks.clone(),
        };
        let held = adoption::read(vec![held(record, b"is hunter22\n")], Default::default());
        let (adopted, _) = workers.attach_held((held, vec![of(WORKER), of(WorkerId(8))]), &output);
        assert_eq!(adopted.len(), 1);
        assert!(workers.masks.of(WORKER).is_some() && workers.masks.of(WorkerId(8)).is_none());
        let (done, ended) = std::sync::mpsc::channel();
        output.finish(WORKER, None, move |captured| done.send(captured).unwrap());
        let captured = ended.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
        assert_eq!((captured.stdout_bytes, &*captured.last_lines), (12, "is ***"));
        let function = &adopted[0].record.function;
        let kept = crate::output::log_store::read(&logs, std::slice::from_ref(function), &Default::default());
        let texts: Vec<String> = kept.map(|line| line.text).collect();
        assert_eq!(texts[0], "is ***");
        output.stop();
    });
}
