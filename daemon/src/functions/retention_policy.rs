//! Computes how much history and output is kept, from the current configuration and manifests.

use crate::ledger::{KeepOf, LimitsOf, Retention};
use crate::output::log_store::KeepOutput;
use fnd_core::lifecycle::registry::Registry;
use fnd_manifest::function::{History, Logs};
use fnd_manifest::settings::Settings;

/// Returns the retention of the history while no function is known yet: nothing is forgotten that a manifest may keep.
pub(crate) fn at_first(settings: &Settings) -> Retention {
    Retention {
        functions: LimitsOf::default(),
        others: KeepOf {
            keep: u32::MAX,
            keep_failed: u32::MAX,
            keep_for: settings.history.keep_for,
            keep_bytes: u64::MAX,
        },
        keep_for: settings.history.keep_for,
        keep_bytes: settings.history.keep_bytes,
    }
}

/// Returns the retention of the output while no function is known yet: nothing is forgotten that a manifest may keep.
pub(crate) fn logs(settings: &Settings) -> Retention<KeepOutput> {
    Retention {
        functions: LimitsOf::default(),
        others: KeepOutput {
            keep_for: settings.logs.keep_for,
            keep_bytes: u64::MAX,
        },
        keep_for: settings.logs.keep_for,
        keep_bytes: settings.logs.keep_bytes,
    }
}

/// Returns the retention of the history and of the output by the manifests.
pub(crate) fn retention(registry: &Registry, settings: &Settings) -> (Retention, Retention<KeepOutput>) {
    // A function without a valid manifest, or without a file, does not permit that its history is forgotten: it may
    // be repaired, or be on its way to another place. It makes no more history; age and the total size bound what
    // it has.
    let manifests = || {
        let functions = registry.iter();
        functions.filter_map(|(name, function)| Some((name.clone(), &function.newest.as_ref()?.manifest)))
    };
    let history = Retention {
        functions: manifests()
            .map(|(name, manifest)| (name, keep_of(&manifest.history)))
            .collect(),
        ..at_first(settings)
    };
    let output = Retention {
        functions: manifests()
            .map(|(name, manifest)| (name, keep_of_logs(&manifest.logs)))
            .collect(),
        ..logs(settings)
    };
    (history, output)
}

fn keep_of(history: &History) -> KeepOf {
    KeepOf {
        keep: history.keep,
        keep_failed: history.keep_failed.unwrap_or(0),
        keep_for: history.keep_for,
        keep_bytes: history.keep_bytes.unwrap_or(u64::MAX),
    }
}

fn keep_of_logs(logs: &Logs) -> KeepOutput {
    KeepOutput {
        keep_for: logs.keep_for,
        keep_bytes: logs.keep_bytes,
    }
}
