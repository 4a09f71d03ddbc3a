//! Keeps the number and the user of each function in `STATE/spawner/uids`: one line `UID NAME SUM` for each function;
//! lines are only ever appended.
//!
//! A function's [`FunctionId`] is its line number. A user is never given to another function, so files that a function
//! left behind can't come to belong to another one. `SUM` is the beginning of the SHA-256 of the text before it; lines
//! of the first release have none. If the table lost lines, the owners of the homes replace them: a function gets the
//! uid of its home's owner.

use crate::log::Failed as _;
use fnd_wire::ids::{FunctionId, FunctionName};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The table.
#[derive(Debug)]
pub struct Uids {
    file: File,
    lines: Vec<(u32, FunctionName)>,
    /// The index of each function's first line.
    index: HashMap<FunctionName, usize>,
    /// Owners of homes that are not in the table, with the function's name if the home's name is that of a function.
    homes: Vec<(u32, Option<FunctionName>)>,
    unsynced: bool,
}

/// Returns the owners of the homes in a directory, without those of root.
pub fn owners(homes: &Path) -> Vec<(u32, Option<FunctionName>)> {
    let owner = |entry: std::fs::DirEntry| {
        let uid = entry.metadata().ok()?.uid();
        // No part of a name has a dot, so the first dot separates group and name.
        let name = entry.file_name().to_str().and_then(|name| FunctionName::new(&name.replacen('.', "/", 1)).ok());
        (uid != 0).then_some((uid, name))
    };
    std::fs::read_dir(homes).into_iter().flatten().flatten().filter_map(owner).collect()
}

/// Returns the sum of a line. It begins with a character that no name has: so a line that lost the space before the sum
/// is not taken for a line without sum.
fn sum(line: &str) -> String {
    Sha256::digest(line).iter().take(4).fold("#".to_owned(), |sum, byte| format!("{sum}{byte:02x}"))
}

impl Uids {
    /// Opens the table, or makes one, and locks it: only one spawner may use a state directory.
    ///
    /// A last line without line end was cut by a crash before anything used the line; the spawner removes it.
    ///
    /// # Errors
    /// Why it can't be used, for people.
    pub fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let read = format!("read the uid table `{shown}`");
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path).failed(&read)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| format!("another fnd-spawner uses `{shown}`; stop it, or use another --state"))?;
        let text = std::io::read_to_string(&file).failed(&read)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64).failed(&read)?;
        let mut table = Self { file, lines: Vec::new(), index: HashMap::new(), homes: Vec::new(), unsynced: false };
        for (index, line) in text.get(..whole).unwrap_or_default().lines().enumerate() {
            let entry = || {
                let (uid, name) = line.split_once(' ')?;
                let name = match name.split_once(' ') {
                    None => name,
                    Some((name, found)) => Some(name).filter(|_| found == sum(&format!("{uid} {name}")))?,
                };
                Some((uid.parse().ok()?, FunctionName::new(name).ok()?))
            };
            let wrong = || {
                let remedy =
                    "restore it from a backup, or remove it: fnd then takes the uids from the owners of the homes";
                format!("line {} of `{shown}` is damaged; {remedy}", index + 1)
            };
            table.push(entry().ok_or_else(wrong)?);
        }
        Ok(table)
    }

    fn push(&mut self, line: (u32, FunctionName)) {
        self.index.entry(line.1.clone()).or_insert(self.lines.len());
        self.lines.push(line);
    }

    /// Adds the owners of homes that are not in the table; for others the table decides.
    pub fn with_homes(mut self, homes: Vec<(u32, Option<FunctionName>)>) -> Self {
        let known = |uid: u32, lines: &[(u32, FunctionName)]| lines.iter().any(|(known, _)| *known == uid);
        self.homes = homes.into_iter().filter(|(uid, _)| !known(*uid, &self.lines)).collect();
        self
    }

    /// Returns number and uid of a function, and assigns them if it has none; call [`sync`](Self::sync) before their
    /// first use. `range` is inclusive; absent: everything runs as `own`.
    ///
    /// # Errors
    /// If no uid is left, if the function's uid is outside the range, or from writing.
    pub fn assign(
        &mut self,
        name: &FunctionName,
        range: Option<(u32, u32)>,
        own: u32,
    ) -> Result<(FunctionId, u32), String> {
        if let Some((id, (uid, _))) = self.id(name).and_then(|id| Some((id, self.get(id)?))) {
            return match range {
                None => Ok((id, own)),
                Some((first, last)) if !(first..=last).contains(&uid) => Err(format!(
                    "its uid {uid} is outside `[users] range` {first} to {last}; restore the old range, or restore the uid table"
                )),
                Some(_) => Ok((id, uid)),
            };
        }
        let uid = match range {
            None => own,
            Some((first, last)) => {
                let within = |uid: &u32| (first..=last).contains(uid);
                let home = self.homes.iter().find(|(uid, known)| known.as_ref() == Some(name) && within(uid));
                let homes = self.homes.iter().map(|(uid, _)| *uid);
                let used = self.lines.iter().map(|(uid, _)| *uid).chain(homes).filter(within).max();
                let next = used.map_or(Some(first), |used| used.checked_add(1));
                let full = || format!("no uid is left in `[users] range` {first} to {last}; make it larger");
                home.map(|(uid, _)| *uid).or(next.filter(|next| *next <= last)).ok_or_else(full)?
            }
        };
        self.homes.retain(|(taken, _)| *taken != uid);
        let end = self.file.metadata().failed("read the size of the uid table")?.len();
        // If a full disk lets only part of a line through, this part would become the beginning of the next line.
        let cut = |_: &std::io::Error| drop(self.file.set_len(end));
        let line = format!("{uid} {name}");
        let line = format!("{line} {}\n", sum(&line));
        (&self.file).write_all(line.as_bytes()).inspect_err(cut).failed("append to the uid table")?;
        self.unsynced = true;
        self.push((uid, name.clone()));
        Ok((FunctionId(u32::try_from(self.lines.len()).unwrap_or(u32::MAX)), uid))
    }

    /// Writes assigned numbers to the disk. Call it before a file belongs to a new user, since a number must not be
    /// given twice.
    ///
    /// # Errors
    /// If writing fails.
    pub fn sync(&mut self) -> Result<(), String> {
        if self.unsynced {
            self.file.sync_data().failed("write the uid table")?;
            self.unsynced = false;
        }
        Ok(())
    }

    /// Returns the uid and the name of the function with a number.
    pub fn get(&self, id: FunctionId) -> Option<(u32, &FunctionName)> {
        let index = usize::try_from(id.0).ok()?.checked_sub(1)?;
        self.lines.get(index).map(|(uid, name)| (*uid, name))
    }

    /// Returns the number of a function.
    pub fn id(&self, name: &FunctionName) -> Option<FunctionId> {
        let index = self.index.get(name)?;
        u32::try_from(index + 1).ok().map(FunctionId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "FND_TEST_UIDS";

    #[test]
    #[ignore = "run by `a_line_cut_by_a_full_disk_is_not_the_beginning_of_the_next`"]
    fn fills_the_disk() {
        let path = std::env::var_os(TABLE).expect("run by a test of this file");
        let mut uids = Uids::open(path.as_ref()).unwrap();
        let name = |n: u32| FunctionName::new(&format!("a-function-{n}")).unwrap();
        let full = (0..100).find_map(|n| uids.assign(&name(n), Some((70_000, 71_000)), 0).err());
        assert!(full.unwrap().contains("append to the uid table"));
        use rustix::process::{Resource, Rlimit, setrlimit};
        setrlimit(Resource::Fsize, Rlimit { current: None, maximum: None }).unwrap();
        uids.assign(&name(200), Some((70_000, 71_000)), 0).unwrap();
    }

    #[test]
    fn a_line_cut_by_a_full_disk_is_not_the_beginning_of_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uids");
        // 512 bytes for every file, without a signal: to the program this is a full disk. The hard limit stays.
        let output = std::process::Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -S -f 1; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "uids::tests::fills_the_disk", "--ignored", "--nocapture"])
            .env(TABLE, &path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let uids = Uids::open(&path).unwrap();
        let (last, name) = uids.lines.last().unwrap();
        assert_eq!((*last as usize, name.as_str()), (70_000 + uids.lines.len() - 1, "a-function-200"));
    }

    #[test]
    fn a_flipped_byte_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uids");
        let mut uids = Uids::open(&path).unwrap();
        for name in ["a", "ops/b", "c"] {
            uids.assign(&FunctionName::new(name).unwrap(), Some((70_000, 70_100)), 0).unwrap();
        }
        drop(uids);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() - 1 {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                std::fs::write(&path, &damaged).unwrap();
                let error = Uids::open(&path).expect_err("it was damaged");
                assert!(error.contains(path.to_str().unwrap()), "byte {at} bit {bit}: {error}");
                assert_eq!(std::fs::read(&path).unwrap(), damaged, "what is refused is not touched");
            }
        }
    }

    #[test]
    fn a_flipped_byte_of_an_old_line_is_found_or_changes_its_own_line_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uids");
        let whole = b"70000 a\n70001 ops/b\n70002 c\n";
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.to_vec();
                damaged[at] ^= 1 << bit;
                std::fs::write(&path, &damaged).unwrap();
                let own = whole[..at].iter().filter(|byte| **byte == b'\n').count();
                let uids = match Uids::open(&path) {
                    Ok(uids) => uids,
                    Err(error) => {
                        assert!(error.contains(path.to_str().unwrap()), "{error}");
                        assert_eq!(std::fs::read(&path).unwrap(), damaged, "what is refused is not touched");
                        continue;
                    }
                };
                let names = ["a", "ops/b", "c"];
                for (index, name) in names.iter().enumerate().filter(|(index, _)| *index != own) {
                    let entry = uids.lines[index].clone();
                    let number = usize::try_from(entry.0).unwrap();
                    assert_eq!((number, entry.1.as_str()), (70_000 + index, *name), "byte {at} bit {bit}");
                }
            }
        }
    }

    #[test]
    fn what_the_table_lost_is_taken_from_the_homes() {
        let dir = tempfile::tempdir().unwrap();
        let name = |name: &str| FunctionName::new(name).unwrap();
        let homes = vec![(73, Some(name("ops/b"))), (75, None), (12, Some(name("c"))), (70, Some(name("stranger")))];
        std::fs::write(dir.path().join("uids"), "70 a\n").unwrap();
        let mut uids = Uids::open(&dir.path().join("uids")).unwrap().with_homes(homes);
        let mut uid = |name: &FunctionName| uids.assign(name, Some((70, 90)), 0).unwrap().1;
        for (function, expected) in [("a", 70), ("new", 76), ("ops/b", 73), ("c", 77), ("stranger", 78)] {
            assert_eq!(uid(&name(function)), expected, "{function}");
        }
    }

    #[test]
    fn numbers_stay_and_a_torn_line_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uids");
        let (a, b) = (FunctionName::new("a").unwrap(), FunctionName::new("ops/b").unwrap());
        let mut uids = Uids::open(&path).unwrap();
        assert_eq!(uids.assign(&a, Some((70, 71)), 0).unwrap(), (FunctionId(1), 70));
        assert!(Uids::open(&path).unwrap_err().contains("another fnd-spawner"));
        drop(uids);
        std::fs::write(&path, "70 a\n71 op").unwrap();
        let mut uids = Uids::open(&path).unwrap();
        assert_eq!(uids.assign(&b, Some((70, 71)), 0).unwrap(), (FunctionId(2), 71));
        assert_eq!(uids.assign(&a, Some((70, 71)), 0).unwrap(), (FunctionId(1), 70));
        let full = uids.assign(&FunctionName::new("c").unwrap(), Some((70, 71)), 0).unwrap_err();
        assert!(full.contains("no uid is left"), "{full}");
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("70 a\n71 ops/b {}\n", sum("71 ops/b")), "old lines stay as they are");
        assert_eq!(uids.get(FunctionId(0)), None);
        drop(uids);
        std::fs::write(&path, "x a\n").unwrap();
        assert!(Uids::open(&path).unwrap_err().contains("line 1 of"));
    }
}
