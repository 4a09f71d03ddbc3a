//! The fuzzer's entry to `import`: what is made of any text is a manifest that fnd can read.

use super::{Imported, crontab, supervisord, systemd};
use fnd_manifest::foreign::Made;
use std::collections::BTreeSet;

/// Makes functions of a text; its first letter says what it is: `c` for a crontab, `C` for one with users, `u` for a service,
/// `t` for a service and, after a NUL, its timer, `s` for a file of supervisord.
///
/// # Panics
/// A function has an invalid name or manifest, or two have the same name.
pub fn import(text: &str) {
    let Some(kind) = text.chars().next() else {
        return;
    };
    let text = text.get(kind.len_utf8()..).unwrap_or_default();
    match kind {
        'c' | 'C' => check(&crontab::fuzzing::made(text, kind == 'C')),
        's' => check(&supervisord::fuzzing::made(text)),
        'u' => check(&systemd::fuzzing::made(text, None)),
        't' => {
            let (service, timer) = text.split_once('\0').unwrap_or((text, ""));
            check(&systemd::fuzzing::made(service, Some(timer)));
        }
        _ => {}
    }
}

fn check(imported: &Imported) {
    let mut names = BTreeSet::new();
    for Made {
        name, manifest, files, ..
    } in &imported.functions
    {
        assert!(fnd_wire::ids::FunctionName::new(name).is_ok(), "`{name}` is no name");
        assert!(names.insert(name), "`{name}` is there twice");
        let (text, origins) = manifest.render(&imported.head);
        assert_eq!(origins.len(), text.lines().count());
        assert!(toml::from_str::<toml::Table>(&text).is_ok(), "{text}");
        let inside =
            |path: &str| !path.is_empty() && !path.starts_with('/') && !path.split('/').any(|part| part == "..");
        assert!(files.iter().all(|file| inside(&file.path)));
    }
}
