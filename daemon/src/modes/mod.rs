//! The other programs of this binary: `fnd --check` and `fnd --examine`. What reads the bytes of others or runs as the user of a
//! function is `fnd-helper`.
//!
//! Files:
//! - `check`: `fnd --check`
//! - `examine`: `fnd --examine`
//! - `helper`: what `fnd-helper` does in place of this program

pub mod check;
pub mod examine;
pub mod helper;
