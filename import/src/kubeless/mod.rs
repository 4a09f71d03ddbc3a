//! The command line of Kubeless in words of fnd: its values, its names in a manifest, its objects. The verbs themselves are in
//! `fndctl`.
//!
//! Files:
//! - `code`: the files and the manifest of a function, which are uploaded
//! - `content`: the content of a file, an archive or a URL that a person names
//! - `manifest`: changes of a manifest, and triggers by Kubeless's names
//! - `object`: Kubeless's objects of a function
//! - `options`: options of Kubeless without effect, each with the reason
//! - `runtime`: finds the runtime for a name of Kubeless
//! - `values`: values of options

pub mod code;
pub mod content;
pub mod manifest;
pub mod object;
pub mod options;
pub mod runtime;
pub mod values;
