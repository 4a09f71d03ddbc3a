//! The process that empties a function's directories while another process of the function wants to stop it.

use crate::common::{Harness, privileged};
use crate::{PROFILES, SAY, can, python_lines, start};
use fnd_wire::frame::{ExitStatus, Reply, Request};
use fnd_wire::ids::{InvocationId, WorkerId};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};

/// Stops every process that it sees, and all at once; says what became of processes that are children of the spawner
/// and neither launchers nor attempts.
const ATTACK: &str = r"
import signal
spawner = int(os.environ['DATA'])
seen = set()
def stop(pid):
    try:
        os.kill(pid, signal.SIGSTOP)
        return 'stopped'
    except OSError as error:
        return errno.errorcode[error.errno]
def is_helper(pid):
    try:
        with open(f'/proc/{pid}/stat') as file:
            name, rest = file.read().split('(', 1)[1].rsplit(') ', 1)
        return name == 'fnd-spawner:h' and int(rest.split()[1]) == spawner
    except (OSError, IndexError):
        return False
print('ready', flush=True)
while True:
    stop(-1)
    for name in os.listdir('/proc'):
        if name.isdigit() and int(name) != os.getpid():
            helper = is_helper(int(name))
            what = stop(int(name))
            if helper and what not in seen:
                seen.add(what)
                print('helper', what, flush=True)
";
/// Makes directories that take a moment to empty.
const LITTER: &str = r"
if 'DATA' in os.environ:
    exec(ATTACK)
for directory in range(20):
    place = os.environ['TMPDIR'] + '/' + str(directory)
    os.mkdir(place)
    for file in range(100):
        os.mknod(place + '/' + str(file))
";

/// The text of a function that attacks when it has a payload, and else leaves many files.
fn text(version: u32) -> String {
    format!("{SAY}\nATTACK = r'''{ATTACK}'''\n{LITTER}# {version}\n")
}

/// Returns what the attacker says of the processes that emptied directories meanwhile.
fn attacked(harness: &mut Harness, profile: &str) -> BTreeSet<String> {
    let lines = python_lines(&format!("profile={profile}"));
    let file = format!("{profile}.py");
    let installed = harness.install(&file, &text(0), &lines);
    let invocations = (100..110).map(InvocationId);
    for invocation in invocations.clone() {
        let (worker, number) = harness.order_in(&installed, invocation, (None, None), &[]);
        assert_eq!(harness.finish(worker, number).exited.status, ExitStatus::Code(0), "{profile}");
    }
    let spawner = harness.child.id().to_string();
    let (attacker, number) = harness.order_in(&installed, InvocationId(1), (None, None), &[("DATA", &spawner)]);
    let (_, mut descriptors) = harness.spawned(number);
    let mut output = BufReader::new(File::from(descriptors.pop_front().unwrap()));
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    for invocation in invocations {
        let dir = harness.path(&format!("state/tmp/{profile}/{invocation}"));
        assert!(dir.exists());
        assert_eq!(harness.release(&installed, invocation), Reply::Done, "{profile}");
        assert!(!dir.exists(), "{profile}: `{}` is emptied and removed", dir.display());
    }
    let updated = harness.install(&file, &text(1), &lines);
    harness.send(&Request::Kill(WorkerId(attacker)), Vec::new());
    assert_eq!(harness.exited(attacker).status, ExitStatus::Signal(9));
    assert_eq!(harness.release(&installed, InvocationId(1)), Reply::Done, "{profile}");
    let run = harness.run(&updated, None, &[]);
    assert_eq!(run.exited.status, ExitStatus::Code(0), "{profile}: {}", run.stderr);
    output.lines().map(Result::unwrap).collect()
}

#[test]
fn a_function_can_not_stop_the_process_that_empties_its_directories() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    let sandboxed = can(&harness, "pid") && can(&harness, "landlock");
    for profile in PROFILES.into_iter().filter(|profile| sandboxed || *profile == "off") {
        let met = attacked(&mut harness, profile);
        match profile {
            // Only here it sees them.
            "off" => assert!(met.contains("helper EPERM") && !met.contains("helper stopped"), "{met:?}"),
            _ => assert_eq!(met, BTreeSet::new(), "{profile}"),
        }
    }
}
