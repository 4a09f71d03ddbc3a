//! The user whose process has the other end of a connection. Where a function has the network of the machine, every process on
//! it reaches the shim's port.

use rustix::process::geteuid;
use std::io;
use std::net::SocketAddrV4;

/// The kernel's tables of connections (proc_net(5)). A client with an IPv6 socket, as Java has, is in the second one.
const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];

/// How often the tables are read if the row is in none: the kernel writes a table in pieces, and leaves out a row if others go
/// meanwhile.
const READS: usize = 3;

/// Says whether the process with the other end of a connection has the same user as this one. `from` is its address, `to` that
/// of this process. Both count whole: another user can connect from another address of the loopback, with the port of a
/// connection that is this user's.
///
/// # Errors
/// The kernel's first table cannot be read. The second one is missing where there is no IPv6.
pub(super) fn is_own(from: SocketAddrV4, to: SocketAddrV4) -> io::Result<bool> {
    let [first, second] = TABLES;
    for _ in 0..READS {
        let found = user_of(&std::fs::read_to_string(first)?, from, to)
            .or_else(|| user_of(&std::fs::read_to_string(second).ok()?, from, to));
        if let Some(user) = found {
            return Ok(user == geteuid().as_raw());
        }
    }
    Ok(false)
}

/// Returns the user of the connection between two addresses, by the row of the socket at its first end; nothing if no process
/// has that socket any more.
fn user_of(table: &str, from: SocketAddrV4, to: SocketAddrV4) -> Option<u32> {
    let (from, to) = (words(from), words(to));
    table.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, remote) = (fields.next()?, fields.next()?);
        if !from.iter().zip(&to).any(|(from, to)| local == from && remote == to) {
            return None;
        }
        // Behind them: state, queues, timer, retransmits, user; timeout, inode.
        let (user, inode) = (fields.nth(4)?, fields.nth(1)?);
        // The kernel calls a socket that its process has closed one of root, and gives it this inode.
        if inode == "0" { None } else { user.parse().ok() }
    })
}

/// Returns an address as the kernel prints it, for a socket of IPv4 and for one of IPv6.
fn words(address: SocketAddrV4) -> [String; 2] {
    // The kernel prints the words of an address as numbers of this machine, and the port as it is.
    let word = u32::from_ne_bytes(address.ip().octets());
    let mapped = u32::from_ne_bytes([0, 0, 0xff, 0xff]);
    let port = address.port();
    [
        format!("{word:08X}:{port:04X}"),
        format!("{:016X}{mapped:08X}{word:08X}:{port:04X}", 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

    const HEAD: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
    #[cfg(target_endian = "little")]
    const ROWS: &str = "   0: 0100007F:9C40 00000000:0000 0A 00000000:00000000 00:00000000 00000000   101        0 1 1 0 100 0 0 10 0
   1: 0100007F:9C40 0100007F:9C41 01 00000000:00000000 00:00000000 00000000   102        0 2 1 0 100 0 0 10 0
   2: 0100007F:9C41 0100007F:9C40 01 00000000:00000000 02:000005DC 00000000  1003        0 3 1 0 100 0 0 10 0
   3: 0000000000000000FFFF00000100007F:9C42 0000000000000000FFFF00000100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4
   4: broken
   5: 0200007F:9C41 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1004        0 5 1 0 100 0 0 10 0
   6: 0100007F:9C44 0100007F:9C40 05 00000000:00000000 00:00000000 00000000     0        0 0 1 0 100 0 0 10 0
   7: 0100007F:9C45 0100007F:9C40 06 00000000:00000000 03:00001770 00000000     0        0 0 3 0
";

    fn at(last: u8, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, last), port)
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn the_user_is_that_of_the_clients_row() {
        let table = format!("{HEAD}{ROWS}");
        for (from, expected) in [
            (at(1, 40_001), Some(1003)),
            // The same port of another address.
            (at(2, 40_001), Some(1004)),
            (at(3, 40_001), None),
            (at(1, 40_002), Some(0)),
            (at(1, 40_003), None),
            // Its process has closed it.
            (at(1, 40_004), None),
            (at(1, 40_005), None),
        ] {
            assert_eq!(user_of(&table, from, at(1, 40_000)), expected, "{from}");
        }
        assert_eq!(user_of(HEAD, at(1, 40_001), at(1, 40_000)), None);
    }

    #[test]
    fn a_connection_of_this_process_is_its_own() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let [from, to] = [client.local_addr(), client.peer_addr()].map(|address| match address.unwrap() {
            SocketAddr::V4(address) => address,
            SocketAddr::V6(address) => panic!("{address}"),
        });
        assert!(is_own(from, to).unwrap());
        assert!(!is_own(to, SocketAddrV4::new(*from.ip(), from.port().wrapping_add(1))).unwrap());
        // Another user could have this address.
        assert!(!is_own(at(2, from.port()), to).unwrap());
    }
}
