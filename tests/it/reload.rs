//! The notifications that the service manager gets about a reload.

use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup};
use nix::sys::signal::Signal;
use std::os::unix::net::UnixDatagram;

#[test]
fn ready_is_reported_when_a_reload_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    // fnd sends its status line whenever it changes.
    let next = || loop {
        let mut message = [0; 4096];
        let length = socket.recv(&mut message).expect("a message to the service manager");
        let message = String::from_utf8_lossy(&message[..length]).into_owned();
        if !message.starts_with("STATUS=") {
            return message;
        }
    };
    let setup = Setup {
        environment: vec![("NOTIFY_SOCKET".to_owned(), path.display().to_string())],
        ..Setup::default()
    };
    let fnd = Fnd::start_with(&setup);
    assert!(next().contains("READY=1"));
    for reloads in 1..=2 {
        for n in 0..40 {
            let code = format!("# /// fnd\n# on_load = false\n# ///\necho {reloads}\n");
            fnd.drop_file(&format!("f{reloads}-{n}.sh"), &code);
        }
        if reloads == 1 {
            fnd.signal(Signal::SIGHUP);
        } else {
            let _ = fnd.ctl(&["reload"]).expect_code(0);
        }
        let begun = next();
        assert!(
            begun.contains("RELOADING=1") && begun.contains("MONOTONIC_USEC="),
            "{begun}"
        );
        let over = next();
        assert!(over.contains("READY=1"), "{over}");
        assert_eq!(fnd.status().functions.len(), 40 * reloads);
    }
    fnd.finish();
    assert!(next().contains("STOPPING=1"));
}
