//! Finds the author of a function: root, the owner of its file, or the user who has uploaded it.
//!
//! The author decides how a function affects others: which routes it may have beside theirs. A version that root owns, or
//! that root uploads, is root's. Of a stored copy, the spawner remembers whether it was.

use crate::uploads::staging::uploader;
use fnd_core::access::Author;
use fnd_core::lifecycle::SourceFiles;
use fnd_wire::naming::UPLOADS;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The places of functions, for which people answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FunctionPlaces<'a> {
    pub(crate) dirs: &'a [String],
    /// The state directory, in which the uploads are.
    pub(crate) state: &'a str,
    /// The daemon's own user, if a person runs it.
    pub(crate) own_uid: Option<u32>,
}

/// Returns the author of a function's files; `trusted`: the judge says that root owns all of them.
pub(crate) fn author(candidate: &SourceFiles, trusted: bool, places: FunctionPlaces<'_>) -> Author {
    if trusted {
        return Author::Root;
    }
    let Some(root) = places.dirs.get(usize::from(candidate.directory)).map(Path::new) else {
        return Author::Unknown;
    };
    if root == Path::new(places.state).join(UPLOADS) {
        return match uploader(root, &candidate.function) {
            Some(uid) if uid == 0 || Some(uid) == places.own_uid => Author::Root,
            Some(uid) => Author::User(uid),
            None => Author::Unknown,
        };
    }
    // A file of root that is not trusted lies beside one of somebody else, or has just come into its place.
    match fs::symlink_metadata(root.join(&candidate.source)) {
        Ok(metadata) if metadata.uid() != 0 => Author::User(metadata.uid()),
        Ok(_) | Err(_) => Author::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uploads::staging::Staged;
    use fnd_wire::ids::FunctionName;

    #[test]
    fn the_author_is_root_the_owner_or_the_uploader() {
        let dir = tempfile::tempdir().unwrap();
        let (files, uploads) = (dir.path().join("f"), dir.path().join(UPLOADS));
        for directory in [&files, &uploads] {
            fs::create_dir(directory).unwrap();
        }
        fs::write(files.join("one.sh"), "").unwrap();
        let dirs = [&files, &uploads].map(|path| path.display().to_string());
        let places = FunctionPlaces {
            dirs: &dirs,
            state: dir.path().to_str().unwrap(),
            own_uid: Some(500),
        };
        let of = |name: &str, directory, trusted| {
            let candidate = SourceFiles {
                function: FunctionName::new(name).unwrap(),
                directory,
                source: format!("{name}.sh"),
                sidecar: None,
                directory_form: false,
            };
            author(&candidate, trusted, places)
        };
        assert_eq!(of("one", 0, true), Author::Root);
        let own = fs::metadata(files.join("one.sh")).unwrap().uid();
        let expected = if own == 0 { Author::Unknown } else { Author::User(own) };
        assert_eq!(of("one", 0, false), expected);
        assert_eq!(of("gone", 0, false), Author::Unknown);
        assert_eq!(of("one", 1, false), Author::Unknown, "uploaded to an earlier fnd");
        for (uid, expected) in [
            (1000, Author::User(1000)),
            (0, Author::Root),
            (500, Author::Root),
            (1001, Author::User(1001)),
        ] {
            for name in ["up", "web/up"] {
                let function = FunctionName::new(name).unwrap();
                let staged = Staged::begin(&uploads, &function, Some(uid)).unwrap();
                fs::write(staged.files().join("up.sh"), "").unwrap();
                staged.swap().unwrap();
                staged.commit().unwrap();
                assert_eq!(of(name, 1, false), expected, "{name} {uid}");
            }
        }
        // An upload that is taken back leaves its sender nothing.
        let function = FunctionName::new("up").unwrap();
        let staged = Staged::begin(&uploads, &function, Some(0)).unwrap();
        staged.swap().unwrap();
        staged.take_back().unwrap();
        assert_eq!(of("up", 1, false), Author::User(1001));
        // Removed: nothing of it stays.
        let staged = Staged::begin(&uploads, &function, None).unwrap();
        staged.swap().unwrap();
        staged.commit().unwrap();
        assert_eq!(of("up", 1, false), Author::Unknown);
    }
}
