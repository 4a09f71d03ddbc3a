//! Any text as a line of cron: it is refused with a sentence, or its slots come one after another.
#![no_main]

use fnd_manifest::cron::{Cron, zone};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((seed, line)) = bytes.split_first() else {
        return;
    };
    let Ok(line) = str::from_utf8(line) else { return };
    match Cron::parse(line, u64::from(*seed)) {
        Err(why) => assert!(!why.is_empty()),
        Ok(cron) => {
            let names = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/New_York"];
            let zone = zone(names[usize::from(*seed) % names.len()]).expect("it is part of the program");
            let mut at = 1_795_305_600_000;
            for _ in 0..20 {
                let Some(next) = cron.next_after(at, &zone) else { break };
                assert!(next > at, "{line}");
                // From any instant before the slot, the slot comes next.
                assert_eq!(
                    cron.next_after(at + (next - at) / 2, &zone).min(Some(next)),
                    Some(next),
                    "{line}"
                );
                at = next;
            }
        }
    }
});
