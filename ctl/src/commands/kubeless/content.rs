//! Reads the content of a file, an archive or a URL.

use crate::exit::{CommandFailure, Exit};
use crate::interpreters::agent;
use fnd_unpack::{UnpackStop, WholeFile, held};
use fnd_wire::archive::{Format, SUFFIXES};
use std::fs;

/// More ends of names of archives that Kubeless knows.
const MORE_SUFFIXES: [(&str, Format); 6] = [
    (".taz", Format::Gzip),
    (".tb2", Format::Bzip2),
    (".tbz", Format::Bzip2),
    (".tbz2", Format::Bzip2),
    (".tz2", Format::Bzip2),
    (".txz", Format::Xz),
];

/// Most bytes that are fetched from a URL: as many as the files of a function may have.
const FETCHED_MAX: u64 = 512 << 20;

/// The content of a path or a URL.
#[derive(Debug)]
pub(super) struct FetchedContent {
    /// The path or the URL, without a query.
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

impl FetchedContent {
    /// Reads a file, or fetches a URL.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read(place: &str) -> Result<Self, CommandFailure> {
        if !is_url(place) {
            let bytes = fs::read(place);
            let bytes = bytes.map_err(|error| CommandFailure::usage(format!("failed to read `{place}`: {error}")))?;
            return Ok(Self {
                name: place.to_owned(),
                bytes,
            });
        }
        let failed = |error: ureq::Error| {
            CommandFailure::new(Exit::FunctionFailed, format!("failed to get `{place}`: {error}"))
                .help("check the network and HTTPS_PROXY, or name a file")
        };
        let mut response = agent().get(place).call().map_err(failed)?;
        let body = response.body_mut().with_config().limit(FETCHED_MAX).read_to_vec();
        Ok(Self {
            name: place.split(['?', '#']).next().unwrap_or(place).to_owned(),
            bytes: body.map_err(failed)?,
        })
    }

    /// Returns the format of the archive that it is, by the end of its name.
    pub(super) fn archive(&self) -> Option<Format> {
        let suffixes = SUFFIXES.iter().chain(&MORE_SUFFIXES);
        let found = suffixes.into_iter().find(|(suffix, _)| self.name.ends_with(suffix));
        found.map(|(_, format)| *format)
    }

    /// Returns the files of an archive.
    ///
    /// # Errors
    /// The archive is refused.
    pub(super) fn unpacked(self, format: Format) -> Result<Vec<WholeFile>, CommandFailure> {
        let name = self.name;
        held(format, self.bytes).map_err(|stop| match stop {
            UnpackStop::Sink(error) => CommandFailure::usage(format!("failed to unpack `{name}`: {error}")),
            UnpackStop::Refused(refusal) => {
                let (message, help) = refusal.words();
                CommandFailure::new(Exit::InvalidManifest, format!("`{name}`: {message}")).help(help)
            }
        })
    }
}

pub(super) fn is_url(place: &str) -> bool {
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
