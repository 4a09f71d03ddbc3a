//! `keys!`: the one place of a key, from which its entry in the table and its field come.

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
///         disk = Size(ANY_SIZE), default "64M", example "256M", not_yet [];
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
/// sets them. `const NAME` in place of `struct NAME` defines only the table. `struct NAME: Default` has the values of an empty
/// table as its default: for files from an fnd that did not have the table.
///
/// An entry may also have, in this order: `built_in CONSTANT` for a default that `stringify!` would break into lines,
/// `required true`, and `not_yet [VALUES]` for a key whose feature is not built: the key is refused with any other value than
/// these, which change nothing. The commit that builds the feature deletes `not_yet`.
macro_rules! keys {
    (@toml) => { "" };
    (@toml $toml:tt) => { stringify!($toml) };
    (@toml = $text:expr) => { $text };
    (@not_yet) => { None };
    (@not_yet [$($accepted:tt)*]) => { Some(&[$(stringify!($accepted)),*]) };

    (
        $(#[$meta:meta])*
        $vis:vis const $table:ident {
            $(
                #[doc = $meaning:literal]
                $name:ident = $kind:expr
                    $(, default $default:tt)? $(, built_in $text:expr)? $(, example $example:tt)?
                    $(, required $required:literal)? $(, not_yet $accepted:tt)?;
            )*
        }
    ) => {
        $(#[$meta])*
        $vis const $table: &[$crate::schema::Key] = {
            // Here alone, because `Duration` is a type of fields too.
            use $crate::schema::{ValueKind::*, *};
            &[$(
                Key {
                    name: $crate::schema::keys::bare(stringify!($name)),
                    kind: $kind,
                    default: keys::keys!(@toml $($default)? $(= $text)?),
                    example: keys::keys!(@toml $($example)?),
                    meaning: $meaning.trim_ascii(),
                    required: false $(|| $required)?,
                    not_yet: keys::keys!(@not_yet $($accepted)?),
                },
            )*]
        };
    };

    (
        $(#[$meta:meta])*
        $vis:vis struct $table:ident $(: $derived:ident)? {
            $(
                #[doc = $meaning:literal]
                $name:ident $(: $type:ty $([$($serde:tt)+])?)? = $kind:expr
                    $(, default $default:tt)? $(, built_in $text:expr)? $(, example $example:tt)?
                    $(, required $required:literal)? $(, not_yet $accepted:tt)?;
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
                        $name = $kind $(, default $default)? $(, built_in $text)? $(, example $example)?
                            $(, required $required)? $(, not_yet $accepted)?;
                    )*
                }
            }

            /// Returns a table of these keys, in which defaults are found.
            pub(crate) fn pick(table: &$crate::schema::tree::TomlTable) -> $crate::schema::pick::Pick<'_> {
                $crate::schema::pick::Pick { table, keys: Self::KEYS }
            }

            /// Returns the values of a table of these keys.
            pub(crate) fn read(pick: $crate::schema::pick::Pick<'_>) -> Self {
                Self {
                    $($($name: pick.get::<$type>($crate::schema::keys::bare(stringify!($name))),)?)*
                    $($($more: Default::default(),)*)?
                }
            }
        }

        $(
            impl $derived for $table {
                fn default() -> Self {
                    Self::read(Self::pick(&Default::default()))
                }
            }
        )?

        /// Absent is the empty table, in which every key has its default.
        impl $crate::schema::pick::FromValue for $table {
            fn from_value(value: Option<$crate::schema::tree::TomlValue>) -> Option<Self> {
                let table = value.map_or_else(|| Some(Default::default()), $crate::schema::tree::TomlValue::into_table)?;
                Some(Self::read(Self::pick(&table)))
            }
        }
    };
}

pub(crate) use keys;

/// Returns the name of a key whose field is a keyword of Rust, such as `r#async`.
pub(crate) const fn bare(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use crate::schema::pick::FromValue;
    use crate::schema::read::constant;
    use crate::schema::{Key, ValueKind};
    use crate::words::tests::Colour;
    use std::time::Duration;

    keys! {
        /// A table of everything that an entry may have.
        #[derive(Debug, PartialEq, serde::Serialize)]
        struct Sample {
            /// How long it may take.
            timeout: Option<Duration> [rename = "seconds"] = DurationOrNone(Zero::Refused), default "none", example "30s";
            /// How many.
            count: u32 = Whole(1..=9), default 3, example 4;
            /// A keyword as the name, and no field.
            async = Bool, default false, example true, not_yet [false];
            /// Its name.
            name: String = Text(TextKind::Any), built_in LONG, example "b", required true;
            /// Which one.
            colour: Option<Colour> = Word(Colour::WORDS), example "dark-red";
            /// Further ones.
            further: Vec<Colour> = List(&Word(Colour::WORDS)), default ["green"], example ["green", "dark-red"];
            /// A table in it.
            inner: Inner = Table(Inner::KEYS);
        } and {
            /// Set by the caller.
            decided: bool,
        }
    }

    keys! {
        /// A table in a table.
        #[derive(Debug, PartialEq, serde::Serialize)]
        struct Inner {
            /// How large.
            size: u64 = Size(ANY_SIZE), default "1K", example "2K";
        }
    }

    const LONG: &str = "\"a\"";

    fn read(toml: &str) -> Sample {
        Sample::from_value(Some(constant(&ValueKind::Table(Sample::KEYS), toml))).unwrap()
    }

    #[test]
    fn an_entry_of_the_table_has_what_was_written() {
        let names: Vec<&str> = Sample::KEYS.iter().map(|key| key.name).collect();
        assert_eq!(
            names,
            ["timeout", "count", "async", "name", "colour", "further", "inner"]
        );
        let texts = |key: &Key| (key.default, key.example, key.meaning, key.required);
        let found: Vec<_> = Sample::KEYS.iter().map(texts).collect();
        assert_eq!(found[0], ("\"none\"", "\"30s\"", "How long it may take.", false));
        assert_eq!(found[1], ("3", "4", "How many.", false));
        assert_eq!(found[3], ("\"a\"", "\"b\"", "Its name.", true));
        assert_eq!(found[4], ("", "\"dark-red\"", "Which one.", false));
        assert_eq!(found[5].1, "[\"green\", \"dark-red\"]");
        let not_yet: Vec<_> = Sample::KEYS.iter().filter_map(|key| key.not_yet).collect();
        assert_eq!(not_yet, [["false"]]);
        assert!(matches!(Sample::KEYS[1].kind, ValueKind::Whole(ref range) if *range == (1..=9)));
    }

    #[test]
    fn fields_have_what_was_written_else_the_default() {
        let defaults = Sample {
            timeout: None,
            count: 3,
            name: "a".to_owned(),
            colour: None,
            further: vec![Colour::Green],
            inner: Inner { size: 1 << 10 },
            decided: false,
        };
        assert_eq!(Sample::from_value(None), Some(defaults));
        let written = read(
            "{ timeout = \"2s\", count = 9, async = false, name = \"c\", colour = \"green\", further = [], inner = { size = 5 } }",
        );
        assert_eq!((written.timeout, written.count), (Some(Duration::from_secs(2)), 9));
        assert_eq!((written.name.as_str(), written.colour), ("c", Some(Colour::Green)));
        assert_eq!((written.further, written.inner.size), (vec![], 5));
    }

    #[test]
    fn words_and_attributes_are_those_of_serde() {
        let json = serde_json::to_value(read("{ colour = \"dark-red\", name = \"\" }")).unwrap();
        assert_eq!(
            (json["colour"].as_str(), json.get("seconds").is_some()),
            (Some("dark-red"), true)
        );
    }
}
