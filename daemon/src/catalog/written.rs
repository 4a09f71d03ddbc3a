//! Which files are complete because somebody said so: closed after writing, or renamed into place. No clock and no files.
//!
//! A close counts for what was written before it: a write after it makes the file incomplete again, until the next close. The
//! kernel tells both in the order in which they happened.

use super::scan::Candidate;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// What was said of files since the last look, and of those that are being written.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Closed or renamed since the last look.
    complete: HashSet<PathBuf>,
    /// Written to and not closed since.
    writing: HashSet<PathBuf>,
}

impl Written {
    /// A file was closed or renamed into place.
    pub(super) fn closed(&mut self, path: PathBuf) {
        self.writing.remove(&path);
        self.complete.insert(path);
    }

    /// A file was written to.
    pub(super) fn written(&mut self, path: PathBuf) {
        self.complete.remove(&path);
        self.writing.insert(path);
    }

    /// A file or directory is gone, or has another name.
    pub(super) fn removed(&mut self, path: &Path) {
        self.complete.remove(path);
        self.writing.retain(|file| !file.starts_with(path));
    }

    /// Events were lost: what was said before may not hold any more.
    pub(super) fn lost(&mut self) {
        *self = Self::default();
    }

    /// A look has used what was said.
    pub(super) fn looked(&mut self) {
        self.complete.clear();
    }

    /// Says whether one of the candidate's files was said to be complete, and none is being written.
    pub(super) fn is_complete(&self, root: &Path, candidate: &Candidate) -> bool {
        Self::any(&self.complete, root, candidate) && !self.is_writing(root, candidate)
    }

    /// Says whether one of the candidate's files was written to and not closed.
    pub(super) fn is_writing(&self, root: &Path, candidate: &Candidate) -> bool {
        Self::any(&self.writing, root, candidate)
    }

    fn any(paths: &HashSet<PathBuf>, root: &Path, candidate: &Candidate) -> bool {
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

    fn candidate(source: &str, sidecar: Option<&str>, directory_form: bool) -> Candidate {
        Candidate {
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
        let mut written = Written::default();
        assert!(!written.is_complete(root, &alone));
        written.written(path());
        assert!(!written.is_complete(root, &alone) && written.is_writing(root, &alone));
        written.closed(path());
        assert!(written.is_complete(root, &alone) && !written.is_writing(root, &alone));
        written.written(path());
        assert!(!written.is_complete(root, &alone));
        // A look forgets who closed, not who writes.
        written.looked();
        assert!(written.is_writing(root, &alone));
        written.closed(path());
        written.looked();
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
        let mut written = Written::default();
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
