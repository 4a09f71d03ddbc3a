//! A model of a function: which content serves after the actions of people, once everything that follows from them has ended.
//! The model knows nothing of requests, tables or threads.

use super::spawner::Content;
use crate::simulate::Fate;
use fnd_core::lifecycle::release::HoldKind;
use std::collections::BTreeSet;

/// A pin or a rollback of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) kind: HoldKind,
    pub(super) content: Content,
    /// The content of the file when the hold began; absent if no content could be installed.
    file: Option<Content>,
}

/// A function, once everything about it has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Model {
    /// The content of the file; absent if there is no content that may serve.
    file: Option<Content>,
    /// The content of the file if its check has found an error.
    wrong: Option<Content>,
    pub(super) serving: Option<Content>,
    pub(super) canary: Option<Content>,
    pub(super) hold: Option<Hold>,
    served: BTreeSet<Content>,
}

impl Content {
    fn is_pooled(self) -> bool {
        !matches!(self.fate(), Fate::Script | Fate::Wrong)
    }
}

impl Model {
    /// Somebody saves a file.
    pub(super) fn write(&mut self, content: Content) {
        if matches!(content.fate(), Fate::Refused | Fate::NotBuilt) {
            (self.file, self.wrong) = (None, None);
            return;
        }
        self.wrong = None;
        // A rollback lasts until other content comes, a pin until a person ends it.
        self.hold
            .take_if(|hold| hold.kind == HoldKind::Rollback && hold.file != Some(content));
        self.canary.take_if(|canary| *canary != content);
        self.file = Some(content);
        self.follow_file();
    }

    /// Lets the file serve or become a canary, unless another release is held or the check of the file finds an error.
    fn follow_file(&mut self) {
        let Some(content) = self.file.filter(|_| self.hold.is_none()) else {
            return;
        };
        let is_new = !self.served.contains(&content) && self.serving != Some(content);
        if content.fate() == Fate::Canary && is_new && self.shares(content) {
            self.canary = Some(content);
        } else if content.fate() == Fate::Wrong && is_new && self.serving.is_some() {
            (self.file, self.wrong) = (None, Some(content));
            self.canary = None;
        } else {
            self.try_to_serve(content);
        }
    }

    /// Returns whether a content can share the calls with the one that serves.
    fn shares(&self, content: Content) -> bool {
        self.serving
            .is_some_and(|serving| serving.is_pooled() == content.is_pooled())
    }

    /// Lets a content serve, and returns whether it does. Only a handler that replaces another one is loaded first, and may fail.
    fn try_to_serve(&mut self, content: Content) -> bool {
        let beside = self.serving.filter(|serving| *serving != content);
        let is_loaded_first = content.is_pooled() && beside.is_some_and(Content::is_pooled);
        let serves = !(is_loaded_first && content.fate() == Fate::NotLoaded);
        if serves {
            self.serving = Some(content);
            self.served.insert(content);
            self.canary.take_if(|canary| *canary == content);
        }
        serves
    }

    /// The file is deleted.
    pub(super) fn remove(&mut self) {
        *self = Self::default();
    }

    /// A person pins a release or rolls back to it. fnd has chosen the release, or the person has named it.
    pub(super) fn hold(&mut self, kind: HoldKind, content: Content) {
        let (before, canary) = (self.hold, self.canary.take());
        self.hold = Some(Hold {
            kind,
            content,
            file: self.file.or(self.wrong),
        });
        if !self.try_to_serve(content) {
            // The earlier hold and the canary are in force again.
            (self.hold, self.canary) = (before, canary);
        }
    }

    /// A person ends the hold.
    pub(super) fn end_hold(&mut self) {
        self.hold = None;
        self.follow_file();
    }

    /// A person gives a share of the calls to the release that waits.
    pub(super) fn try_canary(&mut self) {
        if self.canary.is_none()
            && let Some(file) = self.file
            && self.shares(file)
        {
            self.canary = Some(file);
        }
    }

    pub(super) fn promote(&mut self) {
        let hold = self.hold.take();
        if let Some(canary) = self.canary
            && !self.try_to_serve(canary)
        {
            // It goes on as a canary.
            self.hold = hold;
        }
    }

    pub(super) fn stop_canary(&mut self) {
        let canary = self.canary.take();
        // The release that serves is held: otherwise the file would become a canary again.
        if self.hold.is_none()
            && self.file == canary
            && let Some(content) = self.serving
        {
            let (kind, file) = (HoldKind::Rollback, self.file);
            self.hold = Some(Hold { kind, content, file });
        }
    }
}
