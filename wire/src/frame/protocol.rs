//! The versions of the protocol: what an fnd or a spawner of another version has.

use super::*;

/// Oldest protocol that this build supports.
pub const PROTOCOL_MIN: u16 = 1;
/// Newest protocol that this build supports. Protocol 2 adds functions of mode `handler`, and the replies
/// [`Reply::SpawnedWithChannel`] and [`Reply::HeldWithChannel`] for their workers. Protocol 3 adds [`Request::Sweep`],
/// [`Reply::NodeCannotStart`], [`Request::Ping`], [`Reply::Sockets`] and longer adoption records. Protocol 4 adds
/// [`Request::Secret`] and the variables of requests. Protocol 5 adds [`Request::Watch`]. In protocol 6 the judge answers
/// with the sandbox of a function. Protocol 7 adds secrets of functions, and [`Reply::Masks`]. In protocol 8 the judge
/// says where the key of encrypted secrets is. Protocol 9 adds [`Request::Measure`]. Protocol 10 adds installing from a
/// stored version ([`STORED`]) and [`Request::Files`]. Protocol 11 adds dependencies: [`Reply::NeedsBuild`],
/// [`Request::Seal`] and [`Request::Fetch`]. In protocol 12 several builds run at once ([`Request::SealIn`]), a build is repeated
/// ([`Request::Rebuild`]), and code is checked ([`Request::Check`]). In protocol 13 a build of files that root does not trust runs as a
/// user of its own ([`builder_name`](crate::plan::builder_name)). Protocol 14 adds [`Request::Retire`]. Everything else is protocol 1.
pub const PROTOCOL_MAX: u16 = PROTOCOL_RETIRE;
/// First protocol in which functions of mode `handler` can be started.
pub const PROTOCOL_HANDLERS: u16 = 2;
/// First protocol that has [`Request::Sweep`].
pub const PROTOCOL_SWEEP: u16 = 3;
/// First protocol in which the spawner reports a start that failed because of the node with [`Reply::NodeCannotStart`].
pub const PROTOCOL_SHORTAGES: u16 = 3;
/// First protocol in which the spawner makes the directories of sockets and sends their path ([`Reply::Sockets`]).
pub const PROTOCOL_SOCKETS: u16 = 3;
/// First protocol in which fnd can serve requests from outside: the spawner opens secrets ([`Request::Secret`]), the
/// judge names them, and an attempt may have the variables of a request ([`Spawn::environment`]).
pub const PROTOCOL_REQUESTS: u16 = 4;
/// First protocol that has [`Request::Watch`].
pub const PROTOCOL_WATCHERS: u16 = 5;
/// First protocol in which the judge says the sandbox of a function.
pub const PROTOCOL_SANDBOX: u16 = 6;
/// First protocol in which functions have secrets, and the spawner reports their fingerprints ([`Reply::Masks`]).
pub const PROTOCOL_SECRETS: u16 = 7;
/// First protocol in which the judge says where the key of encrypted secrets is.
pub const PROTOCOL_AGE: u16 = 8;
/// First protocol that has [`Request::Measure`].
pub const PROTOCOL_QUOTAS: u16 = 9;
/// First protocol in which a stored version can be installed again ([`STORED`]), and that has [`Request::Files`].
pub const PROTOCOL_RELEASES: u16 = 10;
/// First protocol in which functions have dependencies that are built ([`Reply::NeedsBuild`]).
pub const PROTOCOL_BUILDS: u16 = 11;
/// First protocol that has [`Request::Check`].
pub const PROTOCOL_CHECKS: u16 = 12;
/// First protocol in which several builds run at once: each in a function of its own
/// ([`is_builder`](crate::plan::is_builder)), which gets a version of [`BUILD`](crate::plan::BUILD) by installing it as
/// [`STORED`].
pub const PROTOCOL_LANES: u16 = 12;
/// First protocol in which [`Reply::NeedsBuild`] may name another function than [`BUILD`](crate::plan::BUILD): each trust has
/// its own.
pub const PROTOCOL_TRUSTS: u16 = 13;
/// First protocol that has [`Request::Retire`].
pub const PROTOCOL_RETIRE: u16 = 14;
/// Largest adoption record in older protocols.
const RECORD_MAX_BEFORE_3: usize = 64 * 1024;

/// Returns the largest size of an adoption record in bytes.
#[must_use]
pub fn adoption_record_max(protocol: u16) -> usize {
    if protocol >= PROTOCOL_SHORTAGES {
        RECORD_MAX
    } else {
        RECORD_MAX_BEFORE_3
    }
}
