//! The other programs of this binary: `fnd --judge`, `fnd --check`, `fnd --examine` and `fnd --watch`.
//!
//! Files:
//! - `check`: `fnd --check`
//! - `confine`: confines the judge before it reads untrusted input
//! - `examine`: `fnd --examine`
//! - `judge`: `fnd --judge`
//! - `watch`: `fnd --watch`

pub mod check;
pub mod confine;
pub mod examine;
pub mod judge;
pub mod watch;
