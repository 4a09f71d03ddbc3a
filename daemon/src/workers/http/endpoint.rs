//! The endpoint of a worker that serves HTTP.

use super::address::Address;
use super::key::WorkerKey;
use serde::{Deserialize, Serialize};

/// The worker's address, and the key that requests to it carry. Both are absent for a worker that serves no HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Absent until the worker has named it, where the worker chooses it.
    #[serde(default)]
    pub address: Option<Address>,
    /// Absent for a service: it gets no requests but readiness probes.
    #[serde(default)]
    pub key: Option<WorkerKey>,
}
