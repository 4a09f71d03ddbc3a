//! Rules for archives that are functions: their formats, the names and sizes that are allowed, and the words of refusals.
//!
//! The child that unpacks, the spawner and `fndctl validate` obey the same rules. No archive is read here.

use crate::form::{wire_enum, wire_structs};

/// Largest number of entries; directories that only the names of other entries show count, too.
pub const ENTRIES_MAX: usize = 10_000;
/// Largest archive, and largest sum of what is in it, in bytes.
pub const BYTES_MAX: u64 = 512 << 20;
/// How many times larger than the archive its content may be.
pub const RATIO_MAX: u64 = 200;
/// Content up to this size may be any number of times larger: a tar file of many small files is almost only headers, which are
/// like each other.
pub const RATIO_FREE: u64 = 16 << 20;
/// Most memory in bytes that a compressed stream may ask for. `xz -9` asks for 64 MiB, `zstd -22 --ultra` for 128.
pub const MEMORY_MAX: u64 = 128 << 20;
/// Largest number of directory levels in a function.
pub const DEPTH_MAX: usize = 32;
/// Longest path in bytes.
pub const PATH_MAX: usize = 1024;
/// Longest name of a file or directory in bytes; file systems have no longer ones.
const NAME_MAX: usize = 255;

/// The format of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `.zip`
    Zip,
    /// `.tar`
    Tar,
    /// `.tar.gz`, `.tgz`
    Gzip,
    /// `.tar.xz`
    Xz,
    /// `.tar.bz2`
    Bzip2,
    /// `.tar.zst`
    Zstd,
    /// No archive: [`Foreign`](crate::unpack::Foreign), of which files are made. No name ends with it.
    Foreign,
}

/// The ends of names of archives.
pub const SUFFIXES: [(&str, Format); 7] = [
    (".zip", Format::Zip),
    (".tar", Format::Tar),
    (".tar.gz", Format::Gzip),
    (".tgz", Format::Gzip),
    (".tar.xz", Format::Xz),
    (".tar.bz2", Format::Bzip2),
    (".tar.zst", Format::Zstd),
];

impl Format {
    /// Returns the end of the names of such archives.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        // No name ends with the format `Foreign`, which stands for a file of YAML.
        SUFFIXES
            .iter()
            .find(|(_, format)| *format == self)
            .map_or(".yaml", |(suffix, _)| suffix)
    }

    /// Returns the format that a file's name, or its path, ends with; none for a name of another kind.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        SUFFIXES
            .iter()
            .find(|(end, _)| name.ends_with(end))
            .map(|(_, format)| *format)
    }
}

wire_enum! {
    /// Why an archive is refused.
    #[derive(Copy)]
    pub enum Why {
        /// The content is not of the format that the name says.
        0 = OtherFormat,
        /// Something in it is wrong, missing, or follows its end.
        1 = Damaged,
        /// The archive can't be read.
        2 = Unreadable,
        /// It has no file.
        3 = Empty,
        /// It has more than [`ENTRIES_MAX`] entries.
        4 = TooMany,
        /// It has more than [`BYTES_MAX`] bytes.
        5 = TooLarge,
        /// It is more than [`RATIO_MAX`] times larger than the archive.
        6 = Bomb,
        /// It needs more than [`MEMORY_MAX`] bytes.
        7 = Memory,
        /// A part of the format that is not read, such as Zip64.
        8 = Unsupported,
        /// The entry is encrypted.
        9 = Encrypted,
        /// The entry is compressed in another way than deflate.
        10 = Method,
        /// The entry is a symbolic link.
        11 = SymbolicLink,
        /// The entry is a hard link.
        12 = HardLink,
        /// The entry is a device.
        13 = Device,
        /// The entry is a FIFO.
        14 = Fifo,
        /// The entry is a socket.
        15 = Socket,
        /// The entry is neither a file nor a directory.
        16 = OtherType,
        /// The entry has the setuid, setgid or sticky bit.
        17 = SpecialBits,
        /// The entry's path begins at the root.
        18 = Absolute,
        /// The entry's path contains `..`.
        19 = Outside,
        /// The entry's name is not UTF-8, or has a character that is not allowed.
        20 = BadName,
        /// The entry's path is too long.
        21 = TooLong,
        /// The entry is in too many directories.
        22 = TooDeep,
        /// The archive has two entries of this name.
        23 = Twice,
        /// Another entry's name differs only by case or by the form of its letters.
        24 = Alike,
    }
}

wire_structs! {
    /// Why an archive is refused, and because of which entry.
    pub struct ArchiveRefusal {
        /// The entry, if the reason is one.
        pub entry: Option<String>,
        /// The rule that the archive breaks.
        pub why: Why,
    }
}

impl From<Why> for ArchiveRefusal {
    fn from(why: Why) -> Self {
        Self { entry: None, why }
    }
}

impl ArchiveRefusal {
    /// Returns the message and what to do. The name of the entry may be anything, so it is escaped and shortened.
    #[must_use]
    pub fn words(&self) -> (String, String) {
        let (message, help) = self.why.words();
        let message = match &self.entry {
            None => message.to_owned(),
            Some(entry) => format!("entry `{}`: {message}", shown(entry)),
        };
        (message, help.to_owned())
    }
}

/// Longest part of an entry's name in a message, in characters.
const SHOWN_MAX: usize = 120;

fn shown(entry: &str) -> String {
    let mut shown: String = entry.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if entry.chars().nth(SHOWN_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

impl Why {
    const fn words(self) -> (&'static str, &'static str) {
        const AGAIN: &str = "build the archive again, and copy it again";
        const ELSEWHERE: &str = "keep data elsewhere, for example in $STATE_DIRECTORY";
        const REAL: &str = "put the file itself in its place";
        const RENAME: &str = "rename it";
        match self {
            Self::OtherFormat => ("its content is not what its name says", AGAIN),
            Self::Damaged => (
                "it is damaged: it was changed or cut off, or something follows its end",
                AGAIN,
            ),
            Self::Unreadable => ("failed to read it", "check the file and its disk"),
            Self::Empty => ("there is no file in it", "put the code into the archive"),
            Self::TooMany => ("it has more than 10,000 entries", ELSEWHERE),
            Self::TooLarge => ("it is larger than 512 MiB, or its content is", ELSEWHERE),
            Self::Bomb => ("its content is more than 200 times larger than the archive", ELSEWHERE),
            Self::Memory => (
                "unpacking it would take more than 128 MiB of memory",
                "compress it with a smaller window, such as `xz -6` or `zstd -19`",
            ),
            Self::Unsupported => (
                "it uses a part of its format that fnd does not read, such as Zip64 or several volumes",
                "build the archive with `zip -r` or `tar -czf`",
            ),
            Self::Encrypted => ("it is encrypted", "build the archive without a password"),
            Self::Method => (
                "it is compressed in a way that fnd does not read",
                "build the archive with `zip -r`",
            ),
            Self::SymbolicLink => ("it is a symbolic link", REAL),
            Self::HardLink => ("it is a hard link", "build the archive with `tar --hard-dereference`"),
            Self::Device => ("it is a device", "leave it out"),
            Self::Fifo => ("it is a FIFO", "leave it out"),
            Self::Socket => ("it is a socket", "leave it out"),
            Self::OtherType => ("it is neither a regular file nor a directory", "leave it out"),
            Self::SpecialBits => (
                "it has the setuid, setgid or sticky bit",
                "remove the bit: `chmod ug-s,-t FILE`",
            ),
            Self::Absolute => (
                "its path begins with `/`",
                "build the archive inside of the function's directory",
            ),
            Self::Outside => (
                "it leads out of the function",
                "build the archive inside of the function's directory",
            ),
            Self::BadName => (
                "its name is not UTF-8, or has a backslash or a control character",
                RENAME,
            ),
            Self::TooLong => (
                "its path is longer than 1,024 bytes, or a name in it longer than 255",
                RENAME,
            ),
            Self::TooDeep => ("it is more than 32 directories deep", "move it to a higher directory"),
            Self::Twice => ("the archive has two entries of this name", AGAIN),
            Self::Alike => (
                "the name of another entry differs from it only by upper and lower case or by the form of its letters",
                RENAME,
            ),
        }
    }
}

/// Checks the path of a file in a function: relative, without empty names, `.` and `..`.
///
/// # Errors
/// Why the path is refused.
pub fn check_path(path: &str) -> Result<(), Why> {
    if path.starts_with('/') {
        return Err(Why::Absolute);
    }
    if path.len() > PATH_MAX {
        return Err(Why::TooLong);
    }
    if path.contains(|letter: char| letter == '\\' || letter.is_control()) {
        return Err(Why::BadName);
    }
    for name in path.split('/') {
        match name {
            ".." => return Err(Why::Outside),
            // With them one file would have several paths, and the search for two files of one name compares paths as
            // text.
            "" | "." => return Err(Why::BadName),
            _ if name.len() > NAME_MAX => return Err(Why::TooLong),
            _ => {}
        }
    }
    if path.split('/').count() > DEPTH_MAX {
        Err(Why::TooDeep)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_in_its_function() {
        let deep = |count: usize| vec!["d"; count].join("/");
        let (name, long) = ("n".repeat(255), "n".repeat(256));
        let path = [name.as_str(); 5].join("/");
        for good in ["a", "a/b.py", ".hidden", "..a", "a..", "ä/ö", "a b", &deep(32), &name] {
            assert_eq!(check_path(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("", Why::BadName),
            ("a//b", Why::BadName),
            ("a/", Why::BadName),
            ("./a", Why::BadName),
            ("/etc/passwd", Why::Absolute),
            ("..", Why::Outside),
            ("../a", Why::Outside),
            ("a/../b", Why::Outside),
            ("a/..", Why::Outside),
            ("..\\a", Why::BadName),
            ("a\0b", Why::BadName),
            ("a\nb", Why::BadName),
            ("a\u{7f}", Why::BadName),
            (&deep(33), Why::TooDeep),
            (&long, Why::TooLong),
            (&path, Why::TooLong),
        ] {
            assert_eq!(check_path(bad), Err(why), "{bad:?}");
        }
    }

    #[test]
    fn the_name_says_the_format() {
        for (name, format) in [
            ("a.zip", Some(Format::Zip)),
            ("ops/a.tar", Some(Format::Tar)),
            ("a.tar.gz", Some(Format::Gzip)),
            ("a.tgz", Some(Format::Gzip)),
            ("a.tar.xz", Some(Format::Xz)),
            ("a.tar.bz2", Some(Format::Bzip2)),
            ("a.tar.zst", Some(Format::Zstd)),
            ("a.gz", None),
            ("a.zip.sh", None),
            ("zip", None),
        ] {
            assert_eq!(Format::of(name), format, "{name}");
            assert!(
                format.is_none_or(|format| Format::of(format.suffix()) == Some(format)),
                "{name}"
            );
        }
    }

    #[test]
    fn an_entry_is_shown_as_one_short_line() {
        let of = |entry: &str| {
            let entry = Some(entry.to_owned());
            ArchiveRefusal {
                entry,
                why: Why::Outside,
            }
            .words()
            .0
        };
        assert_eq!(of("../evil"), "entry `../evil`: it leads out of the function");
        assert_eq!(
            of("a\u{1b}[2J\nb"),
            "entry `a\\u{1b}[2J\\nb`: it leads out of the function"
        );
        assert!(of(&"x".repeat(5000)).len() < 200);
    }
}
