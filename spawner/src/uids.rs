//! Keeps the number and the users of each function in `STATE/spawner/uids`; lines are only ever appended.
//!
//! A line is `UID NAME SUM`, or `UID NAME @OWNER SUM`: the first user that a function got. Its home is `home/NAME`. A function
//! whose files belong to another owner than before is another program with the same name: it gets the line
//! `UID NAME ~OWNER SUM`, and the home `home/NAME~UID`. So what one owner's code has left in a home is never read by code of
//! another owner, and nothing is lost. `= UID NAME @OWNER SUM` says who owns a user of a table that an earlier fnd wrote.
//!
//! A function's [`FunctionId`] is the number of its first line. A user is never given to another function, so files that a
//! function left behind can't come to belong to another one. `SUM` is the beginning of the SHA-256 of the text before it;
//! lines of the first release have none. If the table lost lines, the owners of the homes replace them: a function gets the
//! uid of its home's owner.

use crate::log::Failed as _;
use crate::policy::problem;
use fnd_wire::frame::Problem;
use fnd_wire::ids::{FunctionId, FunctionName};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The owner of a function's files: `root`, `uploads`, or the uids of the others who own some of them, `1000+1001`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UidOwner(Cow<'static, str>);

impl UidOwner {
    /// Returns the owner of uploads.
    pub fn uploads() -> Self {
        Self("uploads".into())
    }

    /// Returns the owner of files of these users other than root; without any they are root's.
    pub fn of(authors: &BTreeSet<u32>) -> Self {
        let uids = || authors.iter().map(u32::to_string).collect::<Vec<_>>().join("+");
        Self(if authors.is_empty() { "root".into() } else { uids().into() })
    }

    fn parse(text: &str) -> Option<Self> {
        let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '+';
        // Most functions are root's, and this name takes no memory for each of them.
        let owner = || Self(if text == "root" { "root".into() } else { text.to_owned().into() });
        (!text.is_empty() && text.chars().all(is_fine)).then(owner)
    }
}

impl fmt::Display for UidOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.0.starts_with(|c: char| c.is_ascii_digit()) { "uid " } else { "" }, self.0)
    }
}

/// A user of a function.
#[derive(Debug, Clone)]
struct UidUser {
    uid: u32,
    name: FunctionName,
    /// Absent: an earlier fnd wrote the line.
    owner: Option<UidOwner>,
    /// Whether its home has the uid in its name.
    apart: bool,
}

/// The user that a function gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assigned {
    /// The function's number.
    pub id: FunctionId,
    pub uid: u32,
    /// Whether its home has the uid in its name.
    pub apart: bool,
}

/// A directory in `home`: its owner, the function that its name is of, and whether the name has a uid, too.
pub type OwnedHome = (u32, Option<FunctionName>, bool);

pub struct Uids {
    file: File,
    /// None: the line was damaged. It keeps its number, so that the others do.
    lines: Vec<Option<UidUser>>,
    /// Each function's lines by their indices, without a list for each function.
    index: BTreeSet<(FunctionName, usize)>,
    /// The uids of lines and homes.
    used: BTreeSet<u32>,
    /// Homes that are not in the table.
    homes: Vec<OwnedHome>,
    unsynced: bool,
    /// Which lines were damaged when it was opened, for people.
    pub damaged: Option<Problem>,
}

/// Returns the homes in a directory, without those of root, and without those that can't be read of functions in the table.
///
/// # Errors
/// If another one can't be read: its uid could be given to another function.
pub fn owners(homes: &Path, table: &Uids) -> io::Result<Vec<OwnedHome>> {
    let owner = |entry: std::fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        let (name, apart) = name.split_once('~').map_or((name, false), |(name, _)| (name, true));
        let function = FunctionName::of_file_form(name).ok();
        // The table already has the uid of a known function. So its home may be unreadable, for example on a dead
        // network file system, without stopping all functions.
        let is_known = function.as_ref().is_some_and(|name| table.of(name).next().is_some());
        let meta = crate::places::if_there(entry.metadata());
        let meta = meta.or_else(|error| if is_known { Ok(None) } else { Err(error) })?;
        Ok(meta.map(|meta| meta.uid()).filter(|uid| *uid != 0).map(|uid| (uid, function, apart)))
    };
    crate::places::entries(homes)?.into_iter().filter_map(|entry| owner(entry).transpose()).collect()
}

/// Returns the sum of a line. It begins with a character that no name has: so a line that lost the space before the sum
/// is not taken for a line without sum.
fn sum(line: &str) -> String {
    Sha256::digest(line).iter().take(4).fold("#".to_owned(), |sum, byte| format!("{sum}{byte:02x}"))
}

/// The text of a line that replaces a damaged one.
const LOST: &str = "-";

impl Uids {
    /// Opens the table, or makes one, and locks it: only one spawner may use a state directory.
    ///
    /// A last line without line end was cut by a crash before anything used the line; the spawner removes it. If other
    /// lines are damaged, the file is kept beside the table, and the table goes on without these lines.
    ///
    /// # Errors
    /// Why it can't be used, for people.
    pub fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let read = format!("read the uid table `{shown}`");
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path).failed(&read)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| format!("another fnd-spawner uses `{shown}`; stop it, or use another --state"))?;
        let mut bytes = Vec::new();
        (&file).read_to_end(&mut bytes).failed(&read)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let (lines, index, used, homes) = Default::default();
        let mut table = Self { file, lines, index, used, homes, unsynced: false, damaged: None };
        let (mut sound, mut damaged) = (Vec::new(), Vec::new());
        for (number, line) in (1..).zip(bytes.get(..whole).unwrap_or_default().split_inclusive(|byte| *byte == b'\n')) {
            if str::from_utf8(line).ok().and_then(|line| table.add(line.strip_suffix('\n')?, None)).is_some() {
                sound.extend_from_slice(line);
            } else {
                sound.extend_from_slice(format!("{LOST} {}\n", sum(LOST)).as_bytes());
                damaged.push(number);
                table.lines.push(None);
            }
        }
        if damaged.is_empty() {
            table.file.set_len(whole as u64).failed(&read)?;
        } else {
            let (file, problem) = replaced(path, &sound, &damaged)?;
            (table.file, table.damaged) = (file, Some(problem));
        }
        Ok(table)
    }

    /// Takes a line without its end; none: it is damaged. If `shared` is its function, the table shares the text of that name.
    fn add(&mut self, line: &str, shared: Option<&FunctionName>) -> Option<()> {
        let (body, has_sum) = match line.rsplit_once(' ') {
            Some((body, found)) if found == sum(body) => (body, true),
            _ => (line, false), // of the first release
        };
        let words: Vec<&str> = body.split(' ').collect();
        let (is_known, uid, name, owner) = match (words.as_slice(), has_sum) {
            ([LOST], true) => {
                self.lines.push(None);
                return Some(());
            }
            ([uid, name], _) => (false, uid, name, None),
            (["=", uid, name, owner], true) if owner.starts_with('@') => (true, uid, name, Some(owner)),
            ([uid, name, owner], true) => (false, uid, name, Some(owner)),
            _ => return None,
        };
        let (uid, read) = (uid.parse().ok()?, FunctionName::new(name).ok()?);
        let name = shared.filter(|shared| **shared == read).cloned().unwrap_or(read);
        let apart = owner.is_some_and(|owner| owner.starts_with('~'));
        let parsed = owner.map(|owner| owner.strip_prefix(['@', '~']).and_then(UidOwner::parse).ok_or(()));
        let owner = parsed.transpose().ok()?;
        if is_known {
            let has_uid = |index: &usize| matches!(self.lines.get(*index), Some(Some(line)) if line.uid == uid);
            let known = self.indices(&name).find(has_uid);
            if let Some(Some(line)) = known.and_then(|index| self.lines.get_mut(index)) {
                line.owner = owner;
            }
            return Some(());
        }
        self.index.insert((name.clone(), self.lines.len()));
        self.used.insert(uid);
        self.lines.push(Some(UidUser { uid, name, owner, apart }));
        Some(())
    }

    /// Adds the homes whose owners are not in the table; for others the table decides.
    pub fn with_homes(mut self, homes: Vec<OwnedHome>) -> Self {
        self.homes = homes.into_iter().filter(|(uid, ..)| !self.used.contains(uid)).collect();
        self.used.extend(self.homes.iter().map(|(uid, ..)| *uid));
        self
    }

    fn indices(&self, name: &FunctionName) -> impl Iterator<Item = usize> {
        self.index.range((name.clone(), 0)..=(name.clone(), usize::MAX)).map(|(_, index)| *index)
    }

    /// Returns the users of a function, in the order in which it got them.
    fn of(&self, name: &FunctionName) -> impl Iterator<Item = &UidUser> {
        self.indices(name).filter_map(|index| self.lines.get(index)?.as_ref())
    }

    /// Returns number and uid of a function whose files have this owner (absent: it does not matter), and assigns them if
    /// it has none; call [`sync`](Self::sync) before their first use. `range` is inclusive; absent: everything runs as
    /// `own`.
    ///
    /// # Errors
    /// If no uid is left, if the function's uid is outside the range, or from writing.
    pub fn assign(
        &mut self,
        name: &FunctionName,
        owner: Option<&UidOwner>,
        range: Option<(u32, u32)>,
        own: u32,
    ) -> Result<Assigned, String> {
        let owner = owner.filter(|_| range.is_some());
        let is_owners = |line: &&UidUser| owner.is_none() || line.owner.as_ref() == owner;
        // The first owner after an upgrade is the one that there was before.
        let unowned = |line: &&UidUser| line.owner.is_none();
        let found = self.of(name).find(is_owners).or_else(|| self.of(name).find(unowned)).cloned();
        if let Some(line) = found {
            let uid = range.map_or(own, |_| line.uid);
            if let Some((first, last)) = range.filter(|(first, last)| !(*first..=*last).contains(&uid)) {
                let help = "restore the old range, or restore the uid table";
                return Err(format!("its uid {uid} is outside `[users] range` {first} to {last}; {help}"));
            }
            if let Some(owner) = owner.filter(|_| line.owner.is_none()) {
                self.append(&format!("= {uid} {name} @{}", owner.0), name)?;
            }
            let id = self.id(name).ok_or("its number is lost")?;
            return Ok(Assigned { id, uid, apart: line.apart });
        }
        let of_name = |known: &Option<FunctionName>| known.as_ref() == Some(name);
        // Then nobody knows which of them has left what is in `home/NAME`.
        let has_others = owner.is_some()
            && (self.of(name).next().is_some() || self.homes.iter().any(|(_, known, apart)| *apart && of_name(known)));
        let uid = match range {
            None => own,
            Some((first, last)) => {
                let within = |uid: &u32| (first..=last).contains(uid);
                let fits = |(uid, known, _): &&OwnedHome| !has_others && of_name(known) && within(uid);
                let home = self.homes.iter().find(fits).map(|(uid, ..)| *uid);
                // After the highest known user: a lower free number may be that of a line that was lost.
                let used = self.used.range(..=last).next_back().filter(|uid| within(uid));
                let next = used.map_or(Some(first), |used| used.checked_add(1));
                let full = || format!("no uid is left in `[users] range` {first} to {last}; make it larger");
                home.or(next.filter(|next| *next <= last)).ok_or_else(full)?
            }
        };
        let of = |owner: &UidOwner| format!(" {}{}", if has_others { '~' } else { '@' }, owner.0);
        self.append(&format!("{uid} {name}{}", owner.map(of).unwrap_or_default()), name)?;
        self.homes.retain(|(taken, ..)| *taken != uid);
        let id = self.id(name).ok_or("its number is lost")?;
        Ok(Assigned { id, uid, apart: has_others })
    }

    /// Returns the user that a stored version of a function had: its copy and what it has written belong to that user.
    pub fn again(&self, name: &FunctionName, apart: Option<u32>, range: Option<(u32, u32)>) -> Option<Assigned> {
        let (first, last) = range?;
        let is_it = |line: &&UidUser| if line.apart { apart == Some(line.uid) } else { apart.is_none() };
        let line = self.of(name).find(is_it).filter(|line| (first..=last).contains(&line.uid))?;
        Some(Assigned { id: self.id(name)?, uid: line.uid, apart: line.apart })
    }

    /// Appends a line of a function to the file, and takes it as it will be read.
    fn append(&mut self, line: &str, name: &FunctionName) -> Result<(), String> {
        let end = self.file.metadata().failed("read the size of the uid table")?.len();
        // If a full disk lets only part of a line through, this part would become the beginning of the next line.
        let cut = |_: &io::Error| drop(self.file.set_len(end));
        let line = format!("{line} {}", sum(line));
        (&self.file).write_all((line.clone() + "\n").as_bytes()).inspect_err(cut).failed("append to the uid table")?;
        self.unsynced = true;
        self.add(&line, Some(name)).ok_or_else(|| "a line of the uid table can't be read back".to_owned())
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

    /// Returns the first uid and the name of the function with a number.
    pub fn get(&self, id: FunctionId) -> Option<(u32, &FunctionName)> {
        self.lines.get(usize::try_from(id.0).ok()?.checked_sub(1)?)?.as_ref().map(|line| (line.uid, &line.name))
    }

    /// Returns whether a function has a user with this uid.
    pub fn has(&self, name: &FunctionName, uid: u32) -> bool {
        self.of(name).any(|line| line.uid == uid)
    }

    /// Returns a function's users, without `but`: uid, owner of the files that had it, and whether its home has the uid in
    /// its name.
    pub fn users(&self, name: &FunctionName, but: Option<u32>) -> impl Iterator<Item = (u32, Option<&UidOwner>, bool)> {
        self.of(name).filter(move |line| Some(line.uid) != but).map(|line| (line.uid, line.owner.as_ref(), line.apart))
    }

    /// Returns the number of a function.
    pub fn id(&self, name: &FunctionName) -> Option<FunctionId> {
        u32::try_from(self.indices(name).next()? + 1).ok().map(FunctionId)
    }
}

/// Keeps a damaged table beside the new one, which has these bytes; returns the new one, locked, and
/// what people have to know.
fn replaced(path: &Path, sound: &[u8], damaged: &[usize]) -> Result<(File, Problem), String> {
    let kept = path.with_extension(format!("damaged-{}", crate::clock::unix_ms()));
    let fresh = path.with_extension("new");
    let write = || {
        // By a link and not by a rename, so that a kill never leaves the state directory without a table.
        std::fs::hard_link(path, &kept)?;
        let _ = std::fs::remove_file(&fresh); // of a start that was killed
        let file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&fresh)?;
        // Locked before it gets its name, so that no other spawner can lock it first.
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        (&file).write_all(sound)?;
        file.sync_all()?;
        std::fs::rename(&fresh, path)?;
        File::open(path.parent().unwrap_or(path))?.sync_all()?;
        Ok::<_, io::Error>(file)
    };
    let file = write().failed(&format!("set the damaged uid table `{}` aside", path.display()))?;
    let lines = damaged.iter().take(20).map(usize::to_string).collect::<Vec<_>>().join(", ");
    let message = format!(
        "{} lines of the table of users were damaged ({lines}): functions that were in them get the users of their homes' owners",
        damaged.len()
    );
    let help =
        format!("compare with the damaged table, `{}`; `fndctl verify` finds homes of other users", kept.display());
    crate::log!("`{}`: {message}; {help}", path.display());
    Ok((file, problem(&path.display().to_string(), message, help)))
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
        let full = (0..100).find_map(|n| uids.assign(&name(n), None, Some((70_000, 71_000)), 0).err());
        assert!(full.unwrap().contains("append to the uid table"));
        use rustix::process::{Resource, Rlimit, setrlimit};
        setrlimit(Resource::Fsize, Rlimit { current: None, maximum: None }).unwrap();
        uids.assign(&name(200), None, Some((70_000, 71_000)), 0).unwrap();
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
        let last = uids.lines.last().unwrap().as_ref().unwrap();
        assert_eq!((last.uid as usize, last.name.as_str()), (70_000 + uids.lines.len() - 1, "a-function-200"));
    }

    const RANGE: Option<(u32, u32)> = Some((70_000, 70_100));

    fn name(name: &str) -> FunctionName {
        FunctionName::new(name).unwrap()
    }

    fn owner(text: &str) -> UidOwner {
        UidOwner::parse(text).unwrap()
    }

    /// Returns the files that a damaged table was kept as, and removes them.
    fn kept(path: &Path) -> Vec<Vec<u8>> {
        let entries = std::fs::read_dir(path.parent().unwrap()).unwrap().flatten().map(|entry| entry.path());
        let kept = entries.filter(|entry| entry.to_str().unwrap().contains("uids.damaged-"));
        kept.map(|path| (std::fs::read(&path).unwrap(), std::fs::remove_file(path).unwrap()).0).collect()
    }

    #[test]
    fn a_damaged_line_is_lost_and_the_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uids");
        let mut uids = Uids::open(&path).unwrap();
        let names = ["a", "ops/b", "c"];
        for function in names {
            uids.assign(&name(function), Some(&owner("root")), RANGE, 0).unwrap();
        }
        drop(uids);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() - 1 {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(&path, &damaged).unwrap();
            let uids = Uids::open(&path).unwrap();
            assert_eq!(kept(&path), [damaged], "byte {at}");
            assert!(uids.damaged.as_ref().is_some_and(|problem| problem.message.contains("damaged")), "byte {at}");
            let own = whole[..at].iter().filter(|byte| **byte == b'\n').count();
            let hit = |index: usize| index == own || whole[at] == b'\n' && index == own + 1;
            for (index, function) in names.iter().enumerate() {
                let known = uids.of(&name(function)).map(|line| line.uid).next();
                let expected = u32::try_from(70_000 + index).unwrap();
                assert_eq!(known, Some(expected).filter(|_| !hit(index)), "byte {at}: {function}");
            }
            drop(uids);
            // The damage is reported once: the table is sound now, and the next line is read again.
            let mut again = Uids::open(&path).unwrap();
            assert!(kept(&path).is_empty(), "byte {at}");
            let new = again.assign(&name("new"), Some(&owner("root")), RANGE, 0).unwrap();
            assert!(new.uid > 70_000);
        }
    }

    #[test]
    fn a_table_of_any_bytes_stops_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uids");
        std::fs::write(&path, b"70000 a\n\xff\xfe\x00\n70002 c\n").unwrap();
        let homes = vec![(70_000, Some(name("a")), false), (70_001, Some(name("b")), false)];
        let mut uids = Uids::open(&path).unwrap().with_homes(homes);
        for (function, expected) in [("a", (1, 70_000)), ("c", (3, 70_002)), ("b", (4, 70_001)), ("d", (5, 70_003))] {
            let Assigned { id, uid, apart } = uids.assign(&name(function), Some(&owner("root")), RANGE, 0).unwrap();
            assert_eq!((id.0, uid, apart), (expected.0, expected.1, false), "{function}");
        }
        assert_eq!(uids.get(FunctionId(2)), None, "the lost line keeps its number");
    }

    #[test]
    fn a_flipped_byte_of_an_old_line_changes_its_own_line_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uids");
        let whole = b"70000 a\n70001 ops/b\n70002 c\n";
        for at in 0..whole.len() {
            let mut damaged = whole.to_vec();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(&path, &damaged).unwrap();
            let own = whole[..at].iter().filter(|byte| **byte == b'\n').count();
            let uids = Uids::open(&path).unwrap();
            kept(&path);
            let hit = |index: usize| index == own || whole[at] == b'\n' && index == own + 1;
            for (index, function) in ["a", "ops/b", "c"].iter().enumerate().filter(|(index, _)| !hit(*index)) {
                let known: Vec<u32> = uids.of(&name(function)).map(|line| line.uid).collect();
                assert!(known.contains(&u32::try_from(70_000 + index).unwrap()), "byte {at}: {function}");
            }
        }
    }

    #[test]
    fn homes_that_cannot_be_read_are_not_absent() {
        let dir = tempfile::tempdir().unwrap();
        let table = Uids::open(&dir.path().join("uids")).unwrap();
        assert!(owners(&dir.path().join("absent"), &table).unwrap().is_empty());
        std::fs::write(dir.path().join("home"), "").unwrap();
        assert!(owners(&dir.path().join("home"), &table).is_err());
    }

    #[test]
    fn what_the_table_lost_is_taken_from_the_homes() {
        let dir = tempfile::tempdir().unwrap();
        let homes = vec![
            (73, Some(name("ops/b")), false),
            (75, None, false),
            (12, Some(name("c")), false),
            (70, Some(name("stranger")), false),
            // Two owners had this name, and the table does not say any more who had which.
            (76, Some(name("two")), false),
            (77, Some(name("two")), true),
        ];
        std::fs::write(dir.path().join("uids"), "70 a\n").unwrap();
        let mut uids = Uids::open(&dir.path().join("uids")).unwrap().with_homes(homes);
        let mut uid = |name: &FunctionName| {
            let assigned = uids.assign(name, Some(&owner("root")), Some((70, 90)), 0).unwrap();
            (assigned.uid, assigned.apart)
        };
        let expected =
            [("a", 70, false), ("new", 78, false), ("ops/b", 73, false), ("c", 79, false), ("stranger", 80, false)];
        for (function, number, apart) in expected.into_iter().chain([("two", 81, true)]) {
            assert_eq!(uid(&name(function)), (number, apart), "{function}");
        }
    }

    #[test]
    fn each_owner_of_a_name_has_a_user_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uids");
        // An earlier fnd wrote the first line: its first owner now is the one that it had.
        std::fs::write(&path, "70000 f\n70001 g\n").unwrap();
        let [root, author, uploads] = [owner("root"), owner("1000"), UidOwner::uploads()];
        let steps = [
            ("f", &author, 70_000, false),
            ("f", &root, 70_002, true),
            ("g", &root, 70_001, false),
            ("f", &uploads, 70_003, true),
            ("f", &root, 70_002, true),
            ("f", &author, 70_000, false),
        ];
        for _ in 0..2 {
            let mut uids = Uids::open(&path).unwrap();
            for (function, owner, uid, apart) in steps {
                let id = FunctionId(if function == "f" { 1 } else { 2 });
                let assigned = uids.assign(&name(function), Some(owner), RANGE, 0).unwrap();
                assert_eq!(assigned, Assigned { id, uid, apart }, "{function} of {owner}");
            }
            assert!(uids.has(&name("f"), 70_003) && !uids.has(&name("f"), 70_001));
            let others: Vec<u32> = uids.users(&name("f"), Some(70_002)).map(|(uid, ..)| uid).collect();
            assert_eq!(others, [70_000, 70_003]);
            assert_eq!(uids.users(&name("f"), None).count(), 3);
            assert_eq!(uids.again(&name("f"), Some(70_003), RANGE).unwrap().uid, 70_003);
            assert_eq!(uids.again(&name("f"), None, RANGE).unwrap().uid, 70_000);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().map(|line| line.split_once(" #").map_or(line, |(line, _)| line)).collect();
        let expected =
            ["70000 f", "70001 g", "= 70000 f @1000", "70002 f ~root", "= 70001 g @root", "70003 f ~uploads"];
        assert_eq!(lines, expected, "what is known is not written again");
        assert_eq!(UidOwner::of(&BTreeSet::from([1001, 1000])).to_string(), "uid 1000+1001");
    }

    #[test]
    fn a_new_user_follows_the_highest_one_of_lines_and_homes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uids");
        std::fs::write(&path, "70000 a\n70005 b\n90000 c\n").unwrap();
        let home = |uid, function| (uid, Some(name(function)), false);
        // That of `b` is in the table; two of the others have one owner; the last one is outside of the range.
        let homes = vec![home(70_005, "x"), home(70_009, "d"), home(70_009, "e"), home(80_000, "f")];
        let mut uids = Uids::open(&path).unwrap().with_homes(homes);
        let range = |first, last| Some((first, last));
        let steps = [
            ("x", RANGE, Ok((4, 70_010))),
            ("d", RANGE, Ok((5, 70_009))),
            ("e", RANGE, Ok((6, 70_011))),
            ("f", RANGE, Ok((7, 70_012))),
            ("g", range(70_000, 70_012), Err("no uid is left")),
            ("g", range(70_100, 70_000), Err("no uid is left")),
            ("g", range(100, 110), Ok((8, 100))),
            ("h", range(70_000, 80_001), Ok((9, 80_001))),
            ("a", RANGE, Ok((1, 70_000))),
        ];
        for (function, range, expected) in steps {
            match (uids.assign(&name(function), None, range, 0), expected) {
                (Ok(Assigned { id, uid, apart: false }), Ok(expected)) => {
                    assert_eq!((id.0, uid), expected, "{function}");
                }
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{function}: {why}"),
                (assigned, _) => panic!("{function}: {assigned:?}"),
            }
        }
        assert!(uids.has(&name("d"), 70_009) && !uids.has(&name("e"), 70_009) && uids.id(&name("g")).is_some());
        assert_eq!((uids.id(&name("ab")), uids.users(&name("ab"), None).count()), (None, 0));
    }

    #[test]
    fn an_owner_is_read_as_it_is_written() {
        let of = |authors: &[u32]| UidOwner::of(&BTreeSet::from_iter(authors.iter().copied()));
        for (known, text) in [
            (of(&[]), "root"),
            (UidOwner::uploads(), "uploads"),
            (of(&[1000]), "1000"),
            (of(&[1001, 1000]), "1000+1001"),
        ] {
            assert_eq!((&*known.0, &owner(text)), (text, &known));
        }
        assert!(["", "1000 ", "Root", "@root"].into_iter().all(|text| UidOwner::parse(text).is_none()));
        for most in [of(&[]), owner("root")] {
            assert!(matches!(most.0, Cow::Borrowed("root")), "this owner takes no memory of its own");
        }
    }

    #[test]
    fn numbers_stay_and_a_torn_line_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("uids");
        let (a, b) = (name("a"), name("ops/b"));
        let assigned = |id, uid| Assigned { id: FunctionId(id), uid, apart: false };
        let mut uids = Uids::open(&path).unwrap();
        assert_eq!(uids.assign(&a, None, Some((70, 71)), 0).unwrap(), assigned(1, 70));
        assert!(Uids::open(&path).err().unwrap().contains("another fnd-spawner"));
        drop(uids);
        std::fs::write(&path, "70 a\n71 op").unwrap();
        let mut uids = Uids::open(&path).unwrap();
        assert_eq!(uids.assign(&b, None, Some((70, 71)), 0).unwrap(), assigned(2, 71));
        assert_eq!(uids.assign(&a, None, Some((70, 71)), 0).unwrap(), assigned(1, 70));
        let full = uids.assign(&name("c"), None, Some((70, 71)), 0).unwrap_err();
        assert!(full.contains("no uid is left"), "{full}");
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("70 a\n71 ops/b {}\n", sum("71 ops/b")), "old lines stay as they are");
        assert_eq!(uids.get(FunctionId(0)), None);
    }
}
