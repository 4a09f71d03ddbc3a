//! The starts of functions: each trigger's decisions, pure. A trigger makes one submission; what follows is the same for
//! every trigger. The daemon's side brings facts and submits.
//!
//! Files:
//! - `alerts`: when a function turns bad, and when it is well again
//! - `cgi`: a request as the variables of CGI/1.1, and the answer of a CGI script
//! - `credentials`: whether a caller proves that it knows a secret
//! - `event`: what a CloudEvent is, and which functions it starts
//! - `file`: which changes of watched directories run a function
//! - `hooks`: which functions are called after an invocation
//! - `lambda`: requests and slots as events of AWS Lambda, and the answers of its functions
//! - `nats`: which messages of a stream this node begins, keeps, gives back or takes over
//! - `replay_file`: the bytes of the file that remembers admitted requests
//! - `replays`: which signed requests were admitted
//! - `schedule`: which slots of schedules are due
//! - `route`: which route of the public listener a request is for, and whether it runs anything

pub mod alerts;
pub mod cgi;
pub mod credentials;
pub mod event;
pub mod file;
pub mod hooks;
pub mod lambda;
pub mod nats;
pub mod replay_file;
pub mod replays;
pub mod route;
pub mod schedule;
