//! The kernel's reports of changes: inotify watches of the directories with files, and of the directories that their
//! paths lead through.
//!
//! The notify crate would do more than is wanted: it also asks for opened files and changed attributes, which wakes the
//! watcher each time when a program reads a file.

use super::disk::split;
use fnd_core::triggers::file::machine::NamedFile;
use fnd_core::triggers::file::message::PATH_MAX;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::ops::Bound;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Changes of files, and of the directory itself.
const FILES: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::MODIFY)
    .union(NAMES)
    .union(SELF);
/// Changes of the names in a directory.
const NAMES: WatchFlags = WatchFlags::MOVED_FROM
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE);
/// The directory is moved or deleted.
const SELF: WatchFlags = WatchFlags::DELETE_SELF.union(WatchFlags::MOVE_SELF);
/// `MASK_ADD`: a directory may be watched for its files and as part of a way.
const HOW: WatchFlags = WatchFlags::ONLYDIR
    .union(WatchFlags::EXCL_UNLINK)
    .union(WatchFlags::MASK_ADD);
/// Bytes of events that are read before files are looked at.
const READ_MAX: usize = 1 << 20;

/// A report of the kernel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KernelReport {
    /// A name of a watched directory changed.
    Named(u16, Vec<u8>, NamedFile),
    /// A directory appeared below a watched one.
    NewDirectory(u16, Vec<u8>),
    /// A watched directory may be another one now, or be gone.
    Examine,
    Overflow,
    /// A path that is too long for fnd: `true` if it is gone.
    Long(u16, Vec<u8>, bool),
}

/// The meanings of one watch.
#[derive(Debug, Default)]
struct Watch {
    /// Watched directories and paths below them. One directory can be part of several.
    places: Vec<(u16, Box<[u8]>)>,
    /// Names that lead to a watched directory.
    names: BTreeSet<OsString>,
    /// It is on the way to a watched directory.
    on_way: bool,
}

pub(super) struct Watches {
    inotify: Result<OwnedFd, Errno>,
    watches: HashMap<i32, Watch>,
    places: BTreeMap<(u16, Box<[u8]>), i32>,
}

impl Watches {
    pub(super) fn new() -> Self {
        Self {
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK),
            watches: HashMap::new(),
            places: BTreeMap::new(),
        }
    }

    pub(super) fn descriptor(&self) -> Option<&OwnedFd> {
        self.inotify.as_ref().ok()
    }

    /// Returns why the kernel reports nothing.
    pub(super) fn unavailable(&self) -> Option<Errno> {
        self.inotify.as_ref().err().copied()
    }

    pub(super) fn has(&self, directory: u16) -> bool {
        self.places.contains_key(&(directory, Box::default()))
    }

    /// Watches the files of an open directory.
    pub(super) fn add(&mut self, directory: u16, path: &[u8], opened: BorrowedFd<'_>) -> Result<(), Errno> {
        let inotify = self.inotify.as_ref().map_err(|error| *error)?;
        // By its descriptor it is the directory whose files are listed, whatever its path leads to by now.
        let name = format!("/proc/self/fd/{}", opened.as_raw_fd());
        let number = inotify::add_watch(inotify, name, FILES | HOW)?;
        let place = (directory, Box::from(path));
        if let Some(old) = self.places.insert(place.clone(), number).filter(|old| *old != number) {
            self.leave(old, &place);
        }
        let places = &mut self.watches.entry(number).or_default().places;
        if !places.contains(&place) {
            places.push(place);
        }
        Ok(())
    }

    /// Ends the watches of a directory and of those below.
    pub(super) fn remove(&mut self, directory: u16, path: &[u8]) {
        let from = (directory, Box::from(path));
        let below = self.places.range((Bound::Included(from), Bound::Unbounded));
        let is_below = |place: &[u8]| match place.strip_prefix(path) {
            Some(rest) => path.is_empty() || rest.is_empty() || rest.starts_with(b"/"),
            None => false,
        };
        let same = below.take_while(|((number, place), _)| *number == directory && place.starts_with(path));
        let gone: Vec<_> = same
            .filter(|((_, place), _)| is_below(place))
            .map(|(place, number)| (place.clone(), *number))
            .collect();
        for (place, number) in gone {
            self.places.remove(&place);
            self.leave(number, &place);
        }
    }

    fn leave(&mut self, number: i32, place: &(u16, Box<[u8]>)) {
        let Some(watch) = self.watches.get_mut(&number) else {
            return;
        };
        watch.places.retain(|other| other != place);
        self.tidy(number);
    }

    /// Ends a watch that has no meaning any more.
    fn tidy(&mut self, number: i32) {
        let unused = |watch: &Watch| watch.places.is_empty() && watch.names.is_empty() && !watch.on_way;
        if self.watches.get(&number).is_some_and(unused) {
            self.watches.remove(&number);
            if let Ok(inotify) = &self.inotify {
                let _ = inotify::remove_watch(inotify, number); // an error: the directory is gone, and its watch too
            }
        }
    }

    /// Watches the ways to all watched directories: parts of each path with the name that follows. Returns the
    /// directory that cannot be watched, and why.
    pub(super) fn watch_ways<'a>(
        &mut self,
        ways: impl Iterator<Item = &'a Vec<(std::path::PathBuf, OsString)>>,
    ) -> Option<(std::path::PathBuf, Errno)> {
        let inotify = self.inotify.as_ref().ok()?;
        let mut failed = None;
        let mut names: HashMap<i32, BTreeSet<OsString>> = HashMap::new();
        let mut on_way = BTreeSet::new();
        for way in ways {
            let is_directory = |next: &Path| std::fs::symlink_metadata(next).is_ok_and(|meta| meta.is_dir());
            let is_there = way
                .last()
                .is_some_and(|(directory, name)| is_directory(&directory.join(name)));
            for (position, (directory, name)) in way.iter().enumerate() {
                let next = directory.join(name);
                // A directory that the way leads through reports that it is moved. It is deleted only after the last one. That
                // one is reported by the directory above, since a directory that a program has open does not report its
                // own deletion. A link is replaced without a report of its own, and a missing name has none.
                let is_passed = is_there && position + 1 < way.len() && is_directory(&next);
                let (watched, mask) = if is_passed {
                    (&next, SELF)
                } else {
                    (directory, NAMES | SELF)
                };
                match inotify::add_watch(inotify, watched, mask | HOW) {
                    Ok(number) if is_passed => {
                        on_way.insert(number);
                    }
                    Ok(number) => {
                        names.entry(number).or_default().insert(name.clone());
                    }
                    Err(Errno::NOENT | Errno::NOTDIR) => {} // the directory above reports when it appears
                    Err(error) => failed = Some((watched.clone(), error)),
                }
            }
        }
        let all: BTreeSet<_> = self
            .watches
            .keys()
            .chain(names.keys())
            .chain(&on_way)
            .copied()
            .collect();
        for number in all {
            let watch = self.watches.entry(number).or_default();
            watch.on_way = on_way.contains(&number);
            watch.names = names.remove(&number).unwrap_or_default();
            self.tidy(number);
        }
        failed
    }

    /// Reads the events that are there now, at most a piece.
    pub(super) fn read(&mut self, reports: &mut Vec<KernelReport>) -> Result<(), Errno> {
        let Ok(inotify) = &self.inotify else { return Ok(()) };
        let mut events = Vec::new();
        let mut buffer = vec![MaybeUninit::uninit(); 64 << 10];
        let mut reader = Reader::new(inotify, &mut buffer);
        let mut bytes = 0;
        while bytes < READ_MAX {
            match reader.next() {
                Ok(event) => {
                    let name = event
                        .file_name()
                        .map(|name| name.to_bytes().to_vec())
                        .unwrap_or_default();
                    // The kernel puts 16 bytes before each name (inotify(7)).
                    bytes += name.len() + 16;
                    events.push((event.wd(), event.events(), name));
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        for (number, flags, name) in events {
            self.report(number, flags, &name, reports);
        }
        Ok(())
    }

    fn report(&mut self, number: i32, flags: ReadFlags, name: &[u8], reports: &mut Vec<KernelReport>) {
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            reports.push(KernelReport::Overflow);
            // A change on the way to a watched directory may be among the lost events.
            reports.push(KernelReport::Examine);
            return;
        }
        let Some(watch) = self.watches.get(&number) else { return };
        let is_self = flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT);
        let is_root = watch.places.iter().any(|(_, path)| path.is_empty());
        if is_self && (watch.on_way || !watch.names.is_empty() || is_root)
            || watch.names.contains(OsStr::from_bytes(name))
        {
            reports.push(KernelReport::Examine);
        }
        // The kernel has removed this watch by itself (inotify(7), `IN_IGNORED`).
        if flags.contains(ReadFlags::IGNORED) {
            let is_examined = is_root || watch.on_way || !watch.names.is_empty();
            reports.extend(is_examined.then_some(KernelReport::Examine));
            let watch = self.watches.remove(&number).unwrap_or_default();
            for place in watch.places {
                if self.places.get(&place) == Some(&number) {
                    self.places.remove(&place);
                }
            }
            return;
        }
        if name.is_empty() {
            return;
        }
        let places = watch.places.clone();
        for (directory, above) in places {
            let path = if above.is_empty() {
                name.to_vec()
            } else {
                [&above, name].join(b"/".as_slice())
            };
            self.name(directory, path, flags, reports);
        }
    }

    fn name(&mut self, directory: u16, path: Vec<u8>, flags: ReadFlags, reports: &mut Vec<KernelReport>) {
        if path.len() > PATH_MAX {
            let is_gone = flags.intersects(ReadFlags::MOVED_FROM | ReadFlags::DELETE);
            reports.push(KernelReport::Long(directory, path, is_gone));
            return;
        }
        if flags.contains(ReadFlags::ISDIR) {
            if flags.intersects(ReadFlags::MOVED_FROM | ReadFlags::DELETE) {
                self.remove(directory, &path);
                reports.push(KernelReport::Named(directory, path, NamedFile::DirectoryMoved));
            } else if flags.intersects(ReadFlags::MOVED_TO | ReadFlags::CREATE) && !split(&path).1.starts_with(b".") {
                reports.push(KernelReport::NewDirectory(directory, path));
            }
            return;
        }
        let kinds = [
            (ReadFlags::CREATE, NamedFile::Created),
            (ReadFlags::MODIFY, NamedFile::Written),
            (ReadFlags::CLOSE_WRITE, NamedFile::Closed),
            (ReadFlags::MOVED_TO, NamedFile::MovedHere),
            (ReadFlags::MOVED_FROM, NamedFile::MovedAway),
            (ReadFlags::DELETE, NamedFile::Removed),
        ];
        for (_, kind) in kinds.into_iter().filter(|(flag, _)| flags.contains(*flag)) {
            reports.push(KernelReport::Named(directory, path.clone(), kind));
        }
    }
}
