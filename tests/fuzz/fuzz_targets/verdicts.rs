//! Any bytes as the judge's documents, which fnd reads: a document that is read is written to the same value, and can
//! be shown.
#![no_main]

use fnd_fuzz::show;
use fnd_manifest::judge::{SettingsDocument, Verdict};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(verdict) = serde_json::from_slice::<Verdict>(bytes) {
        let again = serde_json::to_vec(&verdict).expect("it was read");
        assert_eq!(
            serde_json::from_slice::<Verdict>(&again).expect("it was written"),
            verdict
        );
        show(&verdict.diagnostics);
    }
    if let Ok(document) = serde_json::from_slice::<SettingsDocument>(bytes) {
        let again = serde_json::to_vec(&document).expect("it was read");
        assert_eq!(
            serde_json::from_slice::<SettingsDocument>(&again).expect("it was written"),
            document
        );
        show(&document.diagnostics);
    }
});
