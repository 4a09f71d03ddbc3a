//! The other programs of this binary: `fnd --judge`, `fnd --check` and `fnd --examine`.
//!
//! Files:
//! - `check`: `fnd --check`
//! - `confine`: confines the judge before it reads untrusted input
//! - `examine`: `fnd --examine`
//! - `judge`: `fnd --judge`

pub mod check;
pub mod confine;
pub mod examine;
pub mod judge;
