//! The sockets at which functions with `[access]` reach the API. `control/function_sockets.rs` serves them.
//!
//! The spawner makes the directory of a socket ([`SOCKET`](fnd_wire::plan::SOCKET)), which only fnd and the function's
//! group may enter, and shows it in the function's sandbox. So a socket that the next fnd makes is at the same place for
//! a function that runs on.

use crate::http::listen::unix;
use fnd_wire::ids::{FunctionId, FunctionName};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tokio::net::UnixListener;
use tokio::sync::Notify;

/// The file name of a socket, as in [`SOCKET`](fnd_wire::plan::SOCKET).
const NAME: &str = "fnd.sock";

/// Every user may connect who reaches the socket; the service checks its peers.
const MODE: u32 = 0o666;

/// The sockets of functions.
#[derive(Debug, Default)]
pub(crate) struct FunctionSockets {
    /// The directory of their directories.
    dir: Option<PathBuf>,
    open: RefCell<BTreeMap<FunctionName, PathBuf>>,
    /// Sockets that are not served yet, and functions whose socket is closed.
    pub(crate) changes: RefCell<Vec<(FunctionName, Option<UnixListener>)>>,
    pub(crate) changed: Notify,
    pub(crate) stopped: Cell<bool>,
}

impl FunctionSockets {
    /// Returns no sockets yet. `http` is the spawner's directory for the sockets of programs that serve HTTP.
    pub(crate) fn new(http: &std::path::Path) -> Self {
        Self {
            dir: http.parent().map(|run| run.join("api")),
            ..Self::default()
        }
    }

    /// Listens for a function, or no longer. Must run in a runtime.
    pub(crate) fn set(&self, function: &FunctionName, id: Option<FunctionId>) {
        // The path has the number of the function: with its name the path could be longer than the address of a socket
        // may be.
        let path = id.and_then(|id| Some(self.dir.as_ref()?.join(id.0.to_string()).join(NAME)));
        // A new version of the function keeps the socket, and its processes keep their connections.
        if self.open.borrow().get(function) == path.as_ref() {
            return;
        }
        if let Some(before) = self.open.borrow_mut().remove(function) {
            let _ = std::fs::remove_file(before); // without a server it does no harm
            // Before the entry of a new socket: `serve` stops the server of this name, which would else be the new one.
            self.changes.borrow_mut().push((function.clone(), None));
        }
        if let Some(path) = path {
            match unix::bind(&path, MODE) {
                Ok(listener) => {
                    self.open.borrow_mut().insert(function.clone(), path);
                    self.changes.borrow_mut().push((function.clone(), Some(listener)));
                }
                Err(error) => {
                    let (path, error) = (path.display(), crate::chain(&error));
                    tracing::warn!(%function, "no socket for `[access]` of {function}: `{path}`: {error}; its calls fail");
                }
            }
        }
        self.changed.notify_one();
    }

    /// Stops the server of the sockets.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileTypeExt as _;

    fn name(text: &str) -> FunctionName {
        FunctionName::new(text).unwrap()
    }

    #[tokio::test]
    async fn a_socket_is_there_while_its_function_may_call() {
        let run = tempfile::tempdir().unwrap();
        let dir = run.path().join("api/7");
        std::fs::create_dir_all(&dir).unwrap();
        let sockets = FunctionSockets::new(&run.path().join("http"));
        let is_there = || std::fs::symlink_metadata(dir.join(NAME)).is_ok_and(|meta| meta.file_type().is_socket());
        sockets.set(&name("a"), Some(FunctionId(7)));
        assert!(is_there());
        sockets.set(&name("a"), Some(FunctionId(7)));
        assert_eq!(sockets.changes.borrow().len(), 1, "the same again changes nothing");
        sockets.set(&name("a"), None);
        assert!(!is_there());
        assert_eq!(sockets.changes.borrow().len(), 2);
        // The spawner made no directory for it.
        sockets.set(&name("b"), Some(FunctionId(8)));
        assert!(sockets.open.borrow().is_empty());
    }

    #[tokio::test]
    async fn the_socket_of_an_earlier_fnd_is_replaced_and_a_file_is_not() {
        let run = tempfile::tempdir().unwrap();
        let dir = run.path().join("api/7");
        std::fs::create_dir_all(&dir).unwrap();
        let make = || FunctionSockets::new(&run.path().join("http"));
        let earlier = make();
        earlier.set(&name("a"), Some(FunctionId(7)));
        drop(earlier);
        let next = make();
        next.set(&name("a"), Some(FunctionId(7)));
        assert_eq!(next.open.borrow().len(), 1);
        drop(next);
        std::fs::remove_file(dir.join(NAME)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.join(NAME)).unwrap();
        let other = make();
        other.set(&name("a"), Some(FunctionId(7)));
        assert!(other.open.borrow().is_empty(), "a link is not followed");
    }
}
