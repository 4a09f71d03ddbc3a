//! Hands the workers over to the next fnd.

use crate::driver::Daemon;
use crate::workers::handler::conversation::Conversation;
use crate::workers::http::Server;
use fnd_wire::ids::WorkerId;
use std::rc::Rc;
use std::time::Duration;

/// How long a worker may take, when fnd leaves, to finish the message it is sending or to take the one it is sent.
const LEAVE_MAX: Duration = Duration::from_millis(500);
/// Pause between two checks of that.
const LEAVE_AGAIN: Duration = Duration::from_millis(5);

/// Hands the workers of handlers over to the next fnd: each conversation ends between two messages. A worker whose
/// conversation does not end in time is not handed over, and the next fnd kills it.
///
/// Requests to workers that serve HTTP have the same time to end; the others are reported to the next fnd as lost.
pub(crate) async fn workers(daemon: &Daemon) {
    type Leaving = (WorkerId, Option<Rc<Conversation>>, Option<Rc<Server>>);
    let members: Vec<Leaving> = {
        let state = daemon.state.borrow();
        let attached = state.workers.attached.iter();
        let members = attached.filter_map(|(id, attached)| {
            let member = attached.member.as_ref()?;
            Some((*id, member.conversation(), member.server.clone()))
        });
        members.collect()
    };
    if members.is_empty() {
        return;
    }
    let conversations = members.iter().filter_map(|(_, conversation, _)| conversation.as_ref());
    // All conversations stop side by side, so that one limit serves them all.
    conversations.for_each(|conversation| conversation.stop());
    let is_between = |conversation: &Option<Rc<Conversation>>| {
        let conversation = conversation.as_ref();
        conversation.is_none_or(|conversation| conversation.is_between())
    };
    let is_quiet = |server: &Option<Rc<Server>>| server.as_ref().is_none_or(|server| server.is_quiet());
    let between = async {
        while !members
            .iter()
            .all(|(_, conversation, server)| is_between(conversation) && is_quiet(server))
        {
            tokio::time::sleep(LEAVE_AGAIN).await; // polled: an event would need each conversation; this is rare
        }
    };
    // Workers that are not between two messages by then are left out below, and the next fnd kills them.
    let _ = tokio::time::timeout(LEAVE_MAX, between).await;
    // Calls that were answered are not handed over.
    daemon.state.borrow_mut().explain(None, |_, _| true);
    for (worker, conversation, _) in members {
        if is_between(&conversation) {
            let state = &mut *daemon.state.borrow_mut();
            if let Some(record) = state.supervisor.member_record(worker) {
                state.workers.leave_member(worker, record);
            }
        }
        if let Some(conversation) = conversation {
            conversation.hang_up();
        }
    }
    // The next fnd gets only what the spawner has read by then.
    let _ = tokio::time::timeout(LEAVE_MAX, daemon.last_answers()).await;
}
