//! `fnd-helper --decrypt`: an encrypted secret and the keys in, its value out. For `fndctl secret` there are also `--encrypt`,
//! which encrypts a value, and `--keygen`, which makes a key.
//!
//! A helper of the spawner starts a child for each file to decrypt. The child has the file and the node's key. It has no right
//! to open or to send anything, so a file that takes the child over can only choose the answer ([`answer`]).

use crate::answer;
use age::armor::{ArmoredReader, ArmoredWriter, Format};
use age::secrecy::ExposeSecret as _;
use age::x25519::{Identity, Recipient};
use age::{DecryptError, Decryptor, Encryptor};
use fnd_wire::decrypt::{Decrypted, ENCRYPTED_MAX, Encrypted};
use fnd_wire::form::{Bytes, Wire as _};
use fnd_wire::frame::SECRET_MAX;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;
use zeroize::{Zeroize as _, Zeroizing};

/// Largest question in bytes: key, file, and their lengths.
const QUESTION_MAX: u64 = SECRET_MAX + ENCRYPTED_MAX + 16;
/// The beginning of an encrypted file.
const BINARY: &[u8] = b"age-encryption.org/";
/// The beginning of one in ASCII armour, before which spaces are allowed.
const ARMOUR: &[u8] = b"-----BEGIN AGE ENCRYPTED FILE-----";

/// Answers the question on descriptor 0.
///
/// # Errors
/// As for [`answer::run`].
pub fn run() -> io::Result<()> {
    answer::run(QUESTION_MAX, answer_to)
}

fn answer_to(asked: &mut Encrypted) -> Zeroizing<Vec<u8>> {
    let mut answer = decrypt(&asked.key.0, &asked.text.0);
    asked.key.0.zeroize();
    let bytes = Zeroizing::new(answer.to_wire());
    if let Decrypted::Value(value) = &mut answer {
        value.0.zeroize();
    }
    bytes
}

/// Decrypts a file with the first of these keys that fits.
#[must_use]
pub fn decrypt(keys: &[u8], text: &[u8]) -> Decrypted {
    let Some(keys) = identities(keys) else {
        return Decrypted::BadKey;
    };
    if !text.starts_with(BINARY) && !text.trim_ascii_start().starts_with(ARMOUR) {
        return Decrypted::NotAge;
    }
    let decryptor = match Decryptor::new_buffered(ArmoredReader::new(text)) {
        Ok(decryptor) if decryptor.is_scrypt() => return Decrypted::Passphrase,
        Ok(decryptor) => decryptor,
        Err(error) => return reason(&error),
    };
    let reader = match decryptor.decrypt(keys.iter().map(|key| key as &dyn age::Identity)) {
        Ok(reader) => reader,
        Err(error) => return reason(&error),
    };
    // One byte more than a secret may have shows that the value is too large. The buffer never grows, because growing
    // would leave copies of the secret in freed memory.
    let room = usize::try_from(SECRET_MAX).unwrap_or(0) + 1;
    let mut value = Zeroizing::new(Vec::with_capacity(room));
    match reader.take(SECRET_MAX + 1).read_to_end(&mut value) {
        Err(_) => Decrypted::Damaged,
        Ok(0) => Decrypted::Empty,
        Ok(length) if length == room => Decrypted::TooLarge,
        Ok(_) => Decrypted::Value(Bytes(std::mem::take(&mut value))),
    }
}

/// Returns the answer for a file that could not be decrypted. The messages of the crate `age` are not used: it would look them up
/// by language, in files, which this process cannot open.
fn reason(error: &DecryptError) -> Decrypted {
    match error {
        DecryptError::NoMatchingKeys => Decrypted::OtherKeys,
        DecryptError::UnknownFormat => Decrypted::NotAge,
        _ => Decrypted::Damaged,
    }
}

/// Returns the lines that are neither empty nor comments; none if the text is not UTF-8 or has no such lines.
fn lines(text: &[u8]) -> Option<Vec<&str>> {
    let lines = str::from_utf8(text).ok()?.lines().map(str::trim);
    let lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    (!lines.is_empty()).then_some(lines)
}

fn identities(keys: &[u8]) -> Option<Vec<Identity>> {
    lines(keys)?.into_iter().map(|line| line.parse().ok()).collect()
}

/// Encrypts a value to each of these recipients, or to the recipient of each of these keys, in ASCII armour; none if there is
/// something else among them.
///
/// # Errors
/// If the kernel gives no random numbers.
pub fn encrypt(to: &[u8], value: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let recipient = |line: &str| {
        line.parse::<Recipient>()
            .ok()
            .or_else(|| Some(line.parse::<Identity>().ok()?.to_public()))
    };
    let Some(to) = lines(to).and_then(|lines| lines.into_iter().map(recipient).collect::<Option<Vec<_>>>()) else {
        return Ok(None);
    };
    let encryptor = Encryptor::with_recipients(to.iter().map(|one| one as &dyn age::Recipient));
    let encryptor = encryptor.map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut text = encryptor.wrap_output(ArmoredWriter::wrap_output(Vec::new(), Format::AsciiArmor)?)?;
    text.write_all(value)?;
    text.finish()?.finish().map(Some)
}

/// Prints a new key in the form of `age-keygen`.
#[must_use]
pub fn run_keygen() -> ExitCode {
    let key = Identity::generate();
    let text = format!(
        "# public key: {}\n{}\n",
        key.to_public(),
        key.to_string().expose_secret()
    );
    match io::stdout().write_all(Zeroizing::new(text).as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Reads recipients or keys and a value from standard input, and prints the encrypted file.
#[must_use]
pub fn run_encrypt() -> ExitCode {
    let mut question = Zeroizing::new(Vec::new());
    let read = io::stdin().take(QUESTION_MAX).read_to_end(&mut question);
    let Some(mut asked) = read.ok().and_then(|_| Encrypted::from_wire(&question).ok()) else {
        return ExitCode::from(2);
    };
    let encrypted = encrypt(&asked.key.0, &asked.text.0);
    asked.key.0.zeroize();
    asked.text.0.zeroize();
    match encrypted.map(|text| text.map(|text| io::stdout().write_all(&text))) {
        Ok(Some(Ok(()))) => ExitCode::SUCCESS,
        // Something among the keys or recipients is neither: the exit code of a wrong configuration.
        Ok(None) => ExitCode::from(78),
        Ok(Some(Err(_))) | Err(_) => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key and its recipient, from `age-keygen`'s form.
    fn pair() -> (String, String) {
        let key = Identity::generate();
        let public = key.to_public().to_string();
        let text = format!(
            "# created: today\n# public key: {public}\n{}\n",
            key.to_string().expose_secret()
        );
        (text, public)
    }

    fn armoured(to: &str, value: &[u8]) -> Vec<u8> {
        encrypt(to.as_bytes(), value).unwrap().unwrap()
    }

    fn binary(to: &str, value: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        ArmoredReader::new(armoured(to, value).as_slice())
            .read_to_end(&mut text)
            .unwrap();
        text
    }

    fn value(value: &[u8]) -> Decrypted {
        Decrypted::Value(Bytes(value.to_vec()))
    }

    #[test]
    fn armoured_and_binary_files_give_their_value() {
        let ((key, to), (other, other_to)) = (pair(), pair());
        for text in [armoured(&to, b"one\ntwo\n"), binary(&to, b"one\ntwo\n")] {
            assert_eq!(decrypt(key.as_bytes(), &text), value(b"one\ntwo\n"));
            assert_eq!(decrypt(format!("{other}{key}").as_bytes(), &text), value(b"one\ntwo\n"));
            assert_eq!(decrypt(other.as_bytes(), &text), Decrypted::OtherKeys);
        }
        let both = armoured(&format!("{to}\n{other_to}\n"), b"v");
        assert_eq!(decrypt(key.as_bytes(), &both), value(b"v"));
        assert_eq!(decrypt(other.as_bytes(), &both), value(b"v"));
        // The recipient of a key, as `fndctl secret encrypt` asks for.
        assert_eq!(decrypt(key.as_bytes(), &armoured(&key, b"v")), value(b"v"));
        assert!(encrypt(b"ssh-ed25519 AAAA", b"v").unwrap().is_none() && encrypt(b"# none\n", b"v").unwrap().is_none());
    }

    #[test]
    fn values_have_the_size_of_secrets() {
        let (key, to) = pair();
        let max = usize::try_from(SECRET_MAX).unwrap();
        let of = |length: usize| decrypt(key.as_bytes(), &armoured(&to, &vec![b'x'; length]));
        assert_eq!(of(0), Decrypted::Empty);
        assert_eq!(of(max), value(&vec![b'x'; max]));
        assert_eq!(of(max + 1), Decrypted::TooLarge);
        assert!(armoured(&to, &vec![b'x'; max]).len() as u64 <= ENCRYPTED_MAX);
    }

    #[test]
    fn what_can_not_be_decrypted_says_why() {
        let (key, to) = pair();
        let good = binary(&to, b"value");
        for text in [&b""[..], b"db-password", b"{\"sops\": 1}", b"age1qqq"] {
            assert_eq!(decrypt(key.as_bytes(), text), Decrypted::NotAge);
        }
        for keys in ["", "# only a comment\n", "AGE-SECRET-KEY-1QQQQ\n", to.as_str(), "\u{0}"] {
            assert_eq!(decrypt(keys.as_bytes(), &good), Decrypted::BadKey, "{keys:?}");
        }
        assert_eq!(decrypt(b"\xff\n", &good), Decrypted::BadKey);
        // Every file that was cut off or changed anywhere is refused; no part of a value comes out.
        for length in BINARY.len()..good.len() {
            let text = &good[..length];
            assert_eq!(decrypt(key.as_bytes(), text), Decrypted::Damaged, "{length}");
        }
        for at in BINARY.len()..good.len() {
            let mut text = good.clone();
            text[at] ^= 1;
            let answer = decrypt(key.as_bytes(), &text);
            assert!(!matches!(answer, Decrypted::Value(_)), "{at}");
        }
        let stanza = b"age-encryption.org/v1\n-> scrypt bBXjRwZ8fcbcCrHLmjmdyg 18\n\
            l8WAGkHsQ4XfHlGPKrW8NAx3V9BMyJrD7Qyzr8RBNgg\n--- AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n0123456789abcdef";
        assert_eq!(decrypt(key.as_bytes(), stanza), Decrypted::Passphrase);
    }

    #[test]
    fn a_question_is_answered_once_and_nonsense_is_not_answered() {
        let (key, to) = pair();
        let text = armoured(&to, b"value");
        let asked = Encrypted {
            key: Bytes(key.into_bytes()),
            text: Bytes(text),
        };
        let ask = |bytes: &[u8]| {
            let mut output = Vec::new();
            let streams = (&mut &bytes[..], &mut output);
            answer::serve(QUESTION_MAX, streams, answer_to).map(|()| Decrypted::from_wire(&output).unwrap())
        };
        assert_eq!(ask(&asked.to_wire()).unwrap(), value(b"value"));
        for bytes in [
            vec![],
            vec![1],
            vec![0xff; 8],
            [asked.to_wire(), vec![0]].concat(),
            vec![0; 400 << 10],
        ] {
            assert_eq!(ask(&bytes).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        for answer in [
            Decrypted::NotAge,
            Decrypted::Damaged,
            Decrypted::OtherKeys,
            Decrypted::Passphrase,
            Decrypted::BadKey,
        ] {
            let (message, help) = answer.value("/etc/fnd/age.key").unwrap_err();
            assert!(!message.is_empty() && !help.is_empty());
        }
    }
}
