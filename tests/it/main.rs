//! End-to-end tests: real `fnd`, `fnd-spawner` and `fndctl`, one module per feature.
//!
//! Each test has an fnd of its own in a private root, and at its end checks that no process and no cgroup of it
//! remains.
#![expect(clippy::unwrap_used, reason = "a test's unwrap is an expectation")]

mod api;
mod asynchronous;
mod away;
mod badinput;
mod buffers;
mod corpus;
mod crash;
mod ctl;
mod disk_faults;
mod doctor;
mod documents;
mod drop;
mod events;
mod examples;
mod handlers;
mod http_mode;
mod kill;
mod last_good;
mod ledger;
mod limits;
mod memory;
mod metrics;
mod output;
mod pages;
mod reload;
mod retry;
mod running;
mod service_mode;
mod shortage;
mod status_file;
mod storm;
mod takeover;
mod takeover_stale;
mod takeover_warm;
mod traces;
mod units;
mod users;
mod verify;
mod versions;
mod watch;
