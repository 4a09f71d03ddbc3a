//! Lines `user:password-hash` of a secret. The hashes are read here and computed elsewhere.

use super::secret::{BadSecret, BadUser};
use base64::Engine as _;
use base64::alphabet::{BCRYPT, STANDARD};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use sha2::{Digest as _, Sha256};
use std::fmt;
use subtle::ConstantTimeEq as _;

/// A hash of a higher cost is refused: it would take seconds of a CPU for each guess of a caller.
const MAX_BCRYPT_COST: u32 = 14;
const MAX_ARGON2_MEMORY_KIB: u32 = 256 * 1024;
const MAX_ARGON2_PASSES: u32 = 10;
const MAX_ARGON2_LANES: u32 = 16;

/// A user has two lines while the password is changed.
const MAX_LINES_A_USER: usize = 2;

/// Base64 without padding, whose last unused bits may be set, as in hashes of some programs.
const fn unpadded(alphabet: &base64::alphabet::Alphabet) -> GeneralPurpose {
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(alphabet, config)
}

const BCRYPT_BASE64: GeneralPurpose = unpadded(&BCRYPT);
const PHC_BASE64: GeneralPurpose = unpadded(&STANDARD);

/// The users of a secret: at least one.
pub struct Users {
    secret: String,
    users: Vec<(Vec<u8>, Vec<PasswordLine>)>,
}

/// A line of the secret.
#[derive(Clone)]
pub struct PasswordLine {
    /// The hash of the password.
    pub hash: PasswordHash,
    /// SHA-256 of the line: another line has another one.
    pub digest: [u8; 32],
}

/// The hash of a password, with its parameters.
#[derive(Clone, PartialEq, Eq)]
pub enum PasswordHash {
    /// bcrypt (`$2a$`, `$2b$`, `$2y$`, which are the same for passwords without a zero byte).
    Bcrypt {
        /// 2 to the power of this rounds: 4 to 14.
        cost: u32,
        /// The salt, decoded from the 22 characters before the hash.
        salt: [u8; 16],
        /// The hash; bcrypt drops the last of its 24 bytes.
        hash: [u8; 23],
    },
    /// Argon2 (RFC 9106).
    Argon2(Argon2),
}

/// A hash by Argon2.
#[derive(Clone, PartialEq, Eq)]
pub struct Argon2 {
    /// `argon2d`, `argon2i` or `argon2id`.
    pub variant: &'static str,
    /// Version 1.3, not 1.0.
    pub is_13: bool,
    /// Memory in KiB (`m` of the text form).
    pub memory_kib: u32,
    /// Passes over the memory.
    pub passes: u32,
    /// Degree of parallelism (`p` of the text form).
    pub lanes: u32,
    /// The salt, decoded from base64.
    pub salt: Vec<u8>,
    /// The hash, decoded from base64; its length is a parameter of the computation.
    pub hash: Vec<u8>,
}

impl Users {
    pub(super) fn read<'l>(secret: &str, lines: impl Iterator<Item = (usize, &'l [u8])>) -> Result<Self, BadSecret> {
        let mut users: Vec<(Vec<u8>, Vec<PasswordLine>)> = Vec::new();
        for (number, text) in lines.filter(|(_, line)| !line.starts_with(b"#")) {
            let (user, line) = read_line(text).map_err(|why| BadSecret::User(number, why))?;
            match users.iter_mut().find(|(other, _)| other == user) {
                Some((_, lines)) if lines.len() >= MAX_LINES_A_USER => {
                    return Err(BadSecret::User(number, BadUser::Repeated));
                }
                Some((_, lines)) => lines.push(line),
                None => users.push((user.to_owned(), vec![line])),
            }
        }
        if users.is_empty() {
            return Err(BadSecret::Empty);
        }
        let secret = secret.to_owned();
        Ok(Self { secret, users })
    }

    /// Returns the name of the secret.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Returns the lines of a user, one of which must hold. For an unknown user it returns those of another one and
    /// `false`: they are computed too, so that the time does not tell which users there are.
    #[must_use]
    pub fn lines(&self, user: &[u8]) -> (&[PasswordLine], bool) {
        let found = self.users.iter().find(|(other, _)| other == user);
        let other = self.users.first().map(|(_, lines)| lines.as_slice());
        match found {
            Some((_, lines)) => (lines, true),
            None => (other.unwrap_or_default(), false),
        }
    }
}

fn read_line(line: &[u8]) -> Result<(&[u8], PasswordLine), BadUser> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or(BadUser::NoColon)?;
    let (user, hash) = (&line[..colon], &line[colon + 1..]);
    if user.is_empty() || hash.is_empty() {
        return Err(BadUser::NoColon);
    }
    let hash = std::str::from_utf8(hash).map_err(|_| BadUser::Kind("a password that is not hashed"))?;
    let hash = PasswordHash::read(hash.trim_ascii_end())?;
    let digest = Sha256::digest(line).into();
    Ok((user, PasswordLine { hash, digest }))
}

impl PasswordHash {
    /// Compares a computed hash in constant time.
    #[must_use]
    pub fn is(&self, computed: &[u8]) -> bool {
        let hash = match self {
            Self::Bcrypt { hash, .. } => hash.as_slice(),
            Self::Argon2(argon2) => &argon2.hash,
        };
        hash.ct_eq(computed).into()
    }

    fn read(text: &str) -> Result<Self, BadUser> {
        let kind = text.strip_prefix('$').and_then(|rest| rest.split('$').next());
        match kind {
            Some("2a" | "2b" | "2y") => bcrypt(text),
            Some("argon2d") => argon2("argon2d", text),
            Some("argon2i") => argon2("argon2i", text),
            Some("argon2id") => argon2("argon2id", text),
            Some("2" | "2x") => Err(BadUser::Kind("a bcrypt hash of a version with a known mistake")),
            Some("apr1" | "1") => Err(BadUser::Kind("an MD5 hash")),
            Some("5" | "6") => Err(BadUser::Kind("a SHA-2 hash of crypt")),
            Some(_) => Err(BadUser::Kind("a hash of another kind")),
            None if text.starts_with("{SHA}") => Err(BadUser::Kind("a SHA-1 hash")),
            None => Err(BadUser::Kind(
                "a password that is not hashed, or a hash of another kind",
            )),
        }
    }
}

fn bcrypt(text: &str) -> Result<PasswordHash, BadUser> {
    let malformed = BadUser::Malformed("bcrypt");
    let mut fields = text.split('$').skip(2);
    let cost = fields.next().filter(|text| text.len() == 2).and_then(number);
    let encoded = fields.next().filter(|text| text.is_ascii() && text.len() == 53);
    let (Some(cost), Some(encoded), None) = (cost, encoded, fields.next()) else {
        return Err(malformed);
    };
    if cost > MAX_BCRYPT_COST {
        return Err(BadUser::Cost("bcrypt's cost may be 14 at most"));
    }
    // 22 digits of base64 are the 16 bytes of the salt, the 31 others are the 23 bytes of the hash.
    let (salt, hash) = encoded.split_at(22);
    let decode = |text| BCRYPT_BASE64.decode(text).map_err(|_| malformed);
    Ok(PasswordHash::Bcrypt {
        // bcrypt defines no cost below 4.
        cost: Some(cost).filter(|cost| *cost >= 4).ok_or(malformed)?,
        salt: decode(salt)?.try_into().map_err(|_| malformed)?,
        hash: decode(hash)?.try_into().map_err(|_| malformed)?,
    })
}

/// Reads `$argon2id$v=19$m=65536,t=3,p=4$SALT$HASH` (the PHC string format).
fn argon2(variant: &'static str, text: &str) -> Result<PasswordHash, BadUser> {
    let malformed = BadUser::Malformed("argon2");
    let mut fields = text.split('$').skip(2).peekable();
    // The number is decimal: 19 is 0x13 for version 1.3, and 16 is 0x10 for version 1.0. Without a version it is 1.0.
    let is_13 = match fields.next_if(|field| field.starts_with("v=")) {
        Some("v=19") => true,
        Some("v=16") | None => false,
        Some(_) => return Err(malformed),
    };
    let mut parameters = fields.next().ok_or(malformed)?.split(',');
    let mut parameter = |name: &str| {
        let value = parameters.next()?.strip_prefix(name)?.strip_prefix('=')?;
        number(value)
    };
    let (memory_kib, passes, lanes) = (parameter("m"), parameter("t"), parameter("p"));
    let (Some(memory_kib), Some(passes), Some(lanes)) = (memory_kib, passes, lanes) else {
        return Err(malformed);
    };
    let mut decode = || PHC_BASE64.decode(fields.next()?).ok();
    let (Some(salt), Some(hash)) = (decode(), decode()) else {
        return Err(malformed);
    };
    if parameters.next().is_some() || fields.next().is_some() {
        return Err(malformed);
    }
    if memory_kib > MAX_ARGON2_MEMORY_KIB || passes > MAX_ARGON2_PASSES || lanes > MAX_ARGON2_LANES {
        return Err(BadUser::Cost("argon2 may have m=262144, t=10 and p=16 at most"));
    }
    // The least that Argon2 allows (RFC 9106, section 3.1), and for the hash what nobody guesses.
    let fine = lanes >= 1 && passes >= 1 && memory_kib >= 8 * lanes;
    if !fine || !(8..=64).contains(&salt.len()) || !(16..=64).contains(&hash.len()) {
        return Err(malformed);
    }
    Ok(PasswordHash::Argon2(Argon2 {
        variant,
        is_13,
        memory_kib,
        passes,
        lanes,
        salt,
        hash,
    }))
}

/// Returns the number that digits stand for, without a sign.
fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Leaves the hashes out, so that no log shows them.
impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users")
            .field("secret", &self.secret)
            .finish_non_exhaustive()
    }
}
