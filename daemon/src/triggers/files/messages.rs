//! What a watcher may say: the marks of its files, and the rules that a message may break.

use super::directories;
use fnd_core::records::{FileMark, SeenFile};
use fnd_core::triggers::file::message::{RunContent, SeenChange, WatcherReady};
use fnd_manifest::function::FileTrigger;
use std::sync::Arc;

/// Returns the entry of a watcher's offer and the marks of its files.
///
/// # Errors
/// The rule that the offer breaks. fnd checks each message, because a watcher has the rights of the function.
pub(crate) fn offered<'a>(
    ready: &WatcherReady,
    entries: &'a [FileTrigger],
) -> Result<(&'a FileTrigger, Vec<FileMark>), &'static str> {
    let entry = entries
        .get(usize::from(ready.entry))
        .ok_or("an offer for an entry that is not there")?;
    let most = usize::try_from(entry.batch).unwrap_or(usize::MAX);
    if ready.changes.is_empty() || ready.changes.len() > most {
        return Err("an offer without files or with more than a batch");
    }
    let directories = directories(entries);
    let mark = |change: &SeenChange| match change.kind {
        0 | 1 => known(&directories, &change.file, entry.acts()),
        2 => gone(&directories, change.file.directory, change.file.inode),
        _ => Err("a change of no kind"),
    };
    let marks = ready.changes.iter().map(mark).collect::<Result<_, _>>()?;
    Ok((entry, marks))
}

/// Returns contents with the numbers of their directories, without those of directories that no entry names any more.
pub(crate) fn numbered(contents: Vec<(Arc<str>, RunContent)>, entries: &[FileTrigger]) -> Vec<RunContent> {
    let directories = directories(entries);
    let number = |(directory, content): (Arc<str>, RunContent)| {
        let position = directories.iter().position(|other| *other == directory)?;
        let directory = u16::try_from(position).ok()?;
        Some(RunContent { directory, ..content })
    };
    contents.into_iter().filter_map(number).collect()
}

/// Returns the marks of files that a watcher has seen.
///
/// # Errors
/// As [`offered`].
pub(crate) fn seen(files: &[SeenFile], entries: &[FileTrigger]) -> Result<Vec<FileMark>, &'static str> {
    let directories = directories(entries);
    files.iter().map(|file| known(&directories, file, false)).collect()
}

/// Returns the marks of files that are gone.
///
/// # Errors
/// As [`offered`].
pub(crate) fn forgotten(files: &[(u16, u64)], entries: &[FileTrigger]) -> Result<Vec<FileMark>, &'static str> {
    let directories = directories(entries);
    files
        .iter()
        .map(|(directory, inode)| gone(&directories, *directory, *inode))
        .collect()
}

fn known(directories: &[Arc<str>], file: &SeenFile, acts: bool) -> Result<FileMark, &'static str> {
    let directory = directory(directories, file.directory)?;
    let path = &file.path.0;
    let is_sound = !path.is_empty() && path.len() <= fnd_core::triggers::file::message::PATH_MAX && !path.contains(&0);
    if !is_sound || path.starts_with(b"/") {
        return Err("a path that no file has");
    }
    Ok(FileMark::Known {
        directory,
        file: file.clone(),
        acts,
    })
}

fn gone(directories: &[Arc<str>], number: u16, inode: u64) -> Result<FileMark, &'static str> {
    Ok(FileMark::Gone {
        directory: directory(directories, number)?,
        inode,
    })
}

fn directory(directories: &[Arc<str>], number: u16) -> Result<Arc<str>, &'static str> {
    directories
        .get(usize::from(number))
        .cloned()
        .ok_or("a directory that is not watched")
}
