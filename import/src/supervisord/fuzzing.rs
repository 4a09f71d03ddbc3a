//! The fuzzer's entry to the import of supervisord's files.

use super::{ImportText, ImportedUsers, Scripts, SupervisordMachine, programs};
use crate::Imported;

/// Makes functions of a file, without looking at others.
pub(crate) fn made(text: &str) -> Imported {
    let scripts = Scripts {
        link: false,
        read: |_| None,
    };
    let machine = SupervisordMachine {
        scripts,
        users: ImportedUsers::OwnForRoot,
        here: "/etc",
        host: "x",
    };
    programs(&ImportText::new("supervisord.conf", text), machine)
}
