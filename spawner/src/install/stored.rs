//! Reads a version that is stored already, as the files of a function or for fnd.

use super::*;

impl Snapshot {
    /// Returns whether a stored version is read, not the function's files.
    pub fn is_stored_version(&self) -> bool {
        self.stored.is_some()
    }

    /// Returns the tree of the stored version that is read; none if it has none.
    ///
    /// # Errors
    /// If that can't be read.
    pub fn stored_tree(&self) -> io::Result<Option<Version>> {
        let dir = self.stored.as_ref().and_then(|(sources, _)| sources.dirs.first());
        dir.map_or(Ok(None), |dir| trees::linked(dir, "deps"))
    }

    /// Returns the stored version that is read, and its plan.
    ///
    /// # Errors
    /// Why they can't be read.
    pub fn stored_plan(&self) -> Result<(Version, Planned), Problem> {
        let dir = self.stored.as_ref().and_then(|(sources, _)| sources.dirs.first());
        let version = dir.and_then(|dir| Version::parse(dir.file_name()?.to_str()?));
        let plan = dir.and_then(|dir| Planned::from_wire(&fs::read(dir.join("plan")).ok()?).ok());
        version.zip(plan).ok_or_else(|| problem(&self.shown, "its plan can't be read", "build it again"))
    }

    /// Returns the files of a stored version for fnd, with their first bytes as far as there is room.
    pub fn stored_files(&self) -> Vec<StoredFile> {
        let mut room = SHOWN_MAX;
        let stored = |file: &InstalledCode| {
            let front = self.front(file, CODE_MAX).ok().filter(|front| front.len() <= room).unwrap_or_default();
            room -= front.len();
            let (path, executable, front) = (file.relative.clone(), file.mode & 0o111 != 0, Bytes(front.into_owned()));
            StoredFile { path, executable, length: file.length, digest: file.digest, front }
        };
        let mut files: Vec<_> = self.files.iter().map(stored).collect();
        files.extend(self.beside().map(|JudgedFile { path, bytes, .. }| {
            let (length, digest) = (bytes.0.len() as u64, Sha256::digest(&bytes.0).into());
            StoredFile { path: path.clone(), executable: false, length, digest, front: bytes.clone() }
        }));
        files
    }
}

/// Returns the directory and the origin of the stored version that a request names.
pub(super) fn version(install: &Install, sources: &Sources, staging: &Path) -> Result<(Sources, Origin), Problem> {
    let bad = |why: String| problem(&install.source, format!("the stored release can't be used: {why}"), ANOTHER);
    // Nothing but a check makes versions of the function that checks: as a version of its own, the code would run there.
    if install.function.as_str() == CHECK {
        return Err(bad("it is a check".to_owned()));
    }
    let version = Version::parse(&install.source).ok_or_else(|| bad("it has no such name".to_owned()))?;
    let versions = staging.parent().unwrap_or(staging);
    let builder = trust_of_builder(install.function.as_str()).map(trees::builder);
    let holder = builder.as_ref().unwrap_or(&install.function);
    let dir = versions.join(holder.file_form()).join(version.hex());
    let origin = places::if_there(fs::read(dir.join("origin"))).map_err(|error| bad(error.to_string()))?;
    let origin = origin.ok_or_else(|| bad("it was deleted, or an earlier fnd stored it".to_owned()))?;
    let origin = Origin::from_wire(&origin).map_err(|error| bad(error.to_string()))?;
    let (uploads, myself) = (sources.uploads.clone(), sources.myself.clone());
    Ok((Sources { dirs: vec![dir], uploads, myself, facts: StatCache::default() }, origin))
}
