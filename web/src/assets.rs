//! Style and scripts. The hash of its bytes is in the address of each, so a browser keeps it until it changes.
//!
//! Contrasts of the colours, computed as WCAG 2.2 AA says. Text needs 4.5, edges of controls and charts 3; the least value on the
//! page, on parts and on output:
//!
//! | | text | muted | link | good | bad | wait | edge | button |
//! |---|---|---|---|---|---|---|---|---|
//! | light | 14.9 | 5.9 | 6.3 | 6.0 | 5.8 | 6.1 | 3.6 | 7.1 (danger 6.5) |
//! | dark | 13.7 | 7.3 | 8.4 | 9.0 | 7.8 | 9.2 | 4.7 | 9.5 (danger 8.9) |
//!
//! Colours of output: 4.8 or more in light, 8.3 in dark, 6.5 on their own backgrounds. Differences: 13.8 and 11.7. Notes: 14.7 and 12.3.

use crate::http::Response;
use hyper::body::Bytes;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::sync::LazyLock;

/// A file of the page.
struct Asset {
    address: String,
    content_type: &'static str,
    bytes: Bytes,
}

static STYLE: LazyLock<Asset> = LazyLock::new(|| Asset::new("app", "css", include_str!("../assets/app.css")));
static SCRIPT: LazyLock<Asset> = LazyLock::new(|| Asset::new("app", "js", include_str!("../assets/app.js")));
static HISTORY: LazyLock<Asset> = LazyLock::new(|| Asset::new("history", "js", include_str!("../assets/history.js")));
static LOGIN: LazyLock<Asset> = LazyLock::new(|| Asset::new("login", "js", include_str!("../assets/login.js")));

/// Returns the address of the style of all pages.
pub(crate) fn style() -> &'static str {
    &STYLE.address
}

/// Returns the address of the script of all pages.
pub(crate) fn script() -> &'static str {
    &SCRIPT.address
}

/// Returns the address of the script of the page "History".
pub(crate) fn history() -> &'static str {
    &HISTORY.address
}

/// Returns the address of the script that signs in with the token of the fragment.
pub(crate) fn login() -> &'static str {
    &LOGIN.address
}

/// Returns the file at a path.
pub(crate) fn answer(path: &str) -> Option<Response> {
    let asset = [&STYLE, &SCRIPT, &HISTORY, &LOGIN]
        .into_iter()
        .find(|asset| asset.address == path)?;
    Some(Response::Raw {
        content_type: asset.content_type,
        file_name: None,
        body: asset.bytes.clone(),
    })
}

impl Asset {
    /// `text` is for people: indentation, and lines that are a comment, are not sent.
    fn new(name: &str, extension: &str, text: &str) -> Self {
        let is_comment = |line: &&str| line.starts_with("//") || (line.starts_with("/*") && line.ends_with("*/"));
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !is_comment(line));
        let bytes = lines.collect::<Vec<_>>().join("\n");
        let digest = Sha256::digest(&bytes);
        let hash = digest.iter().take(8).fold(String::new(), |mut text, byte| {
            // A text takes all that is written to it.
            let _ = write!(text, "{byte:02x}");
            text
        });
        Self {
            address: format!("/assets/{name}-{hash}.{extension}"),
            content_type: if extension == "css" {
                "text/css; charset=utf-8"
            } else {
                "text/javascript; charset=utf-8"
            },
            bytes: bytes.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_its_whole_address_only() {
        for address in [style(), script(), history(), login()] {
            assert!(address.starts_with("/assets/"), "{address}");
            assert!(answer(address).is_some(), "{address}");
            assert!(answer(&address.replace('-', "/../")).is_none(), "{address}");
        }
        assert!(answer("/assets/app.css").is_none());
    }

    #[test]
    fn style_and_scripts_leave_room_for_the_first_page() {
        let bytes = STYLE.bytes.len() + SCRIPT.bytes.len() + LOGIN.bytes.len();
        assert!(bytes <= 30_000, "{bytes} bytes");
    }
}
