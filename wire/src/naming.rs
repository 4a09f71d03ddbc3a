//! Maps a path in a functions directory to the function of that name. The spawner holds fnd to this rule. The suffixes
//! that runtimes claim are not known here (`fnd_manifest::function::forms` knows them).

use crate::ids::FunctionName;
use crate::plan::is_own;

/// The functions directory of uploads, below the state directory: the last one in the list. Files in it never count as
/// trusted, whoever owns them.
pub const UPLOADS: &str = "functions";

/// Name endings of files that are ignored.
const IGNORED: [&str; 7] = ["~", ".swp", ".swx", ".tmp", ".part", ".bak", ".orig"];

/// The end of the names of manifests beside code.
const MANIFEST: &str = ".toml";

/// The program at the top of a directory or archive that makes it a function of the runtime `lambda`, if it is executable.
pub const BOOTSTRAP: &str = "bootstrap";

/// The ends of the names of files with functions of other systems.
const FOREIGN: [&str; 2] = [".yaml", ".yml"];

/// Returns whether a file or directory is ignored because of its name.
#[must_use]
pub fn is_ignored(name: &[u8]) -> bool {
    // `.dpkg-new`, `.rpmsave` and similar: files that a package manager leaves beside another file.
    let packager = || {
        let dot = name.iter().rposition(|b| *b == b'.').and_then(|dot| name.get(dot..));
        dot.is_some_and(|suffix| suffix.starts_with(b".dpkg-") || suffix.starts_with(b".rpm"))
    };
    let sharp = name.starts_with(b"#") && name.ends_with(b"#");
    name.starts_with(b".")
        || sharp
        || IGNORED.iter().any(|end| name.ends_with(end.as_bytes()))
        // vim makes the file `4913` for a moment, to see whether it may write to a directory.
        || [b"4913".as_slice(), b"__pycache__", b"node_modules"].contains(&name)
        || packager()
}

/// Returns the part of a function's name that a file or directory name gives; none if it can't be code. In a file's
/// name the part ends at the first dot, since no part has one; the rest is the suffix that a runtime may claim.
#[must_use]
pub fn stem(name: &[u8], directory: bool) -> Option<&[u8]> {
    let ends = [MANIFEST].into_iter().chain(FOREIGN);
    let manifest = ends.map(str::as_bytes).any(|end| name.ends_with(end));
    if is_ignored(name) || (manifest && !directory) {
        return None;
    }
    let end = name.iter().position(|byte| *byte == b'.').filter(|_| !directory);
    name.get(..end.unwrap_or(name.len()))
}

/// Returns whether a path is that of a manifest beside code; of a function without code beside it, the manifest names the
/// source.
#[must_use]
pub fn is_manifest(path: &str) -> bool {
    path.ends_with(MANIFEST)
}

/// Returns whether a path is that of a file with functions of another system. Its content says their names.
#[must_use]
pub fn is_foreign(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    !is_ignored(name.as_bytes()) && FOREIGN.iter().any(|end| name.ends_with(end))
}

/// Returns the function whose code `source` is, and the path of its manifest, which may not exist. A manifest without code beside
/// it is its own: it names where the code comes from.
///
/// `source` and the manifest's path are relative to the functions directory. Absent: `source` names no function.
#[must_use]
pub fn function_of(source: &str, directory: bool) -> Option<(FunctionName, Option<String>)> {
    let (group, file) = source
        .rsplit_once('/')
        .map_or((None, source), |(group, file)| (Some(group), file));
    let alone = file.strip_suffix(MANIFEST).filter(|_| !directory);
    let stem = match alone {
        // `stem` refuses every manifest, because most lie beside code.
        Some(alone) if !is_ignored(file.as_bytes()) => alone,
        _ => str::from_utf8(stem(file.as_bytes(), directory)?).ok()?,
    };
    let full = match group {
        // `node_modules` could be the name of a group.
        Some(group) if is_ignored(group.as_bytes()) => return None,
        Some(group) => format!("{group}/{stem}"),
        None => stem.to_owned(),
    };
    // The functions of fnd's own come from no file, so no file may have their names.
    let name = FunctionName::new(&full).ok().filter(|name| !is_own(name.as_str()))?;
    let manifest = if directory { "/function.toml" } else { MANIFEST };
    Some((name, Some(format!("{full}{manifest}"))))
}

#[cfg(test)]
mod tests {
    use super::function_of;

    #[test]
    fn a_path_names_one_function_and_one_manifest() {
        let check = |source: &str, directory, expected: Option<(&str, Option<&str>)>| {
            let found = function_of(source, directory);
            let found = found
                .as_ref()
                .map(|(name, sidecar)| (name.as_str(), sidecar.as_deref()));
            assert_eq!(found, expected, "{source}");
        };
        check("a.sh", false, Some(("a", Some("a.toml"))));
        check("a", false, Some(("a", Some("a.toml"))));
        check("a.any.suffix", false, Some(("a", Some("a.toml"))));
        check("ops/a.sh", false, Some(("ops/a", Some("ops/a.toml"))));
        check("a", true, Some(("a", Some("a/function.toml"))));
        check("ops/a", true, Some(("ops/a", Some("ops/a/function.toml"))));
        check("a.toml", false, Some(("a", Some("a.toml"))));
        check("ops/a.toml", false, Some(("ops/a", Some("ops/a.toml"))));
        for none in [
            "",
            "/",
            "a.b.toml",
            ".a.toml",
            ".toml",
            "A.toml",
            "fnd-build.toml",
            "a.yml",
            ".a.sh",
            "A.sh",
            "a/",
            "/a.sh",
            "./a.sh",
            "../a.sh",
            "a/../b.sh",
            "a/b/c.sh",
            "a.sh.bak",
            "a.sh~",
            "node_modules/a.js",
            "a.dpkg-new",
            "a b.sh",
            "fnd-build.py",
        ] {
            check(none, false, None);
        }
        for none in ["a.sh", "a.toml", "..", ".", "node_modules", "a/b/c", "4913"] {
            check(none, true, None);
        }
    }
}
