//! Opens the compressed forms of a tar file. Every decoder here checks the sums that its format has, reads streams that follow
//! each other as one, and fails if something else follows the last one.

use crate::unread;
use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use fnd_wire::archive::{Format, MEMORY_MAX, Why};
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, Read};

/// Returns the tar file in an archive.
///
/// # Errors
/// If the archive is not of this format.
pub(crate) fn open<'a, R: Read>(format: Format, archive: &'a mut R) -> Result<Box<dyn Read + 'a>, Why> {
    let mut archive = BufReader::with_capacity(64 << 10, archive);
    // A tar file has no mark at its beginning.
    let magic: &[u8] = match format {
        Format::Zip | Format::Tar | Format::Foreign => b"",
        Format::Gzip => b"\x1f\x8b",
        Format::Xz => b"\xfd7zXZ\0",
        Format::Bzip2 => b"BZh",
        Format::Zstd => b"\x28\xb5\x2f\xfd",
    };
    let begins = archive.fill_buf().map_err(|error| unread(&error))?.starts_with(magic);
    // A decoder would only find that the archive is damaged, and not that it has another format.
    if !begins {
        return Err(Why::OtherFormat);
    }
    // The limit of this decoder is in KiB, and contains what it needs itself.
    let memory = u32::try_from(MEMORY_MAX / 1024).unwrap_or(u32::MAX) + 1024;
    Ok(match format {
        Format::Zip | Format::Tar | Format::Foreign => Box::new(archive),
        Format::Gzip => Box::new(MultiGzDecoder::new(archive)),
        Format::Xz => Box::new(XzReader::new_mem_limit(archive, true, memory)),
        Format::Bzip2 => Box::new(MultiBzDecoder::new(archive)),
        Format::Zstd => Box::new(Zstd::new(archive)),
    })
}

/// Reads frames of zstd that follow each other. `ruzstd::decoding::StreamingDecoder` reads one, and compares no checksum.
struct Zstd<R> {
    archive: R,
    decoder: FrameDecoder,
    /// Whether a frame has begun and not ended.
    inside: bool,
    /// Bytes of this frame that were read.
    read: u64,
}

impl<R: BufRead> Zstd<R> {
    fn new(archive: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MEMORY_MAX);
        Self {
            archive,
            decoder,
            inside: false,
            read: 0,
        }
    }

    /// Begins the next frame; returns whether there is one.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.archive.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.archive) {
                Ok(()) => {
                    (self.inside, self.read) = (true, 0);
                    return Ok(true);
                }
                // A skippable frame has no content (RFC 8878, section 3.1.2).
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let skipped = io::copy(&mut self.archive.by_ref().take(length.into()), &mut io::sink())?;
                    if skipped < length.into() {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                // `unread` makes `Why::Memory` of this kind of error.
                Err(FrameDecoderError::WindowSizeTooBig { .. }) => return Err(io::ErrorKind::OutOfMemory.into()),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }

    /// Compares what a frame says about its content with the content.
    fn end(&mut self) -> io::Result<()> {
        self.inside = false;
        let stored = self.decoder.get_checksum_from_data();
        let has_sum = stored.is_none() || stored == self.decoder.get_calculated_checksum();
        // A frame that does not state its size has 0 here.
        let has_size = [0, self.read].contains(&self.decoder.content_size());
        if has_sum && has_size {
            Ok(())
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.inside && !self.begin()? {
                return Ok(0);
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                // With one block at a time, the budget counts the bytes of a bomb before further ones are unpacked.
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder
                    .decode_blocks(&mut self.archive, one)
                    .map_err(io::Error::other)?;
            }
            let count = self.decoder.read(buffer)?;
            self.read += count as u64;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            self.end()?;
        }
    }
}
