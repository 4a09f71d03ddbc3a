//! Serde forms: the same texts, and `"none"` for what is absent. For `#[serde(with = "...")]`.

macro_rules! forms {
    ($($(#[$meta:meta])* $name:ident, $or_none:ident: $type:ty, $parse:path, $print:path;)*) => {$(
        $(#[$meta])*
        pub mod $name {
            use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};
            use std::borrow::Cow;

            /// Writes the value as its text.
            ///
            /// # Errors
            /// Those of the serializer.
            pub fn serialize<S: Serializer>(value: &$type, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&$print(*value))
            }

            /// Reads the value from its text.
            ///
            /// # Errors
            /// Where the text is not of this form.
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
            /// Those of the serializer.
            pub fn serialize<S: Serializer>(value: &Option<$type>, to: S) -> Result<S::Ok, S::Error> {
                match *value {
                    Some(value) => to.serialize_str(&$print(value)),
                    None => to.serialize_str("none"),
                }
            }

            /// Reads the value from its text.
            ///
            /// # Errors
            /// Where the text is not of this form.
            pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<$type>, D::Error> {
                let text = Cow::<str>::deserialize(from)?;
                if text == "none" { Ok(None) } else { $parse(&text).map(Some).map_err(D::Error::custom) }
            }
        }
    )*};
}
forms! {
    /// Durations, `"180s"`.
    duration, duration_or_none: std::time::Duration, crate::units::parse_duration, crate::units::print_duration;
    /// Sizes, `"256M"`.
    size, size_or_none: u64, crate::units::parse_size, crate::units::print_size;
    /// Parts of CPUs, `"500m"`.
    cpu, cpu_or_none: u32, crate::units::parse_cpu, crate::units::print_cpu;
    /// Bytes per second, `"10M/s"`.
    byte_rate, byte_rate_or_none: u64, crate::units::parse_byte_rate, crate::units::print_byte_rate;
    /// Permission bits, `"0640"`.
    mode, mode_or_none: u32, crate::units::parse_mode, crate::units::print_mode;
}
