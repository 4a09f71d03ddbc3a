//! The second step of the start: everything on the disk is open, and the threads run.

use super::connected::Connected;
use super::{own_state, problems_changed};
use crate::buffers::Buffers;
use crate::cli::Places;
use crate::clock;
use crate::driver::DriverMessage;
use crate::functions::catalog::{self, Catalog, Remembered};
use crate::functions::retention_policy;
use crate::ledger;
use crate::output::log_store::Keeper;
use crate::output::{LineSink, Output, SpoolPlaces, output_line};
use crate::report::StatusFiles;
use crate::stores::audit::{self, Audit};
use crate::stores::database::StorePlaces;
use crate::stores::kv::StateStore;
use crate::triggers::nats::link::NatsLink;
use crate::workers::adoption;
use fnd_core::lifecycle::release::Releases;
use fnd_wire::ids::FunctionName;
use fnd_wire::naming::is_foreign;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The open parts, and the messages of their threads.
pub(crate) struct OpenedStores {
    pub(crate) connected: Connected,
    pub(crate) sender: mpsc::UnboundedSender<DriverMessage>,
    pub(crate) messages: mpsc::UnboundedReceiver<DriverMessage>,
    pub(crate) ledger: ledger::OpenedLedger,
    pub(crate) buffers: Arc<Buffers>,
    /// The directory of kept output.
    pub(crate) logs: PathBuf,
    pub(crate) output: Output,
    pub(crate) catalog: Catalog,
    pub(crate) audit: Audit,
    pub(crate) state: StateStore,
    /// Begins its thread once the configuration needs it.
    pub(crate) nats: NatsLink,
    pub(crate) status_files: StatusFiles,
}

impl OpenedStores {
    /// Opens the history, the output, the functions directories and the status files.
    pub(super) fn new(connected: Connected, places: &Places) -> anyhow::Result<Self> {
        let own = own_state(places);
        let settings = &connected.current.settings;
        let (sender, messages) = mpsc::unbounded_channel();
        let stored = sender.clone();
        let held: Vec<_> = connected
            .held
            .iter()
            .flat_map(adoption::AdoptedWorker::attempts)
            .collect();
        let run = places.run_dir.join(ledger::RUN);
        let site = ledger::Site {
            state: &own,
            run: &run,
            on_damage: settings.history.on_damage,
        };
        let ledger = ledger::open(site, retention_policy::at_first(settings), &held, move |acknowledged| {
            let _ = stored.send(DriverMessage::Stored(acknowledged)); // fnd is stopping
        })?;
        let logs = places.state.join("logs");
        let judge = ledger.writer.clone();
        // While the clock is not believed, output ages by the newest time in the history, as the history itself does.
        let time = move || {
            let ahead_of = judge.health().forgetting.clock_ahead_of;
            ahead_of.unwrap_or_else(clock::unix_ms)
        };
        let stores = StorePlaces {
            state: own.clone(),
            run: run.clone(),
        };
        let audit = Audit::start(
            stores.clone(),
            (settings.audit.clone(), audit::BYTES_MAX),
            time.clone(),
            problems_changed(&sender),
        )?;
        let state = StateStore::start(stores, clock::unix_ms, problems_changed(&sender))?;
        let keeper = Keeper::start(logs.clone(), retention_policy::logs(settings), time)?;
        let journal = settings.logs.journal;
        // Lines of output go to the journal, if that is configured.
        let sink: LineSink = Box::new(move |meta, line| {
            if journal {
                output_line(meta, line);
            }
        });
        let spool = SpoolPlaces {
            state: own.join("spool"),
            memory: places.run_dir.join("spool"),
        };
        let output = Output::start(logs.clone(), spool, keeper, sink)?;
        // Before the first scan, so that it sees each upload whole.
        crate::uploads::staging::recover(&places.uploads());
        let catalog_places = catalog::CatalogPaths {
            directories: connected.welcome.functions_dirs.iter().map(Into::into).collect(),
            held: own.join("directories"),
            remembered: ledger.releases.iter().filter_map(remembered).collect(),
            marks: places.run_dir.join("marks"),
        };
        let found = sender.clone();
        let rules = connected.current.catalog_rules(places.uploads());
        let catalog = Catalog::start(catalog_places, rules, move |event| {
            let _ = found.send(DriverMessage::Catalog(event)); // fnd is stopping
        })?;
        Ok(Self {
            buffers: Buffers::new(settings.node.buffers, own),
            status_files: StatusFiles::open(&places.run_dir.join("status"), settings.status.mode)?,
            connected,
            sender,
            messages,
            ledger,
            logs,
            output,
            catalog,
            audit,
            state,
            nats: NatsLink::idle(),
        })
    }
}

/// Returns the function and its file if the release that serves it comes from a file of another system.
fn remembered((function, releases): &(FunctionName, Releases)) -> Option<Remembered> {
    let serving = releases.get(releases.serving()?)?;
    // Fetched code has its origin behind the name of the file.
    let file = serving
        .source
        .split_once(" (")
        .map_or(&*serving.source, |(file, _)| file);
    is_foreign(file).then(|| Remembered {
        function: function.clone(),
        file: file.to_owned(),
    })
}
