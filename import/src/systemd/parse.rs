//! The lines of unit files, as systemd.syntax(7) describes them.

use crate::names::lists;
use crate::text::ImportText;
use fnd_manifest::foreign::Field;

/// A setting of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnitSetting {
    pub(super) section: String,
    pub(super) key: String,
    pub(super) value: String,
    pub(super) field: Field,
}

/// Keys whose lines add up, until an empty one removes those before it. Of all others the last line counts.
const LISTS: &str = "\
    OnCalendar OnActiveSec OnBootSec OnStartupSec OnUnitActiveSec OnUnitInactiveSec ExecStart ExecStartPre \
    ExecStartPost ExecStop ExecStopPost ExecReload ExecCondition Environment EnvironmentFile ReadWritePaths \
    ReadOnlyPaths InaccessiblePaths BindPaths BindReadOnlyPaths SupplementaryGroups After Before Requires Wants \
    WantedBy SystemCallFilter CapabilityBoundingSet DeviceAllow LoadCredential LoadCredentialEncrypted \
    SetCredential SetCredentialEncrypted ImportCredential AmbientCapabilities PassEnvironment UnsetEnvironment \
    IPAddressAllow IPAddressDeny RestrictAddressFamilies Documentation OnFailure BindsTo PartOf Conflicts";

/// Returns the settings of a file, in their order, and its bad lines with what is wrong.
pub(super) fn items(text: &ImportText) -> (Vec<UnitSetting>, Vec<(Field, String)>) {
    let (mut items, mut bad) = (Vec::new(), Vec::new());
    let mut section = String::new();
    let mut lines = text.lines.iter().enumerate();
    while let Some((index, content)) = lines.next() {
        let trimmed = content.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            name.clone_into(&mut section);
            continue;
        }
        let mut whole = trimmed.to_owned();
        while whole.ends_with('\\') {
            whole.pop();
            // A backslash at the end of a line becomes a blank (systemd.syntax(7)).
            whole.push(' ');
            // Comments between continued lines are left out.
            match lines.find(|(_, next)| !next.trim_start().starts_with(['#', ';'])) {
                Some((_, next)) => whole.push_str(next.trim()),
                None => break,
            }
        }
        let column = content.chars().take_while(|c| c.is_whitespace()).count() + 1;
        let Some((key, value)) = whole.split_once('=').filter(|(key, _)| !key.trim().is_empty()) else {
            let field = text.field("line", index + 1, column);
            bad.push((field, "expected `KEY=VALUE`, a section or a comment".to_owned()));
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        let field = text.field(&format!("{key}="), index + 1, column);
        if section.is_empty() {
            bad.push((field, "it is in no section".to_owned()));
            continue;
        }
        items.push(UnitSetting {
            section: section.clone(),
            key: key.to_owned(),
            value: value.to_owned(),
            field,
        });
    }
    (items, bad)
}

/// Splits settings into those that count and those that a later line replaces.
pub(super) fn effective(items: Vec<UnitSetting>) -> (Vec<UnitSetting>, Vec<UnitSetting>) {
    use std::collections::BTreeMap;
    // For each key, the first line that counts.
    let mut from: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let name = (item.section.clone(), item.key.clone());
        if !lists(LISTS, &item.key) {
            from.insert(name, index);
        } else if item.value.is_empty() {
            from.insert(name, index + 1);
        }
    }
    let counts = |index: usize, item: &UnitSetting| {
        let first = from.get(&(item.section.clone(), item.key.clone()));
        first.is_none_or(|first| index >= *first)
    };
    let mut indexes = 0..;
    let counts = |item: &UnitSetting| indexes.next().is_some_and(|index| counts(index, item));
    items.into_iter().partition(counts)
}

/// Splits a value into words, with quotes and escapes as in systemd.service(5).
///
/// # Errors
/// A quote is not closed, or an escape is none.
pub(super) fn words(value: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                // A pair of quotes with nothing between is a word, too.
                word.get_or_insert_default();
            }
            ('\\', _) => {
                let text = word.get_or_insert_default();
                escape(&mut chars, text)?;
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".to_owned());
    }
    words.extend(word);
    Ok(words)
}

fn escape(chars: &mut std::str::Chars<'_>, text: &mut String) -> Result<(), String> {
    let c = chars.next().ok_or("nothing follows the last `\\`")?;
    text.push(match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        's' => ' ',
        '\\' | '"' | '\'' | ' ' => c,
        // A word of its own that is no separator.
        ';' => {
            text.push_str("\\;");
            return Ok(());
        }
        'x' => {
            let digits: String = chars.by_ref().take(2).collect();
            // No argument can have a NUL byte (execve(2)), and a byte above 0x7f alone is no UTF-8.
            let byte = u8::from_str_radix(&digits, 16)
                .ok()
                .filter(|byte| (1..0x80).contains(byte));
            char::from(byte.ok_or_else(|| format!("`\\x{digits}` is no character of ASCII"))?)
        }
        _ => return Err(format!("`\\{c}` is no escape")),
    });
    Ok(())
}

/// The values of a unit's specifiers.
#[derive(Debug, Clone, Default)]
pub(super) struct Specifiers {
    /// Full name, such as `backup@db.service`.
    pub(super) unit: String,
    /// Home of the unit's user, if it is known.
    pub(super) home: Option<String>,
    /// The unit's user.
    pub(super) user: String,
    /// Whether a user's service manager runs the unit, whose directories lie in the home.
    pub(super) of_user: bool,
}

impl Specifiers {
    /// Replaces specifiers (systemd.unit(5)) that are the same whenever the unit starts.
    ///
    /// # Errors
    /// There is another one.
    pub(super) fn fill(&self, text: &str) -> Result<String, String> {
        let mut filled = String::new();
        let mut chars = text.chars();
        let whole = self.unit.rsplit_once('.').map_or(self.unit.as_str(), |(name, _)| name);
        let (prefix, instance) = whole.split_once('@').unwrap_or((whole, ""));
        while let Some(c) = chars.next() {
            if c != '%' {
                filled.push(c);
                continue;
            }
            let specifier = chars.next().map(String::from).unwrap_or_default();
            let value = match specifier.as_str() {
                "%" => "%",
                "n" => &self.unit,
                "N" => whole,
                "p" | "P" => prefix,
                "i" | "I" => instance,
                "u" if self.user.is_empty() => return Err("the name of the user is not known here".to_owned()),
                "u" => &self.user,
                "h" => self
                    .home
                    .as_deref()
                    .ok_or("`%h` is the home of a user that this machine does not know")?,
                "t" if self.of_user => {
                    return Err("`%t` is `$XDG_RUNTIME_DIR` of the user, which no run of a function has: write another directory".to_owned());
                }
                "S" | "C" | "L" | "E" if self.of_user => {
                    filled.push_str(self.home.as_deref().ok_or("the home of the user is not known here")?);
                    match specifier.as_str() {
                        "S" => "/.local/state",
                        "C" => "/.cache",
                        "L" => "/.local/state/log",
                        _ => "/.config",
                    }
                }
                "t" => "/run",
                "S" => "/var/lib",
                "C" => "/var/cache",
                "L" => "/var/log",
                "E" => "/etc",
                "T" => "/tmp",
                "V" => "/var/tmp",
                _ => {
                    let why = "its value is not known here: write the value itself, or compute it in the script";
                    return Err(format!("`%{specifier}`: {why}"));
                }
            };
            filled.push_str(value);
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_continue_and_lists_are_reset() {
        let text = "; c\n[Service]\nExecStart=/bin/a \\\n# no\n  b \\\n  c\nNice=1\nNice=2\nEnvironment=A=1\nEnvironment=\nEnvironment=B=2\nbad\n";
        let (items, bad) = items(&ImportText::new("x.service", text));
        assert_eq!(bad.len(), 1);
        assert_eq!(bad[0].0.line, 12);
        assert_eq!((items[0].value.as_str(), items[0].field.line), ("/bin/a  b  c", 3));
        let (kept, replaced) = effective(items);
        let values: Vec<_> = kept.iter().map(|item| item.value.as_str()).collect();
        assert_eq!(values, ["/bin/a  b  c", "2", "B=2"]);
        assert_eq!(replaced.len(), 3);
    }

    #[test]
    fn words_have_quotes_and_escapes() {
        let expected = ["a b", "c", "", "d'e", "f\tg h", "\\;"];
        assert_eq!(words("'a b' c \"\" \"d'e\"  f\\tg\\x20h \\;").unwrap(), expected);
        assert!(words("'a").is_err());
        assert!(words("\\q").is_err());
        assert!(words("\\x0").is_err());
    }

    #[test]
    fn constant_specifiers_are_filled_in() {
        let of = Specifiers {
            unit: "backup@db.service".to_owned(),
            ..Specifiers::default()
        };
        assert_eq!(
            of.fill("%n %N %p %i 5%% %t").unwrap(),
            "backup@db.service backup@db backup db 5% /run"
        );
        for wrong in ["%h", "%m", "%", "x%é"] {
            assert!(of.fill(wrong).is_err(), "{wrong}");
        }
        let of = Specifiers {
            home: Some("/home/ann".to_owned()),
            of_user: true,
            ..of
        };
        assert_eq!(
            of.fill("%S/a %C %L %E").unwrap(),
            "/home/ann/.local/state/a /home/ann/.cache /home/ann/.local/state/log /home/ann/.config"
        );
        assert!(of.fill("%t/a").is_err());
    }
}
