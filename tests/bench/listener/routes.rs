//! A table of 10,000 routes beside one of 10: the same call through both.

use super::{prepare, with_routes};
use crate::http::Caller;
use crate::language::Language;
use crate::load::{self, in_turns};
use crate::run_directory_in_memory;
use crate::table::Table;
use std::time::Duration;

/// Functions with routes, and how many each of them has.
const TABLES: [(usize, usize); 2] = [(1, 10), (100, 100)];

/// A start with all of them that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The route that is called: one of many that begin alike.
const PATH: &str = "/call/7/42";

pub(super) fn measure(rounds: usize, table: &mut Table) {
    let python = Language::python();
    let started = TABLES.map(|(functions, routes)| {
        let called = with_routes(&python.function(&[], false), "#", &[("/call/{a}/{b}", "none")]);
        let mut setup = crate::as_shipped().file("called.py", &called);
        for function in 0..functions {
            let paths: Vec<String> = (0..routes).map(|route| path(function, route)).collect();
            let routes: Vec<(&str, &str)> = paths.iter().map(|path| (&**path, "none")).collect();
            setup = setup.file(&format!("has-{function}.sh"), &with_routes(crate::NOOP, "#", &routes));
        }
        let (mut fnd, tcp) = prepare(&setup, "");
        let run = run_directory_in_memory(&fnd);
        fnd.launch_within(PATIENCE);
        fnd.wait_ready("called");
        (0..functions).for_each(|function| drop(fnd.wait_ready(&format!("has-{function}"))));
        (fnd, tcp, run)
    });
    let mut callers = started.each_ref().map(|(_, tcp, _)| Caller::open(tcp, PATH));
    let mut actions: Vec<Box<dyn FnMut() + '_>> = Vec::new();
    for caller in &mut callers {
        actions.push(Box::new(|| caller.call()));
    }
    let times = in_turns(rounds, &mut actions);
    drop(actions);
    let loads = started
        .each_ref()
        .map(|(_, tcp, _)| load::run(rounds, || Caller::open(tcp, PATH), Caller::call));
    for ((functions, routes), times_of_it) in TABLES.iter().zip(&times) {
        let what = format!("fnd: python handler, {} routes", functions * routes);
        table.times(&what, times_of_it, &times[0]);
    }
    for ((functions, routes), load) in TABLES.iter().zip(&loads) {
        let what = format!("fnd: python handler, {} routes, 8 at once", functions * routes);
        table.load(&what, load, &loads[0]);
    }
    for (mut fnd, ..) in started {
        fnd.stop();
    }
}

/// Returns the path of a route: some are fixed, some have parameters, and many begin like the one that is called.
fn path(function: usize, route: usize) -> String {
    match route % 3 {
        0 => format!("/call/{function}/{route}/more"),
        1 => format!("/api/v{function}/{{id}}/item-{route}"),
        _ => format!("/f-{function}/r-{route}/{{*rest}}"),
    }
}
