//! Checks whether the journal listens: fnd's log and the output of functions go there. fnd also works without it.

use super::finding::Finding;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

const CHECK: &str = "journal";

/// The socket on which the journal receives records (systemd-journald.service(8)).
pub(crate) const SOCKET: &str = "/run/systemd/journal/socket";

/// Returns whether a process listens on the socket; else the reason.
pub(crate) fn inspect(socket: &Path) -> Result<(), ErrorKind> {
    // Connecting a datagram socket sends nothing, so no record appears in the journal.
    let connected = UnixDatagram::unbound().and_then(|datagram| datagram.connect(socket));
    connected.map_err(|error| error.kind())
}

pub(crate) fn judge(reached: &Result<(), ErrorKind>) -> Vec<Finding> {
    let start = "sudo systemctl start systemd-journald.socket systemd-journald.service";
    let found = match reached {
        Ok(()) => Finding::ok(CHECK, "it listens"),
        Err(ErrorKind::NotFound) => Finding::warning(CHECK, "there is no journal: fnd's log is lost").fix(start),
        Err(ErrorKind::PermissionDenied) => {
            Finding::unknown(CHECK, "this user may not use its socket").fix("run doctor as root")
        }
        Err(_) => Finding::warning(CHECK, "no process listens: fnd's log is lost").fix(start),
    };
    vec![found.at(SOCKET)]
}

#[cfg(test)]
mod tests {
    use super::super::tests::brief;
    use super::*;

    #[test]
    fn a_journal_that_does_not_listen_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        assert_eq!(inspect(&path), Err(ErrorKind::NotFound));
        let listening = UnixDatagram::bind(&path).unwrap();
        assert_eq!(inspect(&path), Ok(()));
        drop(listening);
        assert_eq!(inspect(&path), Err(ErrorKind::ConnectionRefused));
        for (reached, expected) in [
            (Ok(()), "ok"),
            (Err(ErrorKind::NotFound), "warning"),
            (Err(ErrorKind::ConnectionRefused), "warning"),
            (Err(ErrorKind::PermissionDenied), "unknown"),
        ] {
            assert!(brief(&judge(&reached))[0].starts_with(expected));
        }
    }
}
