//! The filter of fnd's messages, which can be changed while fnd runs. A change can be limited in time, so that nobody
//! has to undo it.

use crate::clock;
use crate::lock::lock;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use tracing_subscriber::{EnvFilter, Registry, reload};

/// Longest filter, in bytes.
const TEXT_MAX: usize = 256;

/// The filter in force, and the first one, from the start.
struct Levels {
    handle: reload::Handle<EnvFilter, Registry>,
    first: String,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    /// The filter that was asked for; absent: the first one.
    text: Option<String>,
    /// When the first filter returns, Unix milliseconds.
    until: Option<u64>,
    /// How often a filter was put in force.
    number: u64,
}

static LEVELS: OnceLock<Levels> = OnceLock::new();

/// Returns the filter as a part of the subscriber; [`set`] can change it later.
pub(super) fn changeable(text: &str, filter: EnvFilter) -> reload::Layer<EnvFilter, Registry> {
    let (layer, handle) = reload::Layer::new(filter);
    let levels = Levels {
        handle,
        first: text.to_owned(),
        now: Mutex::default(),
    };
    let _ = LEVELS.set(levels); // an error: the subscriber refuses a second start
    layer
}

/// Parses a filter: a level (`debug`), or `target=level` with commas between.
///
/// # Errors
/// The reason why it is not valid.
pub(super) fn parse(text: &str) -> Result<EnvFilter, String> {
    let expected = "expected a level (`error`, `warn`, `info`, `debug`, `trace`) or `target=level`";
    let wrong = || {
        format!(
            "`{}` is no log filter: {expected}",
            text.chars().take(40).collect::<String>()
        )
    };
    // The parser takes a word that is no level for a target; all other messages would be lost then.
    let is_level = |word: &str| !word.is_empty() && word.parse::<tracing::level_filters::LevelFilter>().is_ok();
    let parts = || text.split(',').map(str::trim);
    let known = parts().all(|part| is_level(part.rsplit('=').next().unwrap_or_default()));
    if text.len() > TEXT_MAX || !known {
        return Err(wrong());
    }
    EnvFilter::builder().parse(text).map_err(|_| wrong())
}

/// Returns the filter in force, and until when (Unix milliseconds) if the first one returns by itself.
#[must_use]
pub fn now() -> (String, Option<u64>) {
    let Some(levels) = LEVELS.get() else {
        return ("info".to_owned(), None);
    };
    let now = levels.now();
    let text = now.text.as_ref().unwrap_or(&levels.first).clone();
    (text, now.until)
}

/// Puts another filter in force, for a time or until the next one. Returns what restores the first filter: a future
/// that resolves at the end of that time.
///
/// # Errors
/// The reason why the filter is not valid.
pub fn set(text: &str, time: Option<Duration>) -> Result<Option<impl Future<Output = ()> + use<>>, String> {
    let filter = parse(text)?;
    let Some(levels) = LEVELS.get() else {
        return Err("this fnd has no log to change".to_owned());
    };
    let in_ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let until = time.map(|time| clock::unix_ms().saturating_add(in_ms(time)));
    let number = levels.set(text, filter, until)?;
    Ok(time.map(|time| async move {
        tokio::time::sleep(time).await; // this waits for the end of that time
        // A filter that was set meanwhile stays: this timer is that of an earlier one.
        if levels.now().number == number {
            // It was valid at the start.
            let _ = parse(&levels.first).and_then(|first| levels.set(&levels.first, first, None));
        }
    }))
}

impl Levels {
    fn now(&self) -> MutexGuard<'_, Now> {
        lock(&self.now)
    }

    /// Puts a filter in force. Returns its number.
    fn set(&self, text: &str, filter: EnvFilter, until: Option<u64>) -> Result<u64, String> {
        self.handle.reload(filter).map_err(|error| error.to_string())?;
        let mut now = self.now();
        let number = now.number + 1;
        let text = Some(text.to_owned()).filter(|text| *text != self.first);
        *now = Now { text, until, number };
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn only_levels_and_targets_with_levels_are_filters() {
        for fine in [
            "debug",
            "warn",
            "info,hyper=debug",
            "fnd_daemon::functions::catalog=trace, info",
            "off",
        ] {
            assert!(parse(fine).is_ok(), "{fine}");
        }
        for wrong in [
            "",
            "loud",
            "debug,loud",
            "hyper=loud",
            "=",
            "info,",
            &"x".repeat(300),
            "in\u{1b}fo",
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains("expected a level"), "{wrong}: {error}");
        }
    }
}
