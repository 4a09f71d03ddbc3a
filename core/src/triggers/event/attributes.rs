//! The rules for the names and values of an event's attributes (CloudEvents 1.0.2, sections 3 and 4).

use super::{ATTRIBUTES_MAX, Malformed};
use crate::records::Attributes;

/// The only version that is read.
const VERSION: &str = "1.0";
/// Longest name of an attribute. The specification asks senders for at most 20 characters.
const NAME_MAX: usize = 64;

impl Attributes {
    /// Sets an attribute, after checking its name and its value.
    ///
    /// # Errors
    /// The name or the value breaks a rule.
    pub(super) fn set(&mut self, name: &str, value: String) -> Result<(), Malformed> {
        let wrong = |problem: &'static str| Err(Malformed::attribute(name, problem));
        // The specification excludes control characters (section 3.1). Handlers get attributes as headers, in which a
        // line break would begin another header.
        if value.chars().any(char::is_control) {
            return wrong("has a control character");
        }
        // An empty version is refused below, where the message says which version is read.
        if value.is_empty() && name != "specversion" && Self::NAMES.contains(&name) {
            return wrong("is empty");
        }
        match name {
            "specversion" if value == VERSION => {}
            "specversion" => {
                let problem = format!("is `{}`: only the version {VERSION} is read", printable_start(&value));
                return Err(Malformed::attribute(name, problem));
            }
            "id" => self.id = value,
            "source" if is_uri_reference(&value) => self.source = value,
            "source" => return wrong("is not a URI reference"),
            "type" => self.kind = value,
            "subject" => self.subject = Some(value),
            "time" if value.parse::<jiff::Timestamp>().is_ok() => self.time = Some(value),
            "time" => return wrong("is not a time such as `2026-11-21T08:00:00Z` (RFC 3339)"),
            // A header cannot have the spaces around it.
            "datacontenttype" if is_media_type(&value) => self.datacontenttype = Some(value.trim().to_owned()),
            "datacontenttype" => return wrong("is not a media type such as `application/json`"),
            "dataschema" if is_uri_reference(&value) && value.contains(':') => self.dataschema = Some(value),
            "dataschema" => return wrong("is not a URI"),
            "data" | "data_base64" => return wrong("is the data, and no attribute"),
            name if is_name(name) => drop(self.extensions.insert(name.to_owned(), value)),
            name => {
                let problem = format!("has a name that is not made of 1 to {NAME_MAX} lower-case letters and digits");
                return Err(Malformed::attribute(printable_start(name), problem));
            }
        }
        Ok(())
    }

    /// Returns the attributes if the event has all that it needs. `versioned` says whether a version was set.
    ///
    /// # Errors
    /// The first attribute that is missing, or the size of all.
    pub(super) fn complete(self, versioned: bool) -> Result<Self, Malformed> {
        let required = [
            ("specversion", !versioned),
            ("id", self.id.is_empty()),
            ("source", self.source.is_empty()),
            ("type", self.kind.is_empty()),
        ];
        if let Some((name, _)) = required.iter().find(|(_, missing)| *missing) {
            return Err(Malformed::attribute(*name, "is missing"));
        }
        let size = |(name, value): (&str, &str)| name.len() + value.len();
        if self.all().map(size).sum::<usize>() > ATTRIBUTES_MAX {
            let longest = self.all().max_by_key(|attribute| size(*attribute));
            let name = longest.map_or("id", |(name, _)| name).to_owned();
            let problem = format!("is too long: the attributes have more than {ATTRIBUTES_MAX} bytes together");
            return Err(Malformed::attribute(name, problem));
        }
        Ok(self)
    }
}

/// Returns the printable start of a text from a sender, for an error message.
fn printable_start(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(NAME_MAX).collect()
}

/// Says whether a text can be the name of an attribute.
pub(super) fn is_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

/// Says whether a text has no character that RFC 3986 keeps out of a URI reference. Letters of other scripts are
/// tolerated: many senders do not encode them.
fn is_uri_reference(text: &str) -> bool {
    !text.chars().any(|c| c.is_whitespace() || "\"<>\\^`{|}".contains(c))
}

/// Says whether a text is `TYPE/SUBTYPE`, with or without parameters.
fn is_media_type(text: &str) -> bool {
    let is_token = |part: &str| {
        let fine = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        !part.is_empty() && part.bytes().all(fine)
    };
    super::essence(text)
        .split_once('/')
        .is_some_and(|(kind, sub)| is_token(kind) && is_token(sub))
        && text.is_ascii()
}
