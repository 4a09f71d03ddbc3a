//! Files that fnd reads only when it is told to: secrets and service bindings. Says which functions use them.

use crate::context::Context;
use crate::exit::CommandFailure;
use crate::local::LocalPlaces;
use crate::secrets::users;
use serde_json::Value;
use std::path::PathBuf;

/// Returns the configuration that the command line names, or that of an installation.
///
/// # Errors
/// The user has no home.
pub(crate) fn configuration(context: &Context, named: Option<PathBuf>) -> Result<PathBuf, CommandFailure> {
    match named {
        Some(config) => Ok(std::path::absolute(&config).unwrap_or(config)),
        None => Ok(LocalPlaces::of(context.user)?.config),
    }
}

/// Has fnd read its files again. Returns the functions that use one of this name, if fnd knows, and a sentence about them.
/// `named` finds the names in a manifest.
pub(crate) async fn reread(
    context: &Context,
    name: &str,
    named: fn(&Value) -> Vec<String>,
) -> (Option<Vec<String>>, String) {
    // fnd may not run; it reads the file when it starts.
    if let Err(failure) = context.client.post("/v1/reload").await {
        return (None, format!("fnd was not asked to read it: {}", failure.message));
    }
    let Ok(mut users) = users::of_all(context, named).await else {
        return (None, "fnd has read it again".to_owned());
    };
    let users = users.remove(name).unwrap_or_default();
    let used = match users.as_slice() {
        [] => "nothing uses it yet".to_owned(),
        users => format!("used by {}", users.join(", ")),
    };
    (Some(users), used)
}

/// Returns the functions of a table that use something, as a cell.
pub(crate) fn used_by(users: Option<&Vec<String>>) -> String {
    users.map_or_else(|| "?".to_owned(), |users| users.join(","))
}
