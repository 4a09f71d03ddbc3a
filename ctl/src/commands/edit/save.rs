//! Replaces a file in one step, with the same owner and mode, and waits for what fnd makes of it.

use super::refused;
use crate::common::answers::next;
use crate::context::{Context, Parameters};
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::stream::{Kind, StreamEvent};
use fnd_core::lifecycle::release::short;
use rustix::fs::{Access, Gid, Mode, Uid, access, fchmod, fchown, fsync};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;

/// How long fnd may take until a new version serves or is refused: it loads the code first.
const TAKEN_MAX: Duration = Duration::from_secs(60);

/// Says whether the person may replace a file.
///
/// # Errors
/// The file's directory cannot be written.
pub(super) fn may_replace(file: &Path) -> io::Result<()> {
    // The file is replaced by rename(2), so the rights of its directory count, and not its own.
    let directory = file.parent().unwrap_or(Path::new("/"));
    access(directory, Access::WRITE_OK | Access::EXEC_OK)?;
    Ok(())
}

/// Replaces the file and shows what fnd makes of it.
///
/// # Errors
/// The file cannot be replaced, fnd refuses it, or does not take it in time.
pub(super) async fn save(context: &Context, function: &str, file: &Path, bytes: &[u8]) -> Result<Exit, CommandFailure> {
    let mut parameters = Parameters::default();
    parameters.add("function", Some(function));
    parameters.add("kind", Some("loaded,refused"));
    // The stream begins now: an earlier event of the same function would be taken for the answer to this edit.
    parameters.add("since", Some("now"));
    // The stream is opened before the file is replaced, so that no event is missed.
    let mut events = context.client.stream(&format!("/v1/stream{}", parameters.0)).await?;
    replace(file, bytes).map_err(|error| refused("replace", file, &error, ("edit", function)))?;
    context.out.line(&format!("saved {}", file.display()))?;
    let taken = timeout(TAKEN_MAX, next(&mut events));
    let late = || {
        let seconds = TAKEN_MAX.as_secs();
        let message = format!("fnd has not taken the new version of `{function}` after {seconds} s");
        CommandFailure::new(Exit::Timeout, message).help(format!("fndctl show {function}"))
    };
    let event: StreamEvent = taken.await.map_err(|_| late())??.ok_or_else(late)?;
    if event.kind == Kind::Loaded {
        let version = event.version.map(short).unwrap_or_default();
        let text = format!("{function} serves the new version {version}");
        context.out.line(&text)?;
        return Ok(Exit::Fine);
    }
    context.out.diagnostics(&event.diagnostics)?;
    let why = event.message.filter(|_| event.diagnostics.is_empty());
    let mut message = format!("fnd refuses the new version of `{function}`, and the one before it goes on serving");
    if let Some(why) = why.filter(|why| !why.is_empty()) {
        message.push_str(&format!(": {why}"));
    }
    Err(CommandFailure::new(Exit::InvalidManifest, message).help(format!("fndctl edit {function}")))
}

/// Replaces a file by rename, so that no reader sees half of it. A new file gets the owner of the directory.
fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    // A link stays a link: the file that it names is replaced.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
    let about = fs::metadata(&file);
    let (owner, mode) = match &about {
        Ok(about) => (about, about.mode() & 0o7777),
        Err(_) => (&fs::metadata(directory)?, 0o644),
    };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    // fnd ignores names that begin with a dot.
    let new: PathBuf = file.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = (|| {
        // Nobody else can read the new text until the file has its owner and its mode.
        let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        made.write_all(bytes)?;
        let (uid, gid, mine) = (owner.uid(), owner.gid(), made.metadata()?);
        if (mine.uid(), mine.gid()) != (uid, gid) {
            fchown(&made, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        // After `fchown`, which clears set-user-ID bits (chown(2)).
        fchmod(&made, Mode::from_raw_mode(mode))?;
        fsync(&made)?;
        fs::rename(&new, &file)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&new); // an error: it is not there
    }
    written
}
