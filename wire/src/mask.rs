//! Fingerprints of secret values: they let fnd find the values in output without knowing them.
//!
//! A value is seen as lines; each line of at least [`LENGTH_MIN`] bytes, without the white space around it, has a
//! fingerprint of its own. So no fingerprint spans a line break, and a value that is printed line by line is found. A
//! fingerprint is a length and a hash: the polynomial hash (Karp and Rabin) modulo 2^61 - 1 at a secret random point, which
//! can be rolled over a text. Two different texts of this length have the same hash with a probability below
//! length / 2^61.

use crate::form::wire_structs;
use std::collections::BTreeSet;

/// Shortest line in bytes that has a fingerprint: a shorter one would be found in too many other texts.
pub const LENGTH_MIN: usize = 6;
/// Most fingerprints of one function.
pub const FINGERPRINTS_MAX: usize = 1024;
/// Most different lengths of them: looking for a length costs time for each byte of output.
pub const LENGTHS_MAX: usize = 64;
/// The prime modulus of the hash, 2^61 - 1.
const MODULUS: u64 = (1 << 61) - 1;

wire_structs! {
    /// One line of a secret value.
    #[derive(PartialOrd, Ord, Hash)]
    pub struct Fingerprint {
        /// Its length in bytes.
        pub length: u32,
        /// Its hash, below 2^61 - 1.
        pub hash: u64,
    }

    /// The fingerprints of all secret values of a function.
    #[derive(Default)]
    pub struct Masks {
        /// The point at which the hashes were taken, below 2^61 - 1.
        pub point: u64,
        /// The fingerprints, sorted, each once.
        pub fingerprints: Vec<Fingerprint>,
    }
}

impl Masks {
    /// Returns the fingerprints of these values at a random number.
    ///
    /// # Errors
    /// The values have more than [`FINGERPRINTS_MAX`] lines or [`LENGTHS_MAX`] different lengths.
    pub fn of<'a>(random: u64, values: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, &'static str> {
        let point = random % MODULUS;
        let lines = values.into_iter().flat_map(|value| value.split(|byte| *byte == b'\n'));
        let long = lines.map(<[u8]>::trim_ascii).filter(|line| line.len() >= LENGTH_MIN);
        let found: BTreeSet<_> = long
            .filter_map(|line| {
                let length = u32::try_from(line.len()).ok()?;
                Some(Fingerprint {
                    length,
                    hash: hash(point, line),
                })
            })
            .collect();
        if found.len() > FINGERPRINTS_MAX {
            return Err("they have more than 1,024 lines, too many to be masked in output");
        }
        let masks = Self {
            point,
            fingerprints: found.into_iter().collect(),
        };
        match masks.lengths().len() > LENGTHS_MAX {
            true => Err("their lines have more than 64 different lengths, too many to be masked in output"),
            false => Ok(masks),
        }
    }

    /// Returns the lengths of the fingerprints in bytes, each once, in ascending order.
    #[must_use]
    pub fn lengths(&self) -> Vec<usize> {
        let mut lengths: Vec<usize> = self.fingerprints.iter().map(|one| one.length as usize).collect();
        lengths.sort_unstable();
        lengths.dedup();
        lengths
    }
}

/// Returns the hash of a text: the sum of `(byte + 1) * point^(bytes that follow)`, modulo 2^61 - 1.
#[must_use]
pub fn hash(point: u64, text: &[u8]) -> u64 {
    text.iter().fold(0, |hash, byte| push(point, hash, *byte))
}

/// Returns the hash of a text with one byte more.
#[must_use]
pub fn push(point: u64, hash: u64, byte: u8) -> u64 {
    // With 1 added to each byte, NUL bytes at the beginning of a text change its hash, too.
    (multiply(hash, point) + u64::from(byte) + 1) % MODULUS
}

/// Returns the hash of a text without its first byte. `weight` is [`power`] of the number of bytes that remain.
#[must_use]
pub fn shift(weight: u64, hash: u64, first: u8) -> u64 {
    // The modulus is added first, so that the difference is never negative.
    (hash + MODULUS - multiply(u64::from(first) + 1, weight)) % MODULUS
}

/// Returns `point^exponent`, modulo 2^61 - 1.
#[must_use]
pub fn power(point: u64, exponent: usize) -> u64 {
    (0..exponent).fold(1, |power, _| multiply(power, point))
}

/// Returns a product modulo 2^61 - 1; both factors are below it.
fn multiply(one: u64, other: u64) -> u64 {
    // Two factors below 2^61 have a product below 2^122.
    let product = u128::from(one) * u128::from(other);
    u64::try_from(product % u128::from(MODULUS)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::Wire as _;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const RANDOM: u64 = 0x9e37_79b9_7f4a_7c15;

    #[test]
    fn lines_that_are_long_enough_have_fingerprints() {
        let masks = Masks::of(
            99 << 40,
            [&b"  first line \r\nshort\n\nfirst line"[..], b"123456", b"12345"],
        )
        .unwrap();
        assert_eq!(masks.lengths(), [6, 10]);
        assert_eq!(masks.fingerprints[1].hash, hash(masks.point, b"first line"));
        assert_eq!(Masks::from_wire(&masks.to_wire()).unwrap(), masks);
    }

    #[test]
    fn too_many_lines_or_lengths_are_refused() {
        let lines: Vec<u8> = (0..=FINGERPRINTS_MAX)
            .flat_map(|n| format!("line{n:08}\n").into_bytes())
            .collect();
        assert!(Masks::of(RANDOM, [&lines[..]]).unwrap_err().contains("1,024"));
        let lengths: Vec<u8> = (6..=6 + LENGTHS_MAX)
            .flat_map(|n| [&b"x".repeat(n)[..], b"\n"].concat())
            .collect();
        assert!(Masks::of(RANDOM, [&lengths[..]]).unwrap_err().contains("64"));
    }

    proptest! {
        #[test]
        fn a_hash_is_rolled_over_a_text(point in 1 << 32..MODULUS, text in vec(any::<u8>(), 1..64), length in 1_usize..64) {
            let length = length.min(text.len());
            let weight = power(point, length - 1);
            let mut rolled = hash(point, &text[..length]);
            for start in 1..=text.len() - length {
                rolled = push(point, shift(weight, rolled, text[start - 1]), text[start + length - 1]);
                prop_assert_eq!(rolled, hash(point, &text[start..start + length]));
            }
        }
    }
}
