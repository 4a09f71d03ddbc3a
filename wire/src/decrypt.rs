//! The messages between the spawner's helper and `fnd-helper --decrypt`, the child without user, files or network that decrypts one
//! secret of a function. One message goes to the child, one comes back, each up to the end of the stream.

use crate::form::{Bytes, wire_enum, wire_structs};

/// Largest encrypted file in bytes: a value of 64 KiB in ASCII armour, with room for many recipients.
pub const ENCRYPTED_MAX: u64 = 256 << 10;
/// Largest answer in bytes: a value, and what says that it is one.
pub const ANSWER_MAX: u64 = crate::frame::SECRET_MAX + 16;

wire_structs! {
    /// A file to decrypt.
    pub struct Encrypted {
        /// The file with the keys.
        pub key: Bytes,
        /// The file to decrypt.
        pub text: Bytes,
    }
}

wire_enum! {
    /// The child's answer.
    pub enum Decrypted {
        /// The decrypted content of the file.
        0 = Value(Bytes),
        /// The file does not begin as such files do.
        1 = NotAge,
        /// The file was changed or cut off.
        2 = Damaged,
        /// The file is encrypted to other keys.
        3 = OtherKeys,
        /// The file is encrypted with a passphrase.
        4 = Passphrase,
        /// The file of keys has something else in it, or nothing.
        5 = BadKey,
        /// The value is larger than a secret may be.
        6 = TooLarge,
        /// The value has no bytes.
        7 = Empty,
    }
}

impl Decrypted {
    /// Returns the value, or why there is none: the message, and what to do. The words are never the child's own, since a file
    /// may have taken it over.
    ///
    /// # Errors
    /// The message and the help.
    pub fn value(self, key: &str) -> Result<Vec<u8>, (String, String)> {
        let again = "encrypt the value again: `fndctl secret encrypt`";
        let (message, help) = match self {
            Self::Value(value) => return Ok(value.0),
            Self::NotAge => ("it is not a file of age".to_owned(), again.to_owned()),
            Self::Damaged => ("it is damaged: it was changed or cut off".to_owned(), again.to_owned()),
            Self::OtherKeys => (
                format!("none of the keys in `{key}` can decrypt it"),
                format!("{again}; `age-keygen -y {key}` prints the recipients"),
            ),
            Self::Passphrase => (
                "it is encrypted with a passphrase, which nobody can type here".to_owned(),
                again.to_owned(),
            ),
            Self::BadKey => (
                format!("`{key}` is not a file of keys (`AGE-SECRET-KEY-1...`)"),
                format!("make one: `age-keygen -o {key}`"),
            ),
            Self::TooLarge => (
                "the value in it is larger than 64 KiB".to_owned(),
                "encrypt a smaller value".to_owned(),
            ),
            Self::Empty => ("the value in it is empty".to_owned(), again.to_owned()),
        };
        Err((message, help))
    }
}
