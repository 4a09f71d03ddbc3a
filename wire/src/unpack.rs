//! The messages of `fnd-helper --unpack`, the child without user, files or network that reads an archive for the spawner.
//!
//! The child writes records: each file with its path and length, then its bytes; at last, that this was all, or why the archive
//! is refused. An archive may have taken the child over, so [`Receiver`] believes no record: it checks each name, and that
//! numbers and lengths hold.

use crate::archive::{ArchiveRefusal, BYTES_MAX, ENTRIES_MAX, check_path};
use crate::form::{Bytes, Wire as _, wire_enum, wire_structs};
use std::collections::HashSet;
use std::io::{self, Read};

/// Most bytes of a file in one record.
pub const DATA_MAX: usize = 64 << 10;
/// Largest record: the bytes of a file, with what says that they are that. Names are shorter.
const RECORD_MAX: usize = DATA_MAX + 64;

wire_structs! {
    /// A file of an archive.
    pub struct Unpacked {
        /// Its path in the function.
        pub path: String,
        /// Whether somebody may execute it.
        pub executable: bool,
        /// Its length in bytes.
        pub length: u64,
    }
}

/// Most bytes of all files of a function of another system.
const SET_MAX: u64 = 4 << 20;
/// Most files beside the one with the function.
const BESIDE_MAX: usize = 200;
/// In place of a path: the bytes are the path of the first file that is left out. It is an entry and no field, because the
/// spawner and fnd may be of two versions.
const LEFT_OUT: &str = "";

wire_structs! {
    /// A function of another system: the file that has it, and the files beside that one, which it may name.
    pub struct Foreign {
        /// The function's name in the file.
        pub function: String,
        /// The path of the file, for people.
        pub path: String,
        /// All files, each with its path for people; the one that has the function is among them.
        pub files: Vec<(String, Bytes)>,
    }
}

impl Foreign {
    /// Returns whether the next file beside the function's has room; files come in the order of their names. Without room it
    /// is left out with those after it, and the set says so.
    pub fn has_room(&mut self, path: &str, bytes: u64) -> bool {
        let held = self.files.iter().map(|(_, bytes)| bytes.0.len() as u64).sum::<u64>();
        // The file with the function is among the files, so there may be one more than those beside it.
        let has_room = self.files.len() <= BESIDE_MAX && held.saturating_add(bytes) <= SET_MAX;
        if !has_room {
            self.files.push((LEFT_OUT.to_owned(), Bytes(path.as_bytes().to_vec())));
        }
        has_room
    }

    /// Removes what the set says of files that are left out; returns the path of the first one.
    pub fn take_left_out(&mut self) -> Option<String> {
        let index = self.files.iter().position(|(path, _)| path == LEFT_OUT)?;
        let (_, first) = self.files.remove(index);
        Some(String::from_utf8_lossy(&first.0).into_owned())
    }
}

wire_enum! {
    /// A record of the child: a part of a file, or the end.
    pub enum UnpackRecord {
        /// A file begins; its bytes follow as records.
        0 = File(Unpacked),
        /// The next bytes of the file that began last.
        1 = Data(Bytes),
        /// All files are complete.
        2 = End,
        /// The archive is refused.
        3 = Refused(ArchiveRefusal),
    }
}

impl UnpackRecord {
    /// Returns the record after its length, as [`Receiver::next`] reads it.
    ///
    /// # Panics
    /// If the record is longer than 4 GiB.
    #[must_use]
    pub fn framed(&self) -> Vec<u8> {
        let bytes = self.to_wire();
        let length = u32::try_from(bytes.len()).expect("no record has more than 64 KiB");
        [&length.to_le_bytes()[..], &bytes].concat()
    }
}

/// Why there is no further record.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// The archive is refused.
    #[error("the archive is refused")]
    Refused(ArchiveRefusal),
    /// The child said something that it must not say.
    #[error("the process that unpacks sent {0}")]
    Invalid(&'static str),
    /// Reading failed, or the child ended before it had said all.
    #[error("the process that unpacks ended without an answer: {0}")]
    Ended(#[source] io::Error),
}

/// A record that was checked.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A file begins. Its path is one of a file below the function's directory.
    File(Unpacked),
    /// The next bytes of the file.
    Data(Vec<u8>),
    /// All files are complete.
    End,
}

/// Reads records and checks them.
#[derive(Debug, Default)]
pub struct Receiver {
    paths: HashSet<String>,
    bytes: u64,
    /// How many bytes of the current file are still to come.
    missing: u64,
}

impl Receiver {
    /// Reads the next record.
    ///
    /// # Errors
    /// [`Stopped`]. Nothing that came before is to be used then.
    pub fn next(&mut self, input: &mut impl Read) -> Result<Received, Stopped> {
        let mut length = [0; 4];
        input.read_exact(&mut length).map_err(Stopped::Ended)?;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        // The length is checked before it is allocated: it may come from a child that an archive has taken over.
        if length > RECORD_MAX {
            return Err(Stopped::Invalid("a record that is too long"));
        }
        let mut record = vec![0; length];
        input.read_exact(&mut record).map_err(Stopped::Ended)?;
        match UnpackRecord::from_wire(&record).map_err(|_| Stopped::Invalid("no record"))? {
            UnpackRecord::Refused(refusal) => Err(Stopped::Refused(refusal)),
            UnpackRecord::Data(Bytes(bytes)) => {
                // An empty piece is refused, too: a child that sends only such pieces would never come to an end.
                let left = self
                    .missing
                    .checked_sub(bytes.len() as u64)
                    .filter(|_| !bytes.is_empty());
                self.missing = left.ok_or(Stopped::Invalid("more bytes than the file has"))?;
                Ok(Received::Data(bytes))
            }
            _ if self.missing > 0 => Err(Stopped::Invalid("fewer bytes than the file has")),
            UnpackRecord::File(file) => self.file(file).map(Received::File),
            // A child that works refuses an archive without a file (`Why::Empty`).
            UnpackRecord::End if self.paths.is_empty() => Err(Stopped::Invalid("no file")),
            UnpackRecord::End => Ok(Received::End),
        }
    }

    fn file(&mut self, file: Unpacked) -> Result<Unpacked, Stopped> {
        check_path(&file.path).map_err(|_| Stopped::Invalid("a path that is not allowed"))?;
        // The lengths are added before the bytes come, so no byte of a file that is too large is written.
        self.bytes = self.bytes.saturating_add(file.length);
        if self.bytes > BYTES_MAX || self.paths.len() >= ENTRIES_MAX {
            return Err(Stopped::Invalid("more files or bytes than are allowed"));
        }
        // Some file systems take names that differ only by case for one.
        if !self.paths.insert(file.path.to_lowercase()) {
            return Err(Stopped::Invalid("two files of one name"));
        }
        self.missing = file.length;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::Why;

    fn file(path: &str, length: u64) -> UnpackRecord {
        UnpackRecord::File(Unpacked {
            path: path.to_owned(),
            executable: false,
            length,
        })
    }

    fn data(bytes: &[u8]) -> UnpackRecord {
        UnpackRecord::Data(Bytes(bytes.to_vec()))
    }

    /// Returns the paths and contents of the records, or why they are refused.
    fn receive(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
        let (mut input, mut receiver, mut files) = (bytes, Receiver::default(), Vec::<(String, Vec<u8>)>::new());
        loop {
            match receiver.next(&mut input).map_err(|why| why.to_string())? {
                Received::File(file) => files.push((file.path, Vec::new())),
                Received::Data(bytes) => files.last_mut().unwrap().1.extend(bytes),
                Received::End => return Ok(files),
            }
        }
    }

    fn stream(records: &[UnpackRecord]) -> Vec<u8> {
        records.iter().flat_map(UnpackRecord::framed).collect()
    }

    #[test]
    fn files_arrive_as_they_were_sent() {
        let large = vec![7; DATA_MAX];
        let sent = [
            file("a", 0),
            file("d/b", DATA_MAX as u64 + 2),
            data(&large),
            data(b"no"),
            UnpackRecord::End,
        ];
        let expected = vec![
            ("a".to_owned(), Vec::new()),
            ("d/b".to_owned(), [&large[..], b"no"].concat()),
        ];
        assert_eq!(receive(&stream(&sent)), Ok(expected));
        // Cut off anywhere, nothing is complete.
        let whole = stream(&[file("a", 2), data(b"no"), UnpackRecord::End]);
        for length in 0..whole.len() {
            let why = receive(&whole[..length]).unwrap_err();
            assert!(why.contains("ended without an answer"), "{length}: {why}");
        }
    }

    #[test]
    fn a_child_that_lies_is_not_believed() {
        let many: Vec<UnpackRecord> = (0..=ENTRIES_MAX).map(|number| file(&number.to_string(), 0)).collect();
        for (records, why) in [
            (&[UnpackRecord::End][..], "no file"),
            (&[data(b"x")], "more bytes"),
            (&[file("a", 1), data(b"xx")], "more bytes"),
            (&[file("a", 1), data(b"")], "more bytes"),
            (&[file("a", 1), UnpackRecord::End], "fewer bytes"),
            (&[file("a", 1), file("b", 1)], "fewer bytes"),
            (&[file("../a", 0)], "a path"),
            (&[file("/a", 0)], "a path"),
            (&[file("a/./b", 0)], "a path"),
            (&[file("", 0)], "a path"),
            (&[file("a\0", 0)], "a path"),
            (&[file("a", 0), file("a", 0)], "two files"),
            (&[file("a", 0), file("A", 0)], "two files"),
            (&[file("a", BYTES_MAX + 1)], "more files or bytes"),
            (&[file("a", 0), file("b", u64::MAX)], "more files or bytes"),
            (&many, "more files or bytes"),
        ] {
            let found = receive(&stream(records)).unwrap_err();
            assert!(found.contains(why), "{found}, not {why}");
        }
        for bytes in [&[0xff; 8][..], &[1, 0, 0, 0, 9], &[0, 0, 0, 0], &[0, 0, 2, 0, 0]] {
            assert!(receive(bytes).unwrap_err().contains("sent"), "{bytes:?}");
        }
    }

    #[test]
    fn a_refusal_is_passed_on() {
        let refusal = ArchiveRefusal {
            entry: Some("../evil".to_owned()),
            why: Why::Outside,
        };
        let sent = stream(&[file("a", 0), UnpackRecord::Refused(refusal.clone())]);
        let (mut input, mut receiver) = (&sent[..], Receiver::default());
        receiver.next(&mut input).unwrap();
        assert!(matches!(receiver.next(&mut input), Err(Stopped::Refused(found)) if found == refusal));
    }

    #[test]
    fn a_set_of_files_has_4_mib_and_says_where_it_ends() {
        let set = |count: usize, size: usize| {
            let file = |number: usize| (format!("{number:03}.yaml"), Bytes(vec![b' '; size]));
            let mut set = Foreign {
                function: String::new(),
                path: String::new(),
                files: vec![file(0)],
            };
            for beside in (1..count).map(file) {
                if !set.has_room(&beside.0, size as u64) {
                    break;
                }
                set.files.push(beside);
            }
            let left_out = set.take_left_out();
            (left_out, set.files.len())
        };
        let first = |number: &str| Some(format!("{number}.yaml"));
        assert_eq!(set(4, 1 << 20), (None, 4));
        assert_eq!(set(300, 1 << 20), (first("004"), 4));
        assert_eq!(set(201, 0), (None, 201));
        assert_eq!(set(300, 0), (first("201"), 201));
    }
}
