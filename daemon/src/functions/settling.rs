//! The callers who wait until everything that a scan saw is installed or refused.

use super::Functions;
use fnd_core::lifecycle::installer::Installer;

impl Functions {
    /// Wakes the callers whose scan is over and installed; with `reading` the configuration is not read yet. Returns
    /// whether a reload is over with that.
    pub(crate) fn wake_settled(&mut self, installer: &Installer, reading: bool) -> bool {
        let settled = |scan: u64| !reading && installer.is_settled(scan);
        let waited = !self.settling.is_empty();
        for (_, waiting) in self.settling.extract_if(.., |(scan, _)| settled(*scan)) {
            let _ = waiting.send(()); // an error: the caller has gone
        }
        waited && self.settling.is_empty() && std::mem::take(&mut self.reloading)
    }
}
