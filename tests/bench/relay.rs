//! The floor of a warm call: three plain programs, of which the middle one passes bytes on. fnd stands between a caller and
//! a worker in the same way, so that the kernel has to wake as many processes.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// Bytes of a message: about as many as the head of a call.
const MESSAGE: [u8; 400] = [b'x'; 400];

/// A relay and the program behind it; killed when it is dropped.
pub(crate) struct Relay {
    socket: UnixStream,
    child: Child,
}

impl Relay {
    pub(crate) fn start() -> Self {
        let (socket, child) = program("--relay");
        Self { socket, child }
    }

    /// Sends a message to the program behind the relay, and takes its answer.
    pub(crate) fn call(&mut self) {
        let mut answer = MESSAGE;
        self.socket.write_all(&MESSAGE).expect("the relay reads");
        self.socket.read_exact(&mut answer).expect("the relay answers");
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it has ended by itself
        let _ = self.child.wait();
    }
}

/// Starts this program again, with a socket as standard input.
fn program(mode: &str) -> (UnixStream, Child) {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let mut command = Command::new(std::env::current_exe().expect("a running program has a path"));
    command.arg(mode).stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
    (ours, command.spawn().expect("this program starts again"))
}

/// `bench --echo`: gives back all that comes on standard input, which is a socket.
pub(crate) fn echo() -> io::Result<()> {
    let mut socket = standard_input()?;
    let mut buffer = [0; 4096];
    loop {
        let count = socket.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        socket.write_all(buffer.get(..count).unwrap_or_default())?;
    }
}

/// `bench --relay`: passes messages on to `bench --echo`, and its answers back.
pub(crate) fn relay() -> io::Result<()> {
    let mut socket = standard_input()?;
    let (mut behind, mut child) = program("--echo");
    let mut message = MESSAGE;
    while socket.read_exact(&mut message).is_ok() {
        behind.write_all(&message)?;
        behind.read_exact(&mut message)?;
        socket.write_all(&message)?;
    }
    drop(behind);
    child.wait().map(drop)
}

fn standard_input() -> io::Result<File> {
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}
