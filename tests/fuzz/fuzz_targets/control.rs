//! Any bytes on the control socket: the server goes on, and its answer is HTTP.
#![no_main]

use fnd_daemon::fuzzing::control_socket;
use libfuzzer_sys::fuzz_target;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

static SOCKET: LazyLock<PathBuf> = LazyLock::new(control_socket);

fuzz_target!(|bytes: &[u8]| {
    let mut stream = UnixStream::connect(&*SOCKET).expect("the server accepts");
    // Some requests wait for what never comes.
    stream
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a socket");
    // It may have closed already: the bytes were enough to know that they are no request.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1."),
        "{}",
        String::from_utf8_lossy(&answer)
    );
});
