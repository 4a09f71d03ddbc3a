//! Names a version by its hash, and copies code and plan to their place.

use super::*;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

impl Snapshot {
    /// Returns the hash of code and own manifest; `digest` gives that of a file.
    pub(super) fn hash(&self, digest: impl Fn(&InstalledCode) -> [u8; 32]) -> Version {
        let mut all = Sha256::new();
        for file in &self.files {
            add(&mut all, file.relative.as_bytes());
            add(&mut all, &[u8::from(file.mode & 0o111 != 0)]);
            add(&mut all, &digest(file));
        }
        if let Some(manifest) = self.beside() {
            add(&mut all, b"manifest");
            add(&mut all, &manifest.bytes.0);
        }
        Version(all.finalize().into())
    }

    /// Returns the version's hash, which includes the interpreter and digests of what it gets, and the key for "runs once
    /// per content": the hash of code and own manifest only. A stored version has the key of its source, since its text
    /// may have lost carriage returns.
    pub fn versions(&self, runtime: &str, interpreter: &Interpreter, gets: [Option<Version>; 2]) -> (Version, Version) {
        let load_key =
            self.stored.as_ref().map_or_else(|| self.hash(|file| file.digest), |(_, origin)| origin.load_key);
        let mut digest = Sha256::new();
        add(&mut digest, &load_key.0);
        add(&mut digest, runtime.as_bytes());
        add(&mut digest, interpreter.real.as_bytes());
        interpreter.seal.iter().for_each(|part| add(&mut digest, &part.to_le_bytes()));
        gets.iter().flatten().for_each(|part| add(&mut digest, &part.0));
        // The same content is another version for another owner: the copy is readable for its user only.
        self.apart.get().iter().for_each(|uid| add(&mut digest, format!("user {uid}").as_bytes()));
        (Version(digest.finalize().into()), load_key)
    }

    /// Returns what is kept beside the version, so that it can be installed again.
    fn origin(&self, plan: &Plan) -> Origin {
        if let Some((_, origin)) = &self.stored {
            return origin.clone();
        }
        let stored = |file: &InstalledCode| match self.front(file, usize::MAX) {
            Ok(bytes) if self.is_unix(file, plan) => Sha256::digest(unix_text(&bytes)).into(),
            _ => file.digest,
        };
        let (load_key, stored, manifest) = (self.hash(|file| file.digest), self.hash(stored), self.beside().cloned());
        let (install, shown) = (self.install.clone(), self.shown.clone());
        Origin { install, trusted: self.trusted, owner: self.owner, shown, load_key, stored, manifest }
    }

    /// Returns whether the installed file is Unix text made of the source's. A stored file is already.
    fn is_unix(&self, file: &InstalledCode, plan: &Plan) -> bool {
        self.stored.is_none() && plan.unix_text && file.relative == plan.entry && file.length <= TEXT_MAX
    }

    fn installed<'a>(&self, file: &InstalledCode, plan: &Plan, bytes: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        if self.is_unix(file, plan) { unix_text(&bytes).into() } else { bytes }
    }

    /// Copies code and plan to their place, owned by root and readable by `group`. Returns whether anything was
    /// written.
    ///
    /// # Errors
    /// If writing fails.
    pub fn store(&self, planned: &Planned, version: &Version, places: &Places, group: Option<u32>) -> io::Result<bool> {
        let plan = &planned.0;
        let dirs = places.of(&plan.function.file_form());
        let target = dirs.version(version);
        let mut beside = vec![("plan", planned.to_wire()), ("origin", self.origin(plan).to_wire())];
        beside.extend(self.apart.get().map(|uid| (places::USER, uid.to_string().into_bytes())));
        if !self.is_stored(&target, plan, group) {
            // If somebody has removed the directories above, they are made again.
            places::make(&dirs.versions, 0o711)
                .or_else(|_| places.restore().and_then(|()| places::make(&dirs.versions, 0o711)))?;
            let _ = fs::remove_dir_all(&target); // incomplete after a crash, or absent
            let code = self.begun().join("code");
            fs::create_dir_all(&code)?;
            for file in &self.files {
                let path = code.join(&file.relative);
                let mode = if file.mode & 0o111 == 0 { 0o640 } else { 0o750 };
                if let Some(parent) = path.parent().filter(|parent| *parent != code) {
                    fs::create_dir_all(parent)?;
                }
                if file.held.is_none() && !self.is_unix(file, plan) {
                    fs::set_permissions(path, Permissions::from_mode(mode))?; // it is there
                } else {
                    write(&path, &self.installed(file, plan, self.front(file, usize::MAX)?), mode)?;
                }
            }
            if let Some(tree) = &self.tree {
                let link = |to: &Path, name| std::os::unix::fs::symlink(to, self.staging.join(name));
                link(&Path::new("../../../deps").join(tree.hex()), "deps")?;
                if trees::place(places, tree).join("node_modules").exists() {
                    link(Path::new("deps/node_modules"), "node_modules")?; // Node searches above the code
                }
            }
            if let Some(tree) = &self.source {
                // So that the tree stays.
                std::os::unix::fs::symlink(Path::new("../../../deps").join(tree.hex()), self.staging.join("source"))?;
            }
            beside.iter().try_for_each(|(name, bytes)| write(&self.staging.join(name), bytes, 0o640))?;
            give(&self.staging, true, group)?;
            // The last step, so that a kill leaves a whole version or none.
            fs::rename(&self.staging, &target)?;
            return Ok(true);
        }
        let mut written = false;
        for (name, bytes) in beside {
            if !holds(&target.join(name), &bytes) {
                let fresh = target.join(format!(".{name}"));
                write(&fresh, &bytes, 0o640)?;
                give(&fresh, false, group)?;
                // By a rename, since a helper may do this while the spawner reads the file.
                fs::rename(fresh, target.join(name))?;
                written = true;
            }
        }
        Ok(written)
    }

    /// Returns whether the version is installed already and complete. Copies are not synced one by one, so a copy may
    /// be incomplete after a power cut; held files are compared byte by byte, staged ones by their length.
    fn is_stored(&self, target: &Path, plan: &Plan, group: Option<u32>) -> bool {
        let found = fs::metadata(target.join("plan"));
        // The group differs if the uid table lost its last lines in the same power cut.
        found.is_ok_and(|meta| group.is_none_or(|group| meta.gid() == group))
            && self.files.iter().all(|file| {
                let path = target.join("code").join(&file.relative);
                match &file.held {
                    Some(Bytes(held)) => holds(&path, &self.installed(file, plan, held.into())),
                    None => fs::metadata(path).is_ok_and(|meta| self.is_unix(file, plan) || meta.len() == file.length),
                }
            })
    }
}

/// Returns whether a file has these bytes and no more. One call reads it.
fn holds(path: &Path, bytes: &[u8]) -> bool {
    let mut found = vec![0; bytes.len() + 1];
    File::open(path).and_then(|mut file| file.read(&mut found)).is_ok_and(|length| found[..length] == *bytes)
}

/// Hashes a part with its length, so that no two lists of parts give the same input.
fn add(digest: &mut Sha256, bytes: &[u8]) {
    digest.update((bytes.len() as u64).to_le_bytes());
    digest.update(bytes);
}

/// Gives a tree that root owns to a group; directories get mode 0750.
fn give(path: &Path, is_directory: bool, group: Option<u32>) -> io::Result<()> {
    if is_directory {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            give(&entry.path(), entry.file_type()?.is_dir(), group)?;
        }
        fs::set_permissions(path, Permissions::from_mode(0o750))?;
    }
    if group.is_some() { std::os::unix::fs::lchown(path, Some(0), group) } else { Ok(()) }
}

/// Returns the text without byte-order mark and without carriage returns before line feeds.
fn unix_text(bytes: &[u8]) -> Vec<u8> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let stays = |(index, byte): &(usize, &u8)| **byte != b'\r' || bytes.get(index + 1) != Some(&b'\n');
    bytes.iter().enumerate().filter(stays).map(|(_, byte)| *byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_text_has_no_mark_and_no_carriage_return_at_line_ends() {
        assert_eq!(unix_text(b"\xef\xbb\xbf#!/bin/bash\r\necho a\rb\r\n\r"), b"#!/bin/bash\necho a\rb\n\r");
    }

    #[test]
    fn a_file_holds_bytes_only_if_nothing_is_missing_and_nothing_more_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan");
        assert!(!holds(&path, b""));
        for (content, same) in [("abc", true), ("ab", false), ("abcd", false), ("abd", false), ("", false)] {
            fs::write(&path, content).unwrap();
            assert_eq!(holds(&path, b"abc"), same, "{content:?}");
        }
        assert!(holds(&path, b""));
    }
}
