//! The secrets of functions, and those with which fnd checks requests: files, values and users. `secret`, `binding` and
//! `backup` use it.
//!
//! Files:
//! - `store`: the directory of the files
//! - `users`: which functions name a secret
//! - `values`: new values, and where they are pasted
//! - `write`: writes files that are complete or not there

pub(crate) mod store;
pub(crate) mod users;
pub(crate) mod values;
pub(crate) mod write;

use crate::exit::CommandFailure;
use fnd_wire::trust::is_secret;
use std::path::{Path, PathBuf};

/// Returns the path of a secret or of a service binding in its directory. `what` names it in the message.
///
/// # Errors
/// The name is not one.
pub(crate) fn checked(directory: &Path, what: &str, name: &str) -> Result<PathBuf, CommandFailure> {
    if is_secret(name) {
        return Ok(directory.join(name));
    }
    let help = "a name has 1 to 64 letters, digits, `.`, `_` and `-`, and does not begin with a dot";
    Err(CommandFailure::usage(format!("a {what} can't have the name `{name}`")).help(help))
}

/// Returns the key that a configuration names, or the one beside it.
pub(crate) fn key_of(config: &Path) -> PathBuf {
    let judge = crate::local::judge(config, &[]).0;
    let named = judge.and_then(|judge| judge.configuration().settings.secrets.age_key.clone());
    named.map_or_else(|| config.with_file_name("age.key"), PathBuf::from)
}
