//! `fndctl backup FILE`: functions, configuration and state in one tar archive, while fnd runs. Its content:
//!
//! ```text
//! config/fnd.toml  config/conf.d/  config/runtimes/      with --secrets also config/secrets/, config/bindings/ and
//!                                                        config/age.key
//! functions/0/ ...      the functions directories, in order
//! state/ledger.db       history, results, queued work, content that has run as `load`: all of one moment
//! state/state.db        the values that functions share, of a moment just after that
//! home/  uids           the homes of functions, and the table of their uids
//! ```
//! Owners are numbers, and modes are kept. The archive has no absolute paths: `restore` knows the places on its
//! machine.
//!
//! Files:
//! - `verify`: reads an archive as `restore` would
//! - `write`: writes the archive

mod verify;
mod write;

use crate::common::failed;
use crate::common::working::while_working;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::secrets::key_of;
use fnd_core::api::NodeStatus;
use serde::Serialize;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use write::Archive;

/// The database in the archive.
pub(super) const LEDGER: &str = "state/ledger.db";

/// The database of the values that functions share.
pub(super) const STATE: &str = "state/state.db";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The archive has functions, configuration, history, the state and the homes of functions, but not their output, caches and installed versions. \
    Run it as root (with --user as yourself), since it reads the files of all users.\n\nExamples:\n  \
    fndctl backup /var/backups/fnd.tar\n  \
    fndctl backup --secrets /var/backups/fnd.tar     with secrets and bindings: protect that file\n  \
    fndctl backup - | zstd > fnd.tar.zst\n  \
    fndctl backup --verify /var/backups/fnd.tar      check the whole archive and its databases"
)]
pub(crate) struct Args {
    /// The archive to write: a file that does not exist yet, or `-` for standard output; with --verify, the archive to
    /// check.
    file: String,

    /// Include secrets, service bindings, and the key of encrypted secrets beside fnd.toml.
    #[arg(long)]
    secrets: bool,

    /// Check the archive FILE instead of writing one: every entry, the users, the ledger. Exits with 1 if there is an
    /// error.
    #[arg(long, conflicts_with = "secrets")]
    verify: bool,
}

/// A backup that was taken.
#[derive(Debug, Serialize)]
struct BackupTaken {
    /// The archive.
    file: String,
    /// Files and directories in the archive.
    entries: u64,
    /// Bytes of the archive.
    bytes: u64,
    /// Files that the archive does not have, with reasons.
    left_out: Vec<String>,
}

/// Takes or verifies a backup.
///
/// # Errors
/// The daemon refuses the request or cannot be reached, or a file cannot be read or written.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    if args.verify {
        return verify::verify(context, Path::new(&args.file));
    }
    if args.file == "-" {
        // Standard output is the archive, so all remarks go to standard error.
        let taken = take(context, &args, std::io::stdout()).await?;
        taken.left_out.iter().for_each(|what| context.out.aside(what));
        return Ok(Exit::Fine);
    }
    let to = PathBuf::from(&args.file);
    // The rename at the end would replace an existing file without a question.
    if to.exists() {
        let message = format!("`{}` exists already", to.display());
        return Err(CommandFailure::usage(message).help("name another file, or remove this one"));
    }
    // The file gets its name at the end, so that it is complete or absent.
    let part = PathBuf::from(format!("{}.part", args.file));
    let mut options = File::options();
    // A killed backup leaves a `.part` file, which is overwritten. The mode is strict, since the archive has files of
    // all users.
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(&part);
    let file = file.map_err(|error| failed("create", &part, &error))?;
    let mut done = take(context, &args, &file).await;
    if done.is_ok() {
        // Synced before the rename: after a power cut the final name must not belong to a torn archive.
        let named = file.sync_all().and_then(|()| std::fs::rename(&part, &to));
        done = named.map_err(|error| failed("write", &to, &error)).and(done);
    }
    if done.is_err() {
        let _ = std::fs::remove_file(&part); // the first error is reported in any case
    }
    let taken = done?;
    context.made(&taken, |out| {
        taken.left_out.iter().for_each(|what| out.aside(what));
        let size = crate::text::size(Some(taken.bytes));
        let (file, entries) = (&taken.file, taken.entries);
        out.remark(&format!("{file}: {entries} files and directories, {size}"))
    })
}

async fn take<W: std::io::Write>(context: &Context, args: &Args, to: W) -> Result<BackupTaken, CommandFailure> {
    // fnd itself says where its files are: it may run with other options than this command line knows.
    let node: NodeStatus = context.read("/v1/status").await?;
    // fnd names them to admins only, and an earlier fnd to nobody.
    let places = node.places.ok_or_else(|| {
        CommandFailure::usage("fnd does not report its directories to you")
            .help("run it with sudo; `fndctl version` shows whether fnd is older than fndctl")
    })?;
    let state = PathBuf::from(&places.state);
    let mut archive = Archive::new(to);
    let config = PathBuf::from(&places.config);
    let beside = config.parent().unwrap_or(Path::new("/"));
    archive.add_if_there("config/fnd.toml", &config)?;
    let mut names = vec!["conf.d", "runtimes"];
    if args.secrets {
        names.extend(["secrets", "bindings", "age.key"]);
    }
    for name in names {
        archive.add_if_there(&format!("config/{name}"), &beside.join(name))?;
    }
    // The configuration may name another place for the key. `restore` knows only the one beside fnd.toml.
    let key = key_of(&config);
    if args.secrets && key != beside.join("age.key") {
        let why = "is the key of encrypted secrets and not beside fnd.toml: keep a copy of it yourself";
        archive.leave_out(&key, why);
    }
    // The number keeps the order. The path is left out, since `restore` may put the directory elsewhere.
    for (number, directory) in places.functions.iter().enumerate() {
        archive.add_if_there(&format!("functions/{number}"), Path::new(directory))?;
    }
    for (name, what, path) in [
        (LEDGER, "history", "/v1/backup"),
        (STATE, "state", "/v1/backup?of=state"),
    ] {
        // fnd makes the copy before it sends the first byte.
        let about = async || format!("waiting for fnd's copy of the {what}");
        let (size, mut pieces) = while_working(context, context.client.download(path), about).await?;
        let mut progress = context.out.bytes(what, size);
        // A download has no owner. The database belongs to the user that runs fnd, who owns this directory.
        archive.begin_file(name, size, &state.join("state"))?;
        while let Some(piece) = pieces.piece().await? {
            archive.piece(&piece)?;
            progress.add(piece.len());
        }
        archive.end_file()?;
    }
    archive.add_homes("home", &state.join("home"))?;
    // The table of users only grows. Added after the homes, it has the user of every home in the archive.
    archive.add_if_there("uids", &state.join("spawner/uids"))?;
    let (entries, bytes, left_out) = archive.finish()?;
    Ok(BackupTaken {
        file: args.file.clone(),
        entries,
        bytes,
        left_out,
    })
}
