//! Tests of the supervisor: a table of cases per rule on a bench, and random events in a small simulated world.

mod bench;
mod books;
mod claims;
mod clock_steps;
mod ends;
mod functions;
mod limits;
mod model;
mod pool;
mod queue;
mod restart;
mod retry;
mod service;
mod starts;
mod takeover;
mod world;
