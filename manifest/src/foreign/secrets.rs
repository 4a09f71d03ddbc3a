//! Secrets of Kubernetes as secrets of fnd: each key of `app` is `app.KEY`.

use super::common::base64;
use super::objects::{ObjectKind, Objects};
use super::report::ConversionReport;
use super::yaml::{Document, documents};
use fnd_wire::form::Bytes;
use fnd_wire::frame::SECRET_MAX;
use fnd_wire::kubernetes::{SecretSearchAnswer, SecretWanted};
use fnd_wire::trust::is_secret;

/// Finds the value of one secret of fnd. If several Secrets have it, the last one counts, as if the files were applied in
/// their order.
#[must_use]
pub fn find(wanted: &SecretWanted) -> SecretSearchAnswer {
    let mut found = SecretSearchAnswer::Missing;
    for (index, (path, bytes)) in (0..).zip(&wanted.files) {
        let mut report = ConversionReport::default();
        let secrets = documents(path, &bytes.0).map(|documents| secrets(&documents, &mut report));
        let is_broken = match &secrets {
            Ok(_) => report.is_refused(),
            // A broken file without this word cannot be the one that has the secret.
            Err(_) => bytes.0.windows(6).any(|word| word == b"Secret"),
        };
        let value = secrets.into_iter().flatten().rfind(|(name, _)| *name == wanted.name);
        found = match value.map(|(_, value)| value) {
            Some(value) if value.is_empty() => SecretSearchAnswer::Empty(index),
            Some(value) if value.len() as u64 > SECRET_MAX => SecretSearchAnswer::TooLarge(index),
            Some(value) => SecretSearchAnswer::Value(Bytes(value)),
            None if is_broken && found == SecretSearchAnswer::Missing => SecretSearchAnswer::Unreadable(index),
            None => found,
        };
    }
    found
}

/// Returns the secrets of documents: name and value. A Secret with one key, and one with user and password, is a secret of
/// its own name, too, as the fields that name a Secret without a key expect.
pub fn secrets(documents: &[Document], report: &mut ConversionReport) -> Vec<(String, Vec<u8>)> {
    let objects = Objects::of(documents);
    let mut found = Vec::new();
    for object in objects.of_kind(ObjectKind::Secret) {
        let mut values: Vec<(&str, Vec<u8>)> = Vec::new();
        // In Kubernetes a value of `stringData` wins over one of `data`, and here the last value of a name counts.
        for part in ["data", "stringData"] {
            for (key, item) in object.root.entries_at(part) {
                let Some(text) = item.text(report) else { continue };
                let value = match part {
                    "data" => base64(text),
                    _ => Ok(text.as_bytes().to_vec()),
                };
                match value {
                    Ok(value) if is_secret(&format!("{}.{key}", object.name)) => values.push((key, value)),
                    Ok(_) => report.refused(&item.field(), "no secret of fnd can have this name"),
                    Err(why) => report.refused(&item.field(), &why),
                }
            }
        }
        let get = |name: &str| Some(values.iter().find(|(key, _)| *key == name)?.1.clone());
        let whole = match values.as_slice() {
            [(_, value)] => Some(value.clone()),
            // `[source] key` has user and password in this form.
            _ => get("username")
                .zip(get("password"))
                .map(|(user, password)| [user, password].join(&b':')),
        };
        found.extend(whole.map(|value| (object.name.to_owned(), value)));
        let named = |(key, value): (&str, Vec<u8>)| (format!("{}.{key}", object.name), value);
        found.extend(values.into_iter().map(named));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: &str = "apiVersion: v1\nkind: Secret\nmetadata: { name: app }\n";

    fn found(files: &[&str], name: &str) -> SecretSearchAnswer {
        let files = files.iter().enumerate();
        let file = |(at, text): (usize, &&str)| (format!("{at}.yaml"), Bytes(text.as_bytes().to_vec()));
        find(&SecretWanted {
            name: name.to_owned(),
            files: files.map(file).collect(),
        })
    }

    fn value(text: &str) -> SecretSearchAnswer {
        SecretSearchAnswer::Value(Bytes(text.as_bytes().to_vec()))
    }

    #[test]
    fn the_last_secret_with_the_key_counts_and_plain_text_wins() {
        let data = format!("{APP}data: {{ password: b25l, user: YWRh }}\n");
        let plain = format!("{APP}data: {{ password: b25l }}\nstringData: {{ password: two }}\n");
        assert_eq!(found(&[&data], "app.password"), value("one"));
        assert_eq!(found(&[&data, &plain], "app.password"), value("two"));
        assert_eq!(found(&[&plain, &data], "app.password"), value("one"));
        // The only key of a Secret needs no name.
        assert_eq!(
            found(&[&format!("{APP}stringData: {{ token: t }}\n")], "app"),
            value("t")
        );
        let together = format!("{APP}stringData: {{ a: x }}\n---\n{APP}stringData: {{ a: w }}\n");
        assert_eq!(found(&[&together], "app.a"), value("w"));
    }

    #[test]
    fn a_secret_that_is_not_there_is_missing_and_one_that_cannot_be_read_is_named() {
        let good = format!("{APP}stringData: {{ a: x, b: z }}\n");
        for name in ["app", "app.c", "other.a", "a", ""] {
            assert_eq!(found(&[&good], name), SecretSearchAnswer::Missing, "{name}");
        }
        assert_eq!(found(&[], "app.a"), SecretSearchAnswer::Missing);
        let not_base64 = format!("{APP}data: {{ c: '%' }}\n");
        assert_eq!(found(&[&good, &not_base64], "app.c"), SecretSearchAnswer::Unreadable(1));
        // A broken value of another key does not matter.
        assert_eq!(found(&[&good, &not_base64], "app.a"), value("x"));
        assert_eq!(
            found(&["kind: Secret\n\t- broken", &good], "app.c"),
            SecretSearchAnswer::Unreadable(0)
        );
        assert_eq!(
            found(&["kind: Function\n\t- broken"], "app.c"),
            SecretSearchAnswer::Missing
        );
    }

    #[test]
    fn values_have_the_size_of_secrets() {
        let of = |length: usize| {
            found(
                &["", &format!("{APP}stringData: {{ a: \"{}\" }}\n", "x".repeat(length))],
                "app.a",
            )
        };
        let max = usize::try_from(SECRET_MAX).unwrap();
        assert_eq!(of(0), SecretSearchAnswer::Empty(1));
        assert_eq!(of(max), value(&"x".repeat(max)));
        assert_eq!(of(max + 1), SecretSearchAnswer::TooLarge(1));
    }
}
