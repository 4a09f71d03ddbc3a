//! The findings of `fnd --examine` about the ledger.

use super::finding::Finding;
use fnd_core::verify_report::{Examined, LedgerFinding, Severity};

/// Converts the findings of `fnd` to findings of this list.
pub(crate) fn of_ledger(examined: &Examined) -> Vec<Finding> {
    let repaired = examined.repaired.iter().map(|what| Finding::ok("repair", what.clone()));
    let found = examined.findings.iter().map(|found| {
        let LedgerFinding {
            level,
            check,
            what,
            fix,
        } = found;
        let check = match check.as_str() {
            "in-flight" => "in-flight",
            "state" => "state",
            _ => "ledger",
        };
        let finding = match level {
            Severity::Ok => Finding::ok(check, what.clone()),
            Severity::Unknown => Finding::unknown(check, what.clone()),
            Severity::Warning => Finding::warning(check, what.clone()),
            Severity::Error => Finding::error(check, what.clone()),
        };
        match fix {
            Some(fix) => finding.fix(fix.clone()),
            None => finding,
        }
    });
    repaired.chain(found).collect()
}
