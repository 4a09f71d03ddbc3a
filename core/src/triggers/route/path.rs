//! The normal form of paths (RFC 3986, section 6.2.2): two ways to write one path give the same text.

use std::fmt::Write as _;

/// Why a path is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WrongPath {
    /// It does not begin with `/`.
    #[error("the path does not begin with `/`")]
    NoSlash,
    /// A `%` is not followed by two hexadecimal digits.
    #[error("the path has a `%` that is not followed by two hexadecimal digits")]
    Percent,
    /// A segment is `.` or `..`: programs disagree about its meaning.
    #[error("the path has a segment `.` or `..`")]
    Dots,
    /// It contains a NUL, or bytes that are not UTF-8.
    #[error("the path contains a NUL, or it is not UTF-8")]
    Text,
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Returns the normal form: `%` and two digits only where a byte needs them, with upper-case digits.
///
/// # Errors
/// Any [`WrongPath`].
pub fn normal(path: &str) -> Result<String, WrongPath> {
    if !path.starts_with('/') {
        return Err(WrongPath::NoSlash);
    }
    let mut normal = String::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
                let (high, low) = (digit().ok_or(WrongPath::Percent)?, digit().ok_or(WrongPath::Percent)?);
                let byte = u8::try_from(high * 16 + low).unwrap_or_default();
                if !is_unreserved(byte) {
                    let _ = write!(normal, "%{byte:02X}"); // writing to a text cannot fail
                    continue;
                }
                byte
            }
            byte => byte,
        };
        push(&mut normal, byte);
    }
    // The segments are compared in the normal form, so that `%2e%2e` counts as `..`.
    if normal.split('/').any(|segment| segment == "." || segment == "..") {
        return Err(WrongPath::Dots);
    }
    let decoded = percent_encoding::percent_decode_str(&normal).decode_utf8();
    match decoded {
        Ok(text) if !text.contains('\0') => Ok(normal),
        _ => Err(WrongPath::Text),
    }
}

/// Returns a segment of a route's path in normal form.
#[must_use]
pub fn encode(segment: &str) -> String {
    let mut normal = String::with_capacity(segment.len());
    segment.bytes().for_each(|byte| push(&mut normal, byte));
    normal
}

/// Appends a byte that is not part of an escape.
fn push(normal: &mut String, byte: u8) {
    // pchar and `/` (RFC 3986, section 3.3).
    if is_unreserved(byte) || b"!$&'()*+,;=:@/".contains(&byte) {
        normal.push(char::from(byte));
    } else {
        let _ = write!(normal, "%{byte:02X}"); // writing to a text cannot fail
    }
}

/// Returns the text that a part of a path in normal form stands for.
#[must_use]
pub fn decode(part: &str) -> String {
    percent_encoding::percent_decode_str(part)
        .decode_utf8_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_path_has_one_form() {
        for (path, expected) in [
            ("/", "/"),
            ("/hello", "/hello"),
            ("/%68ello", "/hello"),
            ("/a%2fb", "/a%2Fb"),
            ("/a%3ab", "/a%3Ab"),
            ("/a:b", "/a:b"),
            ("/%7euser", "/~user"),
            ("/\u{e4}", "/%C3%A4"),
            ("/%c3%a4", "/%C3%A4"),
            ("/a\"b", "/a%22b"),
            ("//a", "//a"),
        ] {
            assert_eq!(normal(path).as_deref(), Ok(expected), "{path}");
        }
        for (path, wrong) in [
            ("", WrongPath::NoSlash),
            ("*", WrongPath::NoSlash),
            ("/%", WrongPath::Percent),
            ("/%4", WrongPath::Percent),
            ("/%4g", WrongPath::Percent),
            ("/../a", WrongPath::Dots),
            ("/a/%2e%2E/b", WrongPath::Dots),
            ("/a/.", WrongPath::Dots),
            ("/%00", WrongPath::Text),
            ("/%ff", WrongPath::Text),
        ] {
            assert_eq!(normal(path), Err(wrong), "{path}");
        }
    }

    proptest! {
        #[test]
        fn the_form_is_stable_and_means_the_same(path in "/[ -~äß€]{0,40}") {
            if let Ok(first) = normal(&path) {
                prop_assert_eq!(normal(&first), Ok(first.clone()));
                prop_assert!(first.is_ascii());
                let meant = percent_encoding::percent_decode_str(&path).decode_utf8_lossy().into_owned();
                prop_assert_eq!(decode(&first), meant);
            }
        }
    }
}
