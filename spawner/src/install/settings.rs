//! Reads configuration and runtime descriptions for the judge; their content is not parsed here.

use super::source::{self, SourceKind};
use crate::policy::Myself;
use crate::stat_cache::StatCache;
use fnd_wire::frame::Problem;
use fnd_wire::plan::{JudgeSettings, JudgedFile};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

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
    let around = (myself, &StatCache::default());
    let mut read = |paths: Vec<PathBuf>| {
        let files = paths.iter().map(|path| read_file(path, around));
        files.filter_map(|file| file.map_err(|problem| problems.push(problem)).ok().flatten()).collect()
    };
    let mut files = below(&config.with_file_name("conf.d"));
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.insert(0, config.to_owned());
    let runtimes = runtimes.iter().flat_map(|dir| below(dir)).map(|dir| dir.join("runtime.toml"));
    let settings = JudgeSettings { files: read(files), runtimes: read(runtimes.collect()) };
    (settings, problems)
}

fn below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().take(FILES_MAX);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
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
