//! The start of fnd: connects the parts in their order, and decides nothing.
//!
//! Files:
//! - `handshake`: the first messages with it
//! - `signals`: signals and the stop
//! - `spawner_process`: finds or starts the spawner
//! - `systemd`: sockets, readiness and watchdog of the service manager

pub mod handshake;
pub(crate) mod signals;
pub mod spawner_process;
pub mod systemd;

use crate::backend;
use crate::buffers;
use crate::cli::{Cli, Places};
use crate::clock;
use crate::control;
use crate::driver::callers::Callers;
use crate::driver::records::Records;
use crate::driver::{self, Daemon, Message, Node, State};
use crate::functions::catalog;
use crate::functions::{Functions, retention_policy};
use crate::http::connections::Connections;
use crate::ledger;
use crate::modes::check;
use crate::output::{self, kept};
use crate::report;
use crate::telemetry;
use crate::workers::{self, Workers, adoption};
use fnd_core::api::NodePlaces;
use fnd_core::diagnostic::Colour;
use fnd_core::supervisor::{Event, LAST_RESULT_MAX, LastAttempt, Supervisor};
use std::cell::Cell;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub(crate) async fn serve(cli: &Cli) -> anyhow::Result<()> {
    let places = check::places(cli)?;
    prepare(&places)?;
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let target = telemetry::target(std::env::var("JOURNAL_STREAM").ok().as_deref(), no_color);
    let colour = if std::io::stderr().is_terminal() && !no_color {
        Colour::Ansi
    } else {
        Colour::Plain
    };
    let _telemetry = telemetry::start(std::env::var("FND_LOG").ok().as_deref(), target)?;
    let own = own_state(&places);
    let _lock = ledger::lock_state(&own)?;
    let clock = clock::Clock::start();

    spawner_process::last_one_ended(cli, &places).await;
    let spawner_process::Spawner { socket, child } = spawner_process::spawner(cli, &places)?;
    let mut connection = workers::link::Connection::new(socket)?;
    let handshake::Handshake {
        welcome,
        sockets,
        current,
        held,
        exits,
    } = handshake::with(&mut connection, colour).await?;
    let held = adoption::read(held);
    for (limit, why) in &welcome.missing {
        tracing::warn!("`{limit}` cannot be enforced here: {why}");
    }

    let (sender, messages) = mpsc::unbounded_channel();
    let stored = sender.clone();
    let held_attempts: Vec<_> = held.iter().flat_map(adoption::Worker::attempts).collect();
    let run = places.run_dir.join(ledger::RUN);
    let site = ledger::Site {
        state: &own,
        run: &run,
        on_damage: current.settings.history.on_damage,
    };
    let opened = ledger::open(
        site,
        retention_policy::at_first(&current.settings),
        &held_attempts,
        move |acknowledged| {
            let _ = stored.send(Message::Stored(acknowledged)); // fnd is stopping
        },
    )?;
    let buffers = buffers::Buffers::new(current.settings.node.buffers, own.clone());
    let logs = places.state.join("logs");
    let judge = opened.writer.clone();
    // While the clock is not believed, output ages by the newest time in the history, as the history itself does.
    let time = move || {
        let ahead_of = judge.health().forgetting.clock_ahead_of;
        ahead_of.unwrap_or_else(clock::unix_ms)
    };
    let log_keeper = kept::Keeper::start(logs.clone(), retention_policy::logs(&current.settings), time)?;
    let output = output::Output::start(
        logs.clone(),
        own.join("spool"),
        log_keeper.bell(),
        line_sink(current.settings.logs.journal),
    )?;
    let catalog_places = catalog::Places {
        directories: welcome.functions_dirs.iter().map(Into::into).collect(),
        held: own.join("directories"),
        marks: places.run_dir.join("marks"),
    };
    let (catalog_events, found) = mpsc::unbounded_channel();
    let catalog = catalog::Catalog::start(catalog_places, current.catalog_rules(), catalog_events)?;
    forward(found, sender.clone());

    let now = clock.now();
    let mode = current.settings.status.mode;
    let status_files = report::StatusFiles::open(&places.run_dir.join("status"), mode, false)?;
    let connections = Rc::new(Connections::new(control::limits::PLACES));
    let daemon = Daemon::new(sender.clone(), |inbox, changed| State {
        supervisor: Supervisor::new(fastrand::u64(..), current.budget(), welcome.next_worker),
        ids: clock::Ids::after(opened.last_id),
        turn: driver::Turn::default(),
        functions: Functions::new(catalog, catalog::Versions::new(opened.versions)),
        workers: Workers::new(connection, (welcome, sockets), child.as_ref(), (clock, inbox.clone())),
        records: Records::new(opened.writer.clone()),
        output,
        log_keeper,
        reporter: report::Reporter::new(now.unix_ms, status_files),
        callers: Callers::new(Arc::clone(&buffers), connections),
        node: Node {
            settings: current,
            places: named(&places),
            started_ms: now.unix_ms,
        },
        inbox,
        changed,
        clock,
    });
    let mut tasks = JoinSet::new();
    tasks.spawn_local(Rc::clone(&daemon).catch_up());
    tasks.spawn_local(Rc::clone(&daemon).watch_spawner());
    tasks.spawn_local(Rc::clone(&daemon).follow_interpreters());
    daemon.state.borrow_mut().settings_changed();
    let problems_sender = sender;
    let buffers_sender = problems_sender.clone();
    buffers.on_change(move || drop(buffers_sender.send(Message::ProblemsChanged)));
    let connections = Rc::clone(&daemon.state.borrow().callers.connections);
    connections.on_change(move || drop(problems_sender.send(Message::ProblemsChanged)));
    let mut restored = opened.restored;
    for unfinished in &mut restored.unfinished {
        if let Some(data) = &mut unfinished.accepted.payload.data {
            *data = buffers.hold(data);
        }
    }
    restored.last = opened.last_runs.into_iter().map(last_attempt).collect();
    (restored.adopted, restored.members) = {
        let state = &mut *daemon.state.borrow_mut();
        state.workers.attach_held(held, &state.output)
    };
    daemon.step(Event::Restored(restored));
    daemon.state.borrow_mut().report_lost();
    for exited in exits {
        daemon.state.borrow_mut().exited(exited);
    }

    let control = backend::Control {
        daemon: Rc::clone(&daemon),
        reader: opened.reader,
        logs,
        places: Arc::new(places.judged()),
        keys: backend::idempotency::Keys::default(),
    };
    let ended = supervise(cli, &places, &daemon, messages, control).await;
    if ended.is_ok() {
        daemon.leave_members().await;
        // A spawner that stays reads what it was sent, and the next fnd sends it the rest.
        if child.is_some() {
            daemon.last_answers().await;
        }
    }
    daemon.state.borrow_mut().close();
    opened.writer.stop();
    // The spawner's socket is closed: it kills what it started and ends.
    let spawner = child.and_then(|mut child| child.wait().ok());
    ended.map_err(|error| match error.downcast() {
        Ok(broken) => spawner_process::Lost::new(broken, spawner).into(),
        Err(other) => other,
    })
}

/// Installs the functions that are there, then serves until a signal's drain is over.
async fn supervise(
    cli: &Cli,
    places: &Places,
    daemon: &Rc<Daemon>,
    mut messages: mpsc::UnboundedReceiver<Message>,
    control: backend::Control,
) -> anyhow::Result<()> {
    let access = Rc::clone(&daemon.state.borrow().node.settings.access);
    let listener = match systemd::listener()? {
        Some(listener) => listener,
        None => control::listen::bind(&places.run_dir.join("control.sock"), None)?,
    };
    let (server, stop) = control::serve(listener, Rc::new(control), access);
    let scanned = daemon.scan();
    let begun = Cell::new(false);
    let serving = async {
        // Calls that come meanwhile wait in the socket: every function is known before the first call is answered.
        let _ = scanned.await;
        let whole = daemon.state.borrow().functions.unread.is_nothing();
        daemon.step(Event::Scanned { whole });
        daemon.state.borrow_mut().all_known();
        systemd::ready();
        let functions = daemon.state.borrow().functions.registry.iter().count();
        let socket = places.run_dir.join("control.sock");
        tracing::info!("ready: {functions} functions, control socket {}", socket.display());
        begun.set(true);
        server.await;
    };
    let mut serving = std::pin::pin!(serving);
    let (result, served) = tokio::select! {
        // Each branch ends fnd, so only `serving` is resumed afterwards.
        broken = daemon.run(&mut messages) => (Err(broken.into()), false),
        () = &mut serving => (Ok(()), true),
        () = signals::watch(daemon, &stop, cli.spawner_socket.is_some()) => (Ok(()), false),
    };
    systemd::stopping();
    stop.now();
    if begun.get() && !served {
        // Answers that are on their way may still arrive.
        let time = control::limits::STOP_TIME;
        if tokio::time::timeout(time, serving).await.is_err() {
            tracing::warn!("callers have no answer yet {time:?} after the stop: their connections are closed");
        }
    }
    result
}

/// Returns the directory of fnd's own state. Where fnd-spawner runs as root, the directory above is root's: root writes
/// only below directories that no other user can change.
fn own_state(places: &Places) -> PathBuf {
    places.state.join("state")
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

/// Makes the directories fnd writes to.
fn prepare(places: &Places) -> anyhow::Result<()> {
    use anyhow::Context as _;
    use std::os::unix::fs::DirBuilderExt as _;
    let make = |path: &Path, mode| {
        let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(path);
        made.with_context(|| format!("failed to make the directory `{}`", path.display()))
    };
    // Functions reach their code and home through this directory by name; everything below has modes of its own.
    make(&places.state, 0o711)?;
    make(&own_state(places), 0o700)?;
    make(&places.run_dir, 0o755)?;
    make(&places.run_dir.join("status"), 0o755)?;
    make(&places.run_dir.join("marks"), 0o700)?;
    make(&places.run_dir.join(ledger::RUN), 0o700)
}

fn last_attempt(run: ledger::LastRun) -> LastAttempt {
    let result = run.record.result.filter(|result| result.data.len() <= LAST_RESULT_MAX);
    LastAttempt {
        attempt: run.attempt,
        trigger: run.record.trigger,
        result,
    }
}

/// Passes lines of output on to the journal, if that is configured.
fn line_sink(journal: bool) -> output::LineSink {
    Box::new(move |meta, line| {
        if journal {
            telemetry::output_line(meta, line);
        }
    })
}

fn forward(mut from: mpsc::UnboundedReceiver<catalog::CatalogEvent>, to: mpsc::UnboundedSender<Message>) {
    // Ends with the catalog's thread, or with the driver.
    drop(tokio::task::spawn_local(async move {
        while let Some(event) = from.recv().await {
            if to.send(Message::Catalog(event)).is_err() {
                return;
            }
        }
    }));
}
