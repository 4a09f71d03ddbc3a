//! The sandbox: attacks from inside, and ordinary work, in each profile.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, privileged};

/// Runs a script of bash with these manifest lines; returns what it printed.
fn run(harness: &mut Harness, name: &str, manifest: &str, script: &str) -> String {
    let installed = harness.install(&format!("{name}.sh"), script, manifest);
    let run = harness.run(&installed, None, &[]);
    run.stdout + &run.stderr
}

#[test]
fn look() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    println!("missing {:?}", harness.welcome.missing);
    for profile in ["strict", "standard", "off"] {
        let script = "id; ls /; ls -la /home /root /run /srv /tmp /dev /etc/fnd /var/lib/fnd; echo $$; ps ax; cat /etc/passwd; cat /proc/self/cgroup; \
            pwd; ls -la $HOME $TMPDIR; echo hi > $HOME/x; cat $HOME/x; touch /usr/x; mount -t tmpfs x /mnt; unshare -Ur true; \
            cat /proc/self/status | grep -E 'Seccomp|NoNew|Cap'; echo hello > /tmp/x; cat /tmp/x; ls -l $FND_RESULT; echo r > $FND_RESULT; sleep 0.1 & wait; echo >/dev/stderr err; \
            findmnt 2>/dev/null | head -60\n";
        println!("==== {profile}\n{}", run(&mut harness, profile, &format!("profile={profile}\npids=200"), script));
    }
}
