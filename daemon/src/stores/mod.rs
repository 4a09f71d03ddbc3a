//! The small stores beside the history: what must survive fnd, and may be full, slow or damaged without holding up the history.
//!
//! Files:
//! - `audit`: who did what on the control socket
//! - `database`: a database that is open for writing
//! - `kv`: the versioned values that functions share
//! - `replays`: remembers admitted signed requests over a restart
//! - `thread`: the thread of a store, and the queue in front of it

pub(crate) mod audit;
pub(crate) mod database;
pub(crate) mod kv;
pub(crate) mod replays;
mod thread;
