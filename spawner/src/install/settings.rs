//! Reads configuration and runtime descriptions for the judge; their content is not parsed here.

use super::*;
use crate::policy::Myself;
use fnd_wire::plan::JudgeSettings;
use std::io::ErrorKind;

/// Largest settings file in bytes.
const FILE_MAX: u64 = 1 << 20;
/// Largest number of entries that are read from one directory of settings or runtimes.
const FILES_MAX: usize = 1000;

/// Returns the content of `fnd.toml`, of `conf.d/*.toml` beside it and of every `ID/runtime.toml` in the runtimes
/// directories; and the problems with these files.
///
/// If there are problems, the settings must not be put in force.
pub fn read(config: &Path, runtimes: &[PathBuf], myself: &Myself) -> (JudgeSettings, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut list = |dir: &Path| paths_in(dir).map_err(|problem| problems.push(problem)).unwrap_or_default();
    let more = list(&config.with_file_name("conf.d")).into_iter();
    let more = more.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let files = [config.to_owned()].into_iter().chain(more).collect();
    let runtimes = runtimes.iter().flat_map(|dir| list(dir)).map(|dir| dir.join("runtime.toml")).collect();
    let around = (myself, &StatCache::default());
    let mut read = |paths: Vec<PathBuf>| {
        let files = paths.iter().map(|path| read_file(path, around));
        files.filter_map(|file| file.map_err(|problem| problems.push(problem)).ok().flatten()).collect()
    };
    let settings = JudgeSettings { files: read(files), runtimes: read(runtimes) };
    (settings, problems)
}

/// Returns the paths in a directory, in order; none if it does not exist.
fn paths_in(dir: &Path) -> Result<BTreeSet<PathBuf>, Problem> {
    let shown = dir.display().to_string();
    let entries = places::entries(dir).map_err(|error| source::unreadable(&shown, &error))?;
    if entries.len() > FILES_MAX {
        return Err(problem(&shown, format!("it has more than {FILES_MAX} entries"), "remove some"));
    }
    Ok(entries.iter().map(fs::DirEntry::path).collect())
}

/// Reads one file; none if it is absent.
fn read_file(path: &Path, around: (&Myself, &StatCache)) -> Result<Option<JudgedFile>, Problem> {
    let shown = path.display().to_string();
    let real = match fs::canonicalize(path) {
        // A file that lies beside the directories of runtimes gives `ENOTDIR`: it is no runtime.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        other => other.map_err(|error| source::unreadable(&shown, &error))?,
    };
    source::open((&real, None), shown, (SourceKind::File, &[]), around)?.judged(FILE_MAX).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_cannot_be_read_as_a_whole_is_a_problem() {
        let dir = tempfile::tempdir().unwrap();
        let problems = || {
            let runtimes = [dir.path().join("runtimes")];
            let (_, problems) = read(&dir.path().join("fnd.toml"), &runtimes, &Myself::current());
            problems.into_iter().map(|problem| (problem.file, problem.message)).collect::<Vec<_>>()
        };
        assert_eq!(problems(), [], "absent directories");
        for name in ["conf.d", "runtimes"] {
            let path = dir.path().join(name);
            let only = |expected: &str| {
                let found = problems();
                assert_eq!(found.len(), 1, "{name}: {found:?}");
                assert!(found[0].0 == path.to_str().unwrap() && found[0].1.contains(expected), "{name}: {found:?}");
            };
            fs::write(&path, "").unwrap();
            only("Not a directory");
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
            for number in 0..FILES_MAX {
                fs::write(path.join(number.to_string()), "").unwrap();
            }
            assert_eq!(problems(), [], "{name}: files that are neither settings nor runtimes");
            fs::write(path.join("one more"), "").unwrap();
            only("more than 1000 entries");
            fs::remove_dir_all(&path).unwrap();
        }
    }
}
