//! Hexadecimal digits, base64 and seconds in headers. None of them is secret, so they may be read in any time.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Standard base64; the padding may be absent, as some senders leave it out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns the bytes that 64 hexadecimal digits stand for.
pub(super) fn hex(text: &[u8]) -> Option<[u8; 32]> {
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16)?).ok();
    let (pairs, rest) = text.as_chunks::<2>();
    let mut bytes = [0; 32];
    if pairs.len() != bytes.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// Returns the bytes that base64 stands for.
pub(super) fn base64(text: &[u8]) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

/// Returns a Unix time in seconds, of at most 12 digits.
pub(super) fn seconds(text: &[u8]) -> Option<u64> {
    let digits = (1..=12).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    digits.then(|| text.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_text_counts() {
        assert_eq!(hex(&[b'a'; 64]), Some([0xaa; 32]));
        assert_eq!(hex(&[b'F'; 64]), Some([0xff; 32]));
        for text in [&[b'a'; 63][..], &[b'a'; 65], &[b'g'; 64], &[0xff; 64], b""] {
            assert_eq!(hex(text), None);
        }
        assert_eq!(seconds(b"1700000000"), Some(1_700_000_000));
        assert_eq!(seconds(b"999999999999"), Some(999_999_999_999));
        for text in ["", "+1", "-1", " 1", "1 ", "1.0", "0x1", "1000000000000", "\u{661}"] {
            assert_eq!(seconds(text.as_bytes()), None, "{text}");
        }
        assert_eq!(base64(b"YQ==").as_deref(), Some(&b"a"[..]));
        assert_eq!(base64(b"YQ").as_deref(), Some(&b"a"[..]));
        for text in ["YQ===", "Y", "YR==", "Y Q==", "_w=="] {
            assert_eq!(base64(text.as_bytes()), None, "{text}");
        }
    }
}
