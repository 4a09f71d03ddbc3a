//! The configuration in force, and the values that follow from it on this machine.

use crate::functions::catalog::WalkRules;
use crate::peer::PeerAccess;
use fnd_core::access::{Author, Permissions};
use fnd_core::api::NodePlaces;
use fnd_core::lifecycle::Lifecycle;
use fnd_core::lifecycle::diagnostic;
use fnd_core::run::NodeBudget;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::forms::Claims;
use fnd_manifest::judge::SettingsDocument;
use fnd_manifest::runtime::RuntimeSummary;
use fnd_manifest::settings::Settings;
use fnd_wire::frame::SettingsRead;
use fnd_wire::ids::FunctionName;
use procfs::Current as _;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

/// The reason why a manifest's hook or alert calls no function.
pub(crate) const NOT_OPERATED: &str = "the author of the file, its owner or uploader, has no role of operator for it";

/// The facts about this node.
pub(crate) struct NodeInfo {
    pub(crate) settings: CurrentSettings,
    /// Configuration, runtimes and state as fnd was started with; the spawner names the functions directories.
    pub(crate) places: NodePlaces,
    pub(crate) started_ms: u64,
}

/// The configuration in force.
pub struct CurrentSettings {
    /// `fnd.toml` with `conf.d`.
    pub settings: Settings,
    pub runtimes: Vec<RuntimeSummary>,
    /// Problems of the newest configuration, applied or not.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether the newest configuration was refused; an earlier one is in force then.
    pub refused: bool,
    /// This node's host name.
    pub host: String,
    /// The roles of users and groups; shared with the control server.
    pub access: Rc<RefCell<PeerAccess>>,
    /// The permissions of authors of functions. An author is added at the first question; the map is emptied when roles are
    /// looked up anew.
    reaches: RefCell<BTreeMap<Author, Permissions>>,
}

impl CurrentSettings {
    /// Returns the configuration of a document; nothing where that was refused. `spawner_uid` is the user of the
    /// spawner's process.
    #[must_use]
    pub fn new(document: SettingsDocument, spawner_uid: Option<u32>) -> Option<Self> {
        let own_uid = Some(nix::unistd::getuid().as_raw()).filter(|own| Some(*own) == spawner_uid);
        let host = nix::unistd::gethostname()
            .ok()
            .and_then(|name| name.into_string().ok())
            .unwrap_or_default();
        Some(Self {
            settings: document.settings?,
            runtimes: document.runtimes,
            diagnostics: document.diagnostics,
            refused: false,
            host,
            access: Rc::new(RefCell::new(PeerAccess {
                own_uid,
                ..PeerAccess::default()
            })),
            reaches: RefCell::default(),
        })
    }

    /// Returns what the author of a function may do.
    #[must_use]
    pub fn reach_of(&self, author: Author) -> Permissions {
        if author == Author::Root {
            return Permissions::own();
        }
        let mut known = self.reaches.borrow_mut();
        let reach = known
            .entry(author)
            .or_insert_with(|| self.access.borrow().reach_of(author));
        reach.clone()
    }

    /// Returns whether a manifest may name another function to call. The author of the manifest must be root, the author of the
    /// other function, or its operator.
    pub(crate) fn may_call(&self, lifecycle: &Lifecycle, function: &FunctionName, called: &FunctionName) -> bool {
        let author = lifecycle.author(function);
        author == Author::Root || author == lifecycle.author(called) || self.reach_of(author).operates(called)
    }

    /// Puts a newer configuration in force, if the spawner applied it; returns whether it did.
    pub fn apply(&mut self, document: SettingsDocument, applied: bool) -> bool {
        // Also those of a configuration that is refused, because a person has to correct it.
        self.diagnostics = document.diagnostics;
        self.refused = !applied;
        match document.settings {
            Some(settings) if applied => {
                self.settings = settings;
                self.runtimes = document.runtimes;
                true
            }
            _ => false,
        }
    }

    /// Looks up the users and groups of `[[access]]` and puts their roles in force. Returns the problems with them.
    pub fn resolve_access(&self) -> Vec<String> {
        let own_uid = self.access.borrow().own_uid;
        let (access, problems) = PeerAccess::resolve(own_uid, &self.settings.access);
        self.access.replace(access);
        self.reaches.borrow_mut().clear();
        problems
    }

    /// Returns the budget of all functions together: `[node]`, or the machine without its reserve.
    #[must_use]
    pub fn budget(&self) -> NodeBudget {
        let node = &self.settings.node;
        // If the size of the memory cannot be read, it sets no limit.
        let machine = || procfs::Meminfo::current().map_or(u64::MAX, |memory| memory.mem_total);
        NodeBudget {
            memory: node
                .memory
                .unwrap_or_else(|| machine().saturating_sub(node.reserve_memory)),
            cpu_milli: node.cpu,
            workers: node.max_workers,
        }
    }

    /// Returns `[groups]`: each name, and how many attempts the functions of the group may have at once.
    pub fn groups(&self) -> impl Iterator<Item = (&str, u32)> {
        self.settings
            .groups
            .iter()
            .map(|(name, group)| (name.as_str(), group.max))
    }

    /// Returns the rules that decide which files are functions; `uploads` is the directory of uploads.
    #[must_use]
    pub fn catalog_rules(&self, uploads: PathBuf) -> WalkRules {
        WalkRules {
            uploads,
            claims: Claims::of(self.runtimes.iter().flat_map(|runtime| &runtime.suffixes)),
            default_runtime: self.settings.default_runtime.is_some(),
        }
    }
}

/// Returns the judge's document of the configuration, with the spawner's problems of the files themselves.
pub(crate) fn settings_document(read: SettingsRead) -> Result<SettingsDocument, serde_json::Error> {
    let mut document = if read.document.0.is_empty() {
        SettingsDocument::default()
    } else {
        serde_json::from_slice(&read.document.0)?
    };
    let problems = read.problems.into_iter();
    document.diagnostics.extend(problems.map(diagnostic));
    Ok(document)
}
