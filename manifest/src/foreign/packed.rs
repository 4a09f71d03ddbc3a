//! Archives inside of documents: a zip or tar file in base64.

use super::made::MadeFile;
use fnd_unpack::{HeldFile, UnpackStop, held};
use fnd_wire::archive::Format;

/// Unpacks an archive; `kind` is Kubeless's word: `zip` or `compressedtar`.
///
/// # Errors
/// Why it cannot be unpacked, for people.
pub(super) fn files(kind: &str, bytes: Vec<u8>) -> Result<Vec<MadeFile>, String> {
    let format = match kind {
        "zip" => Format::Zip,
        // `compressedtar` does not say which compression it is, so the first bytes decide.
        "compressedtar" if bytes.starts_with(b"\x1f\x8b") => Format::Gzip,
        "compressedtar" if bytes.starts_with(b"BZh") => Format::Bzip2,
        "compressedtar" if bytes.starts_with(b"\xfd7zXZ") => Format::Xz,
        "compressedtar" => Format::Tar,
        _ => return Err(format!("`{kind}` is neither zip nor compressedtar")),
    };
    let made = |HeldFile {
                    path,
                    bytes,
                    executable,
                }| MadeFile {
        path,
        bytes,
        executable,
    };
    match held(format, bytes) {
        Ok(files) => Ok(files.into_iter().map(made).collect()),
        Err(UnpackStop::Refused(refusal)) => Err(format!("the archive is refused: {}", refusal.words().0)),
        Err(UnpackStop::Sink(error)) => Err(error.to_string()),
    }
}
