//! Builds archives for the tests, with anything in them.

use bzip2::write::BzEncoder;
use flate2::write::{DeflateEncoder, GzEncoder};
use fnd_wire::archive::Format;
use lzma_rust2::{XzOptions, XzWriter};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::Write as _;
use tar::{EntryType, Header};

/// Returns a header with this name, whatever it is, and its padded content.
pub(super) fn tar_entry(name: &[u8], kind: EntryType, mode: u32, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(content.len() as u64);
    header.set_cksum();
    let mut bytes = [&header.as_bytes()[..], content].concat();
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

/// Returns a tar file with these regular files.
pub(super) fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let entries = files
        .iter()
        .map(|(name, content)| tar_entry(name.as_bytes(), EntryType::Regular, 0o644, content));
    ended(&entries.collect::<Vec<_>>())
}

/// Returns a tar file of these entries.
pub(super) fn ended(entries: &[Vec<u8>]) -> Vec<u8> {
    [entries.concat(), vec![0; 1024]].concat()
}

/// Returns a pax header for the next entry.
pub(super) fn pax(key: &str, value: &str) -> Vec<u8> {
    let mut length = key.len() + value.len() + 3;
    while length != key.len() + value.len() + 3 + length.to_string().len() {
        length = key.len() + value.len() + 3 + length.to_string().len();
    }
    let text = format!("{length} {key}={value}\n");
    tar_entry(b"pax", EntryType::XHeader, 0o644, text.as_bytes())
}

/// Compresses a tar file.
pub(super) fn packed(format: Format, bytes: &[u8]) -> Vec<u8> {
    match format {
        Format::Zip | Format::Tar | Format::Foreign => bytes.to_vec(),
        Format::Gzip => {
            let mut writer = GzEncoder::new(Vec::new(), flate2::Compression::best());
            writer.write_all(bytes).unwrap();
            writer.finish().unwrap()
        }
        Format::Xz => {
            let mut writer = XzWriter::new(Vec::new(), XzOptions::default()).unwrap();
            writer.write_all(bytes).unwrap();
            writer.finish().unwrap()
        }
        Format::Bzip2 => {
            let mut writer = BzEncoder::new(Vec::new(), bzip2::Compression::best());
            writer.write_all(bytes).unwrap();
            writer.finish().unwrap()
        }
        Format::Zstd => compress_to_vec(bytes, CompressionLevel::Fastest),
    }
}

/// An entry of a zip file, with what its headers say.
#[derive(Clone)]
pub(super) struct Zipped {
    pub(super) name: Vec<u8>,
    /// The name in the local header.
    pub(super) local_name: Vec<u8>,
    pub(super) flags: u16,
    pub(super) method: u16,
    pub(super) sum: u32,
    pub(super) length: u32,
    pub(super) mode: u32,
    pub(super) packed: Vec<u8>,
    /// Bytes behind the data.
    pub(super) behind: Vec<u8>,
    /// Another offset than its own.
    pub(super) offset: Option<u32>,
}

/// Returns a deflated file.
pub(super) fn zipped(name: &str, mode: u32, content: &[u8]) -> Zipped {
    let mut writer = DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    writer.write_all(content).unwrap();
    Zipped {
        name: name.as_bytes().to_vec(),
        local_name: name.as_bytes().to_vec(),
        flags: 0,
        method: 8,
        sum: crc32fast::hash(content),
        length: u32::try_from(content.len()).unwrap(),
        mode,
        packed: writer.finish().unwrap(),
        behind: Vec::new(),
        offset: None,
    }
}

/// Returns a zip file with these entries, after some bytes.
pub(super) fn zip_after(before: &[u8], entries: &[Zipped], comment: &[u8]) -> Vec<u8> {
    let (mut bytes, mut directory) = (before.to_vec(), Vec::new());
    let short = |number: usize| u16::try_from(number).unwrap_or(u16::MAX).to_le_bytes();
    let long = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    for entry in entries {
        let offset = entry.offset.map_or(bytes.len(), |offset| offset as usize);
        let numbers = [
            long(entry.sum as usize),
            long(entry.packed.len()),
            long(entry.length as usize),
        ]
        .concat();
        let head = |name: &[u8]| {
            let flags = [20_u16, entry.flags, entry.method].map(u16::to_le_bytes).concat();
            [&flags[..], &[0; 4], &numbers, &short(name.len()), &[0; 2]].concat()
        };
        directory.extend([b"PK\x01\x02\x14\x03", &head(&entry.name)[..], &[0; 6]].concat());
        directory.extend([(entry.mode << 16).to_le_bytes(), long(offset)].concat());
        directory.extend(&entry.name);
        bytes.extend([b"PK\x03\x04", &head(&entry.local_name)[..], &entry.local_name].concat());
        bytes.extend([&entry.packed[..], &entry.behind].concat());
    }
    let (offset, count) = (bytes.len(), entries.len());
    bytes.extend(&directory);
    bytes.extend([b"PK\x05\x06\0\0\0\0", &short(count)[..], &short(count)].concat());
    bytes.extend(
        [
            &long(directory.len())[..],
            &long(offset),
            &short(comment.len()),
            comment,
        ]
        .concat(),
    );
    bytes
}

pub(super) fn zip(entries: &[Zipped]) -> Vec<u8> {
    zip_after(b"", entries, b"")
}
