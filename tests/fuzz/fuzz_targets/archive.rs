//! Any bytes as the archive that `fndctl restore` reads, with right checksums: nothing is written outside of the places named,
//! and nothing at all where the archive is refused.
#![no_main]

use fnd_fuzz::directory;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

const BLOCK: usize = 512;

/// Gives each header its checksum: the fuzzer cannot guess that.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut archive = bytes.to_vec();
    let mut at = 0;
    while let Some(header) = archive.get_mut(at..at + BLOCK) {
        if header.iter().all(|byte| *byte == 0) {
            at += BLOCK;
            continue;
        }
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let size = str::from_utf8(&header[124..135])
            .ok()
            .and_then(|text| u64::from_str_radix(text.trim(), 8).ok());
        let size = usize::try_from(size.unwrap_or(0).min(1 << 30)).unwrap_or(0);
        at += BLOCK + size.div_ceil(BLOCK) * BLOCK;
    }
    archive
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("it is ours").flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fuzz_target!(|bytes: &[u8]| {
    let directory = directory();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("archive"), with_checksums(bytes)).expect("a file in memory");
    std::fs::create_dir(at("outside")).expect("a directory in memory");
    std::fs::create_dir(at("to")).expect("a directory in memory");
    let refused = fndctl::fuzzing::restore(&at("archive"), &at("to"));
    assert_eq!(names(directory.path()), ["archive", "outside", "to"]);
    assert!(names(&at("outside")).is_empty());
    let known = ["config", "functions", "state"];
    assert!(
        names(&at("to")).iter().all(|name| known.contains(&name.as_str())),
        "{:?}",
        names(&at("to"))
    );
    assert!(
        !refused || names(&at("to")).is_empty(),
        "it was refused and written: {:?}",
        names(&at("to"))
    );
});
