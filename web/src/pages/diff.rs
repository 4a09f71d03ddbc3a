//! The page that shows what differs between two releases of a function.

use super::{function_page, function_path};
use crate::api::{Api, Failure};
use crate::http::{Request, Response};
use crate::parts::actions::same;
use crate::parts::diff::files;
use crate::parts::frame::{Page, Visit, page};
use crate::parts::tables::function_link;
use crate::parts::text;
use fnd_client::client::encode;
use fnd_core::api::ReleaseFiles;
use fnd_wire::ids::FunctionName;
use futures_util::future::try_join3;
use maud::html;

/// # Errors
/// The address names no two releases, or fnd refuses or does not answer.
pub(super) async fn show(request: &Request, api: &Api, name: &FunctionName) -> Result<Response, Failure> {
    let (Some(from), Some(to)) = (request.query("from"), request.query("to")) else {
        return Err(Failure::bad_request("`from` and `to` are releases of the function."));
    };
    let path = |release: &str| format!("{}/versions/{}/files", function_path(name), encode(release));
    let (from, to) = (path(from), path(to));
    let (visit, from, to) = try_join3(
        Visit::of(request, api),
        api.get::<ReleaseFiles>(&from),
        api.get::<ReleaseFiles>(&to),
    )
    .await?;
    let (old, new) = (text::version(from.version), text::version(to.version));
    let body = html! {
        p { "What changed in " (function_link(name.as_str())) " from release " code { (old) } " to " code { (new) } ". " a href=(function_page(name)) { "Back" } }
        (files(&from, &to))
        (same(&format!("fndctl diff {name} {old} {new}")))
    };
    Ok(page(&visit, &Page::new("Difference", "/functions", body)))
}
