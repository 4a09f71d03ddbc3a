//! Connections, local sockets.

use crate::common::privileged;
use crate::{PROFILES, can, expect, python, said, start};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Two services of the machine, as Python constants. `OPEN` is the one that a test may allow.
fn services() -> (TcpListener, TcpListener, String) {
    let [open, closed] = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let [first, second] = [&open, &closed].map(|listener| listener.local_addr().unwrap().port());
    let constants = format!(
        "OPEN, CLOSED, SENDMMSG, RING = {first}, {second}, {}, {}\n",
        libc::SYS_sendmmsg,
        libc::SYS_io_uring_setup
    );
    (open, closed, constants)
}

/// Tries each kind of connection that a program can open.
const CONNECT: &str = r"
FAST_OPEN = 0x20000000
def tcp(port, protocol=0):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol) as one:
        one.connect(('127.0.0.1', port))
def fast(port):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.sendto(b'x', FAST_OPEN, ('127.0.0.1', port))
def fast_message(port):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.sendmsg([b'x'], [], FAST_OPEN, ('127.0.0.1', port))
def fast_many(port):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        if libc.syscall(ctypes.c_long(SENDMMSG), one.fileno(), bytes(64), 1, FAST_OPEN) < 0:
            raise OSError(ctypes.get_errno(), '')
for name, port in [('open', OPEN), ('closed', CLOSED)]:
    say(name, lambda: tcp(port))
    say(name + '-multipath', lambda: tcp(port, 262))
    say(name + '-fast', lambda: fast(port))
    say(name + '-message', lambda: fast_message(port))
    say(name + '-many', lambda: fast_many(port))
def inside():
    with socket.create_server(('127.0.0.1', 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            server.accept()[0].send(b'inside')
            return client.recv(10).decode()
say('inside', inside)
say('udp', lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close())
say('six', lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM).close())
say('sctp', lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132).close())
say('smc', lambda: socket.socket(43, socket.SOCK_STREAM, 0).close())
call('ring', RING, 0, 0)
say('route', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close())
say('diagnosis', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4).close())
say('packet', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3).close())
say('vsock', lambda: socket.socket(40, socket.SOCK_STREAM).close())
say('alg', lambda: socket.socket(38, socket.SOCK_SEQPACKET).close())
say('pair', lambda: socket.socketpair()[0].close())
say('interfaces', lambda: ','.join(name for _, name in socket.if_nameindex()))
";

#[test]
fn without_a_network_there_are_local_sockets_only() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    if !can(&harness, "network") || !can(&harness, "seccomp") {
        return;
    }
    let (_open, _closed, ports) = services();
    for profile in ["strict", "standard"] {
        let lines = format!("profile={profile}\nnetwork=none");
        let got = python(&mut harness, profile, &lines, &format!("{ports}{CONNECT}"));
        let refused = ["open", "closed", "inside", "udp", "six", "packet", "vsock", "alg", "open-multipath"];
        expect(&got, profile, &refused.map(|name| (name, "EPERM")));
        expect(&got, profile, &[("pair", "ok")]);
    }
    // In profile off there is no filter, but the network is one without an interface that is up.
    let got = python(&mut harness, "off", "profile=off\nnetwork=none", &format!("{ports}{CONNECT}"));
    for name in ["open", "closed", "open-fast", "closed-message"] {
        assert_eq!(said(&got, name), "ENETUNREACH", "{got}");
    }
}

#[test]
fn the_loopback_network_reaches_nothing_of_the_machine() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    if !can(&harness, "network") {
        return;
    }
    let (_open, _closed, ports) = services();
    for profile in PROFILES {
        let lines = format!("profile={profile}\nnetwork=loopback");
        let got = python(&mut harness, profile, &lines, &format!("{ports}{CONNECT}"));
        expect(&got, profile, &["open", "closed", "open-fast"].map(|name| (name, "ECONNREFUSED")));
        expect(&got, profile, &[("inside", "inside"), ("udp", "ok"), ("pair", "ok")]);
        expect(&got, profile, &[("route", "ok"), ("diagnosis", if profile == "strict" { "EPERM" } else { "ok" })]);
        if profile != "off" {
            expect(&got, profile, &["packet", "vsock", "alg"].map(|name| (name, "EPERM")));
        }
    }
}

#[test]
fn only_the_named_ports_can_be_connected_to() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    if !can(&harness, "landlock") {
        return;
    }
    let (open, _closed, ports) = services();
    let port = open.local_addr().unwrap().port();
    for profile in PROFILES {
        let lines = format!("profile={profile}\nnetwork={port},1");
        let got = python(&mut harness, profile, &lines, &format!("{ports}{CONNECT}"));
        expect(&got, profile, &[("open", "ok"), ("closed", "EACCES"), ("pair", "ok")]);
        // Kinds of TCP that Landlock does not see, and another address family that can use TCP (AF_SMC).
        let hidden = ["closed-multipath", "closed-fast", "closed-message", "closed-many", "sctp", "smc", "ring"];
        expect(&got, profile, &hidden.map(|name| (name, "EPERM")));
        // Another function has the machine's network.
        let lines = format!("profile={profile}");
        let got = python(&mut harness, &format!("{profile}-host"), &lines, &format!("{ports}{CONNECT}"));
        expect(&got, profile, &[("open", "ok"), ("closed", "ok"), ("inside", "inside")]);
    }
}

#[test]
fn abstract_sockets_of_others_are_out_of_reach() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    if !can(&harness, "landlock") {
        return;
    }
    let name = format!("fnd-sandbox-{}", std::process::id());
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let script = format!(
        "say('other', lambda: socket.socket(socket.AF_UNIX).connect('\\0{name}'))\n\
         server = socket.socket(socket.AF_UNIX)\nserver.bind('\\0{name}' + str(os.getpid()))\nserver.listen()\n\
         say('own', lambda: socket.socket(socket.AF_UNIX).connect(server.getsockname().decode()))\n"
    );
    for profile in PROFILES {
        let got = python(&mut harness, profile, &format!("profile={profile}"), &script);
        let other = if profile == "off" { "ok" } else { "EPERM" };
        expect(&got, profile, &[("other", other), ("own", "ok")]);
    }
}
