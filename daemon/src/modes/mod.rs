//! The other programs of this binary: `fnd --judge`, `fnd --check` and `fnd --examine`.

pub mod check;
pub mod confine;
pub mod examine;
pub mod judge;
