//! Secrets of Kubernetes as secrets of fnd: each key of `app` is `app.KEY`.

use super::objects::{Kind, Objects};
use super::report::Report;
use super::yaml::Document;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fnd_wire::trust::is_secret;

/// Returns the secrets of documents: name and value. A Secret with one key, and one with user and password, is a secret of
/// its own name, too, as the fields that name a Secret without a key expect.
pub fn secrets(documents: &[Document], report: &mut Report) -> Vec<(String, Vec<u8>)> {
    let objects = Objects::of(documents);
    let mut found = Vec::new();
    for object in objects.of_kind(Kind::Secret) {
        let mut values: Vec<(&str, Vec<u8>)> = Vec::new();
        for part in ["data", "stringData"] {
            for (key, item) in object.root.get(part).iter().flat_map(super::item::Item::entries) {
                let Some(text) = item.text(report) else { continue };
                let value = match part {
                    "data" => STANDARD.decode(text.split_whitespace().collect::<String>()),
                    _ => Ok(text.as_bytes().to_vec()),
                };
                match value {
                    Ok(value) if is_secret(&format!("{}.{key}", object.name)) => values.push((key, value)),
                    Ok(_) => report.refused(&item.field(), "no secret of fnd can have this name"),
                    Err(error) => report.refused(&item.field(), &format!("illegal base64 data: {error}")),
                }
            }
        }
        let get = |name: &str| {
            values
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.clone())
        };
        let whole = match values.as_slice() {
            [(_, value)] => Some(value.clone()),
            _ => get("username")
                .zip(get("password"))
                .map(|(user, password)| [user, password].join(&b':')),
        };
        found.extend(whole.map(|value| (object.name.to_owned(), value)));
        found.extend(
            values
                .into_iter()
                .map(|(key, value)| (format!("{}.{key}", object.name), value)),
        );
    }
    found
}
