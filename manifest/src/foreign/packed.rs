//! Archives inside of documents: a zip or tar file in base64.

use fnd_unpack::{WholeFile, held};
use fnd_wire::archive::Format;

/// Unpacks an archive; `kind` is Kubeless's word: `zip` or `compressedtar`.
///
/// # Errors
/// Why it cannot be unpacked, for people.
pub(super) fn files(kind: &str, bytes: Vec<u8>) -> Result<Vec<WholeFile>, String> {
    let format = match kind {
        "zip" => Format::Zip,
        // `compressedtar` does not say which compression it is, so the first bytes decide.
        "compressedtar" if bytes.starts_with(b"\x1f\x8b") => Format::Gzip,
        "compressedtar" if bytes.starts_with(b"BZh") => Format::Bzip2,
        "compressedtar" if bytes.starts_with(b"\xfd7zXZ") => Format::Xz,
        "compressedtar" => Format::Tar,
        _ => return Err(format!("`{kind}` is neither zip nor compressedtar")),
    };
    held(format, bytes).map_err(|refusal| format!("the archive is refused: {}", refusal.words().0))
}
