//! Any bytes as the names in a functions directory, a line each, its first byte the kind of file: each name is one thing.
#![no_main]

use fnd_fuzz::{judge, show};
use fnd_manifest::function::forms::Claims;
use fnd_manifest::function::listing::{Clash, DirectoryEntry, EntryKind, ListedDirectory, ListedYaml, listing};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;
use std::sync::LazyLock;

static CLAIMS: LazyLock<Claims> =
    LazyLock::new(|| Claims::of(judge().runtimes().iter().flat_map(|runtime| &runtime.summary.suffixes)));

fuzz_target!(|bytes: &[u8]| {
    let mut names = BTreeSet::new();
    let mut entries = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some((kind, name)) = line.split_first().filter(|(_, name)| !name.is_empty()) else {
            continue;
        };
        // The kernel allows no other names, and each only once.
        if name.contains(&0) || name.contains(&b'/') || name == b"." || name == b".." || !names.insert(name) {
            continue;
        }
        let kind = match kind & 3 {
            0 => EntryKind::File {
                executable: kind & 4 != 0,
            },
            1 | 2 => EntryKind::Directory {
                function: kind & 4 != 0,
            },
            _ => EntryKind::Other,
        };
        entries.push(DirectoryEntry {
            name: name.to_vec(),
            kind,
        });
    }
    for (group, default_runtime) in [(None, false), (Some("ops"), true)] {
        let place = ListedDirectory {
            path: "/f",
            group,
            claims: &CLAIMS,
            default_runtime,
        };
        let found = listing(
            place,
            &entries,
            |name, _| name.len() % 2 == 0,
            |name| ListedYaml::Functions(vec![name.replace('.', "")]),
        );
        show(&found.problems);
        let mut functions = BTreeSet::new();
        for function in &found.functions {
            assert!(functions.insert(&function.name), "{} is there twice", function.name);
            assert_eq!(function.name.group(), group);
            assert!(names.contains(function.source.as_bytes()));
        }
        for Clash {
            function: name,
            files: sources,
            ..
        } in &found.clashes
        {
            assert!(sources.len() > 1 && !functions.contains(name), "{name}: {sources:?}");
        }
    }
});
