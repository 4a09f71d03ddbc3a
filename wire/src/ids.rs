//! Names and numbers that identify things; each kind has a type of its own.

use std::fmt;
use std::sync::Arc;

/// Longest part (group or name) of a function's name in bytes.
pub const PART_MAX: usize = 63;

/// A function's name: `NAME` or `GROUP/NAME`, each part `[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?`.
/// Clones share the text: many books of fnd have the name of each function.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionName(Arc<str>);

/// Why a text is not a function name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A part is empty or too long, has a character outside `[a-z0-9_-]`, or starts or ends with `_` or `-`.
    #[error(
        "`{0}` is not a function name: expected 1 to 63 of `a-z`, `0-9`, `_`, `-`, beginning and ending with a letter or digit"
    )]
    Part(String),
    /// More than one `/`.
    #[error("`{0}` is not a function name: groups have one level, `GROUP/NAME`")]
    Depth(String),
}

impl FunctionName {
    /// Returns the name after checking it.
    ///
    /// # Errors
    /// [`NameError::Part`] if a part does not match the pattern, [`NameError::Depth`] if there are more than two parts.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let mut parts = 0;
        for part in text.split('/') {
            parts += 1;
            if !is_part(part) {
                return Err(NameError::Part(part.to_owned()));
            }
        }
        if parts > 2 {
            return Err(NameError::Depth(text.to_owned()));
        }
        Ok(Self(text.into()))
    }

    /// Returns the name as people write it, `GROUP/NAME` or `NAME`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the form for file and cgroup names: `GROUP.NAME` or `NAME`. No part has a dot, so the form is
    /// unambiguous.
    #[must_use]
    pub fn file_form(&self) -> String {
        self.0.replace('/', ".")
    }

    /// Returns the name whose [`file_form`](Self::file_form) this is.
    ///
    /// # Errors
    /// No function can have it.
    pub fn of_file_form(text: &str) -> Result<Self, NameError> {
        Self::new(&text.replace('.', "/"))
    }

    /// Returns the group, if there is one.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        self.0.split_once('/').map(|(group, _)| group)
    }
}

/// Returns whether a text is one valid part of a function name.
#[must_use]
pub fn is_part(part: &str) -> bool {
    let bytes = part.as_bytes();
    let alnum = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    bytes.len() <= PART_MAX
        && bytes.first().is_some_and(alnum)
        && bytes.last().is_some_and(alnum)
        && bytes.iter().all(|b| alnum(b) || *b == b'_' || *b == b'-')
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0)
    }
}

impl std::str::FromStr for FunctionName {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

/// A function's number in the spawner's append-only uid table; never given to another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FunctionId(pub u32);

/// One started process tree: a leaf cgroup `w<N>`. fnd counts the numbers up; none is used twice while the spawner
/// runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u64);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "w{}", self.0)
    }
}

/// The number of an attempt of an invocation, counted from 1 over retries and polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub u32);

impl Attempt {
    /// Returns the number of the next attempt.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Identifies a function's version by its content: SHA-256 over code, own manifest, runtime id and interpreter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub [u8; 32]);

impl Version {
    /// Parses a version: `sha256:` and 64 hexadecimal digits; the prefix may be absent.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:").unwrap_or(text);
        // `from_str_radix` below takes a sign, too.
        if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; 32];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Returns the 64 hexadecimal digits without the prefix, as used in directory names.
    #[must_use]
    pub fn hex(&self) -> String {
        use fmt::Write as _;
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        }
        text
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The id of an accepted request to run: a UUIDv7 as a number, so that ids sort by time. Core never makes one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct InvocationId(pub u128);

impl InvocationId {
    /// Parses an id: 36 characters, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, hexadecimal.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 36 || !DASHES.iter().all(|at| bytes.get(*at) == Some(&b'-')) {
            return None;
        }
        let mut number = 0_u128;
        for at in PAIRS {
            let [high, low] = bytes.get(at..at + 2)? else {
                return None;
            };
            let [high, low] = [high, low].map(|byte| char::from(*byte).to_digit(16));
            number = number << 8 | u128::from(high? << 4 | low?);
        }
        Some(Self(number))
    }

    /// Returns when the id was made, in Unix milliseconds (RFC 9562, 5.7).
    #[must_use]
    pub fn unix_ms(self) -> u64 {
        (self.0 >> 80) as u64
    }
}

impl fmt::Display for InvocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Written at once: a text that is made of it does not grow in steps.
        let mut text = [b'-'; 36];
        let digit = |number: u8| if number < 10 { b'0' + number } else { b'a' - 10 + number };
        for (byte, at) in self.0.to_be_bytes().into_iter().zip(PAIRS) {
            if let Some([high, low]) = text.get_mut(at..at + 2) {
                (*high, *low) = (digit(byte >> 4), digit(byte & 0xf));
            }
        }
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

/// The places of the dashes in the text of an [`InvocationId`].
const DASHES: [usize; 4] = [8, 13, 18, 23];
/// The places of the two digits of each byte between them.
const PAIRS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

impl fmt::Debug for InvocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_documented_rule() {
        for good in ["a", "hello", "a-b_c", "0", "ops/backup", &"x".repeat(63)] {
            assert!(FunctionName::new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "A",
            "-a",
            "a-",
            "_a",
            "a.b",
            "a b",
            "ops/",
            "/x",
            "a/b/c",
            "é",
            "../x",
            &"x".repeat(64),
        ] {
            assert!(FunctionName::new(bad).is_err(), "{bad}");
        }
        let name = FunctionName::new("ops/backup").unwrap();
        assert_eq!(name.file_form(), "ops.backup");
        assert_eq!(FunctionName::of_file_form("ops.backup"), Ok(name));
        assert!(FunctionName::of_file_form("a.b.c").is_err());
    }

    #[test]
    fn ids_and_versions_survive_their_text_form() {
        let id = InvocationId(0x0193_4567_89ab_7def_8123_4567_89ab_cdef);
        assert_eq!(id.to_string(), "01934567-89ab-7def-8123-456789abcdef");
        assert_eq!(InvocationId::parse(&id.to_string()), Some(id));
        for (at, wrong) in [
            (35, "g"),
            (35, "-"),
            (35, "+"),
            (8, "0"),
            (0, "-"),
            (34, "é"),
            (36, "0"),
        ] {
            let mut text = id.to_string();
            text.replace_range(at..(at + wrong.len()).min(36), wrong);
            assert_eq!(InvocationId::parse(&text), None, "{text}");
        }
        assert_eq!(InvocationId::parse(&id.to_string().to_uppercase()), Some(id));
        let version = Version([0xab; 32]);
        assert_eq!(Version::parse(&version.to_string()), Some(version));
        assert_eq!(Version::parse("sha256:ab"), None);
        assert_eq!(Version::parse(&"+1".repeat(32)), None);
    }
}
