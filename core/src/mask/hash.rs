//! Arithmetic of the hashes, faster than one division for each byte. The results are those of [`fnd_wire::mask`].
//!
//! The hash of a window is computed from those of the two beginnings of the line that end where the window begins and
//! ends. So one multiplication for each byte and length is enough, and no step waits for the one before.
//!
//! One factor of each product is multiplied by 8 beforehand. Then the upper half of the product of 128 bits is what exceeds
//! 61 bits, and 2^61 is 1 here. Sums stay below 4 times the modulus; only a window that may be a value is reduced fully.

/// The prime modulus of the hashes, 2^61 - 1: a remainder needs no division.
const MODULUS: u64 = (1 << 61) - 1;
/// Bits of the filter of a window: with 16 fingerprints of one length, one of 64 other windows is looked up in vain.
const FILTER_BITS: u64 = 4096;

/// A factor, times 8.
#[derive(Debug, Clone, Copy, Default)]
struct Factor(u64);

impl Factor {
    fn of(number: u64) -> Self {
        Self((number % MODULUS) << 3)
    }

    /// Returns a number below 2^63 that is congruent to the product with `other`, plus `summand`. Both are below
    /// 2^61 + 4.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are taken apart")]
    fn times(self, other: u64, summand: u64) -> u64 {
        let product = u128::from(self.0) * u128::from(other);
        ((product as u64) >> 3) + (product >> 64) as u64 + summand
    }
}

/// Returns a congruent number below 2^61 + 4.
#[inline]
fn fold(number: u64) -> u64 {
    (number & MODULUS) + (number >> 61)
}

/// Returns a power, in as many steps as the exponent has bits.
fn power(base: u64, exponent: usize) -> u64 {
    let (mut square, mut rest, mut power) = (base % MODULUS, exponent, 1);
    while rest > 0 {
        let factor = Factor::of(square);
        if rest % 2 == 1 {
            power = fold(factor.times(power, 0));
        }
        square = fold(factor.times(square, 0));
        rest /= 2;
    }
    power % MODULUS
}

/// The first powers of a point.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Powers([Factor; 4]);

impl Powers {
    pub(super) fn of(point: u64) -> Self {
        Self([1, 2, 3, 4].map(|exponent| Factor::of(power(point, exponent))))
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
            let ab = fold(one.times(a, b));
            let abc = fold(one.times(ab, c));
            let abcd = fold(one.times(abc, d));
            let next = [(one, a), (two, ab), (three, abc), (four, abcd)];
            let next = next.map(|(power, within)| fold(power.times(last, within)));
            last = next[3];
            hashes.extend_from_slice(&next);
        }
        for byte in rest {
            last = fold(one.times(last, digit(*byte)));
            hashes.push(last);
        }
    }
}

/// The fingerprints of one length.
#[derive(Debug, Clone)]
pub(super) struct Window {
    pub(super) length: usize,
    /// The negative of the point to the power of the length.
    weight: Factor,
    pub(super) powers: Powers,
    /// One bit for the end of each number that is congruent to a hash.
    filter: Box<[u64; 64]>,
    /// The hashes of this length, in ascending order.
    hashes: Vec<u64>,
}

impl Window {
    pub(super) fn new(point: u64, length: usize, mut hashes: Vec<u64>) -> Self {
        hashes.sort_unstable();
        let mut filter = Box::new([0; 64]);
        for hash in &hashes {
            for multiple in 0..4 {
                // Two to the power of 61 has no bit within the filter.
                let end = hash.wrapping_sub(multiple);
                filter[word(end)] |= 1 << (end % 64);
            }
        }
        Self {
            length,
            weight: Factor::of(MODULUS - power(point, length)),
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
            let hash = self.weight.times(*begin, *end);
            let is_likely = self.filter[word(hash)] >> (hash % 64) & 1 == 1;
            if is_likely && self.hashes.binary_search(&(hash % MODULUS)).is_ok() {
                found(first + offset);
            }
        }
    }
}

/// Returns the word of a filter in which a number has its bit.
#[inline]
fn word(number: u64) -> usize {
    (number % FILTER_BITS / 64) as usize
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
            let reduced: Vec<u64> = hashes.iter().map(|hash| hash % MODULUS).collect();
            prop_assert_eq!(&reduced, &plain);
            for exponent in 0..40 {
                prop_assert_eq!(power(point, exponent), fnd_wire::mask::power(point, exponent));
            }
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
    fn a_product_at_the_limit_does_not_overflow() {
        let most = MODULUS - 1;
        // (-1) * (-1) - 1
        assert_eq!(Factor::of(most).times(most, most) % MODULUS, 0);
        let (other, summand) = ((1 << 61) + 3, (1 << 61) + 3);
        let sum = Factor::of(most).times(other, summand);
        assert_eq!(sum % MODULUS, 0);
        assert!(sum < 1 << 63 && fold(u64::MAX >> 1) < (1 << 61) + 4);
    }
}
