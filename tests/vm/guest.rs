//! Access to fnd in the machine: files, `fndctl`, the API, the cgroup tree.

use crate::machine::VirtualMachine;
use fnd_tests::Run;
use serde_json::Value;
use std::time::Duration;

/// Where the cgroups of functions are.
pub(crate) const FUNCTIONS: &str = "/sys/fs/cgroup/system.slice/fnd-spawner.service/f";
/// Prints the leaves that have processes of attempts, and those of a function that has more than one. After a run, fnd measures
/// the function's home by a process in a leaf of its own, which does not count; neither does its launcher's child before that.
const LEFT: &str = r#"for function in /sys/fs/cgroup/system.slice/fnd-spawner.service/f/*/; do
    leaves=
    for leaf in $(find "$function" -maxdepth 1 -name 'w[0-9]*' -type d 2>/dev/null); do
        measures=
        for process in $(cat "$leaf/cgroup.procs" 2>/dev/null); do
            case "$(cat "/proc/$process/comm" 2>/dev/null) $(tr '\0' ' ' 2>/dev/null <"/proc/$process/cmdline")" in
                'fnd-launcher '* | *' --measure '*) measures=1 ;;
                ' ') ;; # it has ended meanwhile
                *) echo "$leaf" ;;
            esac
        done
        [ -n "$measures" ] || leaves="$leaves $leaf"
    done
    set -- $leaves
    [ $# -le 1 ] || echo "$@"
done"#;

/// Deadline of a wait: long enough for anything that does come, on emulated CPUs that other programs use, too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

impl VirtualMachine {
    /// Puts fnd into the state after its installation: both units active, no functions, no drop-ins, no roles of teams.
    #[track_caller]
    pub(crate) fn clean_fnd(&self) {
        // Only a socket that is made anew has the mode of the unit, and it can be made only while the service is stopped.
        self.ok(
            "rm -f /etc/fnd/conf.d/access.toml; if [ -e /etc/systemd/system/fnd.socket.d ]; then \
                 rm -r /etc/systemd/system/fnd.socket.d && systemctl daemon-reload && systemctl stop fnd.service fnd.socket; fi",
        );
        self.ok(
            "rm -rf /etc/systemd/system/fnd.service.d /etc/systemd/system/fnd-spawner.service.d /etc/fnd/functions/* \
                 && systemctl daemon-reload && systemctl start fnd.socket fnd.service",
        );
        self.wait_until(
            "fnd to have no functions",
            PATIENCE,
            "fndctl status -o json | jq -e '.functions | length == 0'",
        );
    }

    /// Writes a file of the functions directory as a deployment does: beside it, then renamed.
    #[track_caller]
    pub(crate) fn drop_file(&self, name: &str, content: &str) {
        let path = format!("/etc/fnd/functions/{name}");
        let run = self.run_with(
            &format!("cat >/etc/fnd/functions/.new && mv /etc/fnd/functions/.new {path}"),
            content,
        );
        assert_eq!(run.code, 0, "{path}: {run}");
    }

    /// Installs a bash function that runs only when invoked, with more lines of manifest, and waits until it is ready.
    #[track_caller]
    pub(crate) fn drop_bash(&self, name: &str, manifest: &str, code: &str) {
        self.drop_file(&format!("{name}.toml"), &format!("on_load = false\n{manifest}\n"));
        self.drop_file(&format!("{name}.sh"), code);
        self.wait_ready(name);
    }

    /// As [`Self::drop_bash`], for python.
    #[track_caller]
    pub(crate) fn drop_python(&self, name: &str, manifest: &str, code: &str) {
        self.drop_file(&format!("{name}.toml"), &format!("on_load = false\n{manifest}\n"));
        self.drop_file(&format!("{name}.py"), code);
        self.wait_ready(name);
    }

    /// Waits until a function can be invoked.
    #[track_caller]
    pub(crate) fn wait_ready(&self, name: &str) {
        self.wait_until(
            &format!("`{name}` to be ready"),
            PATIENCE,
            &format!("fndctl show {name} -o json | jq -e '.version != null and (.state == \"ready\" or .state == \"running\")'"),
        );
    }

    /// Returns what the API answers to a GET.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        let text = self.ok(&format!(
            "curl -sS --unix-socket /run/fnd/control.sock 'http://fnd{path}'"
        ));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }

    /// Runs a function and waits for its end, whatever that is.
    #[track_caller]
    pub(crate) fn invoke(&self, name: &str) -> Run {
        self.run(&format!("fndctl invoke {name}"))
    }

    /// Queues an invocation; returns its id.
    #[track_caller]
    pub(crate) fn queue(&self, name: &str) -> String {
        self.ok(&format!("fndctl invoke {name} --async -o json | jq -er .id"))
    }

    /// Returns an invocation once it satisfies a condition of jq.
    #[track_caller]
    pub(crate) fn wait_invocation(&self, id: &str, condition: &str) -> Value {
        let text = self.wait_until(
            &format!("invocation {id} to be {condition}"),
            PATIENCE,
            &format!(
                "v=$(fndctl history --id {id} -o json) && jq -e '{condition}' >/dev/null <<<\"$v\" && cat <<<\"$v\""
            ),
        );
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Returns the newest invocation of a function, with its attempts, once it has ended.
    #[track_caller]
    pub(crate) fn last_run(&self, name: &str) -> Value {
        let id = self.ok(&format!(
            "fndctl history {name} -n 1 -o json | jq -er '.invocations[0].id'"
        ));
        self.wait_invocation(&id, ".ended_at != null")
    }

    /// Returns a file of a function's cgroup.
    #[track_caller]
    pub(crate) fn cgroup(&self, name: &str, file: &str) -> String {
        self.ok(&format!("cat {FUNCTIONS}/{name}/{file}"))
    }

    /// Checks that no attempt of any function has a process or a leaf any more. One empty leaf of a function may wait for its
    /// next run.
    ///
    /// # Panics
    /// If there still is one: a run whose end was reported has none.
    #[track_caller]
    pub(crate) fn nothing_left(&self) {
        let leaves = self.ok(&format!("{{ {LEFT}; }}; true"));
        assert_eq!(leaves, "", "leaves of attempts that ended");
    }

    /// The same with a wait, for tests that see the end of a process before the end of its attempt.
    #[track_caller]
    pub(crate) fn wait_nothing_left(&self) {
        self.wait_until(
            "no attempt to have a leaf",
            PATIENCE,
            &format!("! {{ {LEFT}; }} | grep ."),
        );
    }

    /// Returns the main process of a unit.
    #[track_caller]
    pub(crate) fn main_pid(&self, unit: &str) -> String {
        let pid = self.ok(&format!("systemctl show --property MainPID --value {unit}"));
        assert_ne!(pid, "0", "{unit} has a main process");
        pid
    }

    /// Returns when fnd serves again with a main process other than `before`.
    #[track_caller]
    pub(crate) fn wait_restarted(&self, unit: &str, before: &str) {
        self.wait_until(
            &format!("{unit} to be restarted"),
            PATIENCE,
            &format!(
                "p=$(systemctl show --property MainPID --value {unit}); systemctl is-active -q fnd.service fnd-spawner.service && test $p != 0 -a $p != {before}"
            ),
        );
    }
}

/// Returns a text of an object.
#[track_caller]
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no `{key}` in {value}"))
}
