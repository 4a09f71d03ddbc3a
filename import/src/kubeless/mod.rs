//! The command line of Kubeless in words of fnd: its values, its names in a manifest, its objects. The verbs themselves are in
//! `fndctl`.
//!
//! Files:
//! - `manifest`: changes of a manifest, and triggers by Kubeless's names
//! - `object`: Kubeless's objects of a function
//! - `values`: values of options

pub mod manifest;
pub mod object;
pub mod values;
