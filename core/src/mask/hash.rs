//! Arithmetic of the hashes, faster than one division for each byte. The results are those of [`fnd_wire::mask`].
//!
//! The hash of a window is computed from those of the two beginnings of the line that end where the window begins and
//! ends. So one multiplication for each byte and length is enough, and no step waits for the one before.

use fnd_wire::mask::power;

/// The prime modulus of the hashes, 2^61 - 1: a remainder needs no division.
const MODULUS: u64 = (1 << 61) - 1;
/// Bits of a filter for each fingerprint: of so many other windows, one is looked up in vain.
const FILTER_BITS: usize = 64;

/// Returns `factor * other + summand` modulo 2^61 - 1; all three are below it.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "a product of two numbers of 61 bits has 122 bits, which are split into two times 61"
)]
pub(super) fn multiply_add(factor: u64, other: u64, summand: u64) -> u64 {
    let sum = u128::from(factor) * u128::from(other) + u128::from(summand);
    let folded = (sum as u64 & MODULUS) + (sum >> 61) as u64;
    if folded >= MODULUS { folded - MODULUS } else { folded }
}

/// The first powers of a point.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Powers([u64; 4]);

impl Powers {
    pub(super) fn of(point: u64) -> Self {
        Self([1, 2, 3, 4].map(|exponent| power(point % MODULUS, exponent)))
    }

    /// Appends the hashes of all longer beginnings of a line to those of the shorter ones.
    pub(super) fn extend(&self, hashes: &mut Vec<u64>, bytes: &[u8]) {
        let [one, two, three, four] = self.0;
        let mut last = hashes.last().copied().unwrap_or_default();
        let digit = |byte: u8| u64::from(byte) + 1;
        let (blocks, rest) = bytes.as_chunks::<4>();
        for block in blocks {
            // The hashes within the block do not wait for the one before it.
            let [a, b, c, d] = block.map(digit);
            let ab = multiply_add(a, one, b);
            let abc = multiply_add(ab, one, c);
            let abcd = multiply_add(abc, one, d);
            let next = [(one, a), (two, ab), (three, abc), (four, abcd)];
            let next = next.map(|(power, within)| multiply_add(last, power, within));
            last = next[3];
            hashes.extend_from_slice(&next);
        }
        for byte in rest {
            last = multiply_add(last, one, digit(*byte));
            hashes.push(last);
        }
    }
}

/// The fingerprints of one length.
#[derive(Debug, Clone)]
pub(super) struct Window {
    pub(super) length: usize,
    /// The negative of the point to the power of the length.
    weight: u64,
    pub(super) powers: Powers,
    /// One bit for the end of each hash.
    filter: Vec<u64>,
    /// In ascending order.
    hashes: Vec<u64>,
}

impl Window {
    pub(super) fn new(point: u64, length: usize, mut hashes: Vec<u64>) -> Self {
        hashes.sort_unstable();
        let words = (hashes.len() * FILTER_BITS).next_power_of_two() / 64;
        let mut filter = vec![0; words.max(1)];
        for hash in &hashes {
            let word = place(*hash, &filter);
            filter[word] |= 1 << (hash % 64);
        }
        Self {
            length,
            weight: (MODULUS - power(point % MODULUS, length)) % MODULUS,
            powers: Powers::of(point),
            filter,
            hashes,
        }
    }

    /// Calls `found` with the end of each window that ends beyond `from` and whose hash is a fingerprint. `hashes` are
    /// those of the beginnings of the line, in ascending order of their lengths.
    pub(super) fn find(&self, hashes: &[u64], from: usize, mut found: impl FnMut(usize)) {
        let first = self.length.max(from + 1);
        let ends = hashes.get(first..).unwrap_or_default();
        let begins = hashes.get(first - self.length..).unwrap_or_default();
        for (offset, (begin, end)) in begins.iter().zip(ends).enumerate() {
            let hash = multiply_add(*begin, self.weight, *end);
            let word = self.filter[place(hash, &self.filter)];
            if word >> (hash % 64) & 1 == 1 && self.hashes.binary_search(&hash).is_ok() {
                found(first + offset);
            }
        }
    }
}

/// Returns the word of a filter in which a hash has its bit.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "only the last bits count")]
fn place(hash: u64, filter: &[u64]) -> usize {
    // The number of words is a power of two.
    (hash >> 6) as usize & (filter.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::mask::{hash, push};
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hashes_are_those_of_the_spawner(point in 0..MODULUS, texts in vec(vec(any::<u8>(), 0..20), 1..5)) {
            let mut hashes = vec![0];
            let (mut all, mut plain) = (Vec::new(), vec![0]);
            for text in texts {
                Powers::of(point).extend(&mut hashes, &text);
                for byte in text {
                    plain.push(push(point, plain[plain.len() - 1], byte));
                    all.push(byte);
                }
            }
            prop_assert_eq!(&hashes, &plain);
            for length in 1..=all.len() {
                let of = |text: &[u8]| hash(point, text);
                let window = Window::new(point, length, vec![of(&all[..length]), of(&all[all.len() - length..])]);
                let mut ends = Vec::new();
                window.find(&hashes, 0, |end| ends.push(end));
                prop_assert!(ends.contains(&length) && ends.contains(&all.len()));
            }
        }
    }

    #[test]
    fn a_product_at_the_limit_is_reduced() {
        let most = MODULUS - 1;
        // (-1) * (-1) - 1
        assert_eq!(multiply_add(most, most, most), 0);
        assert_eq!(multiply_add(most, 1, 1), 0);
    }
}
