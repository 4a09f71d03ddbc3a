//! The small stores beside the history. Their data survives fnd, and a store that is full, slow or damaged does not hold up the
//! history.
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
