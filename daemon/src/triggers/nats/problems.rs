//! The problems of the connection, the register and the entries of `[[nats]]`, for `status`, `fndctl nats` and metrics.

use super::Messages;
use super::books::EntryBook;
use super::fact::EntryState;
use crate::report::problems::ReportedProblem;
use fnd_wire::ids::FunctionName;
use fnd_wire::units::print_duration;
use std::time::Duration;

/// The part of `ack_wait` that an answer of the server may take: beyond that, lost renewals end attempts.
const SLOW_PART: u32 = 6;

/// Most messages that one problem names.
const NAMED_MAX: usize = 5;

/// Why an fnd-spawner of 0.1 runs no work that another node may take over.
const OLD_SPAWNER: &str = "the running fnd-spawner is older than leases, so no messages are asked for that another node may take over \
     (`interrupted` in `retry.on`): start it again (`systemctl stop fnd && systemctl start fnd`, which ends running functions)";

/// Each connection is lost soon.
const BREAKS_AGAIN: &str = "the connection to the server of NATS breaks again and again, three times within a minute: the network or \
     the server is restless, or somebody sends messages whose headers are none to a subject of `reply = true`";

/// Why nothing is published at the ends of a function's messages.
const MUTE: &str = "nothing is published to `result` and `dead_letters` of `[[nats]]`, because its author may not operate every \
     function, and a message may run each of them";

impl Messages {
    /// Returns the problems at `now`, a time of the monotonic clock.
    pub(crate) fn problems(&self, now: Duration) -> Vec<ReportedProblem> {
        if self.node.is_none() {
            return self.left_over().into_iter().collect();
        }
        let down = self.connection.down_since(now);
        let down = down.map(|why| format!("there is no connection to a server of NATS: {why}; messages wait there"));
        let breaks = || self.connection.breaks_again(now).then(|| BREAKS_AGAIN.to_owned());
        let of_node = [
            ("nats-down", down.or_else(breaks)),
            ("nats-stream", self.connection.bucket_problem().map(str::to_owned)),
            ("nats-node", self.node_problem()),
            ("nats-claim", self.bad_claim.as_ref().map(|(why, _)| why.clone())),
        ];
        let of_node = of_node.into_iter();
        let of_node = of_node.filter_map(|(code, text)| Some(ReportedProblem::new(code, text?)));
        let mut problems: Vec<ReportedProblem> = of_node.collect();
        let mut add = |code, function: &FunctionName, text: String| {
            problems.push(ReportedProblem::about(code, function.as_str(), text));
        };
        for (function, why) in &self.unpublished {
            add("nats-stream", function, format!("{why}; it is tried again"));
        }
        for (function, book) in &self.functions {
            if let Some(why) = self.waits_for_person(function) {
                add("nats-claim", function, format!("`{function}`: {why}"));
            }
            let entries = self.entries_of(book).filter(|_| book.takes_work);
            for (code, why) in entries.flat_map(|(_, entry)| self.problems_of(entry)) {
                add(code, function, format!("`{function}`: {why}"));
            }
        }
        let mut entries = self.entries.values().filter(|entry| self.takes_work(&entry.function));
        let has_lease = |entry: &EntryBook| entry.wanted.rules.stream.is_some() && entry.wanted.rules.lease().is_some();
        if !self.has_fence && entries.any(has_lease) {
            problems.push(ReportedProblem::new("nats-fence", OLD_SPAWNER));
        }
        problems
    }

    /// Returns the problems of an entry: codes and texts.
    fn problems_of(&self, entry: &EntryBook) -> Vec<(&'static str, String)> {
        let (rules, mut problems) = (&entry.wanted.rules, Vec::new());
        if entry.wanted.is_mute {
            problems.push(("nats-stream", MUTE.to_owned()));
        }
        match &entry.state {
            Some(EntryState::Gone(why) | EntryState::Ready { problem: Some(why), .. }) => {
                problems.push(("nats-stream", why.clone()));
            }
            Some(EntryState::Stalled) => {
                let consumer = &rules.consumer;
                let why = format!(
                    "the server answers, but says nothing about the messages of `{consumer}` that were asked for"
                );
                problems.push(("nats-stalled", why));
            }
            Some(EntryState::Ready { problem: None, .. }) | None => {}
        }
        if let Some(time) = self.connection.usual_round_trip()
            && rules.claims()
            && rules.stream.is_some()
            && time > rules.ack_wait / SLOW_PART
        {
            let why = format!(
                "the server takes {} for an answer, more than a sixth of `ack_wait` ({}): attempts may be \
                 ended because signs of life come too late",
                print_duration(time),
                print_duration(rules.ack_wait),
            );
            problems.push(("nats-slow", why));
        }
        problems
    }

    /// Returns the problem of messages that an fnd before this one has begun, if there is no `[events.nats]` any more.
    fn left_over(&self) -> Option<ReportedProblem> {
        if !self.has_no_servers() {
            return None;
        }
        let waiting = self.open.values().filter(|message| !message.mark.is_accepted);
        let mut names: Vec<String> = waiting
            .map(|message| {
                let place = &message.mark.place;
                format!("`{}` ({} {})", message.function, place.stream, place.sequence)
            })
            .collect();
        let count = names.len();
        if count == 0 {
            return None;
        }
        names.truncate(NAMED_MAX);
        let rest = if count > NAMED_MAX { ", ..." } else { "" };
        let text = format!(
            "fnd.toml has no `[events.nats]` any more, and {count} runs of messages have begun and wait for it: {}{rest}; put it back, \
             or end them with `fndctl cancel`",
            names.join(", ")
        );
        Some(ReportedProblem::new("nats-down", text))
    }
}
