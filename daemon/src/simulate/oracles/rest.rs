//! O11, O12: some time after the last fault all accepted work is final, all callers have their answers, and nothing is left
//! of work that is over.

use super::{Oracle, PromiseCheck};
use crate::simulate::rows::LedgerRows;

#[derive(Debug)]
pub(super) struct RestOracle;

/// O11: `left` has the number of things of each kind that should be gone.
pub(super) fn is_nothing_left(left: &[(&'static str, usize)]) -> PromiseCheck {
    let left: Vec<_> = left.iter().filter(|(_, count)| *count > 0).collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(format!("O11: at the end there is still {left:?}")),
    }
}

impl Oracle for RestOracle {
    fn at_end(&mut self, rows: &LedgerRows) -> PromiseCheck {
        let open = rows.invocations.iter().find(|(_, row)| !row.state.is_final());
        match open {
            Some((id, row)) => Err(format!(
                "O12: {id} of `{}` is still {} at the end",
                row.function,
                row.state.as_str()
            )),
            None => Ok(()),
        }
    }
}
