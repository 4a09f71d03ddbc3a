//! `fndctl binding [list|new|rm]`: service bindings, directories of files in the form of servicebinding.io, which
//! functions name in `bindings`. No value is shown; secret ones are read from standard input or a file.

use crate::common::failed_or_denied;
use crate::common::reread::{Use, configuration, reread, used_by};
use crate::common::tables::{bad_if, toned};
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::secrets::{checked, users, values, write};
use clap::Subcommand;
use fnd_wire::trust::is_secret;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The well-known entries that are no secrets, which an argument may hold.
const PLAIN: [&str; 6] = ["type", "provider", "host", "port", "database", "username"];

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A service binding is a directory in `bindings/` beside fnd.toml with one file for each entry, in the form of servicebinding.io. A \
    function gets it if its manifest names it: `bindings = [\"orders-db\"]` is the directory $SERVICE_BINDING_ROOT/orders-db.\n\nExamples:\n  \
    sudo fndctl binding new orders-db type=postgresql host=db.example.com password=-   the password from standard input\n  \
    sudo fndctl binding new orders-db type=postgresql private-key=@key.pem             an entry from a file\n  \
    sudo fndctl binding list\n  \
    sudo fndctl binding rm orders-db"
)]
pub(crate) struct Args {
    /// Configuration file of fnd, if it is another one than the installed one.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(subcommand)]
    what: Option<BindingVerb>,
}

#[derive(Debug, Subcommand)]
enum BindingVerb {
    /// List service bindings, and the functions that use them; never values.
    #[command(alias = "ls", after_help = "Example:\n  sudo fndctl binding list")]
    List,
    /// Make a service binding, or with --force change some of its entries.
    #[command(after_help = "Example:\n  sudo fndctl binding new orders-db type=postgresql host=db.example.com")]
    New {
        /// Name of the binding: letters, digits, `.`, `_` and `-`.
        name: String,

        /// Entries: `KEY=VALUE`, `KEY=@FILE`, or `KEY=-` for standard input. `type` is required.
        #[arg(required = true, value_name = "KEY=VALUE")]
        entries: Vec<String>,

        /// Change the entries of a binding that is there; its other entries stay.
        #[arg(long)]
        force: bool,
    },
    /// Remove a service binding.
    #[command(aliases = ["remove", "delete"], after_help = "Example:\n  sudo fndctl binding rm orders-db")]
    Rm {
        /// Name of the binding.
        name: String,
    },
}

#[derive(Debug, Serialize)]
struct ListedBinding {
    name: String,
    /// Absent: a function names the binding, but there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<String>,
    entries: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    used_by: Option<Vec<String>>,
}

/// The stored or removed binding, as `-o json` prints it.
#[derive(Debug, Serialize)]
struct ChangedBinding {
    name: String,
    directory: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    used_by: Option<Vec<String>>,
}

/// # Errors
/// The binding can't be stored, or there is one already.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let what = args.what.unwrap_or(BindingVerb::List);
    let how = match what {
        BindingVerb::List => Use::Read,
        BindingVerb::New { .. } | BindingVerb::Rm { .. } => Use::Change,
    };
    let config = configuration(context, args.config.as_deref(), how).await?;
    let all = config.with_file_name("bindings");
    match what {
        BindingVerb::List => list(context, &all).await,
        BindingVerb::New { name, entries, force } => {
            let dir = checked(&all, "service binding", &name)?;
            let entries = entries.iter().map(|entry| read(entry)).collect::<Result<Vec<_>, _>>()?;
            store(&all, &dir, &entries, force)?;
            report(context, &name, &dir, "is stored").await
        }
        BindingVerb::Rm { name } => {
            let dir = checked(&all, "service binding", &name)?;
            fs::remove_dir_all(&dir).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    CommandFailure::new(Exit::NoSuchThing, format!("there is no service binding `{name}`"))
                }
                _ => failed(&error, "remove", &dir),
            })?;
            report(context, &name, &dir, "is removed").await
        }
    }
}

/// Reads an entry from an argument, or from where the argument says.
fn read(entry: &str) -> Result<(String, Vec<u8>), CommandFailure> {
    let Some((key, value)) = entry.split_once('=').filter(|(key, _)| is_secret(key)) else {
        let help = "an entry is KEY=VALUE, KEY=@FILE or KEY=-";
        return Err(CommandFailure::usage(format!("`{entry}` is not an entry")).help(help));
    };
    let value = match value {
        "-" => values::given(None)?.to_vec(),
        _ if value.starts_with('@') => values::given(Some(Path::new(&value[1..])))?.to_vec(),
        "" => return Err(CommandFailure::usage(format!("the entry `{key}` has no value"))),
        _ if PLAIN.contains(&key) => value.as_bytes().to_vec(),
        _ => {
            let message = format!("`{key}` may be a secret, and every user of the machine can see arguments");
            let help = format!("write `{key}=-` and pass the value on standard input, or `{key}=@FILE`");
            return Err(CommandFailure::usage(message).help(help));
        }
    };
    Ok((key.to_owned(), value))
}

/// Stores entries: a new binding is complete or not there, and so is each entry.
fn store(all: &Path, dir: &Path, entries: &[(String, Vec<u8>)], force: bool) -> Result<(), CommandFailure> {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    if dir.exists() && !force {
        let message = format!("there is a service binding `{name}` already");
        let help = "--force changes the entries that you name, and keeps the others";
        return Err(CommandFailure::usage(message).help(help));
    }
    // The specification of service bindings requires this entry (servicebinding.io).
    if !dir.join("type").exists() && entries.iter().all(|(key, _)| key != "type") {
        let help = "name the kind of service, such as type=postgresql";
        return Err(CommandFailure::usage("every service binding has an entry `type`").help(help));
    }
    let write = |dir: &Path| {
        for (key, value) in entries {
            write::whole(&dir.join(key), value, 0o400)?;
        }
        File::open(dir)?.sync_all()
    };
    let written = || {
        if !all.exists() {
            DirBuilder::new().recursive(true).mode(0o700).create(all)?;
        }
        if dir.exists() {
            return write(dir);
        }
        let fresh = tempfile::Builder::new()
            .prefix(".new-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(all)?;
        write(fresh.path())?;
        // `keep` comes first: a temporary directory removes its path when it is dropped.
        fs::rename(fresh.keep(), dir)?;
        File::open(all)?.sync_all()
    };
    written().map_err(|error| failed(&error, "write", dir))
}

/// Has fnd read the bindings again, and prints what happened.
async fn report(context: &Context, name: &str, dir: &Path, what: &str) -> Result<Exit, CommandFailure> {
    let (used_by, used) = reread(context, name, users::bindings).await;
    let changed = ChangedBinding {
        name: name.to_owned(),
        directory: dir.display().to_string(),
        used_by,
    };
    context.made(&changed, |out| {
        out.remark(&format!("`{}` {what}", changed.directory))?;
        out.remark(&used)
    })
}

async fn list(context: &Context, all: &Path) -> Result<Exit, CommandFailure> {
    // Without fnd the command still lists the files. Only the column of users is unknown then.
    let users = users::of_all(context, users::bindings).await.ok();
    let mut found: BTreeMap<String, ListedBinding> = BTreeMap::new();
    let there = match fs::read_dir(all) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        entries => names(entries.map_err(|error| failed(&error, "read", all))?),
    };
    // A binding that a function names belongs in the list even if its directory is not there.
    for name in users.iter().flat_map(BTreeMap::keys).chain(&there) {
        let dir = all.join(name);
        let kind = fs::read_to_string(dir.join("type")).ok();
        let users = users.as_ref();
        let listed = ListedBinding {
            name: name.clone(),
            r#type: kind.map(|kind| kind.trim().to_owned()),
            entries: fs::read_dir(&dir).map(names).unwrap_or_default(),
            used_by: users.map(|users| users.get(name).cloned().unwrap_or_default()),
        };
        found.insert(name.clone(), listed);
    }
    let list: Vec<&ListedBinding> = found.values().collect();
    context.made(&BTreeMap::from([("bindings", &list)]), |out| {
        let tone = |binding: &ListedBinding| bad_if(binding.r#type.is_none());
        let heads = ["BINDING", "TYPE", "ENTRIES", "USED BY"];
        out.table(&toned(heads, found.values(), tone, |binding| {
            let kind = binding.r#type.clone().unwrap_or_else(|| "missing".to_owned());
            let users = used_by(binding.used_by.as_ref());
            [binding.name.clone(), kind, binding.entries.join(","), users]
        }))?;
        if users.is_none() {
            out.aside("fnd does not answer, so the functions that use the bindings are not known");
        }
        Ok(())
    })
}

/// Returns the valid names in a directory, sorted.
fn names(entries: fs::ReadDir) -> Vec<String> {
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<String> = names.filter(|name| is_secret(name)).collect();
    found.sort();
    found
}

fn failed(error: &io::Error, what: &str, path: &Path) -> CommandFailure {
    failed_or_denied(what, path, error, "run it as root, with sudo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_is_stored_whole_and_changed_only_on_request() {
        let dir = tempfile::tempdir().unwrap();
        let (all, one) = (dir.path().join("bindings"), dir.path().join("bindings/db"));
        let entry = |key: &str, value: &str| (key.to_owned(), value.as_bytes().to_vec());
        assert!(
            store(&all, &one, &[entry("password", "x")], false)
                .unwrap_err()
                .message
                .contains("`type`")
        );
        assert!(!one.exists(), "nothing is left of it");
        store(&all, &one, &[entry("type", "mysql"), entry("password", "x")], false).unwrap();
        assert_eq!(names(fs::read_dir(&one).unwrap()), ["password", "type"]);
        assert_eq!(
            fs::metadata(one.join("password")).unwrap().permissions().mode() & 0o777,
            0o400
        );
        assert_eq!(fs::metadata(&one).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(store(&all, &one, &[entry("type", "x")], false).is_err());
        store(&all, &one, &[entry("password", "y")], true).unwrap();
        assert_eq!(fs::read_to_string(one.join("password")).unwrap(), "y");
        assert_eq!(names(fs::read_dir(&all).unwrap()), ["db"]);
    }

    #[test]
    fn secret_entries_are_no_arguments() {
        assert_eq!(read("host=db.example.com").unwrap().1, b"db.example.com");
        for entry in ["password=x", "uri=x", "host=", "=x", "host", "../x=y", ".x=y"] {
            assert!(read(entry).is_err(), "{entry}");
        }
    }
}
