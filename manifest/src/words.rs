//! `words!`: the one place of the words of an enum, in bodies of the API, in files that people write, and in the history.
//! `texts!`: a table of words that have a text each.

use schemars::{Schema, json_schema};

/// An enum that [`words!`](crate::words!) defines.
pub trait WordEnum: Sized {
    /// Returns the variant with this word; nothing for another text.
    fn of_word(word: &str) -> Option<Self>;
}

/// Defines an enum of words. `ALL` and `WORDS` list them in its order; it is read and written as one of them. The API's
/// description has it under its name, or under the one after `as`, with its comments.
#[macro_export]
macro_rules! words {
    ($(
        $(#[doc = $doc:literal])+
        $vis:vis enum $name:ident $(as $schema_name:literal)? {
            $($(#[doc = $meaning:literal])+ $variant:ident = $word:literal,)+
        }
    )+) => {$(
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        $vis enum $name {
            $(
                $(#[doc = $meaning])+
                #[serde(rename = $word)]
                $variant,
            )+
        }

        impl $name {
            /// The words, in the order of [`ALL`](Self::ALL).
            $vis const WORDS: &'static [&'static str] = &[$($word),+];

            /// All variants, in the order of their definition.
            $vis const ALL: [Self; Self::WORDS.len()] = [$(Self::$variant),+];

            /// Returns the word of the variant.
            #[must_use]
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// Returns the variant that a word stands for; nothing if no variant has it.
            #[must_use]
            $vis fn parse(text: &str) -> Option<Self> {
                match text {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl $crate::words::WordEnum for $name {
            fn of_word(word: &str) -> Option<Self> {
                Self::parse(word)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                // A macro cannot choose between a name that may be absent and another one, so the first item of a list
                // is taken.
                [$($schema_name,)? stringify!($name)][0].into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::words::schema(concat!($($doc),+), [$(($word, concat!($($meaning),+))),+])
            }
        }
    )+};
}

/// A table of texts, `&[(&str, &str)]`: each row is a word, a colon and its text.
#[macro_export]
macro_rules! texts {
    ($($word:literal: $text:expr,)+) => {
        &[$(($word, $text)),+]
    };
}

/// Returns the schema of words that have a meaning each.
#[must_use]
pub fn schema(meaning: &str, words: impl IntoIterator<Item = (&'static str, &'static str)>) -> Schema {
    let mut description = format!("{}\n", meaning.trim_ascii());
    let mut list = Vec::new();
    for (word, meaning) in words {
        description += &format!("\n- `{word}`: {}", meaning.trim_ascii());
        list.push(word);
    }
    json_schema!({"type": "string", "enum": list, "description": description})
}

#[cfg(test)]
pub(crate) mod tests {
    words! {
        /// A colour.
        pub(crate) enum Colour {
            /// Green.
            Green = "green",
            /// Dark red.
            DarkRed = "dark-red",
        }
    }

    #[test]
    fn every_word_survives_its_text() {
        assert_eq!(Colour::WORDS, ["green", "dark-red"]);
        for (colour, word) in Colour::ALL.into_iter().zip(Colour::WORDS) {
            assert_eq!((colour.as_str(), Colour::parse(word)), (*word, Some(colour)));
            assert_eq!(serde_json::to_value(colour).unwrap(), *word);
            assert_eq!(serde_json::from_value::<Colour>((*word).into()).unwrap(), colour);
        }
        assert_eq!(Colour::parse("dark red"), None);
    }
}
