//! The command line of Kubeless in words of fnd: its values, its names in a manifest, its objects. The verbs themselves are in
//! `fndctl`.
//!
//! Files:
//! - `code`: a function that is uploaded
//! - `content`: what a file, an archive or a URL has
//! - `manifest`: changes of a manifest, and triggers by Kubeless's names
//! - `object`: Kubeless's objects of a function
//! - `options`: options without effect
//! - `runtime`: the runtime that a name of Kubeless means
//! - `values`: values of options

pub mod code;
pub mod content;
pub mod manifest;
pub mod object;
pub mod options;
pub mod runtime;
pub mod values;
