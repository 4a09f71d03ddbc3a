//! The other programs of this binary: `fnd --judge`, `fnd --check`, `fnd --decrypt`, `fnd --encrypt`,
//! `fnd --keygen`, `fnd --examine`, `fnd --find-secret`, `fnd --measure`, `fnd --unpack` and `fnd --watch`.
//!
//! Files:
//! - `answer`: a question in, an answer out, without rights
//! - `check`: `fnd --check`
//! - `confine`: confines the judge and the children that decrypt, unpack and find secrets before they read untrusted input
//! - `decrypt`: `fnd --decrypt`, `fnd --encrypt` and `fnd --keygen`
//! - `examine`: `fnd --examine`
//! - `find_secret`: `fnd --find-secret`
//! - `judge`: `fnd --judge`
//! - `measure`: `fnd --measure`
//! - `unpack`: `fnd --unpack`
//! - `watch`: `fnd --watch`

pub mod answer;
pub mod check;
pub mod confine;
pub mod decrypt;
pub mod examine;
pub mod find_secret;
pub mod judge;
pub mod measure;
pub mod unpack;
pub mod watch;
