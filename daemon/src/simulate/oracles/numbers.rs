//! O10: fnd reports no defect of itself, and the numbers that the ledger keeps are those of its rows.

use super::{Oracle, PromiseCheck};
use crate::simulate::facts::{Death, Fact};
use crate::simulate::rows::LedgerRows;
use fnd_core::run::Now;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct NumbersOracle;

impl Oracle for NumbersOracle {
    fn see(&mut self, _: Now, fact: &Fact) -> PromiseCheck {
        match fact {
            Fact::Defect(text) => Err(format!("O10: fnd reports {text}")),
            _ => Ok(()),
        }
    }

    fn at_death(&mut self, _: Death, rows: &LedgerRows) -> PromiseCheck {
        Self::compare(rows)
    }

    fn at_end(&mut self, rows: &LedgerRows) -> PromiseCheck {
        Self::compare(rows)
    }
}

impl NumbersOracle {
    fn compare(rows: &LedgerRows) -> PromiseCheck {
        let mut counted = BTreeMap::new();
        for row in rows.invocations.values().filter(|row| row.is_dead_letter) {
            *counted.entry(&row.function).or_insert(0_u64) += 1;
        }
        for (function, kept) in &rows.dead_letters {
            let count = counted.remove(function).unwrap_or_default();
            if count != *kept {
                return Err(format!(
                    "O10: `{function}` has {count} dead letters, and the ledger says {kept}"
                ));
            }
        }
        match counted.keys().next() {
            Some(function) => Err(format!("O10: the dead letters of `{function}` are not counted")),
            None => Ok(()),
        }
    }
}
