//! Other places, writing to the system, temporary files.

use crate::common::{Harness, privileged};
use crate::{PROFILES, bash, can, expect, python, said, start};
use std::fs;
use std::path::Path;

#[test]
fn strict_shows_no_other_place_and_nothing_of_other_functions() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    if !can(&harness, "mounts") {
        return;
    }
    let other = harness.install("other.sh", "echo canary\n", "");
    harness.run(&other, None, &[]);
    let state = harness.path("state").display().to_string();
    let code = format!("{state}/versions/other/{}/code/other.sh", other.version.hex());
    assert!(Path::new(&code).exists());
    let run = harness.path("run").display().to_string();
    let script = format!(
        "for dir in /home /root /srv /mnt /media /boot /var/spool /var/mail /var/log /etc/fnd; do \
           [ ! -e $dir ] || echo hidden $dir $(ls -A $dir 2>&1); done\n\
         echo run $(ls -A /run)\n\
         echo state $(ls -A {state})\n\
         for dir in versions home cache tmp; do echo $dir $(ls -A {state}/$dir); done\n\
         echo own $(ls -A {run})\n\
         echo http $(ls -A {run}/http)\n\
         echo groups $(find /sys/fs/cgroup -mindepth 1 -type d 2>/dev/null | grep -c -e /other -e 'f.other' -e system)\n\
         echo limits $(cat $(find /sys/fs/cgroup -name pids.max -path '*strict/*' 2>/dev/null) | sort -u | head -1)\n\
         cat {code}\n\
         ls -d {state}/home/other {state}/spawner {run}/creds/other\n\
         echo end\n"
    );
    let strict = bash(&mut harness, "strict", "profile=strict", &script);
    let hidden: Vec<_> = strict.lines().filter(|line| line.starts_with("hidden")).collect();
    assert!(!hidden.is_empty() && hidden.iter().all(|line| line.split(' ').count() == 2), "{strict}");
    // The way to find hosts by name is shown where its file lies in /run.
    let resolver = fs::canonicalize("/etc/resolv.conf").unwrap_or_default();
    let resolver = resolver.strip_prefix("/run").ok().and_then(|path| path.iter().next()?.to_str()).unwrap_or_default();
    assert_eq!(said(&strict, "run"), resolver, "{strict}");
    for dir in ["versions", "home", "cache", "tmp"] {
        assert_eq!(said(&strict, dir), "strict", "{strict}");
    }
    assert!(!strict.contains("canary") && strict.contains("No such file"), "{strict}");
    assert!(!strict.contains(&format!("\n{state}/home/other")) && strict.contains("\nend\n"), "{strict}");
    assert!(!strict.lines().any(|line| line == format!("{state}/spawner")), "{strict}");
    assert_eq!(said(&strict, "groups"), "0", "of others: {strict}");
    // Those of the manifest, and those for the launcher and the init.
    assert!((64..70).contains(&said(&strict, "limits").parse().unwrap()), "its own group is shown: {strict}");
    // The others see what their user may see, which is not the code of another function.
    for profile in ["standard", "off"] {
        let seen = bash(&mut harness, profile, &format!("profile={profile}"), &script);
        assert!(!seen.contains("canary") && seen.contains("Permission denied"), "{seen}");
    }
}

/// Ways to change the system, or to get a place in which that is possible.
fn changes() -> String {
    format!(
        r"
for place in ['/usr/x', '/etc/x', '/x', '/etc/passwd', '/opt/x', '/var/lib/x']:
    say('write ' + place, lambda: open(place, 'a').close())
say('sysctl', lambda: open('/proc/sys/kernel/hostname', 'a').close())
say('group', lambda: os.mkdir('{group}/x'))
say('device', lambda: os.mknod('/tmp/device', 0o60600, os.makedev(8, 0)))
say('chroot', lambda: os.chroot('/tmp'))
call('remount', {mount}, 0, b'/usr', 0, 4096 | 32, 0)
call('mount', {mount}, b'none', b'/tmp', b'tmpfs', 0, 0)
call('umount', {umount}, b'/tmp', 2)
call('pivot', {pivot}, b'/tmp', b'/tmp')
call('fsopen', {fsopen}, b'tmpfs', 0)
call('open_tree', {open_tree}, -100, b'/', 1)
call('setns', {setns}, os.open('/proc/self/ns/uts', os.O_RDONLY), 0)
call('handle', {handle}, -100, b'/etc/passwd', 0, 0, 0)
call('sethostname', {hostname}, b'x', 1)
for name, flag in [('user', 0x10000000), ('mount', 0x20000), ('net', 0x40000000), ('pid', 0x20000000)]:
    call('unshare ' + name, {unshare}, 0x10000000 | flag)
    child = call('clone ' + name, {clone}, 0x10000000 | flag | 17, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    if child > 0:
        os.waitpid(child, 0)
",
        group = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].into_iter().find(|dir| Path::new(dir).exists()).unwrap(),
        mount = libc::SYS_mount,
        umount = libc::SYS_umount2,
        pivot = libc::SYS_pivot_root,
        fsopen = libc::SYS_fsopen,
        open_tree = libc::SYS_open_tree,
        setns = libc::SYS_setns,
        handle = libc::SYS_open_by_handle_at,
        hostname = libc::SYS_sethostname,
        unshare = libc::SYS_unshare,
        clone = libc::SYS_clone,
    )
}

#[test]
fn nothing_of_the_system_can_be_changed() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    for profile in PROFILES {
        let got = python(&mut harness, profile, &format!("profile={profile}"), &changes());
        let sandboxed = profile != "off";
        for line in got.lines() {
            let (name, result) = line.rsplit_once(' ').unwrap();
            let namespace = name.starts_with("unshare") || name.starts_with("clone");
            let fine: &[&str] = match name {
                // In profile off the machine says whether users may make namespaces, of which nothing leads out.
                _ if !sandboxed && (namespace || ["fsopen", "open_tree", "handle", "setns"].contains(&name)) => {
                    continue;
                }
                // Files that are there are refused by their mode first.
                "write /etc/passwd" | "sysctl" => &["EACCES", "EROFS"],
                _ if (name.starts_with("write") || name == "group") && sandboxed => &["EROFS"],
                _ if name.starts_with("write") || name == "group" => &["EACCES", "EPERM"],
                _ => &["EPERM"],
            };
            assert!(fine.contains(&result), "{profile}: {line}\n{got}");
        }
        assert!(got.contains("clone pid") && got.contains("setns"), "{got}");
        let tools = "unshare -Urm true 2>&1 || echo refused; mount -t tmpfs none /mnt 2>&1 || echo refused\n";
        let tools = bash(&mut harness, &format!("{profile}-tools"), &format!("profile={profile}"), tools);
        let refused = tools.matches("refused").count();
        assert!(refused == 2 || !sandboxed && refused == 1, "{profile}: {tools}");
    }
}

#[test]
fn temporary_files_have_a_limit_and_are_the_functions_own() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    if !can(&harness, "mounts") {
        return;
    }
    let script = r"
import uuid
for place in ['/tmp', '/dev/shm', '/var/tmp']:
    def fill(much):
        with open(place + '/sandbox-filled', 'wb', buffering=0) as file:
            for _ in range(much // 65536):
                if file.write(b'x' * 65536) < 65536:
                    raise OSError(errno.ENOSPC, '')
    say('more ' + place, lambda: fill(2 << 20))
    os.remove(place + '/sandbox-filled')
    say('less ' + place, lambda: fill(300 << 10))
say('all', lambda: open('/tmp/all', 'wb', buffering=0).write(b'x' * (512 << 10)) and None)
say('whole', lambda: 'ok' if os.stat('/tmp/all').st_size == 512 << 10 else 'part')
os.remove('/tmp/all')
def many():
    os.mkdir('/tmp/many')
    for number in range(20000):
        os.mknod(f'/tmp/many/{number}')
say('many', many)
say('mode', lambda: oct(os.stat('/tmp').st_mode))
";
    let look = "cat /tmp/sandbox-filled /dev/shm/sandbox-filled /var/tmp/sandbox-filled 2>/dev/null | wc -c\n";
    for profile in ["strict", "standard"] {
        let lines = format!("profile={profile}\ntmp=1048576");
        let got = python(&mut harness, profile, &lines, script);
        let expected = [
            ("more /tmp", "ENOSPC"),
            ("more /dev/shm", "ENOSPC"),
            ("more /var/tmp", "ENOSPC"),
            ("less /tmp", "ok"),
            ("less /var/tmp", "ok"),
            ("whole", "part"),
            ("many", "ENOSPC"),
            ("mode", "0o41777"),
        ];
        expect(&got, profile, &expected);
        for place in ["/tmp", "/dev/shm", "/var/tmp"] {
            assert!(!Path::new(place).join("sandbox-filled").exists(), "the machine's {place} is another one");
        }
        assert_eq!(bash(&mut harness, &format!("{profile}-other"), &lines, look), "0\n", "another function's");
    }
}

#[test]
fn temporary_files_stay_with_the_version_and_go_with_its_launcher() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    if !can(&harness, "mounts") {
        return;
    }
    let script =
        "cat /tmp/kept 2>/dev/null; echo kept > /tmp/kept; echo file > $TMPDIR/x; cat $TMPDIR/x; echo s > $HOME/s\n";
    for profile in ["strict", "standard"] {
        let run = |harness: &mut Harness, script: &str| bash(harness, profile, &format!("profile={profile}"), script);
        assert_eq!(run(&mut harness, script), "file\n");
        assert_eq!(run(&mut harness, script), "kept\nfile\n", "the same launcher");
        assert_eq!(run(&mut harness, &format!("{script}: another version\n")), "file\n");
    }
}

/// A state directory below /tmp is shown there, and nothing else of that place.
#[test]
fn a_state_directory_in_a_temporary_place_is_shown() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    for profile in ["strict", "standard"] {
        let script = "echo x > $HOME/x && cat $HOME/x && ls $TMPDIR && ls /tmp | wc -l\n";
        let got = bash(&mut harness, profile, &format!("profile={profile}"), script);
        assert!(got.starts_with("x\n") && !got.contains("No such"), "{got}");
    }
}

/// A person may remove a function's home to begin anew, while its launcher shows the one that is gone.
#[test]
fn a_home_that_was_removed_is_there_again_in_the_next_run() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    for profile in PROFILES {
        let lines = format!("profile={profile}");
        let installed = harness.install(&format!("{profile}.sh"), "echo x >>$HOME/kept && cat $HOME/kept\n", &lines);
        for expected in ["x\n", "x\nx\n"] {
            assert_eq!(harness.run(&installed, None, &[]).stdout, expected, "{profile}");
        }
        fs::remove_dir_all(harness.path(&format!("state/home/{profile}"))).unwrap();
        let run = harness.run(&installed, None, &[]);
        assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("x\n", ""), "{profile}");
    }
}
