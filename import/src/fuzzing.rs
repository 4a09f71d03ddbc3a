//! The fuzzer's entry to `import`: what is made of any input is a manifest that fnd can read.

use super::pm2::evaluate::place_in;
use super::script::LINK;
use super::users::ImportedUsers;
use super::{Imported, compose, crontab, dagu, pm2, sam, supervisord, systemd, tree, webhook};
use fnd_manifest::foreign::MadeManifest;
use fnd_manifest::foreign::yaml::Document;
use std::collections::BTreeSet;
use std::path::Path;

/// Makes functions of an input; its first byte says what it is: `c` for a crontab, `C` for one with users, `u` for a service,
/// `t` for a service and, after a NUL, its timer, `s` for a file of supervisord, `w` for hooks of webhook, `p` for an
/// ecosystem file of pm2, `j` for what such a file exports and, after a NUL, its program, `d` for a DAG of dagu, `o` for a
/// compose file, `a` for a template of AWS SAM.
///
/// # Panics
/// A function has an invalid name or manifest, or two have the same name.
pub fn import(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else {
        return;
    };
    let made = match kind {
        b'w' => tree_of("hooks.json", bytes, |documents| {
            webhook::hooks(documents, "hooks.json", LINK)
        }),
        b'p' => tree_of("ecosystem.json", bytes, apps),
        b'j' => {
            let (exported, program) = halves(bytes);
            let program = String::from_utf8_lossy(program);
            tree_of("ecosystem.config.js", exported, |documents| {
                let mut documents = documents.to_vec();
                place_in(&mut documents, &program);
                apps(&documents)
            })
        }
        b'a' => sam::fuzzing::made(bytes, &[("Stage", "live")]),
        b'd' => tree_of("nightly.yaml", bytes, |documents| dagu::dag(documents, "nightly.yaml")),
        b'o' => tree_of("compose.yaml", bytes, |documents| {
            compose::services(
                documents,
                "compose.yaml",
                Path::new("/srv/shop"),
                ImportedUsers::OwnForRoot,
            )
        }),
        // Files of lines are refused before, if they are not UTF-8.
        _ => str::from_utf8(bytes).ok().and_then(|text| lines(*kind, text)),
    };
    made.iter().for_each(check);
}

fn lines(kind: u8, text: &str) -> Option<Imported> {
    Some(match kind {
        b'c' | b'C' => crontab::fuzzing::made(text, kind == b'C'),
        b's' => supervisord::fuzzing::made(text),
        b'u' => systemd::fuzzing::made(text, None),
        b't' => {
            let (service, timer) = text.split_once('\0').unwrap_or((text, ""));
            systemd::fuzzing::made(service, Some(timer))
        }
        _ => return None,
    })
}

fn apps(documents: &[Document]) -> Imported {
    let machine = pm2::Pm2Machine {
        base: Path::new("/srv/app"),
        env: Some("production"),
        users: ImportedUsers::OwnForRoot,
        is_text: |path| path.extension().is_none().then_some(true),
    };
    pm2::apps(documents, "ecosystem.config.js", machine)
}

/// Returns what is made of the documents of a file; a file that is neither YAML nor JSON is refused before.
fn tree_of(name: &str, bytes: &[u8], made: impl FnOnce(&[Document]) -> Imported) -> Option<Imported> {
    tree::parse(name, bytes).ok().map(|documents| made(&documents))
}

fn halves(bytes: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

fn check(imported: &Imported) {
    let mut names = BTreeSet::new();
    for MadeManifest {
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
