//! The signed repository of `make repo`.

use crate::guest::PATIENCE;
use crate::machine::VirtualMachine;

/// Options of apt: this repository alone, since the machine has no network.
const ALONE: &str = "-o Dir::Etc::sourcelist=/etc/apt/sources.list.d/fnd.sources -o Dir::Etc::sourceparts=-";
const KEYRING: &str = "/usr/share/keyrings/fnd-archive-keyring.pgp";

/// Gives the machine the lists as they were when these keys signed them: `old`, `both` or `new`.
fn signed_by(machine: &VirtualMachine, keys: &str) {
    machine.ok(&format!(
        "rm -rf /srv/repo && mkdir -p /srv/repo && ln -s /payload/repo/pool /srv/repo/pool && cp -r /payload/repo/{keys} /srv/repo/dists"
    ));
}

fn apt_get(arguments: &str) -> String {
    let options = "-q -y --no-install-recommends -o APT::Update::Error-Mode=any";
    format!("DEBIAN_FRONTEND=noninteractive apt-get {options} {ALONE} {arguments}")
}

/// A machine installs fnd from the repository, upgrades it, and goes on through a change of keys; one that missed the new key refuses.
pub(crate) fn repository(machine: &mut VirtualMachine) {
    signed_by(machine, "old");
    machine.ok(&format!(
        "cp /payload/repo/old.pgp {KEYRING} && cp /payload/repo/fnd.sources /etc/apt/sources.list.d/"
    ));
    machine.ok(&apt_get("update"));
    let found = machine.ok(&format!("apt-cache {ALONE} madison fnd | cut -d '|' -f 2 | tr -d ' '"));
    let versions: Vec<&str> = found.lines().collect();
    let [newest, oldest] = versions[..] else {
        panic!("the repository has these versions: {found}")
    };
    machine.ok(&apt_get("purge fnd"));
    machine.ok(&apt_get(&format!("install fnd={oldest} fnd-archive-keyring")));
    runs(machine, oldest);
    machine.ok(&apt_get("upgrade"));
    runs(machine, newest);

    for keys in ["both", "new"] {
        signed_by(machine, keys);
        machine.ok(&apt_get("update"));
        machine.ok(&apt_get("upgrade"));
    }
    machine.ok(&format!("cp /payload/repo/old.pgp {KEYRING}"));
    let refused = machine.run(&apt_get("update"));
    assert_ne!(
        refused.code, 0,
        "a signature by a key that the machine does not know: {refused}"
    );
    machine.ok(&apt_get("purge fnd-archive-keyring"));
    machine.ok("rm -r /etc/apt/sources.list.d/fnd.sources /srv/repo");
    machine.ok("dpkg --install /payload/fnd.deb");
}

/// Checks that this version is installed and runs.
fn runs(machine: &VirtualMachine, version: &str) {
    assert_eq!(machine.ok("dpkg-query -f '${Version}' -W fnd"), version);
    machine.wait_until(
        "fnd to run",
        PATIENCE,
        "systemctl is-active fnd.service && fndctl status",
    );
}
