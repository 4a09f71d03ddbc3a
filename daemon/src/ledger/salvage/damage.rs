//! Replaces a damaged database with a new one that has all readable rows, and keeps the damaged one under another name.

use super::{Salvaged, salvage};
use crate::database::Replacement;
use crate::ledger::notices::Notices;
use crate::ledger::{FILE, OpenError, Site, lost_commits};
use std::path::Path;

/// The end of the message if the state that was read may be older than the last one.
const QUEUE_WAITS: &str = "; until then queued work waits, because some of it may have run";
/// Replaces a damaged database with a new one; `detail` describes the damage.
///
/// # Errors
/// [`OpenError`]; the damaged database keeps its name then, or the next start completes the replacement.
pub(in crate::ledger) fn set_aside(Site { state, run, .. }: Site<'_>, detail: &str) -> Result<(), OpenError> {
    let (replacement, now_ms) = (Replacement::of(state, FILE), crate::clock::unix_ms());
    let lost = lost_commits(run, &state.join(FILE))?;
    let part = replacement.begin();
    let salvaged = salvage(&state.join(FILE), &part, lost.as_ref())?;
    let aside = replacement.aside(now_ms);
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
    // The notices are stored before the new database gets its name: no start may accept durable work without them.
    notices.set(&part).map_err(|source| OpenError::of(&part, source))?;
    let completed = replacement.complete(now_ms);
    completed.map_err(|source| OpenError::set_aside(&part, source))?;
    tracing::error!("{note}");
    if let Some(hold) = hold {
        tracing::error!("durable work is refused: {hold}");
    }
    Ok(())
}

fn in_words(salvaged: &Salvaged, detail: &str, aside: &Path) -> String {
    let (invocations, unfinished) = (salvaged.invocations, salvaged.unfinished);
    let all = match &salvaged.damaged[..] {
        [] => "no table has lost a row".to_owned(),
        damaged => format!("rows may be missing in: {}", damaged.join(", ")),
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
pub(in crate::ledger) fn finish(state: &Path) -> Result<(), OpenError> {
    let replacement = Replacement::of(state, FILE);
    let finished = replacement.finish();
    finished.map_err(|source| OpenError::set_aside(&replacement.path(), source))
}
