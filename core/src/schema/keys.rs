//! `keys!` and `words!`: the one place of a key, from which its entry in the table and its field come.

/// Defines a table of keys, and the struct that its values are read into.
///
/// An entry has the key's meaning, its name, the type of its field, the values that it may have, its default and an
/// example, both as TOML:
///
/// ```text
/// keys! {
///     /// `[limits]`.
///     #[derive(Debug, Serialize)]
///     pub struct Limits {
///         /// Largest file it may write.
///         file_size: Option<u64> [with = "text::size_or_none"] = SizeOrNone(ANY_SIZE), default "none", example "1G";
///         /// Size of its private /tmp.
///         tmp = Size(ANY_SIZE), default "64M", example "256M";
///     } and {
///         /// Keys of the function's own manifest.
///         asked: Vec<String>,
///     }
/// }
/// ```
///
/// `Limits::KEYS` is the table, and [`Pick::get`](super::pick::Pick::get) reads the struct. In brackets are attributes
/// of serde. The kinds and forms of [`schema`](super) need no import. A key without a type has no field, because nothing
/// uses its value yet, or because the resolver combines it with another. Fields after `and` are no keys: the resolver
/// sets them. `built_in CONSTANT` is a default that `stringify!` would break into lines; `required true` is a key that
/// must be written. `const NAME` in place of `struct NAME` defines only the table.
macro_rules! keys {
    (@toml) => { "" };
    (@toml $toml:tt) => { stringify!($toml) };
    (@toml = $text:expr) => { $text };

    (
        $(#[$meta:meta])*
        $vis:vis const $table:ident {
            $(
                #[doc = $meaning:literal]
                $name:ident = $kind:expr
                    $(, default $default:tt)? $(, built_in $text:expr)? $(, example $example:tt)? $(, required $required:literal)?;
            )*
        }
    ) => {
        $(#[$meta])*
        $vis const $table: &[$crate::schema::Key] = {
            // Here alone, because `Duration` is a type of fields too.
            use $crate::schema::{Kind::*, *};
            &[$(
                Key {
                    name: stringify!($name),
                    kind: $kind,
                    default: keys::keys!(@toml $($default)? $(= $text)?),
                    example: keys::keys!(@toml $($example)?),
                    meaning: $meaning.trim_ascii(),
                    required: false $(|| $required)?,
                },
            )*]
        };
    };

    (
        $(#[$meta:meta])*
        $vis:vis struct $table:ident {
            $(
                #[doc = $meaning:literal]
                $name:ident $(: $type:ty $([$($serde:tt)+])?)? = $kind:expr
                    $(, default $default:tt)? $(, built_in $text:expr)? $(, example $example:tt)? $(, required $required:literal)?;
            )*
        }
        $(and {
            $($(#[$more_meta:meta])* $more:ident: $more_type:ty,)*
        })?
    ) => {
        $(#[$meta])*
        $vis struct $table {
            $($(
                #[doc = $meaning]
                $(#[serde($($serde)+)])?
                pub $name: $type,
            )?)*
            $($(
                $(#[$more_meta])*
                pub $more: $more_type,
            )*)?
        }

        impl $table {
            $crate::schema::keys::keys! {
                /// The keys of the table.
                $vis const KEYS {
                    $(
                        #[doc = $meaning]
                        $name = $kind $(, default $default)? $(, built_in $text)? $(, example $example)? $(, required $required)?;
                    )*
                }
            }
        }

        impl $table {
            /// Returns the values of a table of these keys.
            pub(crate) fn read(pick: $crate::schema::pick::Pick<'_>) -> Self {
                Self {
                    $($($name: pick.get::<$type>(stringify!($name)),)?)*
                    $($($more: Default::default(),)*)?
                }
            }
        }

        /// Absent is the empty table, in which every key has its default.
        impl $crate::schema::pick::FromValue for $table {
            fn from_value(value: Option<$crate::schema::tree::Value>) -> Option<Self> {
                let table = value.map_or_else(|| Some(Default::default()), $crate::schema::tree::Value::into_table)?;
                Some(Self::read($crate::schema::pick::Pick { table: &table, keys: Self::KEYS }))
            }
        }
    };
}

/// Defines an enum of words: `WORDS` lists them in its order, and it is read and written as one of them.
macro_rules! words {
    ($(
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+
        }
    )+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $(
                $(#[$variant_meta])*
                #[serde(rename = $word)]
                $variant,
            )+
        }

        impl $name {
            /// The words.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl $crate::schema::pick::FromValue for $name {
            fn from_value(value: Option<$crate::schema::tree::Value>) -> Option<Self> {
                match value?.text().as_str() {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    )+};
}

pub(crate) use {keys, words};
