//! The fuzzer's entry to the import of crontabs.

use super::{CrontabImport, ImportText, Scripts, parse};
use crate::Imported;

/// Makes functions of a crontab, without looking at files.
pub(crate) fn made(text: &str, users: bool) -> Imported {
    let text = ImportText::new("crontab", text);
    let scripts = Scripts {
        link: false,
        read: |_| None,
    };
    CrontabImport::new(&text, scripts, None, false).make(&parse::lines(&text, users))
}
