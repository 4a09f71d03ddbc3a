//! How a worker that serves HTTP is reached.

use super::address::Address;
use super::key::WorkerKey;
use serde::{Deserialize, Serialize};

/// Where it is, and the key that requests to it carry. Nothing of it of a worker that serves none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Absent until it has said so, where it chooses by itself.
    #[serde(default)]
    pub address: Option<Address>,
    /// Absent of a service: it gets no requests but the one whether it is ready.
    #[serde(default)]
    pub key: Option<WorkerKey>,
}
