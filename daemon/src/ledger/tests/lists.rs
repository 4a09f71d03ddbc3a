//! Lists of a large history.

use super::*;
use crate::ledger::reader::list::{CHECK_MAX, statement};
use crate::ledger::sweeper::forget::{Scope, sql};
use fnd_manifest::settings::Role;
use rusqlite::params_from_iter;

#[test]
fn filters_fit_and_pages_do_not_shift_while_new_ones_come() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for second in 1..=20 {
        let reason = if second % 5 == 0 { Reason::Exit(3) } else { Reason::Ok };
        over(&ledger, second, "f", reason);
    }
    let failed = filtered(|filter| filter.state = Some(RunState::Failed));
    assert_eq!(ledger.ids(failed.clone()), [20_000, 15_000, 10_000, 5_000]);
    let version = |hex: &str| {
        let filter = filtered(|filter| filter.version = Some(hex.to_owned()));
        ledger.ids(filter).len()
    };
    assert_eq!((version("0707"), version("08")), (20, 0));
    let text = |text: &str| {
        ledger
            .ids(InvocationFilter {
                text: Some(text.to_owned()),
                ..failed.clone()
            })
            .len()
    };
    assert_eq!((text("In Words"), text("%"), text("no")), (4, 0, 0));

    let mut seen = Vec::new();
    let mut after = None;
    for round in 0.. {
        let page = ledger.list(filtered(|filter| (filter.limit, filter.after) = (Some(6), after)));
        seen.extend(page.records.iter().map(|record| record.id.0 >> 80));
        over(&ledger, 100 + round, "f", Reason::Ok);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let expected: Vec<u128> = (1..=20).rev().map(|second| second * 1000).collect();
    assert_eq!(seen, expected);
}

/// Fills the history of `f` directly: as many as these, each second one.
pub(super) fn fill(db: &rusqlite::Connection, count: u64) {
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
        INSERT INTO invocation (id, function, trigger, state, durable, accepted_ms, started_ms, ended_ms, attempts, polls,
            reason, message, version, priority)
        SELECT unhex(printf('%012x00000000000000000000', i * 1000)), printf('f%d', i % 100), 'manual',
            iif(i % 1000 = 0, 'failed', 'succeeded'), i % 2, i * 1000, i * 1000 + 1, i * 1000 + 9, 1, 0,
            iif(i % 1000 = 0, 'exit-1', 'ok'), iif(i % 1000 = 0, 'no such host', ''), randomblob(32), 0 FROM n";
    db.execute(sql, [count]).unwrap();
    let sql = "INSERT INTO attempt (invocation, n, poll, started_ms, ended_ms, duration_us, reason, message, cpu_us,
            peak_of_largest, throttled_us, stdout_bytes, stderr_bytes, dropped_bytes)
        SELECT id, 1, 0, started_ms, ended_ms, 8000, reason, message, 5000, 0, 0, 10, 0, 0 FROM invocation";
    db.execute(sql, []).unwrap();
    let sql = "INSERT OR IGNORE INTO function (name) SELECT printf('f%d', value) FROM
        (WITH RECURSIVE n(value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM n WHERE value < 99) SELECT value FROM n)";
    db.execute(sql, []).unwrap();
}

#[test]
fn a_page_checks_so_many_and_the_next_goes_on_from_there() {
    let state = directory();
    let db = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
    let checked = CHECK_MAX as u64;
    fill(&db, checked * 2 + 10);
    let only_first = filtered(|filter| filter.until_ms = Some(1001));
    let mut pages = Vec::new();
    let mut after = None;
    loop {
        let page = crate::ledger::reader::list::list(
            &db,
            &InvocationFilter {
                after,
                ..only_first.clone()
            },
        )
        .unwrap();
        pages.push(page.records.len());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, [0, 0, 1]);
}

#[test]
fn no_question_steps_over_the_whole_history_or_sorts_it() {
    let state = directory();
    let db = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
    let plan = |sql: &str, values: Vec<rusqlite::types::Value>| {
        let mut explained = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let rows = explained.query_map(params_from_iter(values), |row| row.get::<_, String>(3));
        rows.unwrap().map(Result::unwrap).collect::<Vec<_>>().join("; ")
    };
    let function = || Some(name("f"));
    for (filter, index) in [
        (unfiltered(), "PRIMARY KEY"),
        (filtered(|filter| filter.since_ms = Some(1)), "PRIMARY KEY"),
        (filtered(|filter| filter.text = Some("x".to_owned())), "PRIMARY KEY"),
        (filtered(|filter| filter.function = function()), "by_function"),
        (
            filtered(|filter| filter.state = Some(RunState::Failed)),
            "INDEX failed ",
        ),
        (
            filtered(|filter| (filter.state, filter.function) = (Some(RunState::Interrupted), function())),
            "failed_of",
        ),
        (filtered(|filter| filter.state = Some(RunState::Running)), "unfinished"),
        (
            filtered(|filter| (filter.dead, filter.function) = (true, function())),
            "INDEX dead ",
        ),
    ] {
        let statement = statement(&filter);
        let plan = plan(&statement.sql, statement.values);
        assert!(plan.starts_with("SEARCH") && plan.contains(index), "{filter:?}: {plan}");
        assert!(
            !plan.contains("SCAN") && !plan.contains("TEMP B-TREE"),
            "{filter:?}: {plan}"
        );
    }
    for scope in [Scope::All, Scope::Of(name("f"))] {
        let nothing = vec![rusqlite::types::Value::Null; 2 + usize::from(scope != Scope::All)];
        let plan = plan(&sql(&scope), nothing);
        assert!(
            !plan.contains("SCAN") && !plan.contains("TEMP B-TREE"),
            "{scope:?}: {plan}"
        );
    }
}

#[test]
fn a_list_adds_up_what_attempts_used() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    // The worker of this one served others too.
    over(&ledger, 1, "f", Reason::Ok);
    let accepted = accepted(2, "f");
    ledger.store(accepted.clone()).unwrap();
    for (number, cpu_us, peak) in [(1, 30, 5), (2, 12, 9), (3, 1, 7)] {
        let (mut attempt, record) = ended(&accepted, Reason::Ok, None);
        attempt.attempt = Attempt(number);
        attempt.usage.scope_worker = false;
        attempt.usage.cpu_us = cpu_us;
        attempt.usage.memory_peak_bytes = Some(peak);
        ledger.submit(LedgerCommand::Record(Box::new(attempt), Box::new(record)));
    }
    let list = |usage| {
        let filter = InvocationFilter { usage, ..unfiltered() };
        let page = ledger.list(filter);
        let sums = page.usage.iter();
        sums.map(|sum| (sum.cpu_us, sum.memory_peak_bytes)).collect::<Vec<_>>()
    };
    assert_eq!(list(true), [(Some(43), Some(9)), (None, None)]);
    assert_eq!(list(false), []);
}

/// A page is whole although most invocations are of functions that the caller may not view; the work for it stays bounded.
#[test]
fn a_page_of_a_limited_caller_counts_only_what_it_may_view() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for second in 1..=30 {
        over(&ledger, second, if second % 3 == 0 { "web/a" } else { "f" }, Reason::Ok);
    }
    let web = [(Role::Viewer, Some(&["web/*".to_owned()][..]))];
    let limited = InvocationFilter {
        reach: Permissions::of(web),
        ..InvocationFilter::default()
    };
    let page = ledger.list(InvocationFilter {
        limit: Some(4),
        ..limited.clone()
    });
    let ids = |page: &RecordPage| page.records.iter().map(|record| record.id.0 >> 80).collect::<Vec<_>>();
    assert_eq!(ids(&page), [30_000, 27_000, 24_000, 21_000]);
    let rest = ledger.list(InvocationFilter {
        after: page.next,
        ..limited.clone()
    });
    assert_eq!((ids(&rest).len(), rest.next), (6, None));
    let of_another = InvocationFilter {
        function: FunctionName::new("f").ok(),
        ..limited
    };
    assert_eq!(ledger.ids(of_another), [0; 0]);
    assert_eq!(
        ledger.ids(InvocationFilter::default()),
        [0; 0],
        "no role is the default"
    );
    let function_of = |id| wait(ledger.opened.reader.function_of(id)).unwrap();
    let known = page.records.first().map(|record| record.id).unwrap();
    assert_eq!(function_of(known), FunctionName::new("web/a").ok());
    assert_eq!(function_of(InvocationId(7)), None);
}
