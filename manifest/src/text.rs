//! Serde forms for types of [`fnd_wire`], which has no serde. They use the same texts as that crate. For `#[serde(with
//! = "...")]`.
//!
//! An absent quantity is `"none"`; an absent name or id is left out, or null.

use fnd_wire::ids::{FunctionName, InvocationId, Version};
use std::borrow::Cow;
use std::fmt::Display;

macro_rules! forms {
    ($($(#[$meta:meta])* $name:ident, $or_none:ident: $type:ty, $parse:path, $print:path;)*) => {$(
        $(#[$meta])*
        pub mod $name {
            use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};
            use std::borrow::Cow;

            /// Writes the value as its text.
            ///
            /// # Errors
            /// The errors of the serializer.
            pub fn serialize<S: Serializer>(value: &$type, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&$print(*value))
            }

            /// Reads the value from its text.
            ///
            /// # Errors
            /// The text does not have this form.
            pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                $parse(&Cow::<str>::deserialize(from)?).map_err(D::Error::custom)
            }
        }

        $(#[$meta])*
        ///
        /// Absent is `"none"`.
        pub mod $or_none {
            use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};
            use std::borrow::Cow;

            /// Writes the value as its text.
            ///
            /// # Errors
            /// The errors of the serializer.
            pub fn serialize<S: Serializer>(value: &Option<$type>, to: S) -> Result<S::Ok, S::Error> {
                match *value {
                    Some(value) => to.serialize_str(&$print(value)),
                    None => to.serialize_str("none"),
                }
            }

            /// Reads the value from its text.
            ///
            /// # Errors
            /// The text does not have this form.
            pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<$type>, D::Error> {
                let text = Cow::<str>::deserialize(from)?;
                if text == "none" { Ok(None) } else { $parse(&text).map(Some).map_err(D::Error::custom) }
            }
        }
    )*};
}
forms! {
    /// Durations, `"180s"`.
    duration, duration_or_none: std::time::Duration, fnd_wire::units::parse_duration, fnd_wire::units::print_duration;
    /// Sizes, `"256M"`.
    size, size_or_none: u64, fnd_wire::units::parse_size, fnd_wire::units::print_size;
    /// Parts of CPUs, `"500m"`.
    cpu, cpu_or_none: u32, fnd_wire::units::parse_cpu, fnd_wire::units::print_cpu;
    /// Bytes per second, `"10M/s"`.
    byte_rate, byte_rate_or_none: u64, fnd_wire::units::parse_byte_rate, fnd_wire::units::print_byte_rate;
    /// Permission bits, `"0640"`.
    mode, mode_or_none: u32, fnd_wire::units::parse_mode, fnd_wire::units::print_mode;
    /// Microseconds, `"50us"`.
    micros, micros_or_none: u32, fnd_wire::units::parse_micros, fnd_wire::units::print_micros;
}

/// A name or an id that [`id`], [`id_or_null`] and [`ids`] can write and read.
pub trait Id: Display + Sized {
    /// Description of the expected text, for the error.
    const WHAT: &'static str;

    /// Parses a text; nothing where it is invalid.
    fn of(text: &str) -> Option<Self>;
}

impl Id for FunctionName {
    const WHAT: &'static str = "a function name";

    fn of(text: &str) -> Option<Self> {
        Self::new(text).ok()
    }
}

/// For adoption records: written from a borrowed name, read to an owned one.
impl Id for Cow<'_, FunctionName> {
    const WHAT: &'static str = FunctionName::WHAT;

    fn of(text: &str) -> Option<Self> {
        FunctionName::of(text).map(Cow::Owned)
    }
}

impl Id for InvocationId {
    const WHAT: &'static str = "an invocation id (UUID)";

    fn of(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

impl Id for Version {
    const WHAT: &'static str = "`sha256:` and 64 hexadecimal digits";

    fn of(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

/// A name or an id.
pub mod id {
    use super::Id;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};
    use std::borrow::Cow;

    /// Writes a name or an id as the text that people write.
    ///
    /// # Errors
    /// The errors of the serializer.
    pub fn serialize<I: Id, S: Serializer>(id: &I, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(id)
    }

    /// Reads a name or an id from its text.
    ///
    /// # Errors
    /// The text is not a valid name or id.
    pub fn deserialize<'de, I: Id, D: Deserializer<'de>>(from: D) -> Result<I, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        I::of(&text).ok_or_else(|| D::Error::custom(format_args!("expected {}", I::WHAT)))
    }
}

/// A name or an id that may be absent: null. With `#[serde(default)]` it may be left out as well.
pub mod id_or_null {
    use super::{AsText, Id};
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    /// Writes the text, or null.
    ///
    /// # Errors
    /// The errors of the serializer.
    pub fn serialize<I: Id, S: Serializer>(id: &Option<I>, to: S) -> Result<S::Ok, S::Error> {
        id.as_ref().map(AsText).serialize(to)
    }

    /// Reads the text, or null.
    ///
    /// # Errors
    /// The value is neither null nor a valid name or id.
    pub fn deserialize<'de, I: Id, D: Deserializer<'de>>(from: D) -> Result<Option<I>, D::Error> {
        let id = Option::<AsText<I>>::deserialize(from)?;
        Ok(id.map(|AsText(id)| id))
    }
}

/// A name or an id that is boxed, because most have none.
pub mod boxed_id_or_null {
    use super::{Id, id_or_null};
    use serde::{Deserializer, Serializer};

    /// Writes the text, or null.
    ///
    /// # Errors
    /// The errors of the serializer.
    pub fn serialize<I: Id + Copy, S: Serializer>(id: &Option<Box<I>>, to: S) -> Result<S::Ok, S::Error> {
        id_or_null::serialize(&id.as_deref().copied(), to)
    }

    /// Reads the text, or null.
    ///
    /// # Errors
    /// The value is neither null nor a valid name or id.
    pub fn deserialize<'de, I: Id, D: Deserializer<'de>>(from: D) -> Result<Option<Box<I>>, D::Error> {
        Ok(id_or_null::deserialize(from)?.map(Box::new))
    }
}

/// A list of names or ids.
pub mod ids {
    use super::{AsText, Id};
    use serde::{Deserialize as _, Deserializer, Serializer};

    /// Writes each name or id as its text, in a list.
    ///
    /// # Errors
    /// The errors of the serializer.
    pub fn serialize<I: Id, S: Serializer>(ids: &[I], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(ids.iter().map(AsText))
    }

    /// Reads a list of the texts of names or ids.
    ///
    /// # Errors
    /// One of the texts is not a valid name or id.
    pub fn deserialize<'de, I: Id, D: Deserializer<'de>>(from: D) -> Result<Vec<I>, D::Error> {
        let ids = Vec::<AsText<I>>::deserialize(from)?;
        Ok(ids.into_iter().map(|AsText(id)| id).collect())
    }
}

/// Wraps an id inside of an option or a list.
struct AsText<I>(I);

impl<I: Id> serde::Serialize for AsText<&I> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        id::serialize(self.0, to)
    }
}

impl<'de, I: Id> serde::Deserialize<'de> for AsText<I> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        id::deserialize(from).map(Self)
    }
}
