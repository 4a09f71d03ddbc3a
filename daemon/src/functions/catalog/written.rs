//! Tracks which files are complete according to events: closed after writing, or renamed into place. Uses neither a
//! clock nor files.
//!
//! A close applies to the writes before it: a later write makes the file incomplete again until the next close. The
//! kernel reports both in the order in which they happened.

use fnd_core::lifecycle::SourceFiles;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The files that are complete since the last scan, and those that are being written.
#[derive(Debug, Default)]
pub(super) struct WrittenFiles {
    /// Closed or renamed since the last scan.
    complete: HashSet<PathBuf>,
    /// Written to and not closed since then.
    pub(super) writing: HashSet<PathBuf>,
}

impl WrittenFiles {
    /// Notes that a file was closed or renamed into place.
    pub(super) fn closed(&mut self, path: PathBuf) {
        self.writing.remove(&path);
        self.complete.insert(path);
    }

    /// Notes that a file was written to.
    pub(super) fn written(&mut self, path: PathBuf) {
        self.complete.remove(&path);
        self.writing.insert(path);
    }

    /// Notes that a file or directory was removed or renamed.
    pub(super) fn removed(&mut self, path: &Path) {
        self.complete.remove(path);
        // No close of a file below a removed directory is reported, so such a file would count as being written for
        // ever.
        self.writing.retain(|file| !file.starts_with(path));
    }

    /// Notes that events were lost: the state known so far may be wrong.
    pub(super) fn lost(&mut self) {
        *self = Self::default();
    }

    /// Notes that a scan has used the complete files.
    pub(super) fn scanned(&mut self) {
        self.complete.clear();
    }

    /// Returns whether one of the candidate's files is complete by an event, and none is being written.
    pub(super) fn is_complete(&self, root: &Path, candidate: &SourceFiles) -> bool {
        Self::any(&self.complete, root, candidate) && !self.is_writing(root, candidate)
    }

    /// Returns whether one of the candidate's files was written to and not closed.
    pub(super) fn is_writing(&self, root: &Path, candidate: &SourceFiles) -> bool {
        Self::any(&self.writing, root, candidate)
    }

    fn any(paths: &HashSet<PathBuf>, root: &Path, candidate: &SourceFiles) -> bool {
        let path = root.join(&candidate.source);
        let sidecar = candidate.sidecar.as_ref().map(|sidecar| root.join(sidecar));
        paths.contains(&path)
            || sidecar.is_some_and(|sidecar| paths.contains(&sidecar))
            || (candidate.directory_form && paths.iter().any(|file| file.starts_with(&path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::ids::FunctionName;

    fn candidate(source: &str, sidecar: Option<&str>, directory_form: bool) -> SourceFiles {
        SourceFiles {
            function: FunctionName::new("f").unwrap(),
            directory: 0,
            source: source.to_owned(),
            sidecar: sidecar.map(str::to_owned),
            directory_form,
        }
    }

    #[test]
    fn a_close_counts_until_the_next_write() {
        let root = Path::new("/d");
        let alone = candidate("f.sh", None, false);
        let path = || PathBuf::from("/d/f.sh");
        let mut written = WrittenFiles::default();
        assert!(!written.is_complete(root, &alone));
        written.written(path());
        assert!(!written.is_complete(root, &alone) && written.is_writing(root, &alone));
        written.closed(path());
        assert!(written.is_complete(root, &alone) && !written.is_writing(root, &alone));
        written.written(path());
        assert!(!written.is_complete(root, &alone));
        // A scan forgets who closed, not who writes.
        written.scanned();
        assert!(written.is_writing(root, &alone));
        written.closed(path());
        written.scanned();
        assert!(!written.is_complete(root, &alone) && !written.is_writing(root, &alone));
        written.written(path());
        written.removed(Path::new("/d"));
        assert!(!written.is_writing(root, &alone) && !written.is_complete(root, &alone));
        written.written(path());
        written.lost();
        assert!(!written.is_writing(root, &alone));
    }

    #[test]
    fn every_file_of_a_function_counts() {
        let root = Path::new("/d");
        let pair = candidate("f.sh", Some("f.toml"), false);
        let tree = candidate("f", None, true);
        let mut written = WrittenFiles::default();
        written.closed("/d/f.sh".into());
        written.written("/d/f.toml".into());
        assert!(!written.is_complete(root, &pair));
        written.closed("/d/f.toml".into());
        assert!(written.is_complete(root, &pair));
        assert!(!written.is_complete(root, &tree));
        written.closed("/d/f/main.py".into());
        assert!(written.is_complete(root, &tree));
        written.written("/d/f/lib/words.py".into());
        assert!(!written.is_complete(root, &tree));
    }
}
