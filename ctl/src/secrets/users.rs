//! Which functions name a secret, as fnd knows them.

use crate::context::Context;
use crate::exit::CommandFailure;
use fnd_core::api::FunctionList;
use fnd_manifest::foreign::find_secret;
use fnd_manifest::regular_file;
use fnd_wire::form::Bytes;
use fnd_wire::kubernetes::{SecretSearchAnswer, SecretWanted};
use fnd_wire::naming::is_foreign;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Returns the functions that use each secret or service binding; `named` finds the names in a manifest.
///
/// # Errors
/// fnd does not answer, or the caller may not ask.
pub(crate) async fn of_all(
    context: &Context,
    named: fn(&serde_json::Value) -> Vec<String>,
) -> Result<BTreeMap<String, Vec<String>>, CommandFailure> {
    Ok(of_all_with_files(context, named).await?.0)
}

/// As [`of_all`]; with the files beside the functions that have the secrets.
///
/// # Errors
/// fnd does not answer, or the caller may not ask.
pub(crate) async fn of_all_with_files(
    context: &Context,
    named: fn(&serde_json::Value) -> Vec<String>,
) -> Result<(BTreeMap<String, Vec<String>>, BTreeMap<String, PathBuf>), CommandFailure> {
    let (mut users, mut files) = (BTreeMap::<String, Vec<String>>::new(), BTreeMap::new());
    let list: FunctionList = context.read("/v1/functions").await?;
    for function in list.functions {
        let detail = context.detail(function.function.as_str()).await?;
        for name in named(&detail.more.manifest) {
            let beside = beside(&detail.more.source, function.function.as_str(), &name);
            files.extend(beside.map(|path| (name.clone(), path)));
            let users = users.entry(name).or_default();
            // A manifest may name one secret in several places.
            if !users.contains(&function.function.to_string()) {
                users.push(function.function.to_string());
            }
        }
    }
    Ok((users, files))
}

/// Returns the file beside a function that has a secret: an encrypted one, or YAML with a Secret of Kubernetes. The spawner
/// looks in the directory of the function's code, then in the functions directory.
fn beside(source: &str, function: &str, name: &str) -> Option<PathBuf> {
    // A function of a group is one level deeper.
    let levels = 2 + usize::from(function.contains('/'));
    let places = || Path::new(source).ancestors().take(levels);
    // An encrypted file wins over YAML, as it does for the spawner.
    let mut encrypted = places().map(|place| place.join(format!("{name}.age")));
    encrypted
        .find(|path| path.is_file())
        .or_else(|| places().find_map(|place| manifest_with(place, name)))
}

/// Returns the last YAML file in a directory with a Secret that has this value. One that the caller cannot read has none.
fn manifest_with(directory: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().rev().find(|path| {
        let shown = path.display().to_string();
        let bytes = is_foreign(&shown).then(|| regular_file::read(path).ok()).flatten();
        bytes.is_some_and(|bytes| {
            let (name, files) = (name.to_owned(), vec![(shown, Bytes(bytes))]);
            matches!(find_secret(&SecretWanted { name, files }), SecretSearchAnswer::Value(_))
        })
    })
}

/// Returns the secrets that a manifest names: in `auth` of its routes, a list of `SCHEME:SECRET`, in `secrets`, and
/// as the `key` of its source.
pub(crate) fn secrets(manifest: &serde_json::Value) -> Vec<String> {
    let routes = manifest["http"].as_array().into_iter().flatten();
    let auth = routes.filter_map(|route| route["auth"].as_array()).flatten();
    let of_routes = auth.filter_map(|credential| Some(credential.as_str()?.split_once(':')?.1));
    let mapped = manifest["secrets"]
        .as_object()
        .into_iter()
        .flat_map(|mapped| mapped.values());
    let own = mapped.filter_map(|mapped| mapped["secret"].as_str());
    let source = manifest["source"]["key"].as_str();
    of_routes.chain(own).chain(source).map(str::to_owned).collect()
}

/// Returns the service bindings that a manifest names.
pub(crate) fn bindings(manifest: &serde_json::Value) -> Vec<String> {
    let names = manifest["bindings"].as_array().into_iter().flatten();
    names.filter_map(|name| Some(name.as_str()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use crate::secrets::users::secrets;

    #[test]
    fn every_route_and_every_mapped_secret_counts() {
        let manifest = serde_json::json!({ "secrets": { "A": { "secret": "three", "variable": false } }, "http": [
            { "path": "/a", "auth": ["token:one", "github:two"] },
            { "path": "/b", "auth": [] },
        ]});
        assert_eq!(secrets(&manifest), ["one", "two", "three"]);
        assert!(secrets(&serde_json::Value::Null).is_empty());
    }
}
