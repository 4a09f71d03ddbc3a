//! How much is kept, as configuration and manifests say now.

use crate::driver::State;
use crate::ledger::{KeepOf, Retention};
use crate::logs;
use fnd_core::manifest::History;
use fnd_core::settings::Settings;
use std::collections::HashMap;

/// Returns what is kept of the history while no function is known yet: nothing goes that a manifest may keep.
pub(crate) fn at_first(settings: &Settings) -> Retention {
    Retention {
        functions: HashMap::new(),
        others: KeepOf {
            keep: u32::MAX,
            keep_failed: u32::MAX,
            keep_for: settings.history.keep_for,
        },
        keep_for: settings.history.keep_for,
        keep_bytes: settings.history.keep_bytes,
    }
}

/// Returns what is kept of the output.
pub(crate) fn logs(settings: &Settings) -> logs::Keep {
    logs::Keep {
        keep_for: settings.logs.keep.keep_for,
        keep_bytes: settings.logs.keep.keep_bytes,
    }
}

impl State {
    /// Tells who forgets what is kept from now on.
    pub(crate) fn retain(&self) {
        self.log_keeper.keep(logs(&self.settings.settings));
        if !self.supervisor.is_scanned() {
            return;
        }
        let serving = self.functions.iter().filter_map(|(name, function)| {
            let history = &function.serving.as_ref()?.manifest.history;
            Some((name.clone(), keep_of(history)))
        });
        self.ledger.retain(Retention {
            functions: serving.filter(|(_, keep)| *keep != KeepOf::default()).collect(),
            others: KeepOf::default(),
            ..at_first(&self.settings.settings)
        });
    }
}

fn keep_of(history: &History) -> KeepOf {
    KeepOf {
        keep: history.keep,
        keep_failed: history.keep_failed.unwrap_or(0),
        keep_for: history.keep_for,
    }
}
