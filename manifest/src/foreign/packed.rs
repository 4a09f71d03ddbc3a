//! Archives inside of documents: a zip or tar file in base64.

use super::made::MadeFile;
use fnd_unpack::{Sink, Stop, unpack};
use fnd_wire::archive::Format;
use fnd_wire::unpack::Unpacked;
use std::io::{self, Cursor};

/// Unpacks an archive; `kind` is Kubeless's word: `zip` or `compressedtar`.
///
/// # Errors
/// Why it cannot be unpacked, for people.
pub(super) fn files(kind: &str, bytes: Vec<u8>) -> Result<Vec<MadeFile>, String> {
    let format = match kind {
        "zip" => Format::Zip,
        "compressedtar" if bytes.starts_with(b"\x1f\x8b") => Format::Gzip,
        "compressedtar" if bytes.starts_with(b"BZh") => Format::Bzip2,
        "compressedtar" if bytes.starts_with(b"\xfd7zXZ") => Format::Xz,
        "compressedtar" => Format::Tar,
        _ => return Err(format!("`{kind}` is neither zip nor compressedtar")),
    };
    let mut kept = Kept(Vec::new());
    match unpack(format, &mut Cursor::new(bytes), &mut kept) {
        Ok(()) => Ok(kept.0),
        Err(Stop::Refused(refusal)) => Err(format!("the archive is refused: {}", refusal.words().0)),
        Err(Stop::Sink(error)) => Err(error.to_string()),
    }
}

struct Kept(Vec<MadeFile>);

impl Sink for Kept {
    fn file(&mut self, file: &Unpacked) -> io::Result<()> {
        self.0.push(MadeFile {
            path: file.path.clone(),
            bytes: Vec::new(),
            executable: file.executable,
        });
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(file) = self.0.last_mut() {
            file.bytes.extend_from_slice(bytes);
        }
        Ok(())
    }
}
