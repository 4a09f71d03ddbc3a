//! The sandbox of a spawner that is not root: it builds it in user namespaces, one for each launcher.

use crate::common::{Harness, Options, root};
use crate::{PROFILES, bash, can, expect, python, said, with};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

const USER: u32 = 12_353;

/// Starts a spawner of an ordinary user; none where the machine gives it no layers.
fn start() -> Option<Harness> {
    let harness = with(&Options { uid: Some(USER), best_effort: true, ..Options::default() });
    can(&harness, "mounts").then_some(harness)
}

/// What a function can see and change, and what it is.
fn attacks(harness: &Harness, secret: &Path) -> String {
    format!(
        r"
def text(path):
    with open(path) as file:
        return file.read()
say('root', lambda: ','.join(sorted(set(os.listdir('/home') + os.listdir('/root')))) or 'empty')
say('secret', lambda: text('{secret}') and None)
say('state', lambda: ','.join(os.listdir('{state}/home')))
for place in ['/usr/x', '/etc/x', '/x', '/var/lib/x', '{functions}/x']:
    say('write ' + place, lambda: open(place, 'a').close())
say('home', lambda: open(os.environ['HOME'] + '/x', 'w').close())
say('temporary', lambda: open(os.environ['TMPDIR'] + '/x', 'w').close())
def fill(place):
    with open(place + '/ordinary-filled', 'wb', buffering=0) as file:
        for _ in range(32):
            if file.write(b'x' * 65536) < 65536:
                raise OSError(errno.ENOSPC, '')
say('tmp', lambda: fill('/tmp'))
say('shm', lambda: fill('/dev/shm'))
status = dict(line.split(':\t', 1) for line in text('/proc/self/status').splitlines() if ':\t' in line)
say('rights', lambda: ' '.join(status[name].strip() for name in ['CapInh', 'CapPrm', 'CapEff', 'CapAmb', 'NoNewPrivs']))
for name, flag in [('user', 0x10000000), ('mount', 0x20000), ('net', 0x40000000)]:
    call('unshare ' + name, {unshare}, flag)
call('mount', {mount}, b'none', b'/tmp', b'tmpfs', 0, 0)
say('machine', lambda: os.listdir('/proc/{spawner}/root/home') and None)
say('processes', lambda: ','.join(sorted(name for name in os.listdir('/proc') if name.isdigit())))
say('signal', lambda: os.kill({spawner}, 0))
say('user', lambda: str(os.getuid()) + ' ' + __import__('pwd').getpwuid(os.getuid()).pw_name)
",
        secret = secret.display(),
        state = harness.path("state").display(),
        functions = harness.path("functions").display(),
        unshare = libc::SYS_unshare,
        mount = libc::SYS_mount,
        spawner = harness.child.id(),
    )
}

#[test]
fn an_ordinary_users_functions_are_in_a_sandbox_too() {
    if !root() {
        return;
    }
    let Some(mut harness) = start() else { return };
    // A file of that user, such as a key for ssh.
    let dir = tempfile::Builder::new().prefix("fnd-ordinary").tempdir_in("/srv").unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let secret = dir.path().join("key");
    fs::write(&secret, "private").unwrap();
    chown(&secret, Some(USER), Some(USER)).unwrap();
    let script = attacks(&harness, &secret);
    for profile in PROFILES {
        let got = python(&mut harness, profile, &format!("profile={profile}\ntmp=1048576"), &script);
        let none = "0000000000000000 0000000000000000 0000000000000000 0000000000000000 1";
        let always = [("home", "ok"), ("temporary", "ok"), ("rights", none)];
        expect(&got, profile, &always);
        if profile == "strict" {
            let strict = [("root", "empty"), ("secret", "ENOENT"), ("state", "strict")];
            expect(&got, profile, &strict);
        } else {
            expect(&got, profile, &[("secret", "ok")]);
        }
        if profile == "off" {
            for place in ["/tmp", "/dev/shm"] {
                fs::remove_file(Path::new(place).join("ordinary-filled")).unwrap(); // they are the machine's
            }
            continue;
        }
        for place in ["/usr/x", "/etc/x", "/x", "/var/lib/x"] {
            expect(&got, profile, &[(&format!("write {place}"), "EROFS")]);
        }
        let refused = [("tmp", "ENOSPC"), ("shm", "ENOSPC"), ("mount", "EPERM"), ("unshare user", "EPERM")];
        expect(&got, profile, &refused);
        assert_eq!(said(&got, "user"), format!("{USER} {profile}"));
        for place in ["/tmp", "/dev/shm"] {
            assert!(!Path::new(place).join("ordinary-filled").exists(), "the machine's {place} is another one");
        }
        // The init of the attempt, and the function.
        expect(&got, profile, &[("processes", "1,2")]);
        expect(&got, profile, &[("machine", "ENOENT"), ("signal", "ESRCH")]);
    }
    let lines = "profile=strict\nread_only=/srv";
    assert_eq!(bash(&mut harness, "shown", lines, &format!("cat {}\n", secret.display())), "private");
}

#[test]
fn an_ordinary_users_function_can_have_a_network_of_its_own() {
    if !root() {
        return;
    }
    let Some(mut harness) = start() else { return };
    for profile in PROFILES {
        let script = "say('interfaces', lambda: ','.join(name for _, name in socket.if_nameindex()))\n";
        let got = python(&mut harness, profile, &format!("profile={profile}\nnetwork=loopback"), script);
        expect(&got, profile, &[("interfaces", "lo")]);
    }
}

/// System V memory of one function is not seen by another, and goes with its launcher.
#[test]
fn an_ordinary_users_functions_share_no_memory() {
    if !root() {
        return;
    }
    let Some(mut harness) = start() else { return };
    for profile in ["strict", "standard"] {
        let script = "ipcmk -M 4096 >/dev/null && ipcs -m | grep -c ^0x\n";
        for name in ["one", "other"] {
            let got = bash(&mut harness, &format!("{profile}-{name}"), &format!("profile={profile}"), script);
            assert_eq!(got, "1\n", "{profile}");
        }
    }
}
