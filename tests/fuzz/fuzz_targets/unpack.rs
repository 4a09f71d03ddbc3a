//! Any bytes as what `fnd-helper --unpack` sends: no path leaves the function, no two paths are the same, and lengths hold.
#![no_main]

use fnd_wire::archive::{BYTES_MAX, ENTRIES_MAX};
use fnd_wire::unpack::{Received, Receiver, Stopped};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;
use std::path::{Component, Path};

fuzz_target!(|bytes: &[u8]| {
    let (mut input, mut receiver) = (bytes, Receiver::default());
    let (mut paths, mut sum, mut missing) = (BTreeSet::new(), 0_u64, 0_u64);
    loop {
        match receiver.next(&mut input) {
            Ok(Received::File(file)) => {
                assert_eq!(missing, 0);
                let mut parts = Path::new(&file.path).components();
                assert!(
                    parts.all(|part| matches!(part, Component::Normal(_))),
                    "{:?}",
                    file.path
                );
                assert!(!file.path.contains('\0') && !file.path.ends_with('/'));
                missing = file.length;
                sum += file.length;
                assert!(paths.insert(file.path) && paths.len() <= ENTRIES_MAX && sum <= BYTES_MAX);
            }
            Ok(Received::Data(bytes)) => {
                missing = missing
                    .checked_sub(bytes.len() as u64)
                    .expect("no more than the file has");
            }
            Ok(Received::End) => {
                assert!(missing == 0 && !paths.is_empty());
                return;
            }
            Err(Stopped::Refused(refusal)) => {
                let (message, help) = refusal.words();
                assert!(!message.is_empty() && !help.is_empty() && !message.chars().any(char::is_control));
                return;
            }
            Err(Stopped::Invalid(_) | Stopped::Ended(_)) => return,
        }
    }
});
