//! Decides which files of a functions directory are functions (docs/writing-functions.md), by their names and first
//! bytes alone.
//!
//! It reads no directory: the caller passes each entry, and pairs manifests with code by name.

use fnd_wire::archive::SUFFIXES;
use fnd_wire::ids::{NameError, is_part};
pub use fnd_wire::naming::is_ignored;

/// File suffixes that runtimes claim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claims {
    /// Suffixes with the dot, the longest first.
    suffixes: Vec<String>,
}

impl Claims {
    /// Returns the claims of runtimes with these suffixes. A disabled runtime claims its suffixes too, so that its files
    /// are functions that cannot run, and are not ignored.
    #[must_use]
    pub fn of<'a>(suffixes: impl IntoIterator<Item = &'a String>) -> Self {
        let mut suffixes: Vec<String> = suffixes.into_iter().cloned().collect();
        suffixes.sort_by_key(|suffix| std::cmp::Reverse(suffix.len()));
        Self { suffixes }
    }

    /// Splits a file name into stem and claimed suffix.
    #[must_use]
    pub fn split<'n>(&self, name: &'n str) -> Option<(&'n str, &'n str)> {
        self.suffixes.iter().find_map(|suffix| {
            let stem = name.strip_suffix(suffix.as_str())?;
            Some((stem, name.get(stem.len()..)?))
        })
    }
}

/// The role of a regular file in a functions directory or a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileForm {
    /// An ignored file: a hidden file, one that an editor or packager left, or an encrypted secret.
    Ignored,
    /// Code of the function with this name.
    Code(Result<String, NameError>),
    /// Code of the function with this name, if the file is executable and [`is_program`]. A file without a suffix
    /// (`bare`) is also code if it has a manifest beside it or `[defaults] runtime` is set. Otherwise no rule claims
    /// it.
    Program {
        /// Name of the function, if the file is its code.
        name: Result<String, NameError>,
        /// Whether the file name has no suffix at all.
        bare: bool,
    },
    /// The manifest of the function with this name.
    Manifest(Result<String, NameError>),
    /// An archive of the function with this name.
    Archive(Result<String, NameError>),
    /// A file that may have functions of another system; its content says their names.
    Foreign,
    /// No rule claims the file.
    Unclaimed,
}

/// Returns the role of a regular file by its name. If the name is not UTF-8, its error contains replacement characters.
#[must_use]
pub fn file(name: &[u8], claims: &Claims) -> FileForm {
    if is_ignored(name) {
        return FileForm::Ignored;
    }
    let text = String::from_utf8_lossy(name);
    if let Some((stem, _)) = claims.split(&text) {
        return FileForm::Code(part(stem));
    }
    if let Some(stem) = text.strip_suffix(".toml") {
        return FileForm::Manifest(part(stem));
    }
    if let Some(stem) = SUFFIXES.iter().find_map(|(suffix, _)| text.strip_suffix(suffix)) {
        return FileForm::Archive(part(stem));
    }
    match text.rsplit_once('.') {
        // A secret of the functions beside it (docs/secrets.md).
        Some((_, "age")) => FileForm::Ignored,
        Some((_, "yaml" | "yml")) => FileForm::Foreign,
        Some((stem, _)) => FileForm::Program {
            name: part(stem),
            bare: false,
        },
        None => FileForm::Program {
            name: part(&text),
            bare: true,
        },
    }
}

/// Returns the name of the function or group that a directory is; nothing for an ignored directory.
#[must_use]
pub fn directory(name: &[u8]) -> Option<Result<String, NameError>> {
    (!is_ignored(name)).then(|| part(&String::from_utf8_lossy(name)))
}

/// Says whether the first bytes are those of a file that the kernel executes: `#!` or an ELF header. A byte-order mark
/// before them is accepted, since it is removed later.
#[must_use]
pub fn is_program(head: &[u8]) -> bool {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    text.starts_with(b"#!") || head.starts_with(b"\x7fELF")
}

/// Says whether a manifest seems to have `[source]`. That decides only whether it is a function without code beside it; the
/// judge reads it. So fnd, which reads the directories, parses no manifest.
#[must_use]
pub fn names_source(manifest: &[u8]) -> bool {
    let names_it = |line: &[u8]| {
        let is_decoration = |byte: &u8| byte.is_ascii_whitespace() || b"[\"'".contains(byte);
        let key: Vec<u8> = line
            .iter()
            .filter(|byte| !is_decoration(byte))
            // `source`, and the byte behind it, which tells the key from a longer word.
            .take(7)
            .copied()
            .collect();
        let end = key.strip_prefix(b"source").and_then(|rest| rest.first());
        end.is_some_and(|end| b"].=".contains(end))
    };
    let mut is_top = true;
    manifest.split(|byte| *byte == b'\n').any(|line| {
        let is_header = line.trim_ascii_start().starts_with(b"[");
        is_top &= !is_header; // a key `source` of another table is no source of code
        (is_top || is_header) && names_it(line)
    })
}

pub(super) fn part(stem: &str) -> Result<String, NameError> {
    if is_part(stem) {
        Ok(stem.to_owned())
    } else {
        Err(NameError::Part(stem.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims {
            suffixes: [".bash", ".py", ".sh", ".ts"].map(str::to_owned).to_vec(),
        }
    }

    #[test]
    fn names_decide_what_a_file_is() {
        let form = |name: &str| file(name.as_bytes(), &claims());
        let ok = |name: &str| Ok(name.to_owned());
        assert_eq!(form("hello.py"), FileForm::Code(ok("hello")));
        assert_eq!(form("hello.toml"), FileForm::Manifest(ok("hello")));
        for archive in ["hello.zip", "hello.tar", "hello.tar.gz", "hello.tgz", "hello.tar.zst"] {
            assert_eq!(form(archive), FileForm::Archive(ok("hello")), "{archive}");
        }
        assert!(matches!(form("a.b.tar.gz"), FileForm::Archive(Err(_))));
        assert_eq!(form("hello.yaml"), FileForm::Foreign);
        assert_eq!(
            form("hello"),
            FileForm::Program {
                name: ok("hello"),
                bare: true
            }
        );
        assert_eq!(
            form("hello.pl"),
            FileForm::Program {
                name: ok("hello"),
                bare: false
            }
        );
        assert!(matches!(form("Hello.py"), FileForm::Code(Err(_))));
        assert!(matches!(form("a.b.py"), FileForm::Code(Err(_))));
        assert!(matches!(file(b"\xff.py", &claims()), FileForm::Code(Err(_))));
    }

    #[test]
    fn a_manifest_seems_to_name_a_source() {
        for yes in [
            "[source]\ngit = 1",
            "enabled = true\n\n  [ source ] # code\r\n",
            "[\"source\"]",
            "source.git = \"x\"",
            "source = { git = \"x\" }",
            "'source'.url=1",
        ] {
            assert!(names_source(yes.as_bytes()), "{yes}");
        }
        for no in [
            "",
            "# [source]",
            "[[event]]\nsource = \"shop\"\n",
            "[sources]",
            "resource = 1",
            "source_x = 1",
            "source",
        ] {
            assert!(!names_source(no.as_bytes()), "{no}");
        }
        assert!(!names_source(b"\xff\xfe"));
    }

    #[test]
    fn leftovers_are_ignored() {
        for name in [
            ".hidden",
            "a.py~",
            ".a.py.swp",
            "a.swx",
            "a.py.tmp",
            "a.part",
            "a.py.dpkg-new",
            "a.rpmsave",
            "a.bak",
            "a.orig",
            "4913",
            "#a.py#",
            "__pycache__",
            "node_modules",
        ] {
            assert_eq!(file(name.as_bytes(), &claims()), FileForm::Ignored, "{name}");
            assert_eq!(directory(name.as_bytes()), None, "{name}");
        }
        for name in ["a#.py", "tmp.py", "bak", "a.dpkg.py"] {
            assert_ne!(file(name.as_bytes(), &claims()), FileForm::Ignored, "{name}");
        }
    }

    #[test]
    fn programs_are_known_by_their_first_bytes() {
        for (head, expected) in [
            (b"#!/bin/sh".as_slice(), true),
            (b"\xef\xbb\xbf#!/bin/sh", true),
            (b"\x7fELF\x02", true),
            (b"# text", false),
            (b"", false),
        ] {
            assert_eq!(is_program(head), expected, "{head:?}");
        }
    }
}
