//! Packages that functions need, and code that is fetched, under the units.

use crate::guest::PATIENCE;
use crate::machine::VirtualMachine;

/// Makes a package, and a directory that pip can search.
const MAKE: &str = r#"
import os, zipfile
os.makedirs("/srv/wheels", exist_ok=True)
with zipfile.ZipFile("/srv/wheels/fndpad-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("fndpad.py", "def pad(text):\n    return text.rjust(8, '.')\n")
    wheel.writestr("fndpad-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: fndpad\nVersion: 1.0\n")
    wheel.writestr("fndpad-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr("fndpad-1.0.dist-info/RECORD", "")
"#;

const PADS: &str = "import fndpad\n\ndef handler(event, context):\n    return fndpad.pad(event['data'])\n";

/// A package is installed by a user of its own below limits, and belongs to root.
pub(crate) fn installed(machine: &mut VirtualMachine) {
    let made = machine.run_with("python3 -", MAKE);
    assert_eq!(made.code, 0, "{made}");
    machine
        .ok("systemd-run --quiet --unit=wheels python3 -m http.server --bind 127.0.0.1 --directory /srv/wheels 8099");
    machine.wait_until("the index", PATIENCE, "curl -sf http://127.0.0.1:8099/");
    let build = "[build]\nenv = { PIP_NO_INDEX = \"1\", PIP_FIND_LINKS = \"http://127.0.0.1:8099/\" }\n";
    let written = machine.run_with(
        "mkdir -p /etc/fnd/conf.d && cat >/etc/fnd/conf.d/build.toml && fndctl reload",
        build,
    );
    assert_eq!(written.code, 0, "{written}");
    machine.drop_file("pads.toml", "dependencies = [\"fndpad\"]\n");
    machine.drop_file("pads.py", PADS);
    let said = machine.wait_until("the package", PATIENCE, "fndctl invoke pads -d Ada");
    assert_eq!(said.trim(), ".....Ada");
    let owner = machine.ok("stat -c '%U %a' /var/lib/fnd/deps/*/site/fndpad.py");
    assert_eq!(owner, "root 644");
    let shown = machine.ok("fndctl show pads");
    assert!(shown.contains("fndpad 1.0"), "{shown}");
    let left = machine.ok("ls -A /var/lib/fnd/home/fnd-build");
    assert_eq!(left, "", "the home of builds is emptied");
    machine.ok("rm /etc/fnd/conf.d/build.toml /etc/fnd/functions/pads.* && fndctl reload; systemctl stop wheels");
}

/// Code of a web server is fetched by a user of its own, and serves; another content serves when a person asks for it.
pub(crate) fn fetched(machine: &mut VirtualMachine) {
    machine.ok("mkdir -p /srv/code /etc/fnd/functions/fetched");
    let serve = |text: &str| {
        let code = format!("def handler(event, context):\n    return '{text}'\n");
        let run = machine.run_with(
            "cat >/srv/code/main.py && tar -C /srv/code -czf /srv/code/code.tar.gz main.py",
            &code,
        );
        assert_eq!(run.code, 0, "{run}");
        machine.ok("sha256sum /srv/code/code.tar.gz | cut -c 1-64")
    };
    let manifest = |sum: &str| {
        let url = "http://127.0.0.1:8098/code.tar.gz";
        machine.drop_file(
            "fetched/function.toml",
            &format!("[source]\nurl = \"{url}\"\nsha256 = \"{sum}\"\n"),
        );
    };
    machine.ok("systemd-run --quiet --unit=code python3 -m http.server --bind 127.0.0.1 --directory /srv/code 8098");
    machine.wait_until("the server", PATIENCE, "curl -sf http://127.0.0.1:8098/");
    let first = serve("one");
    manifest(&first);
    let said = machine.wait_until("the code", PATIENCE, "fndctl invoke fetched");
    assert_eq!(said.trim(), "one");
    let second = serve("two");
    let refused = machine.run("fndctl build fetched");
    let said = refused.to_string();
    assert!(
        refused.code != 0 && said.contains(&second) && said.contains(&first),
        "{said}"
    );
    assert_eq!(machine.ok("fndctl invoke fetched"), "one");
    manifest(&second);
    machine.wait_until("the new code", PATIENCE, "fndctl invoke fetched | grep two");
    machine.ok("rm -r /etc/fnd/functions/fetched && fndctl reload; systemctl stop code");
}
