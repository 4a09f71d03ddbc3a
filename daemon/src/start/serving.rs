//! The last step of the start: the driver goes on with what an earlier fnd left, and callers are served until a stop.

use super::opened::OpenedStores;
use super::{hand_over, own_state, problems_changed, signals, spawner_process, starter, watches};
use crate::allocator;
use crate::backend::{self, Backend};
use crate::buffers::Buffers;
use crate::callers::Callers;
use crate::callers::spin::Spin;
use crate::cli::{DaemonCli, Places};
use crate::clock::Ids;
use crate::control;
use crate::control::function_sockets;
use crate::database;
use crate::driver::{Daemon, Driver, DriverMessage, PendingWork};
use crate::exposition;
use crate::follow_ups::FollowUps;
use crate::functions::Functions;
use crate::functions::api_sockets::FunctionSockets;
use crate::functions::interpreters::real_path;
use crate::http::connections::Connections;
use crate::http::limits::LAST_WORDS;
use crate::http::listen::Listeners;
use crate::input::{Input, TaskOwner};
use crate::ledger::{self, LastRun};
use crate::output::Records;
use crate::public as public_listener;
use crate::quotas::Measurements;
use crate::report::Reporter;
use crate::settings::NodeInfo;
use crate::systemd;
use crate::triggers::files::Watchers;
use crate::triggers::http::Listener;
use crate::triggers::nats::Messages;
use crate::triggers::nats::port::NatsPort;
use crate::triggers::schedule::{self, Alarm};
use crate::triggers::secrets::TriggerSecrets;
use crate::views::trees::TreesOnDisk;
use crate::workers::Workers;
use crate::workers::adoption::AdoptedWorker;
use crate::workers::link::ConnectionError;
use fnd_core::api::NodePlaces;
use fnd_core::lifecycle::Lifecycle;
use fnd_core::lifecycle::versions::Versions;
use fnd_core::run::{Event, LAST_RESULT_MAX, LastAttempt, Restored, Supervisor};
use fnd_core::triggers::nats::memory::KnownMessage;
use fnd_wire::frame::{Exited, Masked};
use fnd_wire::units::counted;
use std::cell::Cell;
use std::process::Child;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The driver, and what is needed to serve callers and to end.
pub(crate) struct ServingDaemon {
    pub(crate) daemon: Rc<Daemon>,
    pub(crate) control: Backend,
    pub(crate) messages: mpsc::UnboundedReceiver<DriverMessage>,
    pub(crate) writer: ledger::LedgerWriter,
    child: Option<Child>,
}

/// The parts of the driver that the machine itself reaches.
pub(crate) struct MachineParts {
    /// The alarm of the schedules.
    pub(crate) alarm: Alarm,
    pub(crate) listener: Listener,
    /// Finds the real path of an interpreter.
    pub(crate) real_path: fn(&str) -> String,
}

/// The work and the workers that an earlier fnd has left to this one.
pub(crate) struct Inheritance {
    restored: Restored,
    messages: Vec<KnownMessage>,
    last_runs: Vec<LastRun>,
    buffers: Arc<Buffers>,
    held: Vec<AdoptedWorker>,
    masks: Vec<Masked>,
    exits: Vec<Exited>,
}

impl ServingDaemon {
    /// Makes the driver, which adopts the workers of an earlier fnd.
    pub(super) fn new(opened: OpenedStores, cli: &DaemonCli, places: &Places) -> anyhow::Result<Self> {
        let machine = MachineParts {
            alarm: Alarm::new()?,
            listener: Listener::new(&own_state(places), cli.listen.clone())?,
            real_path,
        };
        let (serving, inheritance) = Self::assemble(opened, places, machine);
        serving.begin_tasks();
        serving.take_over(inheritance);
        Ok(serving)
    }

    /// Makes the driver of its parts. It does nothing yet.
    pub(crate) fn assemble(opened: OpenedStores, places: &Places, machine: MachineParts) -> (Self, Inheritance) {
        let (connected, ledger) = (opened.connected, opened.ledger);
        let (current, clock) = (connected.current, connected.clock);
        let (sender, buffers, listener) = (opened.sender, opened.buffers, machine.listener);
        let connections = Rc::new(Connections::new("the control socket", control::limits::PLACES));
        connections.on_change(problems_changed(&sender));
        buffers.on_change(problems_changed(&sender));
        listener.on_change(problems_changed(&sender));
        let schedules = schedule::ScheduleTimer::new(
            ledger.schedules,
            (current.host.clone(), database::boot()),
            machine.alarm,
        );
        let started_ms = clock.now().unix_ms;
        let output_read = sender.clone();
        let output_read = move |key, captured| {
            let _ = output_read.send(DriverMessage::OutputRead(key, captured)); // an error: fnd is stopping
        };
        let mut supervisor = Supervisor::new(fastrand::u64(..), current.budget(), connected.welcome.next_worker);
        supervisor.set_groups(current.groups());
        let daemon = Daemon::new(|inbox, changed| Driver {
            supervisor,
            ids: Ids::after(ledger.last_id),
            turn: PendingWork::default(),
            lifecycle: Lifecycle::new(ledger.releases, Versions::new(ledger.versions), machine.real_path),
            functions: Functions::new(opened.catalog, ledger.disabled),
            trees: TreesOnDisk::default(),
            function_sockets: Rc::new(FunctionSockets::new(&connected.sockets)),
            workers: Workers::new(
                connected.connection,
                (connected.welcome, connected.sockets),
                connected.child.as_ref(),
                (clock, inbox.clone(), Arc::clone(&buffers)),
                Arc::new(output_read),
            ),
            secrets: TriggerSecrets::default(),
            schedules,
            watchers: Watchers::new(ledger.reader.clone()),
            nats: Messages::default(),
            nats_port: NatsPort::new(opened.nats, ledger.reader.clone(), own_state(places)),
            quotas: Measurements::new(named(places).state),
            records: Records::new(ledger.writer.clone()),
            follow_ups: FollowUps::new(ledger.unfollowed, ledger.alerts, started_ms),
            output: opened.output,
            reporter: Reporter::new(started_ms, opened.status_files),
            callers: Callers::new(Arc::clone(&buffers), connections),
            spin: Rc::new(Spin::new()),
            listener: Rc::new(listener),
            audit: opened.audit.clone(),
            state: opened.state.clone(),
            node: NodeInfo {
                settings: current,
                places: named(places),
                started_ms,
            },
            inbox,
            messages: sender,
            changed,
            changes: 0,
            clock,
        });
        let inheritance = Inheritance {
            restored: ledger.restored,
            messages: ledger.messages,
            last_runs: ledger.last_runs,
            buffers,
            held: connected.held,
            masks: connected.masks,
            exits: connected.exits,
        };
        let control = Backend {
            daemon: Rc::clone(&daemon),
            reader: ledger.reader,
            logs: opened.logs,
            places: Arc::new(places.judged()),
            audit: opened.audit,
            state: opened.state,
            keys: backend::idempotency::Keys::default(),
        };
        let serving = Self {
            daemon,
            control,
            messages: opened.messages,
            writer: ledger.writer,
            child: connected.child,
        };
        (serving, inheritance)
    }

    /// Starts the tasks that run as long as fnd.
    fn begin_tasks(&self) {
        let daemon = &self.daemon;
        let inbox = &daemon.inbox;
        inbox.spawn(TaskOwner::Fnd("work that was put off"), Rc::clone(daemon).catch_up());
        inbox.spawn(
            TaskOwner::Fnd("watch of the spawner"),
            watches::spawner(Rc::clone(daemon)),
        );
        inbox.spawn(
            TaskOwner::Fnd("watch of interpreters"),
            watches::interpreters(Rc::clone(daemon)),
        );
        inbox.spawn(TaskOwner::Fnd("metrics"), exposition::serve(Rc::clone(daemon)));
        let spin = Rc::clone(&daemon.state.borrow().spin);
        inbox.spawn(TaskOwner::Fnd("search for the next message"), async move {
            spin.run().await;
        });
        let (rung, alarm) = (inbox.clone(), Rc::clone(&daemon.state.borrow().schedules.alarm));
        inbox.spawn(TaskOwner::Fnd("timer of schedules"), async move {
            loop {
                if !rung.input(Input::Alarm(alarm.rings().await)) {
                    return;
                }
            }
        });
    }

    /// Puts the configuration in force, and goes on with what an earlier fnd left.
    pub(crate) fn take_over(&self, inheritance: Inheritance) {
        let (mut restored, last_runs) = (inheritance.restored, inheritance.last_runs);
        let daemon = &self.daemon;
        daemon.state.borrow_mut().settings_changed();
        for unfinished in &mut restored.unfinished {
            if let Some(data) = &mut unfinished.accepted.payload.data {
                // The payloads of queued work count in the budget of bodies, like those of new requests.
                *data = inheritance.buffers.hold(data);
            }
        }
        let successes = last_runs.iter();
        let successes = successes.filter_map(|run| Some((run.record.function.clone(), run.success_ms?)));
        restored.successes = successes.collect();
        restored.last = last_runs.into_iter().map(last_attempt).collect();
        (restored.adopted, restored.members) = {
            let state = &mut *daemon.state.borrow_mut();
            state
                .workers
                .attach_held((inheritance.held, inheritance.masks), &state.output)
        };
        let held = (&*restored.adopted, &*restored.members);
        {
            let state = &mut *daemon.state.borrow_mut();
            state.nats.restore(state.clock.now(), inheritance.messages, held);
        }
        // The supervisor has to know the attempts before it hears of their ends.
        daemon.step(Event::Restored(Box::new(restored)));
        daemon.state.borrow_mut().report_lost();
        for exited in inheritance.exits {
            daemon.state.borrow_mut().exited(exited);
        }
    }

    /// Serves until a signal's drain is over, then leaves what goes on to the next fnd.
    pub(super) async fn until_stopped(self, cli: &DaemonCli, places: &Places) -> anyhow::Result<()> {
        let (daemon, child) = (self.daemon, self.child);
        let ended = supervise(cli, places, &daemon, self.messages, self.control).await;
        if ended.is_ok() {
            hand_over::workers(&daemon).await;
            // A spawner that stays reads what it was sent, and the next fnd sends it the rest.
            if child.is_some() {
                daemon.last_answers().await;
            }
        }
        daemon.state.borrow_mut().close();
        // The ledger ends after `close`, which has handed it the last records.
        self.writer.stop();
        let (audit, state) = {
            let all = daemon.state.borrow();
            (all.audit.clone(), all.state.clone())
        };
        audit.stop();
        state.stop();
        // The spawner's socket is closed: it kills what it started and ends.
        let spawner = child.and_then(|mut child| child.wait().ok());
        daemon.inbox.end_tasks();
        ended.map_err(|error| match error.downcast::<ConnectionError>() {
            Ok(broken) => spawner_process::Lost::new(broken, spawner).into(),
            Err(other) => other,
        })
    }
}

/// Installs the functions that are there, then serves until a signal's drain is over.
async fn supervise(
    cli: &DaemonCli,
    places: &Places,
    daemon: &Rc<Daemon>,
    mut messages: mpsc::UnboundedReceiver<DriverMessage>,
    control: Backend,
) -> anyhow::Result<()> {
    let access = Rc::clone(&daemon.state.borrow().node.settings.access);
    let sockets = systemd::sockets()?;
    let listener: Listeners = match sockets.control {
        Some(listener) => listener.into(),
        None => {
            let path = places.run_dir.join("control.sock");
            let listeners: Listeners = control::listen::bind(&path)?.into();
            let kept = control::listen::keep(path, listeners.clone());
            daemon.inbox.spawn(TaskOwner::Fnd("the control socket"), kept);
            listeners
        }
    };
    let public = Rc::clone(&daemon.state.borrow().listener);
    public.inherit(sockets.http);
    daemon.inbox.spawn(
        TaskOwner::Fnd("addresses of the listener"),
        Rc::clone(&public).keep_trying(),
    );
    let (requests, no_more_requests) = public_listener::serve(&public, control.clone());
    let control = Rc::new(control);
    let own = Rc::clone(&daemon.state.borrow().function_sockets);
    let functions_calls = function_sockets::serve(Rc::clone(&own), Rc::clone(&control));
    let (server, no_more_calls) = control::serve(listener, control, access);
    let stop = || {
        no_more_requests.now();
        no_more_calls.now();
        own.stop();
    };
    let scanned = daemon.scan();
    let begun = Cell::new(false);
    let serving = async {
        // Calls that come meanwhile wait in the socket: every function is known before the first call is answered.
        let _ = scanned.await;
        daemon.all_is_scanned();
        systemd::ready();
        // The memory that only finding and installing all functions needed is free now, between blocks that stay.
        allocator::give_back();
        let functions = daemon.state.borrow().lifecycle.registry.iter().count();
        let socket = places.run_dir.join("control.sock");
        let directories = daemon.state.borrow().workers.welcome.functions_dirs.join(", ");
        let what = match functions {
            0 => format!("no functions yet: save a file in {directories}, and it is one a moment later"),
            _ => format!("{} in {directories}", counted(functions, "function", "functions")),
        };
        tracing::info!("ready: {what}; control socket {}", socket.display());
        let public = public.addresses();
        if !public.is_empty() {
            tracing::info!("the public listener serves {}", public.join(", "));
        }
        begun.set(true);
        tokio::select! {
            _ = async { tokio::join!(server, requests, functions_calls) } => {}
            never = allocator::give_back_at_rest() => match never {}
        }
    };
    let mut serving = std::pin::pin!(serving);
    let (result, served) = tokio::select! {
        // Each branch ends fnd, so only `serving` is resumed afterwards.
        broken = daemon.run(&mut messages) => (Err(broken.into()), false),
        () = &mut serving => (Ok(()), true),
        () = signals::watch(daemon, &stop, cli.spawner_socket.is_some()) => (Ok(()), false),
        () = starter::watch(cli, daemon) => (Ok(()), false),
    };
    systemd::stopping();
    // This comes before the connections are closed: otherwise fnd would take their callers for gone, and cancel their
    // calls.
    daemon.inbox.leaves();
    stop();
    // Before `begun` no call is accepted, so no answer can be on its way.
    if begun.get() && !served {
        // Answers that are on their way may still arrive.
        let time = control::limits::STOP_TIME + LAST_WORDS;
        if tokio::time::timeout(time, serving).await.is_err() {
            tracing::warn!("callers have no answer yet {time:?} after the stop: their connections are closed");
        }
    }
    result
}

/// Returns the places as `status` names them.
fn named(places: &Places) -> NodePlaces {
    let (config, runtimes) = places.judged();
    NodePlaces {
        config,
        functions: Vec::new(),
        runtimes,
        state: places.state.display().to_string(),
    }
}

fn last_attempt(run: LastRun) -> LastAttempt {
    let result = run.record.result.filter(|result| result.data.len() <= LAST_RESULT_MAX);
    LastAttempt {
        // The invocation of an attempt that failed may not have ended.
        failing_since_ms: run.attempt.failing_since(run.failing_since_ms),
        attempt: run.attempt,
        trigger: run.record.trigger,
        result,
    }
}
