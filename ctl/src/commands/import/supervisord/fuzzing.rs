//! The fuzzer's entry to the import of supervisord's files.

use super::{Machine, Scripts, Text, programs};
use crate::commands::import::Imported;

/// Makes functions of a file, without looking at others.
pub(crate) fn made(text: &str) -> Imported {
    let scripts = Scripts {
        link: false,
        read: |_| None,
    };
    let machine = Machine {
        scripts,
        own: false,
        here: "/etc",
    };
    programs(&Text::new("supervisord.conf", text), machine)
}
