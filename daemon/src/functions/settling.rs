//! The callers who wait until everything that a scan saw is installed or refused.

use super::Functions;
use super::catalog::Rescan;
use fnd_core::lifecycle::installer::Installer;
use tokio::sync::oneshot;

impl Functions {
    /// Starts a scan; resolves when everything it sees is installed or refused.
    pub(crate) fn scan(&mut self, installer: &mut Installer, how: Rescan) -> oneshot::Receiver<()> {
        let (sender, settled) = oneshot::channel();
        let number = installer.new_scan();
        self.catalog.rescan(number, how);
        self.settling.push((number, sender));
        settled
    }

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
