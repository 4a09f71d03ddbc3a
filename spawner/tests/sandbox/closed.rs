//! A machine that gives no mount namespaces: Landlock closes the files that the profile hides, as far as it can.

use crate::common::{Harness, Options, root};
use crate::{PROFILES, bash, can, expect, python, said, with};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

const USER: u32 = 12_356;

/// Starts a spawner of an ordinary user who may not make namespaces; none where the kernel closes no files.
fn start() -> Option<Harness> {
    let options = Options { uid: Some(USER), no_namespaces: true, best_effort: true, ..Options::default() };
    let harness = with(&options);
    let why = harness.welcome.missing.iter().find(|(layer, _)| layer == "mounts").map(|(_, why)| why.clone());
    why.expect("this user has no mount namespaces").contains("Landlock closes other files").then_some(harness)
}

/// A directory with a file `key`, both of that user.
fn of_user(place: &str) -> tempfile::TempDir {
    let dir = tempfile::Builder::new().prefix("fnd-closed").tempdir_in(place).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(dir.path().join("key"), "private").unwrap();
    for path in [dir.path().to_owned(), dir.path().join("key")] {
        chown(path, Some(USER), Some(USER)).unwrap();
    }
    dir
}

fn attacks(harness: &Harness, hidden: &Path, shown: &Path) -> String {
    let (hidden, shown) = (hidden.display(), shown.display());
    format!(
        r"
def text(path):
    with open(path) as file:
        return file.read() and None
for name, dir in [('hidden', '{hidden}'), ('shown', '{shown}')]:
    key = dir + '/key'
    say(name + ' list', lambda: os.listdir(dir) and None)
    say(name + ' read', lambda: text(key))
    say(name + ' write', lambda: open(key, 'a').close())
    say(name + ' truncate', lambda: os.truncate(key, 7))
    say(name + ' make', lambda: open(dir + '/made', 'w').close())
    say(name + ' socket', lambda: socket.socket(socket.AF_UNIX).bind(dir + '/socket'))
    say(name + ' rename', lambda: os.rename(key, dir + '/key2') or os.rename(dir + '/key2', key))
    say(name + ' take', lambda: os.rename(key, os.environ['HOME'] + '/key') or os.rename(os.environ['HOME'] + '/key', key))
    say(name + ' link', lambda: os.link(key, os.environ['HOME'] + '/linked-' + name))
    link = os.environ['TMPDIR'] + '/' + name
    os.symlink(dir, link)
    say(name + ' by link', lambda: text(link + '/key'))
    say(name + ' by process', lambda: text('/proc/self/root' + key))
    say(name + ' by spawner', lambda: text('/proc/{spawner}/root' + key))
say('home list', lambda: os.listdir('/home') and None)
say('state', lambda: os.listdir('{state}/home') and None)
say('versions', lambda: os.listdir('{state}/versions') and None)
say('memory', lambda: open('/proc/{spawner}/mem', 'rb').close())
say('environment', lambda: open('/proc/{spawner}/environ', 'rb').close())
say('signal', lambda: os.kill({spawner}, 0))
def store(place):
    with open(place + '/x', 'w') as file:
        file.write('x')
    with open(place + '/x') as file:
        return 'ok' if file.read() == 'x' else 'other'
for name in ['HOME', 'TMPDIR', 'CACHE_DIRECTORY']:
    say(name, lambda: store(os.environ[name]))
say('result', lambda: open(os.environ['FND_RESULT'], 'w').close())
say('etc', lambda: text('/etc/hostname'))
say('list etc', lambda: os.listdir('/etc') and None)
say('null', lambda: open('/dev/null', 'w').write('x') and None)
say('disk', lambda: os.listdir('/dev') and None)
say('run', lambda: __import__('subprocess').run(['/bin/sh', '-c', 'sort </proc/self/stat >/dev/null'], check=False) and None)
",
        spawner = harness.child.id(),
        state = harness.path("state").display(),
    )
}

#[test]
fn without_mount_namespaces_landlock_closes_what_the_profile_hides() {
    if !root() {
        return;
    }
    let Some(mut harness) = start() else { return };
    let (hidden, shown) = (of_user("/srv"), of_user("/var/lib"));
    let script = attacks(&harness, hidden.path(), shown.path());
    let ways = ["list", "read", "write", "truncate", "make", "socket", "rename", "take", "link", "by link"];
    for profile in PROFILES {
        let got = python(&mut harness, profile, &format!("profile={profile}"), &script);
        for name in ["HOME", "TMPDIR", "CACHE_DIRECTORY", "result", "etc", "list etc", "null", "run"] {
            expect(&got, profile, &[(name, "ok")]);
        }
        for way in ways {
            for (name, is_hidden) in [("hidden", profile == "strict"), ("shown", false)] {
                let reads = ["list", "read", "by link"].contains(&way);
                let allowed = profile == "off" || reads && !is_hidden;
                // Links and renames to another directory are refused as if it was another disk.
                let expected: &[&str] = if allowed { &["ok"] } else { &["EACCES", "EXDEV"] };
                let found = said(&got, &format!("{name} {way}"));
                assert!(expected.contains(&found), "{profile}: {name} {way}: {found}\n{got}");
            }
        }
        if profile == "strict" {
            let closed = ["hidden by process", "hidden by spawner", "home list", "state", "versions", "disk"];
            closed.iter().for_each(|name| expect(&got, profile, &[(name, "EACCES")]));
        }
        if profile != "off" && can(&harness, "landlock") {
            expect(&got, profile, &[("memory", "EACCES"), ("environment", "EACCES"), ("signal", "EPERM")]);
        }
    }
}

#[test]
fn without_mount_namespaces_the_keys_of_the_sandbox_hold() {
    if !root() {
        return;
    }
    let Some(mut harness) = start() else { return };
    let dir = of_user("/srv");
    let (place, inner) = (dir.path().display(), dir.path().join("inner"));
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("x"), "inner").unwrap();
    let try_it = format!(
        "cat {place}/key; echo; cat {place}/inner/x 2>/dev/null || echo closed; echo more >>{place}/key && echo written\n"
    );
    // The other root of this spawner is mounted there. Landlock looks at the directories above that mount, too.
    let root = harness.path("root").display().to_string();
    for (name, lines, expected) in [
        ("a", format!("profile=strict\nread_only={place}"), "private\ninner"),
        ("b", format!("profile=strict\nread_only={place}\nhide={}", inner.display()), "private\nclosed\n"),
        ("c", format!("profile=standard\nhide={},{root}", inner.display()), "private\nclosed\n"),
        ("d", format!("profile=strict\nread_write={place}"), "private\ninner"),
    ] {
        let got = bash(&mut harness, name, &lines, &try_it);
        assert!(got.starts_with(expected), "{lines}: {got}");
        assert_eq!(got.contains("written"), name == "d", "{lines}: {got}");
    }
}
