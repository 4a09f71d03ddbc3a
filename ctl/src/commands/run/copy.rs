//! Fills the directories of a private fnd: a copy of the function's files, and the parts of the person's configuration
//! that concern functions.

use super::RunNeeds;
use super::subject::RunSubject;
use super::unpacked;
use crate::common::copy::{file, tree};
use crate::exit::CommandFailure;
use fnd_manifest::function::inline;
use fnd_manifest::schema::source::Source;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use toml::{Table, Value};

/// Copies the function, with what the command line changes in its manifest. The copy never runs by itself.
///
/// # Errors
/// A file cannot be read or written.
pub(super) fn function(subject: &RunSubject, wanted: &RunNeeds, to: &Path) -> Result<(), CommandFailure> {
    let failed = |error: io::Error| failed(&subject.code, &error);
    // A path such as `.` does not end in a name, but its real path does.
    let name = subject.code.canonicalize().map_err(failed)?;
    let code = to.join(name.file_name().unwrap_or_default());
    let is_unchanged = wanted.variables.is_empty() && wanted.timeout.is_none() && !subject.manifest.on_load;
    if is_unchanged {
        // The files stay as they are, so that the lines in messages are those of the person's file.
        if subject.is_directory() {
            return tree(&subject.code, &code, 0).map_err(failed);
        }
        file(&subject.code, &code).map_err(failed)?;
        let manifest = to.join(format!("{}.toml", subject.name()));
        return match &subject.sidecar {
            Some(sidecar) => file(sidecar, &manifest).map_err(failed),
            None => Ok(()),
        };
    }
    // The files to change: the one with a `/// fnd` block, and the manifest.
    let (entry, manifest) = match subject.archive() {
        Some(format) => {
            // No file in an archive can be changed in place. Unpacked, the same files are a function in directory form.
            let code = to.join(subject.name());
            unpacked::write(&subject.code, format, &code)?;
            (code.join(&subject.manifest.entry), code.join("function.toml"))
        }
        None if subject.is_directory() => {
            tree(&subject.code, &code, 0).map_err(failed)?;
            (code.join(&subject.manifest.entry), code.join("function.toml"))
        }
        None => {
            file(&subject.code, &code).map_err(failed)?;
            (code, to.join(format!("{}.toml", subject.name())))
        }
    };
    let inside = || Some(manifest.clone()).filter(|inside| inside.exists());
    let own = subject.sidecar.clone().or_else(inside);
    let text = match &own {
        Some(own) => fs::read_to_string(own),
        None => block(&entry),
    };
    let mut table: Table = toml::from_str(&text.map_err(failed)?).unwrap_or_default(); // the judge accepted it
    if subject.manifest.on_load {
        table.insert("on_load".to_owned(), false.into());
    }
    if let Some(timeout) = &wanted.timeout {
        set(&mut table, "limits", "timeout", timeout);
    }
    for (name, value) in &wanted.variables {
        set(&mut table, "env", name, value);
    }
    if own.is_none() {
        blank_block(&entry).map_err(failed)?;
    }
    fs::write(&manifest, table.to_string()).map_err(failed)
}

/// Returns the manifest in the code; empty where it has none.
fn block(code: &Path) -> io::Result<String> {
    let block = inline::block("", &fs::read(code)?).ok().flatten();
    Ok(block.map(|source| source.toml).unwrap_or_default())
}

/// Replaces the lines of a `/// fnd` block, and those of `[tool.fnd]`, by empty comments: beside a manifest of its own they would be an
/// error, and the numbers of the other lines stay.
fn blank_block(code: &Path) -> io::Result<()> {
    let bytes = fs::read(code)?;
    let mut result = Vec::with_capacity(bytes.len());
    let mut prefix: Option<&[u8]> = None;
    let manifest = inline::block("", &bytes).ok().flatten();
    let own: BTreeSet<u32> = manifest.iter().flat_map(Source::numbers).collect();
    let is_prefix = |open: &&[u8]| inline::PREFIXES.iter().any(|prefix| prefix.as_bytes() == *open);
    for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let bare = line.trim_ascii_end();
        let begins = bare.strip_suffix(b" /// fnd").filter(is_prefix);
        if let Some(open) = prefix.or(begins) {
            result.extend_from_slice(open);
            result.push(b'\n');
            let ends = prefix.is_some() && bare.strip_prefix(open) == Some(b" ///");
            prefix = Some(open).filter(|_| !ends);
        } else if own.contains(&number) {
            result.extend_from_slice(b"#\n");
        } else {
            result.extend_from_slice(line);
        }
    }
    fs::write(code, result)
}

fn set(table: &mut Table, name: &str, key: &str, value: &str) {
    let inner = table.entry(name).or_insert_with(|| Table::new().into());
    if let Some(inner) = inner.as_table_mut() {
        inner.insert(key.to_owned(), value.into());
    }
}

/// Makes a directory ready for fnd. Nobody else may write to it, whatever the umask. Its files get an old time: fnd takes
/// a new file only after 2 s, since more may be written to it.
///
/// # Errors
/// A file or directory cannot be changed.
pub(super) fn make_ready(path: &Path) -> io::Result<()> {
    let about = fs::metadata(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(about.permissions().mode() & 0o755))?;
    if about.is_dir() {
        fs::read_dir(path)?.try_for_each(|entry| make_ready(&entry?.path()))
    } else {
        fs::File::open(path)?.set_modified(SystemTime::UNIX_EPOCH)
    }
}

/// The tables of `fnd.toml` that concern functions. Listeners and the like belong to the other fnd.
const TABLES: [&str; 5] = ["build", "defaults", "sizes", "runtimes", "users"];

/// Writes the configuration: the person's tables about functions, and users that no other fnd has. Returns the secrets of
/// installations that the private fnd does not have.
///
/// # Errors
/// It cannot be written.
pub(super) fn configuration(from: &Path, to: &Path) -> Result<Vec<String>, CommandFailure> {
    let entries = fs::read_dir(from.with_file_name("conf.d")).into_iter().flatten();
    let mut more: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    more.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    more.sort();
    // fnd refuses a named configuration file that does not exist.
    fs::write(to, "").map_err(|error| failed(to, &error))?;
    let directory = to.with_file_name("conf.d");
    fs::create_dir(&directory).map_err(|error| failed(&directory, &error))?;
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).map_err(|error| failed(&path, &error))
    };
    let (mut without, mut has_nats) = (Vec::new(), false);
    for (number, path) in [from.to_path_buf()].iter().chain(&more).enumerate() {
        let text = fs::read_to_string(path).unwrap_or_default(); // judged before, or not there
        let mut table: Table = toml::from_str(&text).unwrap_or_default();
        has_nats |= table.get("events").is_some_and(|events| events.get("nats").is_some());
        table.retain(|name, _| TABLES.contains(&name));
        let build = table.get_mut("build").and_then(Value::as_table_mut);
        // Secrets stay with the installed fnd: a private one has none, so its configuration must not name them.
        if let Some(Value::Array(secrets)) = build.and_then(|build| build.remove("secrets")) {
            // A later file replaces the list of an earlier one.
            let names = secrets.iter().filter_map(Value::as_str);
            without = names.map(str::to_owned).collect();
        }
        // The numbers keep the order of the files, since later ones win.
        write(&format!("{number:04}.toml"), &table.to_string())?;
    }
    // fnd refuses users that another running fnd has, so each process id has a range of its own.
    let first = FIRST_USER + i64::from(std::process::id()) * USERS;
    let mut own = format!("[users]\nrange = [{first}, {}]\n", first + USERS - 1);
    if has_nats {
        // A manifest with `[[nats]]` is refused without servers. Nobody listens at this address: the messages are for the installed
        // fnd, and a private one must not take them.
        own.push_str("[events.nats]\nservers = \"nats://127.0.0.1:1\"\n");
    }
    // The last file wins: no file of the person replaces these users.
    write("9999.toml", &own)?;
    Ok(without)
}

/// Users for the functions of private fnds that root starts: a few for each process id, which has at most 22 bits.
const FIRST_USER: i64 = 1_000_000_000;
const USERS: i64 = 8;

fn failed(path: &Path, error: &io::Error) -> CommandFailure {
    CommandFailure::usage(format!("failed to copy `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::blank_block;
    use fnd_manifest::function::inline;

    #[test]
    fn no_manifest_stays_in_the_code_and_no_line_moves() {
        let directory = tempfile::tempdir().unwrap();
        let code = directory.path().join("f.py");
        for (text, expected) in [
            ("a\n# /// fnd\n# size = \"L\"\n# ///\nb\n", "a\n#\n#\n#\nb\n"),
            (
                "# /// script\n# dependencies = [\"x\"]\n# [tool.fnd]\n# size = \"L\"\n# ///\nb\n",
                "# /// script\n# dependencies = [\"x\"]\n#\n#\n# ///\nb\n",
            ),
        ] {
            std::fs::write(&code, text).unwrap();
            blank_block(&code).unwrap();
            let blanked = std::fs::read_to_string(&code).unwrap();
            assert_eq!(blanked, expected);
            assert_eq!(inline::block("f", blanked.as_bytes()), Ok(None));
        }
    }
}
