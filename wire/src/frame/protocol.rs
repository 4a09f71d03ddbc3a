//! The versions of the protocol: what an fnd or a spawner of another version has.

use super::*;

/// The protocol of fnd 0.1.
pub const PROTOCOL_0_1: u16 = 3;
/// Oldest protocol that this build supports. After an upgrade the spawner or fnd may still be that of fnd 0.1.
pub const PROTOCOL_MIN: u16 = PROTOCOL_0_1;
/// Newest protocol that this build supports. Protocol 4 adds everything that [`Request`] and [`Reply`] mark so; all else is
/// protocol 3.
pub const PROTOCOL_MAX: u16 = 4;

impl Welcome {
    /// Returns whether the spawner is that of fnd 0.1, which has nothing of protocol 4.
    #[must_use]
    pub fn is_of_0_1(&self) -> bool {
        self.protocol <= PROTOCOL_0_1
    }
}
