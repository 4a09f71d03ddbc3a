//! The number of this node, which no other one has.

use sha2::{Digest as _, Sha256};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The file in fnd's own state directory with the number of this node. A backup does not have it, so that a history that is
/// restored on another machine is another node.
const INSTANCE: &str = "nats-instance";

/// Returns the number of this node: that of its state directory, which is made at the first time, and that of the machine. Two
/// machines whose disks are copies of each other differ in one of the two.
pub(crate) fn instance(state: &Path) -> io::Result<u64> {
    let path = state.join(INSTANCE);
    let own = match fs::read(&path) {
        Ok(known) if !known.is_empty() => known,
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(_) | Err(_) => new_instance(&path)?,
    };
    // Where a system has none, the first number alone decides. A simulation is the same on every machine.
    let machine = match cfg!(feature = "simulate") {
        true => Vec::new(),
        false => fs::read("/etc/machine-id").unwrap_or_default(),
    };
    let digest = Sha256::new()
        .chain_update(own)
        .chain_update([0_u8])
        .chain_update(machine)
        .finalize();
    let first: [u8; 8] = digest[..8].try_into().unwrap_or_default();
    Ok(u64::from_be_bytes(first))
}

fn new_instance(path: &Path) -> io::Result<Vec<u8>> {
    let number = format!("{:032x}\n", fastrand::u128(..)).into_bytes();
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(&number)?;
    file.sync_all()?;
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_node_stays() {
        let state = tempfile::tempdir().unwrap();
        let first = instance(state.path()).unwrap();
        assert_eq!(instance(state.path()).unwrap(), first);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(instance(other.path()).unwrap(), first);
    }
}
