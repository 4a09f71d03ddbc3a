//! The fuzzer's entry to the import of crontabs.

use super::{CrontabImport, CrontabMachine, ImportText, ImportedUsers, Scripts, parse};
use crate::Imported;

/// Makes functions of a crontab, without looking at files.
pub(crate) fn made(text: &str, users: bool) -> Imported {
    let text = ImportText::new("crontab", text);
    let scripts = Scripts {
        link: false,
        read: |_| None,
    };
    let machine = CrontabMachine {
        scripts,
        users: ImportedUsers::OwnForRoot,
        user: None,
        is_user: &|word| word == "root",
    };
    CrontabImport::new(&text, machine).make(&parse::lines(&text, users))
}
