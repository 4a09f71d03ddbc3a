//! The one place of the driver that submits runs. A trigger makes its request with [`Driver::new_submit`], fills in the rest,
//! and submits the request at once, after the present event, or as a part of a transaction. Requests of callers that wait for
//! an answer come through `backend`, which gets its ids here.

use super::Driver;
use crate::ledger::LedgerCommand;
use fnd_core::records::outcome::Trigger;
use fnd_core::report::ReportEvent;
use fnd_core::run::{Action, Event, Submit};
use fnd_wire::ids::{FunctionName, InvocationId};

impl Driver {
    /// Returns a new id; it contains the present time.
    pub(crate) fn next_id(&mut self) -> InvocationId {
        self.ids.next(self.clock.now().unix_ms)
    }

    /// Returns a request to run with a new id.
    pub(crate) fn new_submit(&mut self, function: FunctionName, trigger: Trigger) -> Submit {
        Submit::new(self.next_id(), function, trigger)
    }

    /// Submits a request. Returns whether the supervisor has the request, to run it or to record its refusal. Otherwise no
    /// answer of the ledger follows.
    pub(super) fn submit(&mut self, submit: Submit) -> bool {
        let id = submit.id;
        self.step(Event::Submit(Box::new(submit)));
        self.supervisor.invocation(id).is_some()
    }

    /// Submits a run of a function of fnd's own.
    ///
    /// # Errors
    /// The reason why the run was refused, so that no end follows. A refusal that is recorded is an error, too.
    pub(super) fn submit_own(&mut self, submit: Submit) -> Result<(), String> {
        let function = submit.function.clone();
        self.submit(submit);
        if self.supervisor.live_of(&function).is_some() {
            return Ok(());
        }
        let known = self.supervisor.version_and_error(&function);
        let why = known.and_then(|(_, error)| error);
        Err(why.unwrap_or("fnd takes no new work now").to_owned())
    }

    /// Submits a run once the actions of the present event are carried out.
    pub(super) fn submit_next(&mut self, function: FunctionName, trigger: Trigger) {
        let submit = self.new_submit(function, trigger);
        self.turn.follow_up.push_back(Event::Submit(Box::new(submit)));
    }

    /// Submits a request whose acceptance is not stored by itself. Returns the commands for the transaction of the caller.
    pub(super) fn submit_together(&mut self, submit: Submit) -> Vec<LedgerCommand> {
        let id = submit.id;
        let mut actions = self.decide(Event::Submit(Box::new(submit)));
        let mut parts = Vec::new();
        for action in actions.drain(..) {
            match action {
                Action::Store(accepted) if accepted.id == id => {
                    self.report(ReportEvent::Accepted {
                        function: &accepted.function,
                        id: accepted.id,
                        trigger: accepted.trigger,
                    });
                    parts.push(LedgerCommand::Store(accepted));
                }
                other => self.turn.rest.push_back(other),
            }
        }
        self.turn.actions = actions;
        parts
    }
}
