//! The functions directories, and the reports of the catalog about them. A person saves a file; fnd hears of it when the catalog
//! reports it. In between fnd may ask whether the file is still as it was reported, and the spawner may read newer content than
//! the catalog has reported.

use super::spawner::contents::SourceContent;
use crate::functions::catalog::{CatalogEvent, CatalogRequest, DetachedCatalog};
use fastrand::Rng;
use fnd_core::lifecycle::SourceFiles;
use fnd_wire::ids::FunctionName;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How long nothing must have changed until the catalog calls the directories quiet.
const QUIET: Duration = Duration::from_secs(1);

/// A file that was saved. Two savings of one content differ, as the times of their files do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SavedFile {
    content: SourceContent,
    number: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Files {
    /// The files on the disk, which outlives fnd and the machine.
    saved: BTreeMap<FunctionName, SavedFile>,
    /// The number of the last file that was saved.
    last: u64,
    /// The files that this fnd has heard of.
    reported: BTreeMap<FunctionName, SavedFile>,
    /// The requests of fnd that have no answer yet.
    requests: VecDeque<CatalogRequest>,
    /// Whether fnd has asked for its first scan. Before that the catalog reports nothing.
    is_scanned: bool,
    /// When the directories are quiet; absent once that is reported.
    quiet_at: Option<Duration>,
}

impl Files {
    pub(crate) fn save(&mut self, name: FunctionName, content: SourceContent) {
        self.last += 1;
        let number = self.last;
        self.saved.insert(name, SavedFile { content, number });
    }

    pub(crate) fn remove(&mut self, name: &FunctionName) {
        self.saved.remove(name);
    }

    /// Returns the content that the spawner finds now.
    pub(crate) fn get(&self, name: &FunctionName) -> Option<SourceContent> {
        self.saved.get(name).map(|file| file.content)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &FunctionName> {
        self.saved.keys()
    }

    /// Begins anew for another fnd.
    pub(crate) fn begin(&mut self) {
        *self = Self {
            saved: std::mem::take(&mut self.saved),
            last: self.last,
            ..Self::default()
        };
    }

    /// Takes the requests of fnd.
    pub(crate) fn take_requests(&mut self, catalog: &DetachedCatalog) {
        self.requests.extend(catalog.requests());
    }

    /// Returns whether [`Self::step`] has something to say.
    pub(crate) fn has_work(&self, now: Duration) -> bool {
        !self.requests.is_empty() || self.is_behind() || self.quiet_at.is_some_and(|at| at <= now)
    }

    /// Returns whether fnd has heard of everything, and waits for no answer.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.requests.is_empty() && !self.is_behind() && self.quiet_at.is_none()
    }

    /// Returns when the directories become quiet.
    pub(crate) fn wakes_at(&self) -> Option<Duration> {
        self.quiet_at
    }

    /// Answers a request, or reports a change. A change that was not reported yet and a request come in any order.
    pub(crate) fn step(&mut self, order: &mut Rng, now: Duration) -> Vec<CatalogEvent> {
        if self.is_behind() && (self.requests.is_empty() || order.bool()) {
            let changed = self.changed(false);
            return self.report(&changed, now);
        }
        if let Some(request) = self.requests.pop_front() {
            return self.answer(request, now);
        }
        let quiet = self.quiet_at.take_if(|at| *at <= now);
        quiet.map(|_| CatalogEvent::Quiet).into_iter().collect()
    }

    fn answer(&mut self, request: CatalogRequest, now: Duration) -> Vec<CatalogEvent> {
        match request {
            CatalogRequest::Rescan(number, how) => {
                if !std::mem::replace(&mut self.is_scanned, true) {
                    self.quiet_at = Some(now + QUIET);
                }
                let changed = self.changed(how.forget);
                let mut events = self.report(&changed, now);
                events.push(CatalogEvent::Scanned(number));
                events
            }
            CatalogRequest::Reported(number) => {
                let changed = self.changed(false);
                let mut events = self.report(&changed, now);
                events.push(CatalogEvent::Reported(number, true));
                events
            }
            CatalogRequest::Confirm(number, function) => {
                let saved = self.saved.get(&function);
                let is_same = saved.is_some() && self.reported.get(&function) == saved;
                vec![CatalogEvent::Confirmed(number, is_same)]
            }
        }
    }

    /// Returns whether the catalog has something to report.
    fn is_behind(&self) -> bool {
        self.is_scanned && self.saved != self.reported
    }

    /// Returns the functions that a scan reports: `all` of them, or only the changed ones.
    fn changed(&self, all: bool) -> BTreeSet<FunctionName> {
        let names = self.saved.keys().chain(self.reported.keys());
        let changed = names.filter(|name| all || self.saved.get(*name) != self.reported.get(*name));
        changed.cloned().collect()
    }

    fn report(&mut self, changed: &BTreeSet<FunctionName>, now: Duration) -> Vec<CatalogEvent> {
        let (present, absent): (Vec<_>, Vec<_>) = changed.iter().partition(|name| self.saved.contains_key(*name));
        let mut events = Vec::new();
        // The order of the real catalog: the routes of functions that are gone become free first.
        if !absent.is_empty() {
            events.push(CatalogEvent::Removed(absent.into_iter().cloned().collect()));
        }
        if !present.is_empty() {
            events.push(CatalogEvent::Changed(present.into_iter().map(files_of).collect()));
        }
        if !events.is_empty() {
            self.quiet_at = Some(now + QUIET);
        }
        self.reported.clone_from(&self.saved);
        events
    }
}

/// Returns the files of a function, as the catalog reports them.
pub(crate) fn files_of(name: &FunctionName) -> SourceFiles {
    SourceFiles {
        function: name.clone(),
        directory: 0,
        source: format!("{}.py", name.as_str()),
        sidecar: None,
        directory_form: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::catalog::{Catalog, Rescan};
    use crate::simulate::people::name;

    /// Lets the catalog say everything that it has to say at this time.
    fn all(files: &mut Files, order: &mut Rng, now: Duration) -> Vec<CatalogEvent> {
        std::iter::from_fn(|| files.has_work(now).then(|| files.step(order, now)))
            .flatten()
            .collect()
    }

    #[test]
    fn a_file_counts_as_the_same_only_if_its_newest_saving_was_reported() {
        let (catalog, requests) = Catalog::detached();
        let (mut files, mut order, now) = (Files::default(), Rng::with_seed(1), Duration::from_secs(9));
        files.save(name(1), SourceContent(1));
        assert!(!files.has_work(now), "nobody has asked for a scan");
        catalog.rescan(7, Rescan::default());
        files.take_requests(&requests);
        let scanned = all(&mut files, &mut order, now);
        assert!(matches!(
            &scanned[..],
            [CatalogEvent::Changed(_), CatalogEvent::Scanned(7)]
        ));
        for _ in 0..20 {
            files.save(name(1), SourceContent(1));
            catalog.confirm(1, files_of(&name(1)));
            files.take_requests(&requests);
            let is_right = match &all(&mut files, &mut order, now)[..] {
                [CatalogEvent::Changed(_), CatalogEvent::Confirmed(1, is_same)] => *is_same,
                [CatalogEvent::Confirmed(1, is_same), CatalogEvent::Changed(_)] => !*is_same,
                other => panic!("{other:?}"),
            };
            assert!(is_right);
        }
    }

    #[test]
    fn the_directories_are_quiet_a_second_after_the_last_report() {
        let (catalog, requests) = Catalog::detached();
        let (mut files, mut order, mut now) = (Files::default(), Rng::with_seed(1), Duration::ZERO);
        catalog.rescan(1, Rescan::default());
        files.take_requests(&requests);
        assert_eq!(all(&mut files, &mut order, now).len(), 1);
        assert!(!files.is_at_rest());
        now += QUIET;
        assert!(matches!(&all(&mut files, &mut order, now)[..], [CatalogEvent::Quiet]));
        assert!(files.is_at_rest());
        files.save(name(1), SourceContent(1));
        files.begin();
        assert!(!files.has_work(now), "the next fnd has not asked");
    }
}
