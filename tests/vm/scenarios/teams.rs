//! Two teams on one machine, with docs/team.md: each has access to its functions only.

use crate::machine::VirtualMachine;
use fnd_tests::Run;

/// Each team is a group with one member, and is admin of the functions that have its name before the `/`.
const TEAMS: [(&str, &str); 2] = [("web", "wanda"), ("ops", "oscar")];

/// The steps of docs/team.md open the control socket for both teams. Members of a team list, invoke, read and deploy the
/// functions of their team; for them there are no others.
pub(crate) fn two_teams(machine: &mut VirtualMachine) {
    machine.ok("mkdir -p /etc/fnd/functions/web /etc/fnd/functions/ops");
    for (team, member) in TEAMS {
        machine.ok(&format!(
            "groupadd --force {team} && {{ id {member} || useradd {member}; }} && usermod --append --groups {team} {member}"
        ));
        machine.drop_bash(&format!("{team}/hello"), "", "echo \"hello from $FND_FUNCTION\"\n");
    }
    let refused = run_as(machine, "wanda", "fndctl status").expect_code(5);
    for way in ["usermod -aG fnd", "[[access]]", "SocketMode=0666"] {
        assert!(refused.stderr.contains(way), "{way}: {refused}");
    }
    open_the_socket(machine);
    let mode = machine.ok("stat -c '%a %U:%G' /run/fnd/control.sock");
    assert_eq!(mode, "666 root:fnd", "the drop-in is in force");

    for restart in [false, true] {
        if restart {
            machine.ok("systemctl restart fnd.service");
        }
        TEAMS
            .iter()
            .for_each(|(team, _)| machine.wait_ready(&format!("{team}/hello")));
        for ((team, member), (other, _)) in TEAMS.into_iter().zip(TEAMS.into_iter().rev()) {
            a_member_has_the_functions_of_the_team(machine, team, member);
            there_are_no_others(machine, other, member);
        }
    }
    // A user without an entry connects and learns that it has no role; a member of `fnd` keeps the role that it had.
    let stranger = run_as(machine, "bob", "fndctl status").expect_code(5);
    assert!(stranger.stderr.contains("no group of yours has a role"), "{stranger}");
    let _ = run_as(machine, "alice", "fndctl invoke ops/hello").expect_code(0);

    machine.clean_fnd();
    let mode = machine.ok("stat -c '%a %U:%G' /run/fnd/control.sock");
    assert_eq!(mode, "660 root:fnd", "without the drop-in");
    let _ = run_as(machine, "wanda", "fndctl status").expect_code(5);
    machine.nothing_left();
}

/// Gives both teams their roles and everybody the right to connect, as docs/team.md says.
fn open_the_socket(machine: &VirtualMachine) {
    let entry = |(team, _): (&str, &str)| {
        format!("[[access]]\ngroup = \"{team}\"\nrole = \"admin\"\nfunctions = [\"{team}/*\"]\n")
    };
    let operators = "[[access]]\ngroup = \"fnd\"\nrole = \"operator\"\n";
    let entries = TEAMS.map(entry).concat() + operators;
    let run = machine.run_with("cat >/etc/fnd/conf.d/access.toml", &entries);
    assert_eq!(run.code, 0, "{run}");
    machine.ok("mkdir -p /etc/systemd/system/fnd.socket.d \
         && printf '[Socket]\\nSocketMode=0666\\n' >/etc/systemd/system/fnd.socket.d/mode.conf \
         && systemctl daemon-reload && systemctl restart fnd.socket fnd.service");
}

fn a_member_has_the_functions_of_the_team(machine: &VirtualMachine, team: &str, member: &str) {
    let own = format!("{team}/hello");
    let said = run_as(machine, member, &format!("fndctl invoke {own}")).expect_code(0);
    assert_eq!(said.out().trim(), format!("hello from {own}"), "{said}");
    let listed = run_as(machine, member, "fndctl list -o name").expect_code(0);
    assert_eq!(listed.out().trim(), own, "{listed}");
    // Runs of the function that was uploaded and removed before the restart are the team's, too.
    let of_team = format!("{team}/");
    let history = run_as(machine, member, "fndctl history -o json").expect_code(0);
    let runs = history.json()["invocations"]
        .as_array()
        .expect("a list of runs")
        .clone();
    assert!(!runs.is_empty(), "{history}");
    let mut functions = runs.iter().map(|run| run["function"].as_str().expect("a name"));
    assert!(functions.all(|function| function.starts_with(&of_team)), "{history}");
    let logs = run_as(machine, member, &format!("fndctl logs {own} --no-pager")).expect_code(0);
    assert!(logs.out().contains("hello from"), "{logs}");
    // An upload, and the code that runs afterwards.
    machine.ok(&format!(
        "printf '# /// fnd\\n# on_load = false\\n# ///\\necho uploaded by {member}\\n' >/tmp/{team}.sh && chmod a+r /tmp/{team}.sh"
    ));
    let up = format!("{team}/up");
    let _ = run_as(machine, member, &format!("fndctl deploy /tmp/{team}.sh --name {up}")).expect_code(0);
    let said = run_as(machine, member, &format!("fndctl invoke {up}")).expect_code(0);
    assert_eq!(said.out().trim(), format!("uploaded by {member}"), "{said}");
    let _ = run_as(machine, member, &format!("fndctl remove {up} --yes")).expect_code(0);
}

fn there_are_no_others(machine: &VirtualMachine, other: &str, member: &str) {
    let theirs = format!("{other}/hello");
    // Root runs it, so that there is something to read.
    let _ = machine.invoke(&theirs).expect_code(0);
    let last = machine.last_run(&theirs);
    let id = last["id"].as_str().expect("an id");
    machine.ok("printf 'echo mine\\n' >/tmp/foreign.sh && chmod a+r /tmp/foreign.sh");
    for command in [
        format!("fndctl show {theirs}"),
        format!("fndctl invoke {theirs}"),
        format!("fndctl logs {theirs} --no-pager"),
        format!("fndctl history --id {id}"),
        format!("fndctl result {id}"),
        format!("fndctl replay {id}"),
        format!("fndctl disable {theirs}"),
        format!("fndctl deploy /tmp/foreign.sh --name {theirs}"),
        format!("fndctl deploy /tmp/foreign.sh --name {other}/new"),
        format!("fndctl remove {theirs} --yes"),
    ] {
        let refused = run_as(machine, member, &command);
        assert_eq!(refused.code, 3, "{member}: {command}: {refused}");
    }
    for node in ["fndctl reload", "fndctl drain", "fndctl config"] {
        let refused = run_as(machine, member, node);
        assert_eq!(refused.code, 5, "{member}: {node}: {refused}");
    }
}

/// Runs a command as a user, with the groups that the user has after a login.
fn run_as(machine: &VirtualMachine, user: &str, command: &str) -> Run {
    machine.run(&format!("cd / && runuser -u {user} -- {command}"))
}
