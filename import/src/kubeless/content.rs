//! The content of a file, an archive or a URL that a person names.

use super::runtime::Chosen;
use crate::failure::ImportFailure;
use fnd_unpack::{WholeFile, held};
use fnd_wire::archive::{Format, SUFFIXES};

/// Further suffixes of archives that Kubeless knows.
const MORE_SUFFIXES: [(&str, Format); 6] = [
    (".taz", Format::Gzip),
    (".tb2", Format::Bzip2),
    (".tbz", Format::Bzip2),
    (".tbz2", Format::Bzip2),
    (".tz2", Format::Bzip2),
    (".txz", Format::Xz),
];

/// The content of a path or a URL.
#[derive(Debug)]
pub struct FetchedContent {
    /// The path or the URL, without a query.
    pub name: String,
    pub bytes: Vec<u8>,
}

impl FetchedContent {
    /// Returns the format of the archive, by the suffix of the name; absent if the content is no archive.
    pub fn archive(&self) -> Option<Format> {
        let suffixes = SUFFIXES.iter().chain(&MORE_SUFFIXES);
        let found = suffixes.into_iter().find(|(suffix, _)| self.name.ends_with(suffix));
        found.map(|(_, format)| *format)
    }

    /// Returns the files of the function: those of an archive, or one file that is named after the handler's module.
    ///
    /// # Errors
    /// The archive is refused.
    pub fn files(self, module: &str, runtime: &Chosen) -> Result<Vec<WholeFile>, ImportFailure> {
        let path = format!("{module}{}", runtime.suffix(&self.name));
        match self.archive() {
            Some(format) => self.unpacked(format),
            None => Ok(vec![WholeFile::new(&path, self.bytes)]),
        }
    }

    /// Returns the files of an archive.
    ///
    /// # Errors
    /// The archive is refused.
    pub fn unpacked(self, format: Format) -> Result<Vec<WholeFile>, ImportFailure> {
        let name = self.name;
        held(format, self.bytes).map_err(|refusal| {
            let (message, help) = refusal.words();
            ImportFailure::invalid(format!("`{name}`: {message}")).help(help)
        })
    }
}

/// Says whether a place is a URL; otherwise it is a path.
pub fn is_url(place: &str) -> bool {
    place.starts_with("http://") || place.starts_with("https://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_known_by_their_names() {
        for (name, archive) in [
            ("a.zip", true),
            ("a.tar.gz", true),
            ("a.tgz", true),
            ("a.taz", true),
            ("a.tar.bz2", true),
            ("a.tbz2", true),
            ("a.tar.xz", true),
            ("a.py", false),
            ("zip", false),
        ] {
            let content = FetchedContent {
                name: name.to_owned(),
                bytes: Vec::new(),
            };
            assert_eq!(content.archive().is_some(), archive, "{name}");
        }
        assert!(is_url("https://example.com/f.py") && !is_url("python/f.py"));
    }
}
