//! The first steps of a person: add files, show the status, invoke.

use crate::guest::{PATIENCE, text};
use crate::machine::VirtualMachine;

const BASH: &str =
    "#!/usr/bin/env bash\n# /// fnd\n# on_load = false\n# ///\necho \"hello $(jq -r .name), from bash\"\n";
const PYTHON: &str = "# /// fnd\n# on_load = false\n# ///\nimport json, sys\nprint(json.dumps({'hello': json.load(sys.stdin)['name']}))\n";
const DENO: &str = "// /// fnd\n// on_load = false\n// ///\nconst { name } = JSON.parse(Deno.env.get('DATA') ?? '{}') as { name: string };\nconsole.log(JSON.stringify({ hello: name }));\n";
const NODE: &str = "// /// fnd\n// on_load = false\n// ///\nconsole.log(JSON.stringify({ hello: JSON.parse(process.env.DATA).name }));\n";

/// Each language runs under the units' restrictions, which every function inherits.
pub(crate) fn languages(machine: &mut VirtualMachine) {
    for (file, code) in [
        ("shell.sh", BASH),
        ("snake.py", PYTHON),
        ("typed.ts", DENO),
        ("noded.cjs", NODE),
    ] {
        machine.drop_file(file, code);
    }
    for name in ["shell", "snake", "typed", "noded"] {
        machine.wait_ready(name);
        let run = machine.run(&format!("fndctl invoke {name} -d '{{\"name\": \"Ada\"}}'"));
        assert_eq!(run.code, 0, "{name}: {run}");
        assert!(run.out().contains("Ada"), "{name}: {run}");
    }
    let table = machine.ok("fndctl status");
    assert!(
        table.contains("FUNCTION") && table.contains("shell") && table.contains("python 3"),
        "{table}"
    );
    let status = machine.ok("cat /run/fnd/status/snake.json");
    assert!(
        status.contains("\"status\":\"succeeded\"") || status.contains("\"status\": \"succeeded\""),
        "{status}"
    );
    machine.nothing_left();
}

/// The handler of the first five minutes, and one in each other language; each is loaded once, also over a restart.
pub(crate) fn handlers(machine: &mut VirtualMachine) {
    for (file, code) in [
        (
            "hello.py",
            "import os\ndef handler(event, context): return {\"hello\": event[\"data\"][\"name\"], \"pid\": os.getpid()}\n",
        ),
        (
            "typed.ts",
            "export default (event: { data: { name: string } }) => ({ hello: event.data.name, pid: Deno.pid });\n",
        ),
        (
            "noded.cjs",
            "module.exports = { main: (event) => ({ hello: event.data.name, pid: process.pid }) };\n",
        ),
        (
            "shell.sh",
            "handler() { echo \"{\\\"hello\\\": $(jq .name), \\\"pid\\\": $$}\"; }\n",
        ),
    ] {
        machine.drop_file(file, code);
    }
    for name in ["hello", "typed", "noded", "shell"] {
        machine.wait_ready(name);
        let ask = format!("fndctl invoke {name} -d '{{\"name\": \"Ada\"}}'");
        let first = machine.ok(&ask);
        assert!(first.contains("Ada"), "{name}: {first}");
        assert_eq!(machine.ok(&ask), first, "the same worker answers again");
        let before = machine.main_pid("fnd.service");
        machine.ok("systemctl restart fnd.service");
        machine.wait_restarted("fnd.service", &before);
        assert_eq!(machine.ok(&ask), first, "{name}: and after a restart of fnd");
    }
    machine.ok("rm /etc/fnd/functions/hello.py /etc/fnd/functions/typed.ts /etc/fnd/functions/noded.cjs /etc/fnd/functions/shell.sh");
    machine.wait_until(
        "their workers to be gone",
        PATIENCE,
        "! find /sys/fs/cgroup/system.slice/fnd-spawner.service -name 'w[0-9]*' -type d | grep -q .",
    );
}

/// A script without a trigger runs once when its file is added.
pub(crate) fn once_by_being_there(machine: &mut VirtualMachine) {
    machine.drop_file("task.sh", "#!/usr/bin/env bash\necho done\n");
    machine.wait_until(
        "the task to have run",
        PATIENCE,
        "jq -e '.status == \"succeeded\" and .trigger == \"load\"' /run/fnd/status/task.json",
    );
    let uid = machine.get("/v1/functions/task")["uid"].as_u64().expect("a uid");
    assert!(uid >= 70000, "an own user, not {uid}");
    machine.ok("systemctl restart fnd.service && fndctl status");
    assert_eq!(
        machine.get("/v1/functions/task")["runs"],
        1,
        "not again after a restart"
    );
}

/// Members of the group may invoke; other users cannot even connect.
pub(crate) fn who_may(machine: &mut VirtualMachine) {
    machine.drop_bash("mine", "", "echo fine\n");
    let member = machine.run("runuser -u alice -- fndctl invoke mine");
    assert_eq!((member.code, member.out().trim()), (0, "fine"), "{member}");
    let stranger = machine.run("runuser -u bob -- fndctl invoke mine");
    assert_eq!(stranger.code, 5, "{stranger}");
    let member = machine.run("runuser -u alice -- fndctl reload");
    assert_eq!(member.code, 5, "an operator is no admin: {member}");
    assert_eq!(text(&machine.last_run("mine"), "state"), "succeeded");
    // Only fnd can connect to the spawner, and no other user can read its files.
    for path in [
        "/run/fnd/spawner.sock",
        "/var/lib/fnd/state/ledger.db",
        "/etc/fnd/secrets",
    ] {
        let denied = machine.run(&format!(
            "test -e {path} && runuser -u alice -- test ! -r {path} -a ! -w {path}"
        ));
        assert_eq!(denied.code, 0, "{path} is open to a member of the group");
    }
}
