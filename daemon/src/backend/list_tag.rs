//! The weak tag of a list of functions. It says whether the answer that a caller has is the present one, so that fnd need not make an
//! unchanged list again.
//!
//! The tag changes with everything that the list shows, except two kinds of values: the time at which a status was made, and values
//! that are measured (memory, ports, free space). No event says that these change. So a tag also ends after [`PERIOD`], and is weak
//! (RFC 9110, section 8.8.1): these values of an answer with the same tag may be older by that time.

use super::Backend;
use fnd_core::access::Permissions;
use fnd_core::api::{DiskUse, NodeStatus};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

/// Longest time for which a tag stays. A client that asks every second is spared nine of ten lists, and the memory that it shows is not
/// so old that a person is misled.
const PERIOD: Duration = Duration::from_secs(10);

impl Backend {
    /// Returns the tag that a list has now, without quotes. To be called before the list is made: a change meanwhile makes the next tag
    /// another one. `query` is that of the request; `node` is there if the list is a part of the node's status.
    pub(crate) fn list_tag(&self, query: &str, reach: &Permissions, node: Option<&NodeStatus>) -> String {
        let state = self.daemon.state.borrow();
        let period = state.clock.now().mono.as_secs() / PERIOD.as_secs();
        let mut hasher = DefaultHasher::new();
        // The changes are counted anew by each fnd.
        (state.node.started_ms, state.changes, period, query, reach).hash(&mut hasher);
        state.records.ledger.hash_dead_letters(&mut hasher);
        node.map(without_measured).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }
}

/// Returns the status of the node without the values that are measured. Parts with threads of their own change its other values
/// without an event, so these are compared.
fn without_measured(node: &NodeStatus) -> String {
    let disk = node.disk.clone().map(|disk| DiskUse {
        free_bytes: None,
        free_inodes: None,
        ..disk
    });
    let node = NodeStatus {
        memory_bytes: 0,
        disk,
        ..node.clone()
    };
    serde_json::to_string(&node).unwrap_or_default() // an error: the answer itself will say so
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::tests::small::world;
    use fnd_core::report::ReportEvent;
    use fnd_manifest::settings::Role;
    use fnd_wire::ids::FunctionName;

    #[test]
    fn a_tag_changes_with_what_a_list_shows() {
        let world = world(None);
        let (backend, daemon) = (world.backend(), world.daemon());
        let admin = Permissions::own();
        let tag = |query: &str, reach: &Permissions| backend.list_tag(query, reach, None);
        // A period may end between the two.
        assert!((0..3).any(|_| tag("", &admin) == tag("", &admin)));
        assert_ne!(tag("", &admin), tag("limit=1", &admin));
        assert_ne!(tag("", &admin), tag("", &Permissions::everywhere(Role::Viewer)));
        let before = tag("", &admin);
        let hello = FunctionName::new("hello").unwrap();
        daemon.state.borrow_mut().report(ReportEvent::StatusChanged(&hello));
        assert_ne!(tag("", &admin), before);
    }

    #[test]
    fn a_tag_of_the_node_changes_with_all_but_what_is_measured() {
        let world = world(None);
        let (backend, daemon) = (world.backend(), world.daemon());
        let node = daemon.state.borrow().node_status();
        let tag = |node: &NodeStatus| backend.list_tag("", &Permissions::own(), Some(node));
        let mut measured = node.clone();
        measured.memory_bytes += 1;
        assert!((0..3).any(|_| tag(&node) == tag(&measured)));
        let mut other = node.clone();
        other.problems.push("the disk is full".to_owned());
        assert_ne!(tag(&node), tag(&other));
    }
}
