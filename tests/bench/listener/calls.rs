//! Calls of a script and of warm handlers: through the listener and over the control socket, beside others that serve HTTP.

use super::{TOKEN, socket};
use crate::handlers::{WARM, rows_of_peers};
use crate::http::{Caller, Server};
use crate::invocations::{Environment, INVOKE};
use crate::language::Language;
use crate::load::{self, Load, in_turns};
use crate::peers::{self, Peer};
use crate::table::{Table, Times};
use fnd_tests::Fnd;

/// An fnd with a listener, its port, the number of rounds and the table.
pub(super) struct Bench<'a> {
    pub(super) fnd: &'a Fnd,
    pub(super) tcp: &'a Server,
    pub(super) rounds: usize,
    pub(super) table: &'a mut Table,
}

impl Bench<'_> {
    /// A bash script for each request: over the control socket and through the listener, beside bash alone and webhook.
    pub(super) fn scripts(&mut self) {
        let (fnd, tcp, rounds) = (self.fnd, self.tcp, self.rounds);
        let environment = Environment::of(fnd);
        let peers = peers::of_scripts(crate::NOOP);
        let open_control = || Caller::open(&Server::Unix(fnd.socket()), INVOKE);
        let (mut control, mut ours) = (open_control(), Caller::open(tcp, "/noop"));
        let mut theirs: Vec<Caller> = peers.iter().flatten().map(Peer::caller).collect();
        let mut actions: Vec<Box<dyn FnMut() + '_>> = vec![
            Box::new(|| environment.bare()),
            Box::new(|| control.call()),
            Box::new(|| ours.call()),
        ];
        for theirs in &mut theirs {
            actions.push(Box::new(|| theirs.call()));
        }
        let mut times = in_turns(rounds, &mut actions).into_iter();
        drop(actions);
        let [floor, by_control, one] = std::array::from_fn(|_| times.next().unwrap_or_default());
        let others: Vec<Times> = times.collect();
        let floor_load = load::run(rounds, || (), |()| environment.bare());
        let control_load = load::run(rounds, open_control, Caller::call);
        let eight = load::run(rounds, || Caller::open(tcp, "/noop"), Caller::call);
        self.table.times("bash -c :, a function's environment", &floor, &floor);
        self.table
            .times("fnd: bash script, control socket", &by_control, &floor);
        self.table.times("fnd: bash script, listener", &one, &floor);
        self.table.load("bash -c :, 8 at once", &floor_load, &floor_load);
        self.table.load(
            "fnd: bash script, control socket, 8 at once",
            &control_load,
            &floor_load,
        );
        self.table
            .load("fnd: bash script, listener, 8 at once", &eight, &floor_load);
        rows_of_peers(&peers, (&others, 0, rounds), (&floor, &floor_load), self.table);
    }

    /// A warm handler: over the control socket (the floor), through the listener on both kinds of sockets, and with a token.
    pub(super) fn handlers(&mut self, language: &Language) {
        let (fnd, tcp, rounds) = (self.fnd, self.tcp, self.rounds * WARM);
        let id = language.id;
        let control = || Caller::open(&Server::Unix(fnd.socket()), &format!("/v1/functions/{id}-warm/invoke"));
        let unix = || Caller::open(&socket(fnd), &format!("/{id}"));
        let port = || Caller::open(tcp, &format!("/{id}"));
        let token = || Caller::open(tcp, &format!("/{id}/token")).with_token(TOKEN);
        let ways: [(&str, &(dyn Fn() -> Caller + Sync)); 4] = [
            ("control socket", &control),
            ("listener, Unix socket", &unix),
            ("listener, TCP", &port),
            ("listener, TCP, token", &token),
        ];
        let mut callers: Vec<Caller> = ways.iter().map(|(_, open)| open()).collect();
        let mut actions: Vec<Box<dyn FnMut() + '_>> = Vec::new();
        for caller in &mut callers {
            actions.push(Box::new(|| caller.call()));
        }
        let times = in_turns(rounds, &mut actions);
        drop(actions);
        let Some(floor) = times.first() else { return };
        for ((name, _), times) in ways.iter().zip(&times) {
            self.table.times(&format!("fnd: {id} handler, {name}"), times, floor);
        }
        let loads: Vec<Load> = ways
            .iter()
            .map(|(_, open)| load::run(rounds, open, Caller::call))
            .collect();
        let Some(floor_load) = loads.first() else { return };
        for ((name, _), load) in ways.iter().zip(&loads) {
            self.table
                .load(&format!("fnd: {id} handler, {name}, 8 at once"), load, floor_load);
        }
    }
}
