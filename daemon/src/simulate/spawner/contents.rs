//! The contents that the files of a function can have. The number of a content determines its code, its manifest and its fate,
//! and the hash of a version begins with that number.

use fnd_wire::ids::{FunctionName, Version};
use std::fmt;

/// The function that hooks and alerts call.
pub(crate) const AFTER: &str = "after";

/// The fate of a file: how far its installation gets, and the kind of function that it becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Script,
    Handler,
    /// The judge refuses it.
    Refused,
    /// The check of its syntax finds an error.
    Wrong,
    /// A handler whose worker ends before it is ready.
    NotLoaded,
    /// A handler whose dependencies are built first.
    Built,
    /// A handler whose dependencies cannot be built.
    NotBuilt,
    /// A handler that gets a share of the calls first.
    Canary,
}

/// All fates, in the order of the numbers of contents.
const FATES: [Fate; 8] = [
    Fate::Script,
    Fate::Handler,
    Fate::Refused,
    Fate::Wrong,
    Fate::NotLoaded,
    Fate::Built,
    Fate::NotBuilt,
    Fate::Canary,
];

/// The keys in the manifest of a content, besides those of its fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Plain,
    Retried,
    Hooked,
    Scheduled,
    /// It subscribes to the events `order`, those of one order one after the other.
    Subscribed,
    /// One process, and a short queue.
    Single,
    /// Its attempts have little time.
    Hasty,
    /// The whole invocation has little time, and many retries.
    Bounded,
    Polled,
    /// Each call gets a fresh process.
    Fresh,
    Alerting,
    /// A new invocation cancels the one that runs.
    Replacing,
    /// A worker is replaced after two calls.
    Renewed,
    /// It needs half of the node's memory.
    Large,
    Rated,
    /// A canary serves by itself after a while, unless two of its runs fail.
    Timed,
    /// A worker takes four calls at once.
    Concurrent,
}

/// All manners with their manifests, in the order of the numbers of contents.
const MANNERS: [(Manner, &str); 17] = [
    (Manner::Plain, ""),
    (Manner::Retried, "[retry]\nretries = 2\n"),
    (
        Manner::Hooked,
        "[hooks]\non_success = [\"after\"]\non_failure = [\"after\"]\n",
    ),
    (Manner::Scheduled, "[[schedule]]\nevery = \"30s\"\ncatch_up = \"10m\"\n"),
    (
        Manner::Subscribed,
        "[[event]]\ntype = \"order\"\nkey = \"body.order\"\n",
    ),
    (Manner::Single, "[pool]\nmax = 1\n[queue]\nmax = 3\n"),
    (Manner::Hasty, "[limits]\ntimeout = \"5s\"\ngrace = \"2s\"\n"),
    (
        Manner::Bounded,
        "[limits]\ndeadline = \"20s\"\n[retry]\nretries = 5\ninterval = \"2s\"\n",
    ),
    (Manner::Polled, "[poll]\nrepeat = \"5s\"\nuntil = \"1m\"\n"),
    (Manner::Fresh, "[pool]\nisolation = \"invocation\"\nspare = 1\n"),
    (Manner::Alerting, "[alert]\ncall = \"after\"\nafter = 2\n"),
    (Manner::Replacing, "[pool]\nmax = 1\n[queue]\noverlap = \"replace\"\n"),
    (Manner::Renewed, "[pool]\nmin = 1\nmax_invocations = 2\n"),
    (Manner::Large, "[limits]\nmemory = \"2G\"\n"),
    (Manner::Rated, "[queue]\nrate = \"5/s\"\n"),
    (Manner::Timed, ""),
    (Manner::Concurrent, "[pool]\nconcurrency = 4\n"),
];

/// A function that messages of NATS run, where several machines share them. Its contents are plain: its manifest is this.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageFunction {
    /// Its number among the functions of people; no other simulation has so many.
    pub(crate) number: u8,
    pub(crate) name: &'static str,
    /// Its stream, and whether that keeps messages that were acknowledged.
    pub(crate) stream: (&'static str, bool),
    /// Whether another machine may begin the work again.
    pub(crate) begins_again: bool,
    manifest: &'static str,
}

pub(crate) const MESSAGE_FUNCTIONS: [MessageFunction; 3] = [
    MessageFunction {
        number: 8,
        name: "f8",
        stream: ("F8", false),
        begins_again: true,
        // A short pause: another machine begins as soon as it may.
        manifest: "[retry]\nretries = 4\ninterval = \"200ms\"\n\
            on = [\"error\", \"transient\", \"signal\", \"interrupted\"]\n\
            [[nats]]\nsubject = \"f8\"\nstream = \"F8\"\nack_wait = \"13s\"\n",
    },
    MessageFunction {
        number: 9,
        name: "f9",
        stream: ("F9", false),
        begins_again: false,
        manifest: "[limits]\ntimeout = \"20s\"\n[retry]\nretries = 1\n\
            [[nats]]\nsubject = \"f9\"\nstream = \"F9\"\nack_wait = \"13s\"\n",
    },
    MessageFunction {
        number: 10,
        name: "f10",
        stream: ("F10", true),
        begins_again: true,
        manifest: "[retry]\nretries = 2\non = [\"error\", \"interrupted\"]\n\
            [[nats]]\nsubject = \"f10\"\nstream = \"F10\"\nack_wait = \"60s\"\n",
    },
];

/// The content of a function's files. The lowest three bits of the number are its fate and the others its manner. Two contents
/// with the same fate and manner differ in nothing but the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SourceContent(pub(crate) u8);

impl SourceContent {
    /// Returns the content of a version that [`SourceContent::version`] has made.
    pub(crate) fn of(version: Version) -> Self {
        Self(version.0[0])
    }

    pub(crate) fn fate(self) -> Fate {
        FATES[usize::from(self.0 & 7)]
    }

    pub(crate) fn manner(self) -> Manner {
        match MANNERS[usize::from(self.0 >> 3) % MANNERS.len()].0 {
            // A manifest with these keys is refused if the code is no handler.
            Manner::Fresh | Manner::Renewed | Manner::Concurrent if !self.is_handler() => Manner::Plain,
            manner => manner,
        }
    }

    /// Returns whether its worker stays and speaks the worker protocol.
    pub(crate) fn is_handler(self) -> bool {
        !matches!(self.fate(), Fate::Script | Fate::Refused | Fate::Wrong)
    }

    /// Returns whether it has dependencies that are built.
    pub(crate) fn has_tree(self) -> bool {
        matches!(self.fate(), Fate::Built | Fate::NotBuilt)
    }

    /// Returns whether the content can serve, whichever content serves before.
    pub(crate) fn is_good(self) -> bool {
        matches!(self.fate(), Fate::Script | Fate::Handler | Fate::Built | Fate::Canary)
    }

    /// Returns a handler that can serve, with the same manifest. Functions with hooks or schedules in each of their contents keep
    /// these.
    pub(crate) fn mended(self) -> Self {
        Self((self.0 & !7) | 1)
    }

    /// Returns the version of this content with the tree of this generation; 0 without dependencies.
    pub(crate) fn version(self, generation: u8) -> Version {
        let mut bytes = [7; 32];
        (bytes[0], bytes[1]) = (self.0, generation);
        Version(bytes)
    }

    /// Returns the tree of the content's dependencies. A build that a person asks for makes the next generation.
    pub(crate) fn tree(self, generation: u8) -> Version {
        let mut bytes = [8; 32];
        (bytes[0], bytes[1]) = (self.0, generation);
        Version(bytes)
    }

    pub(crate) fn code(self) -> String {
        let number = self.0;
        let needs = if self.has_tree() {
            "# /// script\n# dependencies = [\"requests\"]\n# ///\n"
        } else {
            ""
        };
        if self.is_handler() {
            format!("{needs}def handler(event, context):\n    return {number}\n")
        } else {
            format!("print({number})\n")
        }
    }

    /// Returns the manifest of a function with this content; empty if there is none.
    pub(super) fn manifest(self, function: &FunctionName) -> String {
        let is_it = |of: &&MessageFunction| of.name == function.as_str();
        let of_messages = MESSAGE_FUNCTIONS.iter().find(is_it).map_or("", |of| of.manifest);
        let manner = self.manner();
        let text = MANNERS
            .iter()
            .find(|(of, _)| *of == manner)
            .map_or("", |(_, text)| *text);
        let of_fate = match (self.fate(), manner) {
            (Fate::Refused, _) => "no_such_key = 1\n",
            (Fate::Canary, Manner::Timed) => "[release]\ncanary = \"50%\"\npromote_after = \"1m\"\nmax_failures = 1\n",
            (Fate::Canary, _) => "[release]\ncanary = \"50%\"\n",
            _ => "",
        };
        // A key without a table comes before all tables.
        format!("{of_fate}{text}{of_messages}")
    }
}

impl fmt::Display for SourceContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "content {} ({:?}, {:?})", self.0, self.fate(), self.manner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mended_content_can_serve_and_keeps_its_manifest() {
        for content in (0..=u8::MAX).map(SourceContent) {
            let mended = content.mended();
            assert!(mended.is_good(), "{content}");
            // Some manifests are refused without a handler, so a content without one has an empty manifest in their place.
            let is_same = mended.manner() == content.manner();
            assert!(is_same || !content.is_handler(), "{content} becomes {mended}");
        }
    }
}
