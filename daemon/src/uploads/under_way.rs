//! The uploads that are under way: at most one for each function, and what fnd finds about its new files.

use fnd_core::lifecycle::UploadSeen;
use fnd_wire::ids::FunctionName;
use std::collections::HashMap;
use tokio::sync::oneshot;

/// The uploads and removals that are under way.
#[derive(Debug, Default)]
pub(crate) struct Uploading(HashMap<FunctionName, WaitingUpload>);

#[derive(Debug, Default)]
struct WaitingUpload {
    /// Whether the files were exchanged: what was found before that is about the files before them.
    arranged: bool,
    verdict: Option<oneshot::Sender<UploadSeen>>,
}

impl Uploading {
    /// Begins an upload; returns false if another one of the same function is under way.
    pub(crate) fn begin(&mut self, function: &FunctionName) -> bool {
        if self.0.contains_key(function) {
            return false;
        }
        self.0.insert(function.clone(), WaitingUpload::default());
        true
    }

    pub(crate) fn end(&mut self, function: &FunctionName) {
        self.0.remove(function);
    }

    /// Returns what will be found about the files once they are [exchanged](Self::arranged).
    pub(crate) fn expect(&mut self, function: &FunctionName) -> oneshot::Receiver<UploadSeen> {
        let (verdict, found) = oneshot::channel();
        let waiting = self.0.entry(function.clone()).or_default();
        (waiting.arranged, waiting.verdict) = (false, Some(verdict));
        found
    }

    /// Notes that the files of a function were exchanged.
    pub(crate) fn arranged(&mut self, function: &FunctionName) {
        if let Some(waiting) = self.0.get_mut(function) {
            waiting.arranged = true;
        }
    }

    /// Notes what was found about the files of a function.
    pub(crate) fn seen(&mut self, function: &FunctionName, seen: UploadSeen) {
        let waiting = self.0.get_mut(function).filter(|waiting| waiting.arranged);
        if let Some(verdict) = waiting.and_then(|waiting| waiting.verdict.take()) {
            let _ = verdict.send(seen); // an error: the upload has waited long enough
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_found_after_the_exchange_counts() {
        let function = FunctionName::new("f").unwrap();
        let mut uploading = Uploading::default();
        uploading.seen(&function, UploadSeen::Refused);
        assert!(uploading.begin(&function) && !uploading.begin(&function));
        let mut found = uploading.expect(&function);
        uploading.seen(&function, UploadSeen::Refused);
        assert!(found.try_recv().is_err());
        uploading.arranged(&function);
        uploading.seen(&function, UploadSeen::Installed);
        uploading.seen(&function, UploadSeen::Refused);
        assert_eq!(found.try_recv(), Ok(UploadSeen::Installed));
        uploading.end(&function);
        assert!(uploading.begin(&function));
    }
}
