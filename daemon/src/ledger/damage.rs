//! Replaces a damaged database with a new one that has all readable rows, and keeps the damaged one under another name.
//!
//! ```text
//! ledger.db.salvage   rows are read into it; after a crash it is created anew
//!   └─ synced, renamed ─▶ ledger.db.salvaged-TIME   complete; after a crash the next start continues from here
//!        ledger.db, -wal, -shm ─▶ ledger.db.damaged-TIME, -wal, -shm
//!        ledger.db.salvaged-TIME ─▶ ledger.db
//! ```

use super::notices::Notices;
use super::salvage::{self, Salvaged};
use super::{FILE, OpenError, Site, lost_commits};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A new database while rows are read into it.
const PART: &str = "ledger.db.salvage";
/// Prefix of a complete new database.
const WHOLE: &str = "ledger.db.salvaged-";
/// Prefix of a damaged database.
const ASIDE: &str = "ledger.db.damaged-";
/// How many damaged databases are kept. A disk that damages one a day must not be filled by them.
const KEPT: usize = 3;
/// What follows if the state that was read may be older than the last one.
const QUEUE_WAITS: &str = "; until then queued work waits, because some of it may have run";
/// Suffixes of a database and of the files that SQLite keeps beside it.
const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];

/// Replaces a damaged database with a new one; `detail` describes the damage.
///
/// # Errors
/// [`OpenError`]; the damaged database keeps its name then, or the next start completes the replacement.
pub(super) fn set_aside(Site { state, run, .. }: Site<'_>, detail: &str) -> Result<(), OpenError> {
    let part = state.join(PART);
    let lost = lost_commits(run, &state.join(FILE))?;
    remove_parts(state);
    let name = fnd_core::instant::text(crate::clock::unix_ms());
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let salvaged = salvage::salvage(&state.join(FILE), &part, lost.as_ref())?;
    let aside = state.join(format!("{ASIDE}{name}"));
    let note = in_words(&salvaged, detail, &aside);
    let hold = salvaged.hold.as_ref().map(|lost| {
        format!(
            "{lost} could not be read in full from a damaged ledger (`{}`): `fndctl verify --repair` gives up what is missing{}",
            aside.display(),
            if salvaged.is_behind { QUEUE_WAITS } else { "" }
        )
    });
    let notices = Notices {
        note: Some(note.as_str().into()),
        hold: hold.as_deref().map(Into::into),
        holds_queue: salvaged.is_behind,
    };
    notices.set(&part).map_err(|source| OpenError::of(&part, source))?;
    let failed = |source| OpenError::SetAside {
        path: part.clone(),
        source,
    };
    File::open(&part).and_then(|file| file.sync_all()).map_err(failed)?;
    std::fs::rename(&part, state.join(format!("{WHOLE}{name}"))).map_err(failed)?;
    sync(state).map_err(failed)?;
    remove_parts(state);
    finish(state)?;
    tracing::error!("{note}");
    if let Some(hold) = hold {
        tracing::error!("durable work is refused: {hold}");
    }
    Ok(())
}

fn in_words(salvaged: &Salvaged, detail: &str, aside: &Path) -> String {
    let Salvaged {
        invocations,
        unfinished,
        damaged,
        ..
    } = salvaged;
    let all = if damaged.is_empty() {
        "no table has lost a row".to_owned()
    } else {
        format!("rows may be missing in: {}", damaged.join(", "))
    };
    format!(
        "the ledger was damaged ({detail}) and was set aside as `{}`: {invocations} invocations were read from it, {unfinished} of \
         them without an end; {all}; `fndctl verify --repair` confirms that you have read this",
        aside.display()
    )
}

/// Completes a replacement that a crash interrupted.
///
/// # Errors
/// [`OpenError::SetAside`].
pub(super) fn finish(state: &Path) -> Result<(), OpenError> {
    for whole in named(state, WHOLE) {
        let failed = |source| OpenError::SetAside {
            path: whole.clone(),
            source,
        };
        let name = whole.to_string_lossy();
        let Some((_, name)) = name.rsplit_once(WHOLE) else {
            continue;
        };
        for suffix in SUFFIXES {
            let from = state.join(format!("{FILE}{suffix}"));
            match std::fs::rename(from, state.join(format!("{ASIDE}{name}{suffix}"))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                Ok(()) | Err(_) => {}
            }
        }
        // SQLite must never use the write-ahead log of the damaged database for the new one.
        sync(state).map_err(failed)?;
        std::fs::rename(&whole, state.join(FILE)).map_err(failed)?;
        sync(state).map_err(failed)?;
    }
    let mut kept: Vec<_> = named(state, ASIDE);
    kept.retain(|path| !path.to_string_lossy().ends_with("-wal") && !path.to_string_lossy().ends_with("-shm"));
    kept.sort(); // their names are times
    for path in kept.iter().rev().skip(KEPT) {
        tracing::warn!("removing `{}`: {KEPT} newer damaged ledgers are kept", path.display());
        for suffix in SUFFIXES {
            let mut path = path.clone().into_os_string();
            path.push(suffix);
            let _ = std::fs::remove_file(path); // the next start retries this
        }
    }
    Ok(())
}

/// Returns the damaged databases that were set aside, oldest first.
pub(super) fn asides(state: &Path) -> Vec<PathBuf> {
    let mut found = named(state, ASIDE);
    found.sort();
    found
}

fn remove_parts(state: &Path) {
    for path in named(state, PART) {
        if !path.to_string_lossy().contains(WHOLE) {
            let _ = std::fs::remove_file(path); // it is created anew
        }
    }
}

fn named(state: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(state).into_iter().flatten().flatten();
    let fits = |entry: &std::fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes());
    entries.filter(fits).map(|entry| entry.path()).collect()
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
