//! Tables of the keys that TOML files of fnd may have. Parsing, `fndctl explain` and the check of the shipped example
//! files all use one table per file, so that they always agree.
//!
//! `keys` defines the tables. [`source`] knows the positions in a person's file, [`read`] checks a file against its table, [`tree`] holds the
//! result.
//!
//! Files:
//! - `keys`: the macro `keys!`
//! - `pick`: typed access to a checked table
//! - `read`: checks a file against its table and reports all problems
//! - `source`: a text with its positions
//! - `tree`: typed values with their positions

pub(crate) mod keys;
pub mod pick;
pub mod read;
pub mod source;
pub mod tree;

use fnd_wire::sandbox::is_plain;
use std::ops::RangeInclusive;

/// The name of manifests of functions, [`Schema::what`].
pub const MANIFEST: &str = "a function's manifest";

/// The keys of a kind of file.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// The keys.
    pub keys: &'static [Key],
    /// Name of the kind of file, for "unknown key ... in ...".
    pub what: &'static str,
}

/// A key, or a table of keys.
#[derive(Debug)]
pub struct Key {
    /// The name of the key in its table.
    pub name: &'static str,
    /// The values that it may have.
    pub kind: ValueKind,
    /// The default as TOML; empty where there is none.
    pub default: &'static str,
    /// An example value as TOML; empty for tables.
    pub example: &'static str,
    /// The meaning, in one or two sentences.
    pub meaning: &'static str,
    /// Whether the table that contains the key is incomplete without it.
    pub required: bool,
    /// Where the key is refused because its feature is not built yet: the values, as TOML, that are accepted because they
    /// change nothing. A setting that has no effect is an error and never ignored. A refused table stands for all of its
    /// keys.
    pub not_yet: Option<&'static [&'static str]>,
}

/// The kind of a value.
#[derive(Debug)]
pub enum ValueKind {
    /// `true` or `false`.
    Bool,
    /// Text of a form.
    Text(TextKind),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A duration with a unit (`30s`).
    Duration(Zero),
    /// A duration or `"none"`.
    DurationOrNone(Zero),
    /// A size within a range of bytes.
    Size(RangeInclusive<u64>),
    /// A size within a range of bytes, or `"none"`.
    SizeOrNone(RangeInclusive<u64>),
    /// A share of the CPU, as text or as a number of cores.
    Cpu,
    /// A number of bytes per second (`10M/s`).
    ByteRate,
    /// A count per period.
    Rate,
    /// Permission bits as octal digits (`0640`).
    Mode,
    /// A number of microseconds within a range.
    Micros(RangeInclusive<u32>),
    /// A whole number within a range.
    Whole(RangeInclusive<u64>),
    /// A number within a range.
    Real(RangeInclusive<f64>),
    /// Any value that JSON can have.
    Json,
    /// Any table, which becomes an object of JSON.
    JsonTable,
    /// Any number of values of one kind.
    List(&'static ValueKind),
    /// Any keys of a form, with values of one kind.
    Map(TextKind, &'static ValueKind),
    /// A table with these keys.
    Table(&'static [Key]),
    /// An array of tables of these keys.
    Tables(&'static [Key]),
    /// The table `[defaults]`: the keys of another kind of file.
    Defaults(&'static Schema),
    /// One of two kinds, tried in this order; they have different TOML types.
    Either(&'static ValueKind, &'static ValueKind),
}

/// Whether a duration may be zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zero {
    /// Zero is allowed and has a meaning.
    Fine,
    /// Zero is refused, because it could mean "never" or "at once".
    Refused,
}

/// Most characters of a pattern of function names: as many as the longest name has, `GROUP/NAME`.
const PATTERN_MAX: usize = 127;

/// The regular expression of a group's name, and of a function's name in its group.
pub(crate) const NAME_PART: &str = "[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?";

/// The form of a text that only some keys have. It stands beside the type that such keys are read into.
#[derive(Debug)]
pub struct TextGrammar {
    /// A name for programmers.
    pub name: &'static str,
    /// A description, for "expected ...".
    pub expected: &'static str,
    /// Says whether a text without NUL has this form.
    pub holds: fn(&str) -> bool,
    /// Returns the pattern for JSON Schemas. It may accept more than `holds` does.
    pub pattern: fn() -> String,
}

/// The form of a text. No form allows NUL, which arguments, paths and environment values cannot contain.
#[derive(Debug, Clone, Copy)]
pub enum TextKind {
    /// Any text, also an empty one.
    Any,
    /// At least one character.
    Some,
    /// At least one of `A-Z a-z 0-9 . _ - /`; used for names of labels, runtimes, users, sizes and secrets.
    Name,
    /// The name of an environment variable.
    Variable,
    /// The name of a function.
    Function,
    /// The name of a function, or a pattern of names.
    Functions,
    /// Types of events: a text with `*` at the end only.
    EventTypes,
    /// Keys of the state: `SCOPE/KEY`, `SCOPE/BEGINNING*`, or `*`.
    StateKeys,
    /// A path that begins with `/`, without `..`.
    Absolute,
    /// An absolute path other than `/`, without `..`.
    Below,
    /// A path below `/dev`, without `..`.
    Device,
    /// A path that does not begin with `/`, without `..`.
    Relative,
    /// A URL path, which begins with `/`.
    UrlPath,
    /// An IP address and a port.
    Socket,
    /// A host name in lower case, without a port.
    Host,
    /// A regular expression that `regex-lite` can compile.
    Regex,
    /// An address to listen on: an IP address and a port, or `unix:` and a path.
    Listen,
    /// An IP address, a network, or `unix`.
    Network,
    /// A deno permission: `net`, `read=/srv/in`, or the preset `keptn`.
    Permission,
    /// A share from `1%` to `100%`.
    Percent,
    /// A form of some keys alone.
    Grammar(&'static TextGrammar),
}

impl TextKind {
    /// Returns a description of this form, for "expected ...".
    #[must_use]
    pub fn expected(self) -> &'static str {
        match self {
            Self::Any => "a text",
            Self::Some => "a text that is not empty",
            Self::Name => "a name of letters, digits, `.`, `_`, `-` and `/`",
            Self::Variable => "the name of a variable: letters, digits and `_`, not beginning with a digit",
            Self::Function => "the name of a function, `NAME` or `GROUP/NAME`",
            Self::EventTypes => {
                "a type of events such as `order.created`, or `order.*`: a `*` is only possible at the end"
            }
            Self::StateKeys => {
                "a key of the state such as `shop/orders`, `shop/*` or `shop/cart*` for all keys that begin so, or `*` for all: a `*` is \
                 only possible at the end"
            }
            Self::Functions => {
                "the name of a function, or a pattern such as `web/*` in which `*` is any text: `a-z`, `0-9`, `_`, `-`, `/`, `*`"
            }
            Self::Absolute => "an absolute path without `..`",
            Self::Below => "an absolute path other than `/`, without `..`",
            Self::Device => "a path below `/dev` without `..`",
            Self::Relative => "a path relative to the function's directory, without `..`",
            Self::UrlPath => "a path that begins with `/`",
            Self::Socket => "an IP address and a port such as `127.0.0.1:9640` or `[::1]:9640`",
            Self::Host => "a host name in lower case without a port, such as `api.example.com`",
            Self::Regex => "a regular expression",
            Self::Listen => "an address and a port such as `127.0.0.1:8080`, or `unix:` and an absolute path",
            Self::Network => "an IP address, a network such as `192.0.2.0/24`, or `unix`",
            Self::Percent => "a share from `1%` to `100%`",
            Self::Permission => "a permission of deno such as `net`, `net=example.com`, `read=/srv/in`, or `keptn`",
            Self::Grammar(grammar) => grammar.expected,
        }
    }

    /// Says whether a text has this form.
    #[must_use]
    pub fn holds(self, text: &str) -> bool {
        if text.contains('\0') {
            return false;
        }
        let component = |part: &str| !part.is_empty() && part != "." && part != "..";
        match self {
            Self::Any => true,
            Self::Some => !text.is_empty(),
            Self::Name => !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b)),
            Self::Variable => {
                !text.starts_with(|c: char| c.is_ascii_digit())
                    && !text.is_empty()
                    && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            }
            Self::Function => fnd_wire::ids::FunctionName::new(text).is_ok(),
            Self::Functions => {
                let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-/*".contains(&b);
                (1..=PATTERN_MAX).contains(&text.len()) && text.bytes().all(fits)
            }
            Self::StateKeys => crate::state_key::is_pattern(text),
            Self::EventTypes => !text.is_empty() && text.find('*').is_none_or(|at| at + 1 == text.len()),
            Self::Absolute => match text.strip_prefix('/') {
                Some("") => true,
                Some(rest) => rest.strip_suffix('/').unwrap_or(rest).split('/').all(component),
                None => false,
            },
            Self::Below => is_plain(text.strip_suffix('/').unwrap_or(text)),
            Self::Device => text.starts_with("/dev/") && is_plain(text),
            Self::Relative => text.split('/').all(component),
            Self::UrlPath => text.starts_with('/'),
            Self::Socket => text
                .parse::<std::net::SocketAddr>()
                // For port 0 the kernel chooses a free port, and no client would know which one.
                .is_ok_and(|address| address.port() != 0),
            Self::Host => {
                let label = |label: &str| {
                    let fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
                    !label.is_empty() && label.bytes().all(fine)
                };
                // DNS allows 255 bytes for a name as it is sent, which are 253 characters of text (RFC 1035, section
                // 2.3.4).
                text.len() <= 253 && text.split('.').all(label)
            }
            // Expressions test texts of strangers. `regex-lite` matches in linear time.
            Self::Regex => regex_lite::Regex::new(text).is_ok(),
            Self::Listen => match text.strip_prefix("unix:") {
                // `/` is an absolute path, but no socket can be there.
                Some(path) => Self::Absolute.holds(path) && path.len() > 1,
                None => Self::Socket.holds(text),
            },
            Self::Network => {
                // `IpNet` reads no address without a prefix length.
                text == "unix" || text.parse::<ipnet::IpNet>().is_ok() || text.parse::<std::net::IpAddr>().is_ok()
            }
            Self::Percent => percent(text).is_some(),
            Self::Permission => {
                let (name, value) = text.split_once('=').map_or((text, None), |(n, v)| (n, Some(v)));
                text == "keptn" || (PERMISSIONS.contains(&name) && value != Some(""))
            }
            Self::Grammar(grammar) => (grammar.holds)(text),
        }
    }
}

/// Reads a share such as `10%`, from 1 to 100.
#[must_use]
pub fn percent(text: &str) -> Option<u32> {
    // `parse` alone would accept a sign, too.
    let digits = text
        .strip_suffix('%')
        .filter(|digits| digits.len() <= 3 && digits.bytes().all(|b| b.is_ascii_digit()))?;
    digits.parse().ok().filter(|percent| (1..=100).contains(percent))
}

/// deno's permissions: the words after `--allow-`. `all` is not among them; a manifest must list each permission.
pub const PERMISSIONS: [&str; 8] = ["read", "write", "net", "env", "run", "sys", "ffi", "import"];

/// The range of sizes that have no narrower limit.
pub const ANY_SIZE: RangeInclusive<u64> = 0..=(1 << 60);

impl ValueKind {
    /// Returns a description of this kind, for "expected ...".
    #[must_use]
    pub fn expected(&self) -> String {
        let none = |text: &str| format!("{text}, or `\"none\"`");
        let duration = "a duration such as `\"30s\"`";
        let size = "a size such as `\"256M\"`";
        match self {
            Self::Bool => "`true` or `false`".to_owned(),
            Self::Text(form) => form.expected().to_owned(),
            Self::Word(words) => one_of(words),
            Self::Duration(_) => duration.to_owned(),
            Self::DurationOrNone(_) => none(duration),
            Self::Size(_) => size.to_owned(),
            Self::SizeOrNone(_) => none(size),
            Self::Cpu => "a number of cores such as `\"500m\"`, `\"0.5\"` or `\"50%\"`".to_owned(),
            Self::ByteRate => "a size per second such as `\"10M/s\"`".to_owned(),
            Self::Rate => "a number per time such as `\"10/s\"`".to_owned(),
            Self::Mode => "permission bits in octal such as `\"0640\"`".to_owned(),
            Self::Micros(range) => {
                let [low, high] = [range.start(), range.end()].map(|micros| fnd_wire::units::print_micros(*micros));
                format!("a number of microseconds from `\"{low}\"` to `\"{high}\"`")
            }
            Self::Whole(range) => format!("a whole number from {} to {}", range.start(), range.end()),
            Self::Real(range) => format!("a number from {:?} to {:?}", range.start(), range.end()),
            Self::Json => "any value".to_owned(),
            Self::List(item) => format!("an array, each item {}", item.expected()),
            Self::JsonTable | Self::Map(..) | Self::Table(_) | Self::Defaults(_) => "a table".to_owned(),
            Self::Tables(_) => "an array of tables".to_owned(),
            Self::Either(first, second) => format!("{}, or {}", first.expected(), second.expected()),
        }
    }

    /// Returns the keys of a table of this kind.
    #[must_use]
    pub fn keys(&self) -> &'static [Key] {
        match self {
            Self::Table(keys) | Self::Tables(keys) => keys,
            Self::Defaults(schema) => schema.keys,
            _ => &[],
        }
    }
}

/// Returns `one of `a`, `b` or `c``.
#[must_use]
pub fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} or {last}", first.join(", ")),
        None => "nothing".to_owned(),
    }
}
