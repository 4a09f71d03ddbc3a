//! Other processes, orphans, starts that somebody wants to stop.

use crate::common::{Harness, privileged, processes_of, until};
use crate::{PROFILES, SAY, bash, can, expect, python, python_lines, said, start};
use fnd_wire::frame::{ExitStatus, Installed, Request};
use fnd_wire::ids::WorkerId;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::fd::OwnedFd;

/// A function that says `ready` and waits.
const WAITS: &str = "echo ready; read -t 600 <> <(:)\n";

/// Starts an attempt and waits for its first line; returns its number, its pid and the descriptors that are left.
fn begin(harness: &mut Harness, installed: &Installed, given: &[(&str, &str)]) -> (u64, u32, VecDeque<OwnedFd>) {
    let (worker, number) = harness.order(installed, None, given);
    let (spawned, mut descriptors) = harness.spawned(number);
    let output = File::from(descriptors.pop_front().unwrap());
    let mut line = String::new();
    BufReader::new(&output).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    descriptors.push_back(output.into());
    (worker, spawned.pid, descriptors)
}

fn alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") T "))
}

fn end(harness: &mut Harness, worker: u64) {
    harness.send(&Request::Kill(WorkerId(worker)), Vec::new());
    assert_eq!(harness.exited(worker).status, ExitStatus::Signal(9));
}

/// The pids of the launchers of this harness's spawner.
fn launchers(harness: &Harness) -> Vec<u32> {
    let id = harness.child.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let pids = children.split_whitespace().map(|pid| pid.parse::<u32>().unwrap());
    pids.filter(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default() == "fnd-launcher\n").collect()
}

#[test]
fn other_processes_are_neither_seen_nor_reached() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    let sandboxed = can(&harness, "pid") && can(&harness, "landlock");
    for profile in PROFILES.into_iter().filter(|profile| sandboxed || *profile == "off") {
        let lines = format!("profile={profile}");
        let other = harness.install(&format!("{profile}-other.sh"), WAITS, &lines);
        let (other_worker, other_pid, _kept) = begin(&mut harness, &other, &[]);
        let script = format!(
            r"{SAY}
import signal
if os.environ['DATA'] == 'wait':
    print('ready', flush=True)
    signal.pause()
import subprocess
say('seen', lambda: ','.join(sorted(set(subprocess.run(['ps', 'axo', 'comm='], capture_output=True, text=True).stdout.split()))))
for pid in map(int, os.environ['DATA'].split()):
    say(f'kill {{pid}}', lambda: os.kill(pid, 0))
    say(f'environ {{pid}}', lambda: open(f'/proc/{{pid}}/environ').read() and None)
    say(f'root {{pid}}', lambda: os.listdir(f'/proc/{{pid}}/root') and None)
own = str(os.getpid())
def of_this_user(pid):
    try:
        return pid not in (own, '1') and os.stat('/proc/' + pid).st_uid == os.getuid()
    except FileNotFoundError:
        # Without a namespace these are the machine's processes, which end at any time.
        return False
siblings = [pid for pid in os.listdir('/proc') if pid.isdigit() and of_this_user(pid)]
say('siblings', lambda: len(siblings))
for pid in siblings[:1]:
    say('sibling environ', lambda: open(f'/proc/{{pid}}/environ').read() and None)
    say('sibling memory', lambda: open(f'/proc/{{pid}}/mem').close())
    say('sibling files', lambda: os.readlink(f'/proc/{{pid}}/fd/0') and None)
    # The kernel sends a signal for the one who asked for it.
    import fcntl
    read, write = os.pipe()
    say('sibling owner', lambda: fcntl.fcntl(read, fcntl.F_SETOWN, int(pid)) and None)
    fcntl.fcntl(read, {signal_of}, signal.SIGKILL)
    fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(write, b'x')
    say('sibling stop', lambda: os.kill(int(pid), signal.SIGSTOP))
say('init', lambda: os.kill(1, signal.SIGKILL))
# The call itself succeeds, though it reaches nobody.
say('all', lambda: os.kill(-1, signal.SIGSTOP))
say('group', lambda: os.kill(0, 0))
say('all again', lambda: os.kill(-1, signal.SIGKILL))
",
            signal_of = 10 // F_SETSIG
        );
        let installed = harness.install(&format!("{profile}.py"), &script, &python_lines(&lines));
        let (sibling, sibling_pid, _kept_too) = begin(&mut harness, &installed, &[("DATA", "wait")]);
        let launchers = launchers(&harness);
        assert_eq!(launchers.len() % 2, 0, "one for each of the two functions: {launchers:?}");
        let targets: Vec<u32> =
            [harness.child.id(), other_pid, std::process::id()].into_iter().chain(launchers.iter().copied()).collect();
        let data: Vec<_> = targets.iter().map(u32::to_string).collect();
        let run = harness.run(&installed, None, &[("DATA", &data.join(" "))]);
        let got = run.stdout + &run.stderr;
        for pid in &targets {
            let kill = said(&got, &format!("kill {pid}"));
            let environ = said(&got, &format!("environ {pid}"));
            let root = said(&got, &format!("root {pid}"));
            if profile == "off" {
                assert!(kill == "EPERM" && environ == "EACCES" && root == "EACCES", "{pid}: {got}");
            } else {
                assert!(kill == "ESRCH" && environ == "ENOENT" && root == "ENOENT", "{profile} {pid}: {got}");
            }
            assert!(alive(*pid), "{profile} {pid}: {got}");
        }
        if profile == "off" {
            until("processes of one user reach each other", || !alive(sibling_pid));
        } else {
            assert_eq!(said(&got, "seen"), "fnd-init,ps,python3", "{profile}: {got}");
            let expected = [
                ("siblings", "1"),
                ("sibling environ", "EACCES"),
                ("sibling memory", "EACCES"),
                ("sibling files", "EACCES"),
                ("sibling stop", "EPERM"),
                ("init", "EPERM"),
                ("group", "ok"),
            ];
            expect(&got, profile, &expected);
            assert!(alive(sibling_pid), "{profile}: {got}");
            end(&mut harness, sibling);
        }
        end(&mut harness, other_worker);
    }
}

#[test]
fn orphans_are_reaped_and_end_with_the_attempt() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    if !can(&harness, "pid") {
        return;
    }
    // A grandchild whose parent is gone ends: nobody of the function waits for it.
    let script = r"
import subprocess, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(write, str(os.getpid()).encode())
        os._exit(0)
    os._exit(0)
os.wait()
os.close(write)
orphan = os.read(read, 20).decode()
until = time.monotonic() + 30
while os.path.exists('/proc/' + orphan) and time.monotonic() < until:
    time.sleep(0.01)
say('orphan', lambda: os.path.exists('/proc/' + orphan))
say('zombies', lambda: subprocess.run(['ps', 'axo', 'stat='], capture_output=True, text=True).stdout.count('Z'))
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open('/dev/null', os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        time.sleep(600)
    os._exit(0)
os.wait()
";
    for profile in ["strict", "standard"] {
        let lines = python_lines(&format!("profile={profile}"));
        let installed = harness.install(&format!("{profile}.py"), &format!("{SAY}{script}"), &lines);
        let run = harness.run(&installed, None, &[]);
        expect(&run.stdout, profile, &[("orphan", "False"), ("zombies", "0")]);
        assert!(run.exited.stragglers, "{profile}: the one that sleeps was killed");
        let home = harness.path(&format!("state/home/{profile}"));
        assert_eq!(processes_of(&home), Vec::<String>::new(), "{profile}");
        let pids =
            python(&mut harness, &format!("{profile}-own"), &format!("profile={profile}"), "say('pid', os.getpid)");
        assert_ne!(said(&pids, "pid"), "1", "no program of a function has the duties of an init");
    }
}

#[test]
fn all_processes_end_with_the_spawner() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    let mut homes = Vec::new();
    let mut kept = Vec::new();
    for profile in PROFILES {
        let script = "setsid sleep 600 </dev/null >/dev/null 2>&1 & echo ready; wait\n";
        let installed = harness.install(&format!("{profile}.sh"), script, &format!("profile={profile}"));
        kept.push(begin(&mut harness, &installed, &[]));
        homes.push(harness.path(&format!("state/home/{profile}")));
        assert!(!processes_of(homes.last().unwrap()).is_empty());
    }
    harness.child.kill().unwrap();
    harness.child.wait().unwrap();
    for home in homes {
        until("every process of the function ended", || processes_of(&home).is_empty());
    }
}

#[test]
fn a_function_can_not_stop_its_next_starts() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    if !can(&harness, "pid") || !can(&harness, "landlock") {
        return;
    }
    // One attempt names each process, the other all at once.
    let attack = r"
import os, signal
how = os.environ.get('DATA')
if how is None:
    os._exit(7)
def stop(target):
    try:
        os.kill(target, signal.SIGSTOP)
    except OSError:
        pass
print('ready', flush=True)
while True:
    if how == 'all':
        stop(-1)
        continue
    for pid in os.listdir('/proc'):
        if pid.isdigit() and int(pid) != os.getpid():
            stop(int(pid))
";
    for profile in ["strict", "standard"] {
        let lines = python_lines(&format!("profile={profile}"));
        let installed = harness.install(&format!("{profile}.py"), attack, &lines);
        let attackers = ["all", "each"].map(|how| begin(&mut harness, &installed, &[("DATA", how)]));
        for _ in 0..100 {
            let run = harness.run(&installed, None, &[]);
            assert_eq!(run.exited.status, ExitStatus::Code(7), "{profile}: {}", run.stderr);
        }
        for (worker, _, _) in attackers {
            end(&mut harness, worker);
        }
    }
}

/// After many starts and the end of the spawner, no mount and no group is left.
#[test]
fn nothing_is_left_of_many_starts() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    for profile in PROFILES {
        for number in 0..17 {
            let script = format!("echo {number}\n");
            let got = bash(&mut harness, profile, &format!("profile={profile}\nnetwork=loopback"), &script);
            assert_eq!(got, format!("{number}\n"));
        }
    }
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
    let (dir, spawner) = (harness.dir.path().display().to_string(), harness.child.id());
    assert!(!mounts().contains(&dir), "the views are in mount namespaces of their own");
    drop(harness);
    assert!(!mounts().contains(&dir), "{}", mounts());
    for tree in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids"] {
        assert!(!fs::exists(format!("{tree}/fnd-{spawner}")).unwrap(), "{tree}");
    }
}
