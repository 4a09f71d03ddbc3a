//! The messages between the spawner's helper and `fnd-helper --find-secret`, the child without user, files or network that finds one
//! secret of a function in the YAML files beside it. One message goes to the child, one comes back, each up to the end of the
//! stream.

use crate::form::{Bytes, wire_enum, wire_structs};

/// Largest file of YAML in bytes.
pub const FILE_MAX: u64 = 1 << 20;
/// Most bytes of all files together.
pub const FILES_MAX: u64 = 4 << 20;

wire_structs! {
    /// A secret to find.
    pub struct SecretWanted {
        /// Its name as a secret of fnd: `app.password` is the key `password` of the Secret `app`.
        pub name: String,
        /// The files that may have it, each with its path.
        pub files: Vec<(String, Bytes)>,
    }
}

wire_enum! {
    /// The child's answer.
    pub enum SecretSearchAnswer {
        /// The value, as the function gets it.
        0 = Value(Bytes),
        /// No Secret in the files has it.
        1 = Missing,
        /// The file of this index seems to have a Secret, but the Secret or a value of it cannot be read.
        2 = Unreadable(u32),
        /// The value in the file of this index is larger than a secret may be.
        3 = TooLarge(u32),
        /// The value in the file of this index has no bytes.
        4 = Empty(u32),
    }
}

/// Why there is no value: index of the file, message, help.
pub type SecretRefusal = (u32, &'static str, &'static str);

impl SecretSearchAnswer {
    /// Returns the value, if there is one. The words of a refusal are never the child's own, since a file may have taken it
    /// over.
    ///
    /// # Errors
    /// Why there is no value.
    pub fn value(self) -> Result<Option<Vec<u8>>, SecretRefusal> {
        let (file, message, help) = match self {
            Self::Value(value) => return Ok(Some(value.0)),
            Self::Missing => return Ok(None),
            Self::Unreadable(file) => {
                let help = "run `fndctl import FILE --dry-run`, which names line and field";
                (file, "a Secret in it cannot be read", help)
            }
            Self::TooLarge(file) => (
                file,
                "the value of a Secret in it is larger than 64 KiB",
                "use a smaller value",
            ),
            Self::Empty(file) => (file, "the value of a Secret in it is empty", "write the value to it"),
        };
        Err((file, message, help))
    }
}
