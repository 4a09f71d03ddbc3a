//! The commands of the documents that need systemd: each page from top to bottom, on a machine as its reader has it.

use crate::machine::VirtualMachine;
use fnd_tests::documents::blocks::{Use, blocks, documents};
use fnd_tests::documents::commands::examples;

/// Functions and units of a page are saved, and its commands end with the exit code and the output that the page shows.
pub(crate) fn commands(machine: &mut VirtualMachine) {
    machine.ok("id ada || useradd ada; mkdir -p /srv/www/release");
    let mut executed = 0;
    for page in documents() {
        let blocks = blocks(&page);
        if !blocks.iter().any(|block| block.use_of() == Use::Systemd) {
            continue;
        }
        for block in &blocks {
            match block.use_of() {
                Use::Save(file) => {
                    machine.drop_file(&file, &block.text);
                    machine.ok("fndctl reload");
                }
                Use::Unit(file) => {
                    let run = machine.run_with(&format!("cat >/etc/systemd/system/{file}"), &block.text);
                    assert_eq!(run.code, 0, "{run}");
                }
                Use::Systemd => {
                    for example in examples(&block.text) {
                        let run = machine.run(&example.command);
                        let place = &block.place;
                        assert_eq!(run.code, example.code, "{place}: {}: {run}", example.command);
                        assert!(example.fits(&run.out(), false), "{place}: {}: {run}", example.command);
                        executed += 1;
                    }
                }
                _ => {}
            }
        }
        machine.ok("rm -f /etc/fnd/conf.d/users.toml /etc/sudoers.d/fnd-deploy");
        machine.clean_fnd();
    }
    assert!(executed >= 15, "only {executed} commands need systemd");
    machine.ok("systemctl disable --now fnd-dump.timer fnd-backup.timer; rm /etc/systemd/system/fnd-dump.* /var/backups/fnd.tar");
    machine.nothing_left();
}
