//! The other programs of this binary: `fnd --check` and `fnd --examine`. The program `fnd-helper` reads the bytes
//! of others, and runs as the user of a function.
//!
//! Files:
//! - `check`: `fnd --check`
//! - `examine`: `fnd --examine`
//! - `helper`: what `fnd-helper` does in place of this program

pub mod check;
pub mod examine;
pub mod helper;
