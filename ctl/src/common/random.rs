//! Names that nobody else has.

use crate::exit::CommandFailure;
use rustix::rand::{GetRandomFlags, getrandom};

/// Returns 128 random bits as hexadecimal digits.
///
/// # Errors
/// The kernel gives none.
pub(crate) fn hex() -> Result<String, CommandFailure> {
    let mut bytes = [0; 16];
    // A request of at most 256 bytes is answered whole (getrandom(2)).
    getrandom(&mut bytes[..], GetRandomFlags::empty())
        .map_err(|errno| CommandFailure::failed(format!("failed to get random bytes: {errno}")))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_names_differ() {
        assert_ne!(super::hex().unwrap(), super::hex().unwrap());
    }
}
