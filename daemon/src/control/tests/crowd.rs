//! Many callers: those that left, those that only follow, those that do not read or say nothing.

use super::http::{connect, get, load, run_stuck, take_apart, wait_until};
use crate::control::limits::{CONNECTIONS_MAX, CONNECTIONS_OF_ONE};
use crate::peer::{Holder, PeerAccess, RoleGrant};
use crate::start::tests::small::Running;
use fnd_manifest::settings::Role;
use rustix::process::{Gid, Uid};
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

const INVOKE_STUCK: &[u8] = b"POST /v1/functions/stuck/invoke HTTP/1.1\r\nhost: fnd\r\n\r\n";

#[test]
fn callers_that_left_keep_no_place() {
    let server = Running::start();
    let socket = &server.socket;
    for _ in 0..CONNECTIONS_MAX / 50 + 2 {
        let (running, _) = load(socket);
        let mut callers: Vec<_> = (0..50).map(|_| connect(socket)).collect();
        callers
            .iter_mut()
            .for_each(|caller| caller.write_all(INVOKE_STUCK).unwrap());
        wait_until("every request is being answered", || {
            let (now, queued) = load(socket);
            now + queued == running + 50
        });
        for (number, mut caller) in callers.into_iter().enumerate() {
            match number % 3 {
                0 => {}
                // The caller has closed its half before, or has sent more than was read.
                1 => caller.shutdown(Shutdown::Write).unwrap(),
                _ => caller.write_all(INVOKE_STUCK).unwrap(),
            }
        }
        // Runs that have begun go on. No caller is left for those that wait.
        wait_until("every caller is noticed to have left", || load(socket).1 == 0);
    }
}

#[test]
fn a_caller_that_closed_its_half_is_waited_for() {
    let server = Running::start();
    let socket = &server.socket;
    run_stuck(socket);
    let mut caller = connect(socket);
    caller.write_all(INVOKE_STUCK).unwrap();
    wait_until("the request is being answered", || load(socket) == (1, 1));
    caller.shutdown(Shutdown::Write).unwrap();
    // Others are served in the meantime, and nothing takes this one for gone.
    for _ in 0..100 {
        assert_eq!(get(socket, "/healthz").status, 200);
    }
    assert_eq!(load(socket).1, 1);
    drop(caller);
    wait_until("the caller is noticed to have left", || load(socket).1 == 0);
}

/// Does something as another user, on a thread of its own: the kernel tells the socket's peer what the thread is.
pub(super) fn as_user<T: Send + 'static>(
    uid: u32,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    as_user_of(uid, uid, work)
}

/// Lets every user connect; the role decides what each may do.
pub(super) fn open_to_all(server: &Running) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(server.socket.parent().unwrap(), mode(0o755)).unwrap();
    std::fs::set_permissions(&server.socket, mode(0o666)).unwrap();
}

/// The same as a member of a group.
pub(super) fn as_user_of<T: Send + 'static>(
    uid: u32,
    gid: u32,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::spawn(move || {
        let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_res_gid(group, group, group).unwrap();
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        work()
    })
}

/// Returns an entry of `[[access]]` for the members of a group.
pub(super) fn of_group(gid: u32, role: Role) -> RoleGrant {
    RoleGrant {
        holder: Holder::Group(gid),
        role,
        functions: None,
    }
}

fn follow(socket: &Path) -> UnixStream {
    let mut follower = connect(socket);
    follower
        .write_all(b"GET /v1/logs?follow=1 HTTP/1.1\r\nhost: fnd\r\n\r\n")
        .unwrap();
    // It is one: its answer has begun, or it is told that there are too many.
    let mut first = [0; 1];
    let _ = follower.read(&mut first);
    follower
}

#[test]
fn a_viewer_with_a_thousand_streams_locks_nobody_out() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be other users");
        return;
    }
    let (viewer, other) = (65_531, 65_532);
    let access = PeerAccess {
        own_uid: None,
        entries: vec![of_group(viewer, Role::Viewer), of_group(other, Role::Operator)],
    };
    let server = Running::start_with(access, None);
    open_to_all(&server);
    let socket = server.socket.clone();
    let streams = as_user(viewer, move || {
        (0..CONNECTIONS_MAX).map(|_| follow(&socket)).collect::<Vec<_>>()
    });
    let streams = streams.join().unwrap();
    let alive = streams.iter().filter(|stream| is_open(stream)).count();
    assert_eq!(alive, CONNECTIONS_OF_ONE);
    // The newest are those that are there: each made way for the next of the same user.
    assert!(is_open(&streams[CONNECTIONS_MAX - 1]) && !is_open(&streams[0]));
    let socket = server.socket.clone();
    let asked = as_user(other, move || get(&socket, "/v1/status").status);
    assert_eq!(asked.join().unwrap(), 200);
    assert_eq!(get(&server.socket, "/v1/status").status, 200);
    drop(streams);
}

#[test]
fn a_user_whose_callers_all_wait_is_refused_and_root_is_not() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be other users");
        return;
    }
    let operator = 65_533;
    let access = PeerAccess {
        own_uid: None,
        entries: vec![of_group(operator, Role::Operator)],
    };
    let server = Running::start_with(access, None);
    open_to_all(&server);
    let socket = server.socket.clone();
    let wait = format!(
        "GET /v1/invocations/{}?wait=1h HTTP/1.1\r\nhost: fnd\r\n\r\n",
        run_stuck(&socket)
    );
    let refused = as_user(operator, move || {
        let ask = |caller: &mut UnixStream| caller.write_all(wait.as_bytes()).unwrap();
        let mut waiting: Vec<_> = (0..CONNECTIONS_OF_ONE).map(|_| connect(&socket)).collect();
        waiting.iter_mut().for_each(ask);
        // Until all of them are busy, an idle one makes room for the next. So each further caller that is not refused waits as well.
        let is_full = || {
            let mut refusal = Vec::new();
            let mut caller = connect(&socket);
            caller
                .set_read_timeout(Some(std::time::Duration::from_secs(1)))
                .unwrap();
            let is_refused = caller.read_to_end(&mut refusal).is_ok() && !refusal.is_empty();
            if !is_refused {
                ask(&mut caller);
                waiting.push(caller);
            }
            is_refused
        };
        wait_until("all of them wait", is_full);
        // It need not ask anything to be told.
        let mut refusal = Vec::new();
        connect(&socket).read_to_end(&mut refusal).unwrap();
        (take_apart(&refusal), waiting)
    });
    let (refused, waiting) = refused.join().unwrap();
    assert_eq!((refused.status, refused.code().as_str()), (503, "too-many-connections"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(
        refused.json()["detail"].as_str().unwrap().contains("65533"),
        "{refused:?}"
    );
    assert_eq!(get(&server.socket, "/v1/status").status, 200);
    drop(waiting);
}

/// Says whether the server still has the other end of a follower.
fn is_open(stream: &UnixStream) -> bool {
    let mut stream = stream.try_clone().unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}
