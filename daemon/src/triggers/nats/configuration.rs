//! The configuration in force: `[events.nats]` of now, or of before as long as open work needs it.

use super::beats::FORGET;
use super::books::{ClaimPurpose, Question};
use super::node::NodeKey;
use super::register::PUT_OFF;
use super::request::{NatsConnect, NatsRequest};
use super::server_state::ServerState;
use super::settings::NatsNode;
use super::{MessageEffect, Messages};
use fnd_core::run::Now;
use fnd_core::triggers::nats::lease::NodeLease;
use fnd_core::triggers::nats::witness::NodeWitness;
use std::sync::Arc;

impl Messages {
    /// Puts a configuration in force; absent: there is no `[events.nats]`, which `is_wanted` says, or nobody knows which node this
    /// is. `has_fence` says whether the spawner can end workers by a lease. Open work keeps the node and the bucket in which it is
    /// claimed until it has ended; other settings are in force at once. Running attempts go on while a secret is not known.
    pub(crate) fn configure(&mut self, now: Now, node: Option<NatsNode>, is_wanted: bool, has_fence: bool) {
        (self.is_wanted, self.has_fence) = (is_wanted, has_fence);
        self.has_new_room = true;
        let wanted = node.as_ref().map(|node| &node.identity);
        let keeps_place = match (&self.node, wanted) {
            (Some(known), Some(wanted)) => known.name == wanted.name && known.bucket == wanted.bucket,
            (Some(_), None) => false,
            (None, _) => true,
        };
        self.is_closing = !keeps_place && !self.open.is_empty();
        let Some(NatsNode { identity, connect }) = node else {
            if self.node.is_some() {
                self.out.push(MessageEffect::Changed);
            }
            if !self.is_closing && self.node.take().is_some() {
                self.end_connection();
            }
            return self.give_back_without_servers(now);
        };
        if self.node.is_none() {
            self.connection.begins(now);
            self.name.begins();
            self.forget_at = now.mono.saturating_add(FORGET);
        }
        if !self.is_closing {
            if !keeps_place {
                self.name.is_given_up();
            }
            self.node = Some(identity);
        }
        match connect {
            Ok(connect) => self.connect(connect),
            Err(why) if !self.connection.is_connected() => self.connection.down(now, why),
            // The connection that stands goes on with the settings that it has.
            Err(_) => {}
        }
        self.out.push(MessageEffect::Changed);
    }

    /// Connects. The thread does nothing where the settings are the same.
    fn connect(&mut self, mut connect: NatsConnect) {
        if let Some(node) = &self.node {
            // Until open work has ended, that is another one than the configuration names.
            connect.node.clone_from(&node.name);
            (connect.bucket.name, connect.bucket.keeps) = (Arc::clone(&node.bucket), node.keeps);
        }
        self.out
            .push(MessageEffect::Send(NatsRequest::Connect(Box::new(connect))));
        self.tell_entries();
    }

    /// Has the thread end, which answers nothing any more that was on its way.
    fn end_connection(&mut self) {
        self.out.push(MessageEffect::Send(NatsRequest::Stop));
        for question in std::mem::take(&mut self.questions).into_values() {
            // Each claim of the supervisor has an answer.
            if let Question::ReadClaim(id, ClaimPurpose::Begin)
            | Question::WriteClaim((id, ClaimPurpose::Begin, _), _) = question
            {
                self.put_off(id, PUT_OFF);
            }
        }
        self.forsaken.clear();
        self.deliveries.clear();
        self.not_stored.clear();
        self.elsewhere.clear();
        self.bad_claim = None;
        for entry in self.entries.values_mut() {
            (entry.asked, entry.state, entry.figures) = (0, None, None);
        }
        self.connection = ServerState::default();
        self.name.is_given_up();
        (self.node_key, self.lease, self.witness) = (NodeKey::Unread, NodeLease::default(), NodeWitness::default());
    }

    /// Takes that all functions are known: an entry that is not there now is gone.
    pub(crate) fn functions_are_known(&mut self, now: Now) {
        self.knows_functions = true;
        self.give_back_without_servers(now);
    }

    /// Says whether there is no `[events.nats]`. Then the only messages are those of an fnd before this one.
    pub(super) fn has_no_servers(&self) -> bool {
        self.node.is_none() && !self.is_wanted && self.knows_functions
    }

    /// Gives back the messages that this node cannot claim any more: the server delivers them to another node. A message whose
    /// work has begun waits for `[events.nats]` or for a person: a problem names the message.
    pub(super) fn give_back_without_servers(&mut self, now: Now) {
        if !self.has_no_servers() || self.open.is_empty() {
            return;
        }
        self.give_all_back();
        let all: Vec<_> = self.open.keys().copied().collect();
        for id in all {
            self.go_on(now, id);
        }
        self.out.push(MessageEffect::Changed);
    }

    /// Says whether the configuration that waited for open work can be put in force.
    pub(crate) fn may_close(&self) -> bool {
        self.is_closing && self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fact::NatsFact;
    use super::super::settings::tests::{node, settings};
    use super::super::tests::{
        at, delivered, messages, open_message, record, sent, serving, up, wanted_entry, wrote_claim,
    };
    use super::*;
    use fnd_core::records::outcome::Reason;
    use fnd_core::run::Event;
    use fnd_wire::ids::InvocationId;

    #[test]
    fn open_work_keeps_the_name_under_which_it_is_claimed() {
        let mut idle = messages();
        idle.configure(at(1), node("vm9"), true, true);
        assert!(matches!(
            sent(&mut idle)[..],
            [NatsRequest::Connect(_), NatsRequest::Entries(_)]
        ));
        let mut busy = open_message(InvocationId(1));
        busy.configure(at(1), node("vm9"), true, true);
        // The servers may be others: its end is told to these.
        assert!(matches!(
            &sent(&mut busy)[..],
            [NatsRequest::Connect(connect), NatsRequest::Entries(_)] if connect.node == "vm1"
        ));
        let problems = busy.problems(at(1).mono);
        assert!(busy.is_closing && problems.iter().any(|problem| problem.code == "nats-node"));
        busy.configure(at(1), node("vm1"), true, true);
        assert!(!busy.is_closing);
        busy.configure(at(1), None, false, true);
        assert!(busy.is_closing);
    }

    #[test]
    fn nothing_is_left_of_a_connection_that_was_ended() {
        let mut messages = serving(wanted_entry("f", "x"));
        messages.delivered(at(1), delivered(1, 7, 2), InvocationId(1));
        messages.take_effects();
        messages.configure(at(2), None, false, true);
        assert!(matches!(sent(&mut messages)[..], [NatsRequest::Stop]));
        messages.fact(
            at(2),
            NatsFact::Delivered(Box::new(delivered(1, 8, 1))),
            InvocationId(2),
        );
        assert!(messages.deliveries.is_empty(), "the thread ends");
        messages.configure(at(3), node("vm1"), true, true);
        up(&mut messages);
        messages.take_effects();
        messages.delivered(at(4), delivered(1, 7, 3), InvocationId(3));
        assert!(matches!(messages.take_effects()[..], [MessageEffect::LookUp(..)]));
    }

    #[test]
    fn a_claim_that_is_on_its_way_has_an_answer_when_its_connection_is_ended() {
        let id = InvocationId(1);
        let mut messages = open_message(id);
        up(&mut messages);
        assert!(messages.claim(at(1), &record(id, Reason::Ok)));
        wrote_claim(&mut messages, None);
        assert!(messages.ledger_answers(at(1), vec![id], true).is_empty());
        messages.withdrawn(at(2), id);
        messages.take_effects();
        messages.configure(at(2), None, false, true);
        let effects = messages.take_effects();
        let put_off = |effect: &&MessageEffect| matches!(effect, MessageEffect::Event(Event::ClaimPutOff { .. }));
        assert_eq!(effects.iter().filter(put_off).count(), 1);
    }

    #[test]
    fn a_secret_that_is_not_known_is_named_and_ends_no_connection() {
        let without = || NatsNode::of(&settings("vm1"), ("host", 7), None);
        let mut new = Messages::default();
        new.configure(at(1), without(), true, true);
        assert!(sent(&mut new).is_empty());
        let problems = new.problems(at(11).mono);
        assert_eq!((problems.len(), problems[0].code), (1, "nats-down"));
        assert!(problems[0].text.contains("`nats-creds`"), "{}", problems[0].text);
        assert!(new.view().unwrap().error.unwrap().contains("`nats-creds`"));
        let mut connected = messages();
        up(&mut connected);
        connected.configure(at(1), without(), true, true);
        assert!(sent(&mut connected).is_empty() && connected.may_claim());
    }

    #[test]
    fn messages_of_an_fnd_that_had_servers_are_given_back_or_named_or_ended() {
        let id = InvocationId(1);
        let mut messages = open_message(id);
        (messages.node, messages.knows_functions) = (None, false);
        messages.configure(at(1), None, true, true);
        messages.functions_are_known(at(2));
        assert!(messages.take_effects().is_empty(), "the secret is not known yet");
        assert!(messages.problems(at(2).mono).is_empty());
        messages.configure(at(3), None, false, true);
        let effects = messages.take_effects();
        assert!(matches!(
            effects[..],
            [
                MessageEffect::Event(Event::Withdraw(InvocationId(1))),
                MessageEffect::Changed
            ]
        ));
        // It has begun, so the supervisor keeps it.
        let problems = messages.problems(at(3).mono);
        assert_eq!((problems.len(), problems[0].code), (1, "nats-down"));
        assert!(problems[0].text.contains("`f` (ORDERS 7)"), "{}", problems[0].text);
        messages.ended(at(4), id);
        let effects = messages.take_effects();
        let [
            MessageEffect::Warn(why),
            MessageEffect::Store(_),
            MessageEffect::Changed,
        ] = &effects[..]
        else {
            panic!("its end is told to nobody");
        };
        assert!(why.contains("message 7 of ORDERS"), "{why}");
        assert!(messages.problems(at(4).mono).is_empty());
    }
}
