//! The fuzzer's entry to the import of supervisord's files.

use super::{ImportText, ImportedUsers, SupervisordMachine, programs};
use crate::Imported;
use crate::script::LINK;

/// Makes functions of a file, without looking at others.
pub(crate) fn made(text: &str) -> Imported {
    let machine = SupervisordMachine {
        read: LINK,
        users: ImportedUsers::OwnForRoot,
        here: "/etc",
        host: "x",
    };
    programs(&ImportText::new("supervisord.conf", text), machine)
}
