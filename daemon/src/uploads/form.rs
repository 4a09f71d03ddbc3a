//! Reads the body of an upload: a `multipart/form-data` with the parts `source` and `manifest`, or an archive alone.
//!
//! Of the names that a client sends, only the suffix of the source's file name is used. It must be one of a few letters
//! and digits, so no client chooses a path.

use fnd_manifest::function::forms;
use fnd_wire::archive::SUFFIXES;
use hyper::body::Bytes;
use multer::{Constraints, Field, Multipart};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt};
use std::path::Path;

/// Longest suffix of a file name, with its dot.
const SUFFIX_MAX: usize = 16;

/// Bytes that the reader of a form gets at once.
const PIECE: usize = 64 << 10;

/// The media types of archives, and the suffix that each one has as a file.
const ARCHIVES: [(&str, &str); 10] = [
    ("application/x-tar", ".tar"),
    ("application/gzip", ".tar.gz"),
    ("application/x-gzip", ".tar.gz"),
    ("application/zip", ".zip"),
    ("application/x-zip-compressed", ".zip"),
    ("application/zstd", ".tar.zst"),
    ("application/x-xz", ".tar.xz"),
    ("application/x-bzip2", ".tar.bz2"),
    ("application/x-bzip", ".tar.bz2"),
    ("application/x-zstd", ".tar.zst"),
];

/// The form of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UploadForm {
    /// Parts, with what stands between them.
    Parts(String),
    /// An archive, with its suffix.
    Archive(&'static str),
}

/// Why an upload cannot be stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    /// The body is wrong; says what.
    #[error("{0}")]
    Wrong(String),
    /// A file cannot be written.
    #[error("failed to write an upload: {0}")]
    Disk(#[from] io::Error),
}

impl UploadForm {
    /// Returns the form that a content type names.
    ///
    /// # Errors
    /// It names none, in words.
    pub(crate) fn of(content_type: Option<&str>) -> Result<Self, String> {
        let text = content_type.unwrap_or_default();
        let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if essence == "multipart/form-data" {
            let boundary = multer::parse_boundary(text);
            return boundary
                .map(Self::Parts)
                .map_err(|_| "the content type `multipart/form-data` has no `boundary`".to_owned());
        }
        let archive = ARCHIVES.iter().find(|(media_type, _)| *media_type == essence);
        archive.map(|(_, suffix)| Self::Archive(suffix)).ok_or_else(|| {
            "the content type must be `multipart/form-data` with the parts `source` and `manifest`, or that of an archive: \
             `application/x-tar`, `application/gzip`, `application/zip`, `application/zstd`, `application/x-xz`, `application/x-bzip2`"
                .to_owned()
        })
    }
}

/// Writes the files of a body into a directory, as the files of the function whose name ends with `stem`.
///
/// # Errors
/// [`Unusable`].
pub(crate) async fn store(form: &UploadForm, body: Bytes, directory: &Path, stem: &str) -> Result<(), Unusable> {
    if body.is_empty() {
        return Err(Unusable::Wrong("the body is empty".to_owned()));
    }
    match form {
        UploadForm::Archive(suffix) => {
            let mut file = new(&directory.join(format!("{stem}{suffix}")))?;
            file.write_all(&body)?;
            Ok(file.sync_all()?)
        }
        UploadForm::Parts(boundary) => parts(body, boundary, directory, stem).await,
    }
}

async fn parts(body: Bytes, boundary: &str, directory: &Path, stem: &str) -> Result<(), Unusable> {
    let wrong = Unusable::Wrong;
    // The reader copies what it is given: it gets a piece at a time.
    let pieces: Vec<io::Result<Bytes>> = (0..body.len())
        .step_by(PIECE)
        .map(|at| Ok(body.slice(at..body.len().min(at + PIECE))))
        .collect();
    let pieces = futures_util::stream::iter(pieces);
    // The form needs no limits of its own: the whole body is there, and it is within its limit.
    let mut form = Multipart::with_constraints(pieces, boundary, Constraints::new());
    let (mut source, mut manifest) = (false, false);
    while let Some(mut field) = form.next_field().await.map_err(|error| broken(&error))? {
        let name = field.name().unwrap_or_default().to_owned();
        let path = match name.as_str() {
            "source" if !std::mem::replace(&mut source, true) => {
                let suffix = suffix(field.file_name().unwrap_or_default()).map_err(wrong)?;
                directory.join(format!("{stem}{suffix}"))
            }
            "manifest" if !std::mem::replace(&mut manifest, true) => directory.join(format!("{stem}.toml")),
            "source" | "manifest" => return Err(wrong(format!("the part `{name}` appears more than once"))),
            _ => {
                let name = crate::http::query::short(&name);
                let what = format!("the part `{name}` is unknown: the parts are `source` and `manifest`");
                return Err(wrong(what));
            }
        };
        write(&mut field, &path).await?;
        if name == "source" && std::fs::metadata(&path)?.len() == 0 {
            return Err(wrong("the part `source` is empty".to_owned()));
        }
    }
    match source {
        true => Ok(()),
        false => Err(wrong("the part `source` is missing".to_owned())),
    }
}

fn broken(error: &multer::Error) -> Unusable {
    Unusable::Wrong(format!("the body is no complete `multipart/form-data`: {error}"))
}

async fn write(field: &mut Field<'_>, path: &Path) -> Result<(), Unusable> {
    let mut file = new(path)?;
    let mut head = Vec::new();
    while let Some(bytes) = field.chunk().await.map_err(|error| broken(&error))? {
        if head.len() < HEAD {
            head.extend_from_slice(bytes.get(..HEAD).unwrap_or(&bytes));
        }
        file.write_all(&bytes)?;
    }
    if forms::is_program(&head) {
        // A form has no modes, and only of an executable file the `#!` line counts.
        file.set_permissions(PermissionsExt::from_mode(0o750))?;
    }
    // The exchange of the files is durable, so their content has to be on the disk before it.
    Ok(file.sync_all()?)
}

/// Bytes that show whether a file is a program.
const HEAD: usize = 8;

fn new(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o640).open(path)
}

/// Returns the suffix of the file name of a source: with its dot, or nothing.
///
/// # Errors
/// The name is none, in words.
fn suffix(name: &str) -> Result<String, String> {
    let is_path = name.contains(['/', '\\']) || name.chars().any(char::is_control) || name == "..";
    if is_path || name.len() > 255 {
        return Err(
            "the file name of the part `source` must be a name without directories, such as `hello.py`".to_owned(),
        );
    }
    let archive = SUFFIXES
        .iter()
        .map(|(suffix, _)| *suffix)
        .find(|end| name.ends_with(end));
    let found = match (archive, name.rfind('.')) {
        (Some(suffix), _) => suffix,
        (None, Some(dot)) => name.get(dot..).unwrap_or_default(),
        (None, None) => "",
    };
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    let usable = found.is_empty() || (found.len() > 1 && found.len() <= SUFFIX_MAX && plain(found));
    // A manifest is a part of its own, and an encrypted secret is no file of an upload.
    if !usable || [".toml", ".age"].contains(&found) || fnd_wire::naming::is_ignored(format!("x{found}").as_bytes()) {
        let name = crate::http::query::short(name);
        return Err(format!(
            "the file name `{name}` of the part `source` does not end like a file of code, such as `hello.py`"
        ));
    }
    Ok(found.to_owned())
}

#[cfg(test)]
mod tests;
