//! The small stores beside the history: what must survive fnd, and may be full, slow or damaged without holding up the history.
//!
//! Files:
//! - `audit`: who did what on the control socket
//! - `kv`: the versioned values that functions share
//! - `replays`: remembers admitted signed requests over a restart

pub(crate) mod audit;
pub(crate) mod kv;
pub(crate) mod replays;
