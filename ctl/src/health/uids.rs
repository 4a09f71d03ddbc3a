//! Compares the table of functions' users with the owners of the homes.

use crate::health::finding::Finding;
use fnd_wire::units::counted;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const CHECK: &str = "uids";
/// Numbers below this one belong to the system's own users.
const FIRST: u32 = 1000;

/// The table and the directories of functions.
#[derive(Debug)]
pub(crate) struct UidTable {
    path: PathBuf,
    /// Number of each function, by its name in file form (`GROUP.NAME`); the reason where the table cannot be read.
    pub(crate) numbers: Result<BTreeMap<String, u32>, String>,
    /// Problems of its lines.
    wrong: Vec<String>,
    /// Directories in `home` and `cache`, with their owners.
    directories: Vec<(PathBuf, String, u32)>,
}

/// Reads the table and the directories.
pub(crate) fn scan(state: &Path) -> UidTable {
    let path = state.join("spawner/uids");
    let mut table = of_text("");
    match std::fs::read(&path) {
        Ok(bytes) => table = of_text(&String::from_utf8_lossy(&bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => table.numbers = Err(error.to_string()),
    }
    table.path = path;
    for kind in ["home", "cache"] {
        let entries = std::fs::read_dir(state.join(kind)).into_iter().flatten().flatten();
        for entry in entries {
            let (Ok(about), Ok(name)) = (entry.metadata(), entry.file_name().into_string()) else {
                continue;
            };
            // The metadata of an entry are those of a link itself, so a link to a directory is no home.
            if about.is_dir() {
                table.directories.push((entry.path(), name, about.uid()));
            }
        }
    }
    table.directories.sort();
    table
}

/// Returns the table that a text has. The lines of `spawner/uids` are `UID NAME`, and maybe `@OWNER`, or `~OWNER` for a user
/// whose home has the uid in its name. Lines that begin with `=` say the owner of a user, lines that begin with `-` were
/// damaged; neither has a user.
fn of_text(text: &str) -> UidTable {
    let (mut numbers, mut wrong) = (BTreeMap::new(), Vec::new());
    let mut owners: BTreeMap<u32, String> = BTreeMap::new();
    // A last line without an end was cut off by a kill or a power cut, and names no user yet.
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let lines: Vec<_> = text.get(..whole).unwrap_or_default().lines().collect();
    let lines: Vec<_> = lines.into_iter().filter(|line| !line.starts_with(['=', '-'])).collect();
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let number: u32 = words.next()?.parse().ok()?;
        let name = fnd_wire::ids::FunctionName::new(words.next()?).ok()?;
        let name = name.as_str().replace('/', ".");
        let apart = words.next().is_some_and(|owner| owner.starts_with('~'));
        Some((number, if apart { format!("{name}~{number}") } else { name }))
    };
    let all: Vec<_> = lines.iter().map(|line| parse(line)).collect();
    // Under `--user` all functions have the uid of the person.
    let shared = all
        .windows(2)
        .all(|pair| pair[0].as_ref().map(|one| one.0) == pair[1].as_ref().map(|one| one.0));
    for (index, entry) in all.into_iter().enumerate() {
        let at = index + 1;
        let Some((number, name)) = entry else {
            wrong.push(format!("line {at} is not `UID NAME`"));
            continue;
        };
        if !shared && number < FIRST {
            wrong.push(format!(
                "line {at} gives `{name}` the user {number}, which is a user of the system"
            ));
        }
        if let Some(other) = owners.insert(number, name.clone()).filter(|_| !shared) {
            wrong.push(format!(
                "line {at} gives `{name}` the user {number}, which is the user of `{other}`"
            ));
        }
        if numbers.insert(name.clone(), number).is_some() {
            wrong.push(format!("line {at} names `{name}` a second time"));
        }
    }
    UidTable {
        path: "uids".into(),
        numbers: Ok(numbers),
        wrong,
        directories: Vec::new(),
    }
}

pub(crate) fn judge(table: &UidTable) -> Vec<Finding> {
    let place = table.path.display().to_string();
    let numbers = match &table.numbers {
        Ok(numbers) => numbers,
        Err(error) => return vec![Finding::unknown(CHECK, format!("it cannot be read: {error}")).at(place)],
    };
    let restore = "restore it from a backup: the homes belong to these uids";
    let wrong = table.wrong.iter();
    let mut findings: Vec<_> = wrong
        .map(|wrong| Finding::error(CHECK, wrong.clone()).at(&place).fix(restore))
        .collect();
    for (path, name, owner) in &table.directories {
        let path = path.display().to_string();
        let Some(number) = numbers.get(name) else {
            let what = format!("no function of this name has a user (the owner is {owner})");
            let found = Finding::warning("homes", what).at(&path);
            findings.push(found.fix(format!("if you do not need it: rm -r {path}")));
            continue;
        };
        // A manifest may name another user, which is not in the table.
        let mut others = numbers.iter().filter(|(_, other)| *other == owner && *other != number);
        if let Some((other, _)) = others.next() {
            let what = format!("it belongs to the user {owner} of `{other}`, but the user of `{name}` is {number}");
            let found = Finding::error("homes", what).at(&path);
            findings.push(found.fix(format!("chown -R {number}:{number} {path}")));
        }
    }
    if findings.is_empty() {
        let what = format!(
            "{}, and {} to them",
            counted(numbers.len(), "function has a user", "functions have a user"),
            counted(table.directories.len(), "directory belongs", "directories belong")
        );
        findings.push(Finding::ok(CHECK, what).at(place));
    }
    findings
}

/// Judges the table of users in a backup, which has no homes beside it.
pub(crate) fn judge_text(text: &str) -> Vec<Finding> {
    judge(&of_text(text))
}

#[cfg(test)]
mod tests {
    use crate::health::uids::*;

    fn check(text: &str, homes: &[(&str, u32)]) -> Vec<String> {
        let mut table = of_text(text);
        table.directories = homes
            .iter()
            .map(|(name, uid)| (Path::new("home").join(name), (*name).to_owned(), *uid))
            .collect();
        crate::health::tests::brief(&judge(&table))
    }

    #[test]
    fn lines_and_homes_belong_together() {
        assert_eq!(
            check("", &[]),
            ["ok 0 functions have a user, and 0 directories belong to them"]
        );
        let fine = "70000 a\n70001 ops/b 1234abcd\ntorn";
        assert_eq!(
            check(fine, &[("a", 70000), ("ops.b", 70001)]),
            ["ok 2 functions have a user, and 2 directories belong to them"]
        );
        assert_eq!(check("1000 a\n1000 b\n", &[("a", 1000)]).len(), 1, "a person's own fnd");
        let owners = "70000 a #1\n= 70000 a @1000 #2\n- #3\n70001 a ~root #4\n";
        assert_eq!(
            check(owners, &[("a", 70000), ("a~70001", 70001)]),
            ["ok 2 functions have a user, and 2 directories belong to them"]
        );
        assert_eq!(
            check(fine, &[("a", 33)])[0],
            "ok 2 functions have a user, and 1 directory belongs to them",
            "`user` of a manifest"
        );
        for (text, homes, what) in [
            ("x a\n", &[][..], "error line 1 is not `UID NAME`"),
            (
                "70000 a\n0 b\n",
                &[],
                "error line 2 gives `b` the user 0, which is a user of the system",
            ),
            (
                "70000 a\n70001 c\n70000 b\n",
                &[],
                "error line 3 gives `b` the user 70000, which is the user of `a`",
            ),
            ("70000 a\n70001 a\n", &[], "error line 2 names `a` a second time"),
            (
                fine,
                &[("gone", 70002)],
                "warning no function of this name has a user (the owner is 70002)",
            ),
            (
                fine,
                &[("a", 70001)],
                "error it belongs to the user 70001 of `ops.b`, but the user of `a` is 70000",
            ),
        ] {
            assert_eq!(check(text, homes), [what]);
        }
    }
}
