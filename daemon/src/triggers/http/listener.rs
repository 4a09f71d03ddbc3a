//! The public listener by its configuration: addresses, TLS, limits, proxies.

use super::Keyring;
use super::route_calls::RouteCalls;
use crate::http::connections::{Connections, SocketPlaces};
use crate::http::limits::HttpLimits;
use crate::http::listen::tls::{Security, Tls, TlsPair};
use crate::http::listen::{Address, Listeners};
use crate::stores::replays::Replays;
use crate::triggers::passwords::Passwords;
use crate::triggers::secrets::TriggerSecrets;
use fnd_core::triggers::route::forwarded::Trusted;
use fnd_core::triggers::route::rate::Rates;
use fnd_manifest::function::route::Credential;
use fnd_manifest::settings::{HttpEvents, HttpSettings};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// The limits of a connection.
pub(crate) const LIMITS: HttpLimits = HttpLimits {
    head_bytes: 16 * 1024,
    headers: 100,
    head_time: Duration::from_secs(10),
    silence: Duration::from_secs(75),
    idle: Duration::from_secs(75),
    single_request_time: None,
    stop_time: Duration::from_millis(1000),
    last_request_time: Duration::from_millis(100),
};

/// The listener's state: what it listens on, whom it trusts, what it remembers.
pub(crate) struct Listener {
    pub(crate) sockets: Listeners,
    /// The address of the command line.
    own: Option<Address>,
    pub(crate) connections: Rc<Connections>,
    pub(crate) trusted: RefCell<Trusted>,
    /// The route for events.
    pub(crate) events: RefCell<Option<HttpEvents>>,
    pub(crate) keyring: RefCell<Keyring>,
    pub(crate) passwords: Passwords,
    pub(crate) replays: Replays,
    pub(crate) rates: RefCell<Rates>,
    pub(crate) logs: Cell<bool>,
    pub(crate) calls: RefCell<RouteCalls>,
    /// Addresses that could not be used, each with the reason.
    problems: RefCell<Vec<String>>,
    /// Whether a certificate serves.
    has_tls: Cell<bool>,
    tls_problem: RefCell<Option<String>>,
    /// The generation of secrets from which the certificate was made.
    pairs: Cell<u64>,
    changed: OnceCell<ListenerNotice>,
}

/// Called when a problem begins or ends.
struct ListenerNotice(Box<dyn Fn()>);

impl Listener {
    /// Returns a listener that listens nowhere yet; `own` is the address of the command line.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn new(state: &Path, own: Option<Address>) -> io::Result<Self> {
        Ok(Self::with(Passwords::start()?, Replays::open(state)?, own))
    }

    /// Returns a listener with these parts; it starts no thread.
    pub(crate) fn with(passwords: Passwords, replays: Replays, own: Option<Address>) -> Self {
        let http = HttpSettings::default();
        Self {
            sockets: Listeners::new(),
            own,
            connections: Rc::new(Connections::new("the public listener", places(&http))),
            trusted: RefCell::default(),
            events: RefCell::default(),
            keyring: RefCell::default(),
            passwords,
            replays,
            rates: RefCell::default(),
            logs: Cell::new(true),
            calls: RefCell::default(),
            problems: RefCell::default(),
            has_tls: Cell::default(),
            tls_problem: RefCell::default(),
            pairs: Cell::default(),
            changed: OnceCell::default(),
        }
    }

    /// Sets a callback for the times when a problem begins or ends.
    pub(crate) fn on_change(&self, changed: impl Fn() + Clone + 'static) {
        self.connections.on_change(changed.clone());
        let _ = self.changed.set(ListenerNotice(Box::new(changed))); // the first one stays
    }

    /// Adds the sockets of the service manager.
    pub(crate) fn inherit(&self, sockets: Vec<OwnedFd>) {
        for socket in sockets {
            if let Err(error) = self.sockets.inherit(socket) {
                tracing::error!("a socket of fnd-http.socket cannot be used: {error}");
            }
        }
    }

    /// Puts a configuration in force. Addresses that stay keep their sockets.
    pub(crate) fn apply(&self, http: &HttpSettings) {
        self.connections.set_places(places(http));
        *self.trusted.borrow_mut() = Trusted::new(&http.trusted_proxies);
        self.events.borrow_mut().clone_from(&http.events);
        self.logs.set(http.access_log);
        if http.tls.is_none() {
            self.sockets.secure(Security::Plain);
        } else if !self.has_tls.get() {
            // Until a certificate is there, connections are closed: nothing is served without TLS meanwhile.
            self.sockets.secure(Security::Broken);
        }
        self.has_tls.set(self.has_tls.get() && http.tls.is_some());
        let addresses: Vec<Address> = http.listen.0.iter().filter_map(|text| Address::parse(text)).collect();
        let addresses: Vec<Address> = addresses.into_iter().chain(self.own.clone()).collect();
        self.sockets.apply(&addresses);
        self.check();
    }

    /// Takes the present secrets into use: those of these credentials, and the certificate if the configuration names
    /// one. A certificate that cannot be used does not replace the one that serves.
    pub(crate) fn renew(&self, secrets: &TriggerSecrets, credentials: BTreeSet<Credential>, now: Duration) {
        *self.keyring.borrow_mut() = Keyring::new(credentials, secrets);
        // The files are asked for every few seconds and are mostly the same: then nothing is made anew.
        if self.pairs.replace(secrets.generation()) == secrets.generation() {
            return;
        }
        let Some((certificate, key)) = secrets.tls() else {
            return;
        };
        let made = Tls::new(&TlsPair { certificate, key }, now);
        let problem = match &made {
            Ok(tls) => tls.warning().map(|warning| format!("[http] tls: {warning}")),
            Err(why) if self.has_tls.get() => Some(format!("[http] tls: {why}; the certificate before it serves")),
            Err(why) => Some(format!("[http] tls: {why}; no address serves TCP connections")),
        };
        *self.tls_problem.borrow_mut() = problem;
        if let Ok(tls) = made {
            self.has_tls.set(true);
            self.sockets.secure(Security::Tls(tls));
        }
    }

    /// Notes which addresses could not be used.
    fn check(&self) {
        let unbound = self.sockets.unbound();
        let problems: Vec<String> = unbound
            .iter()
            .map(|unbound| format!("[http] listen: `{}` cannot be used: {}", unbound.address, unbound.why))
            .collect();
        let before = self.problems.replace(problems);
        if before != *self.problems.borrow()
            && let Some(ListenerNotice(changed)) = self.changed.get()
        {
            changed();
        }
    }

    /// Returns what keeps it from doing all that the configuration asks for.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = self.problems.borrow().clone();
        problems.extend(self.tls_problem.borrow().clone());
        problems.extend(self.keyring.borrow().problems().iter().cloned());
        problems.extend(self.connections.problem());
        problems.extend(self.replays.problem());
        problems
    }

    /// Returns the addresses that it listens on.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.sockets.addresses().iter().map(Address::to_string).collect()
    }

    /// Tries addresses that could not be used, until this is dropped.
    pub(crate) async fn keep_trying(self: Rc<Self>) {
        self.sockets.keep_trying(|| self.check()).await;
    }
}

fn places(http: &HttpSettings) -> SocketPlaces {
    let whole = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    SocketPlaces {
        all: whole(http.connections),
        of_one: whole(http.connections_per_address),
        for_root: 0,
    }
}
