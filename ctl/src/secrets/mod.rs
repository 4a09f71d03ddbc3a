//! The secrets of functions, and those with which fnd checks requests: files, values and users. `secret`, `binding` and
//! `backup` use it.
//!
//! Files:
//! - `store`: the directory of the files
//! - `users`: which functions name a secret
//! - `values`: new values, and where they are pasted

pub(crate) mod store;
pub(crate) mod users;
pub(crate) mod values;

use std::path::{Path, PathBuf};

/// Returns the key that a configuration names, or the one beside it.
pub(crate) fn key_of(config: &Path) -> PathBuf {
    let judge = crate::local::judge(config, &[]).0;
    let named = judge.and_then(|judge| judge.configuration().settings.secrets.age_key.clone());
    named.map_or_else(|| config.with_file_name("age.key"), PathBuf::from)
}
