//! Has helpers copy a large file or unpack an archive, and takes their results.

use super::unpacker::{ArchivedFile, Contents, Unpacker, create};
use super::*;
use std::io::Seek as _;
use std::os::fd::AsRawFd as _;

impl Snapshot {
    /// Returns the function that copies the large file or unpacks the archive in a helper, and the descriptor that the
    /// helper has to keep for it; also whether it is an archive.
    ///
    /// # Errors
    /// If a descriptor can't be duplicated.
    pub fn copier(&self, program: &Path, root: bool) -> io::Result<(bool, InstallWork)> {
        let (relative, opened) = self.large.as_ref().ok_or(io::ErrorKind::InvalidInput)?;
        let (file, report) = (opened.file.try_clone()?, self.report());
        let kept = file.as_raw_fd();
        let Some(format) = self.packed() else {
            let path = self.staged(relative);
            return Ok((false, (kept, Box::new(move || write_report(&report, stage(&file, &path))))));
        };
        let (program, code) = (program.to_owned(), self.begun().join("code"));
        let unpacker = Unpacker { program, root, format, code };
        Ok((true, (kept, Box::new(move || write_report(&report, unpacker.unpack(&file))))))
    }

    /// Returns the format of the function's archive; none if its code is something else.
    pub(super) fn format(&self) -> Option<Format> {
        let source = &self.install.source;
        let foreign = naming::is_foreign(source).then_some(Format::Foreign);
        foreign.or_else(|| Format::of(source)).filter(|_| !self.install.directory_form)
    }

    /// Returns the format of an archive that is to be unpacked. A stored version is unpacked, and so is one whose code is
    /// fetched.
    pub(super) fn packed(&self) -> Option<Format> {
        self.fetched.or_else(|| self.format().filter(|_| self.stored.is_none() && self.source.is_none()))
    }

    /// Goes on with code that was fetched to a tree: one file, to be [copied or unpacked](Self::copier).
    ///
    /// # Errors
    /// If it can't be opened, or if there is none.
    pub fn add_source(&mut self, tree: Version, places: &Places) -> Result<(), Problem> {
        let dir = trees::place(places, &tree);
        let failed = |why: String| problem(&self.shown, format!("failed to open its code: {why}"), "fetch it again");
        let entries = places::entries(&dir).map_err(|error| failed(error.to_string()))?;
        let names = entries.iter().filter_map(|entry| entry.file_name().into_string().ok());
        let name = fetched_file(names).ok_or_else(|| failed("there is none".to_owned()))?;
        let opened = File::open(dir.join(&name)).and_then(|file| Ok((file.metadata()?, file)));
        let (meta, file) = opened.map_err(|error| failed(error.to_string()))?;
        let shown = self.shown.clone(); // nobody knows the tree's path
        (self.source, self.fetched) = (Some(tree), Format::of(&name));
        self.large = Some((name, OpenedSource { file, meta, shown, trusted: self.trusted }));
        Ok(())
    }

    /// Takes the result of the helper that unpacked the archive.
    fn unpacked(&mut self, opened: &OpenedSource) -> Result<(), Problem> {
        let failed = |why: &str| problem(&opened.shown, format!("failed to unpack it: {why}"), "copy it again");
        let Contents { files, refused } = read_report(&self.report()).map_err(|why| failed(&why))?;
        // The child has read the archive twice, and somebody may have changed it in between.
        opened.unchanged(opened.meta.len())?;
        if let Some((message, help)) = refused.map(|refusal| refusal.words()) {
            return Err(problem(&opened.shown, message, help));
        }
        // Fetched code does not bring a manifest of its own: the one beside the source decides about rights.
        let is_new = |file: &ArchivedFile| self.source.is_none() || file.relative != "function.toml";
        for file in files.into_iter().filter(is_new) {
            let staged = || Content::Staged(self.staged(&file.relative));
            let content = file.held.map_or_else(staged, |held| Content::Held(held.0));
            let (shown, trusted) = (format!("{}/{}", opened.shown, file.relative), opened.trusted);
            let (relative, mode, digest, length) = (file.relative, file.mode, file.digest, file.length);
            self.files.push(InstalledCode { relative, shown, mode, trusted, digest, length, content });
        }
        self.read_manifest()
    }

    /// Takes the result of the helper that copied the large file or unpacked the archive.
    ///
    /// # Errors
    /// Why the file was not copied, or the archive not unpacked.
    pub fn copied(&mut self) -> Result<(), Problem> {
        let Some((relative, opened)) = self.large.take() else { return Ok(()) };
        if self.packed().is_some() {
            self.fetched = None;
            return self.unpacked(&opened);
        }
        let (length, digest) = read_report::<(u64, [u8; 32])>(&self.report()).map_err(|why| uncopied(&opened, &why))?;
        opened.unchanged(length)?;
        let content = Content::Staged(self.staged(&relative));
        self.add(relative, opened, digest, content);
        Ok(())
    }
}

/// Returns the file that was fetched, of the names in its tree in any order: the others are fnd's own.
fn fetched_file(mut names: impl Iterator<Item = String>) -> Option<String> {
    names.find(|name| ![COMPLETE, TREE_SIZE].contains(&name.as_str()))
}

pub(super) fn uncopied(opened: &OpenedSource, why: &str) -> Problem {
    problem(&opened.shown, format!("failed to copy it: {why}"), "check the file and the free space on the disk")
}

/// Copies a file; returns length and digest of the copy.
pub(super) fn stage(from: &File, to: &Path) -> io::Result<(u64, [u8; 32])> {
    let mut copy = create(to)?;
    let length = io::copy(&mut from.take(BYTES_MAX), &mut copy)?;
    // The copy is hashed and not the source, which may change meanwhile: the copy is judged and installed.
    copy.rewind()?;
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; 256 * 1024]);
    loop {
        let read = copy.read(&mut buffer)?;
        if read == 0 {
            return Ok((length, digest.finalize().into()));
        }
        digest.update(buffer.get(..read).unwrap_or_default());
    }
}

/// Writes the result of a helper's work; returns the helper's exit code.
pub fn write_report<T: Wire>(report: &Path, result: io::Result<T>) -> i32 {
    let result = result.map_err(|error| error.to_string());
    let outcome = (result.as_ref().ok().map(Wire::to_wire).map(Bytes), result.err().unwrap_or_default());
    i32::from(write(report, &outcome.to_wire(), 0o600).is_err())
}

/// Returns the result of a helper's work.
///
/// # Errors
/// Why the work failed, for people.
pub fn read_report<T: Wire>(report: &Path) -> Result<T, String> {
    let bytes = fs::read(report).map_err(|_| "the helper ended before it finished".to_owned())?;
    let _ = fs::remove_file(report);
    let outcome = <(Option<Bytes>, String)>::from_wire(&bytes).map_err(|error| error.to_string())?;
    let value = outcome.0.ok_or(outcome.1)?;
    T::from_wire(&value.0).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory has any order; on some file systems fnd's own files are never first.
    #[test]
    fn fetched_code_is_the_file_that_is_not_fnds_own() {
        for order in [[TREE_SIZE, COMPLETE, "f.py"], [COMPLETE, "f.py", TREE_SIZE], ["f.py", TREE_SIZE, COMPLETE]] {
            assert_eq!(fetched_file(order.into_iter().map(str::to_owned)).as_deref(), Some("f.py"));
        }
        assert_eq!(fetched_file([TREE_SIZE, COMPLETE].into_iter().map(str::to_owned)), None);
    }
}
