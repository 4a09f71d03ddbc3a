//! The payload and the cause of an invocation that files started.

use super::message::SeenChange;
use crate::records::SeenFile;
use crate::records::cause::{Cause, FileCause};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fnd_manifest::function::FileTrigger;
use fnd_manifest::function::file::FileChange;
use jiff::Timestamp;
use serde::Serialize;
use std::borrow::Cow;

/// A file as functions see it.
#[derive(Debug, Serialize)]
struct ShownFile<'a> {
    /// Absolute path. Bytes that are not UTF-8 are replaced by U+FFFD.
    path: Cow<'a, str>,
    /// The exact path, present where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    event: FileChange,
    size: u64,
    mtime: String,
}

/// Returns the payload as JSON: an object, or with a `batch` above 1 a list.
#[must_use]
pub fn payload(entry: &FileTrigger, changes: &[SeenChange]) -> Vec<u8> {
    let paths: Vec<Vec<u8>> = changes.iter().map(|change| path(entry, &change.file)).collect();
    let shown = paths.iter().zip(changes).map(|(path, change)| {
        let (path, path_base64) = texts(path);
        ShownFile {
            path,
            path_base64,
            event: kind(change),
            size: change.file.size,
            mtime: time(change.file.modified_ns),
        }
    });
    let shown: Vec<_> = shown.collect();
    let bytes = match &shown[..] {
        // A function with a batch gets a list for one file, too, so that it has to read one form only.
        [one] if entry.batch == 1 => serde_json::to_vec(one),
        all => serde_json::to_vec(all),
    };
    bytes.unwrap_or_default()
}

/// Returns the cause: the first file, and the number of files.
#[must_use]
pub fn cause(entry: &FileTrigger, changes: &[SeenChange]) -> Option<Cause> {
    let first = changes.first()?;
    let path = path(entry, &first.file);
    let (path, path_base64) = texts(&path);
    Some(Cause::File(FileCause {
        path: path.into_owned(),
        path_base64,
        event: kind(first),
        files: (entry.batch > 1).then(|| u32::try_from(changes.len()).unwrap_or(u32::MAX)),
        run: None,
    }))
}

/// Returns the absolute path of a file.
fn path(entry: &FileTrigger, file: &SeenFile) -> Vec<u8> {
    let directory = entry.path.trim_end_matches('/').as_bytes();
    [directory, b"/", &file.path.0].concat()
}

/// Returns a path as text, and in base64 where it is not UTF-8.
fn texts(path: &[u8]) -> (Cow<'_, str>, Option<String>) {
    let text = String::from_utf8_lossy(path);
    let is_exact = matches!(text, Cow::Borrowed(_));
    (text, (!is_exact).then(|| BASE64_STANDARD.encode(path)))
}

fn kind(change: &SeenChange) -> FileChange {
    match change.kind {
        0 => FileChange::Created,
        1 => FileChange::Modified,
        _ => FileChange::Deleted,
    }
}

/// Returns a time in nanoseconds since 1970 in RFC 3339.
fn time(ns: i64) -> String {
    Timestamp::from_nanosecond(i128::from(ns))
        .unwrap_or_default()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_manifest::schema::pick::FromValue as _;
    use fnd_wire::form::Bytes;

    fn entry(batch: u32) -> FileTrigger {
        FileTrigger {
            path: "/srv/in/".to_owned(),
            batch,
            ..FileTrigger::from_value(None).unwrap()
        }
    }

    fn change(name: &[u8]) -> SeenChange {
        SeenChange {
            kind: 0,
            file: SeenFile {
                directory: 0,
                path: Bytes(name.to_vec()),
                inode: 7,
                device: 1,
                size: 12,
                modified_ns: 1_700_000_000_123_456_789,
                changed_ns: 0,
                hash: None,
            },
        }
    }

    fn text(entry: &FileTrigger, changes: &[SeenChange]) -> String {
        String::from_utf8(payload(entry, changes)).unwrap()
    }

    #[test]
    fn one_file_is_an_object_and_a_batch_a_list() {
        let object = r#"{"path":"/srv/in/a.csv","event":"created","size":12,"mtime":"2023-11-14T22:13:20.123456789Z"}"#;
        assert_eq!(text(&entry(1), &[change(b"a.csv")]), object);
        assert_eq!(text(&entry(2), &[change(b"a.csv")]), format!("[{object}]"));
        let Some(Cause::File(cause)) = cause(&entry(2), &[change(b"a.csv"), change(b"b.csv")]) else {
            panic!()
        };
        assert_eq!((cause.path.as_str(), cause.files), ("/srv/in/a.csv", Some(2)));
    }

    #[test]
    fn a_name_that_is_no_text_is_given_exactly() {
        let name = b"a\n\xff.csv";
        let value: serde_json::Value = serde_json::from_slice(&payload(&entry(1), &[change(name)])).unwrap();
        assert_eq!(value["path"], "/srv/in/a\n\u{fffd}.csv");
        let exact = BASE64_STANDARD.decode(value["path_base64"].as_str().unwrap()).unwrap();
        assert_eq!(exact, b"/srv/in/a\n\xff.csv");
        let cause = cause(&entry(1), &[change(name)]).unwrap();
        assert_eq!(cause.variables(), [("FND_FILE", exact)]);
    }
}
