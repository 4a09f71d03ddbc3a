//! Uploads of functions: the files, the manifest with the options of the command line, and the request. `deploy` and
//! `kubeless` use it.
//!
//! Files:
//! - `manifest`: options of the command line that change the manifest
//! - `pack`: the files of a function, as one request

mod manifest;
mod pack;

pub(crate) use manifest::ManifestOptions;
pub(crate) use pack::Packed;

use crate::client::{Reply, request};
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use crate::text;
use fnd_core::api::CallerView;
use fnd_manifest::settings::Role;
use hyper::Method;
use hyper::body::Bytes;

/// From this size on, progress is reported before the upload.
const LARGE: usize = 4 << 20;

/// Uploads a function and returns fnd's answer. `headers` are conditions on the function.
///
/// # Errors
/// fnd refuses the upload, or it cannot be reached.
pub(crate) async fn send(
    context: &Context,
    packed: &Packed,
    mut headers: Vec<(String, String)>,
    dry_run: bool,
) -> Result<Reply, CommandFailure> {
    let path = function_path(&packed.name)?;
    let (boundary, body) = packed.form();
    headers.push((
        "content-type".to_owned(),
        format!("multipart/form-data; boundary={boundary}"),
    ));
    if body.len() >= LARGE {
        let size = text::size(u64::try_from(body.len()).ok());
        context.out.progress(&format!("uploading {size}"));
    }
    let query = if dry_run { "?dry_run=1" } else { "" };
    let request = request(Method::PUT, &format!("{path}{query}"), &headers, Bytes::from(body))?;
    let mut sent = context.client.send(request).await.map_err(CommandFailure::from);
    // The caller knows its own files, and not those in the state directory of fnd.
    if let Err(failure) = &mut sent {
        for problem in &mut failure.diagnostics {
            packed.localize(problem);
        }
        // A name for which the caller has no role looks like one of no function.
        if failure.exit == Exit::NoSuchThing
            && let Ok(caller) = context.read::<CallerView>("/v1/access").await
            && let Some(help) = elsewhere(&caller, &packed.name)
        {
            (failure.help, failure.unknown) = (Some(help), None);
        }
    }
    sent
}

/// Says where a caller may deploy who may not do so everywhere, with a name like this one there.
fn elsewhere(caller: &CallerView, name: &str) -> Option<String> {
    let admin = caller.functions.iter().filter(|entry| entry.role == Role::Admin);
    let patterns: Vec<&str> = admin.flat_map(|entry| &entry.functions).map(String::as_str).collect();
    if patterns.is_empty() || caller.role == Some(Role::Admin) {
        return None;
    }
    let mut groups = patterns.iter().filter_map(|pattern| pattern.strip_suffix("/*"));
    let group = groups.find(|group| !group.contains(['*', '?', '[', '!']));
    let last = name.rsplit('/').next().unwrap_or(name);
    let option = group.map(|group| format!(": `--name {group}/{last}`"));
    Some(format!(
        "your role admin is for {}{}",
        patterns.join(", "),
        option.unwrap_or_default()
    ))
}

/// Says whether fnd refuses something that only functions of root may have.
pub(crate) fn is_only_for_root(failure: &CommandFailure) -> bool {
    let codes = ["not-allowed", "not-trusted"];
    let mut problems = failure.diagnostics.iter();
    problems.any(|problem| codes.contains(&problem.code.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::api::RoleOfFunctions;

    #[test]
    fn a_role_for_some_functions_says_where_to_deploy() {
        for (role, patterns, expected) in [
            (
                Role::Admin,
                &["web/*"][..],
                Some("your role admin is for web/*: `--name web/welcome`"),
            ),
            (Role::Admin, &["w*"][..], Some("your role admin is for w*")),
            (Role::Operator, &["web/*"][..], None),
        ] {
            let functions = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            let caller = CallerView {
                node: "vm1".to_owned(),
                uid: 1000,
                role: None,
                functions: vec![RoleOfFunctions { role, functions }],
            };
            assert_eq!(elsewhere(&caller, "welcome").as_deref(), expected);
            let everywhere = CallerView {
                role: Some(Role::Admin),
                ..caller
            };
            assert_eq!(elsewhere(&everywhere, "welcome"), None);
        }
    }
}
