//! Packages that functions need, under the units.

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
