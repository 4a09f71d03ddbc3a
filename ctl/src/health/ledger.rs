//! The findings of `fnd --examine` about the ledger.

use super::finding::Finding;
use fnd_core::verify_report::Examined;

/// Converts the findings of `fnd` to findings of this list.
pub(crate) fn of_ledger(examined: &Examined) -> Vec<Finding> {
    let repaired = examined.repaired.iter().map(|what| Finding::ok("repair", what.clone()));
    let found = examined.findings.iter().map(|found| {
        let check = match found.check.as_str() {
            "in-flight" => "in-flight",
            "state" => "state",
            _ => "ledger",
        };
        Finding {
            fix: found.fix.clone(),
            ..Finding::new(found.level, check, found.what.clone())
        }
    });
    repaired.chain(found).collect()
}
