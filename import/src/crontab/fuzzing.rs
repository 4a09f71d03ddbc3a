//! The fuzzer's entry to the import of crontabs.

use super::{CrontabImport, CrontabMachine, ImportText, ImportedUsers, parse};
use crate::Imported;
use crate::script::LINK;

/// Makes functions of a crontab, without looking at files.
pub(crate) fn made(text: &str, users: bool) -> Imported {
    let text = ImportText::new("crontab", text);
    let machine = CrontabMachine {
        read: LINK,
        users: ImportedUsers::OwnForRoot,
        user: None,
        is_user: &|word| word == "root",
    };
    CrontabImport::new(&text, machine).make(&parse::lines(&text, users))
}
