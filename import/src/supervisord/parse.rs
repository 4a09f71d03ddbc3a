//! The lines of `supervisord.conf`: sections, `key=value` or `key:value`, comments, continued lines.

use crate::names::is_settable;
use crate::text::ImportText;
use fnd_manifest::foreign::Field;

#[derive(Debug, Clone)]
pub(super) struct SupervisordSetting {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) field: Field,
}

#[derive(Debug, Clone)]
pub(super) struct Section {
    /// `program:web`.
    pub(super) name: String,
    pub(super) field: Field,
    pub(super) items: Vec<SupervisordSetting>,
}

/// Returns the sections of a file, and its bad lines.
pub(super) fn sections(text: &ImportText) -> (Vec<Section>, Vec<Field>) {
    let (mut sections, mut bad): (Vec<Section>, Vec<Field>) = (Vec::new(), Vec::new());
    for (index, content) in text.lines.iter().enumerate() {
        let line = index + 1;
        let trimmed = without_comment(content).trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        // Python's configparser, which supervisord uses, adds indented lines to the value before them.
        let continued = content.starts_with([' ', '\t']);
        if let Some(item) = sections
            .last_mut()
            .and_then(|section| section.items.last_mut())
            .filter(|_| continued)
        {
            item.value.push('\n');
            item.value.push_str(trimmed);
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            sections.push(Section {
                name: name.trim().to_owned(),
                field: text.field(trimmed, line, 1),
                items: Vec::new(),
            });
            continue;
        }
        let pair = trimmed
            .find(['=', ':'])
            .and_then(|at| Some((trimmed.get(..at)?, trimmed.get(at + 1..)?)));
        match (pair, sections.last_mut()) {
            (Some((key, value)), Some(section)) if !key.trim().is_empty() => section.items.push(SupervisordSetting {
                // Python's configparser, which supervisord uses, turns keys into lower case.
                key: key.trim().to_ascii_lowercase(),
                value: value.trim().to_owned(),
                field: text.field(key.trim(), line, 1),
            }),
            _ => bad.push(text.field("line", line, 1)),
        }
    }
    (sections, bad)
}

/// Returns a line up to a comment: a `;` or a `#` behind white space.
fn without_comment(line: &str) -> &str {
    let before = |at: usize| line.get(..at).unwrap_or_default();
    let mut marks = line.match_indices([';', '#']).map(|(at, _)| before(at));
    marks.find(|text| text.ends_with(char::is_whitespace)).unwrap_or(line)
}

/// Reads `A="b c",D='e',F=g` of `environment=`.
///
/// # Errors
/// The mistake, as text for people.
pub(super) fn variables(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut variables = Vec::new();
    let mut rest = text.trim_start_matches([',', '\n', ' ', '\t']);
    while !rest.is_empty() {
        let (name, value) = rest
            .split_once('=')
            .ok_or("expected `NAME=\"VALUE\"`, separated by commas")?;
        let name = name.trim();
        if !is_settable(name) {
            return Err(format!(
                "`{}` is no name of a variable",
                name.chars().take(40).collect::<String>()
            ));
        }
        let value = value.trim_start();
        let (value, behind) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value
                .get(1..)
                .and_then(|inner| inner.split_once(quote))
                .ok_or("a quote is not closed")?,
            _ => value.split_at(value.find([',', '\n']).unwrap_or(value.len())),
        };
        variables.push((name.to_owned(), value.trim_end_matches([' ', '\t']).to_owned()));
        rest = behind.trim_start_matches([',', '\n', ' ', '\t']);
    }
    Ok(variables)
}

/// Replaces `%(here)s`, `%(process_num)02d` and their like; `%%` is a `%`.
///
/// # Errors
/// A name is unknown.
pub(super) fn expand(text: &str, known: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('%') {
        expanded.push_str(before);
        if let Some(behind) = behind.strip_prefix('%') {
            expanded.push('%');
            rest = behind;
            continue;
        }
        let (name, form) = behind
            .strip_prefix('(')
            .and_then(|inner| inner.split_once(')'))
            .ok_or("a `%` is written `%%`")?;
        let end = form
            .find(['s', 'd'])
            .filter(|end| form.bytes().take(*end).all(|b| b.is_ascii_digit()));
        let end = end.ok_or_else(|| format!("`%({name})` ends with `s` or `d`"))?;
        let (width, behind) = form.split_at(end);
        let value = known(name).ok_or_else(|| format!("`%({name})s` is not known here: write the value itself"))?;
        // Without a bound one width could fill the memory.
        let wide: usize = width.parse().unwrap_or(0).min(32);
        let fill = if width.starts_with('0') { "0" } else { " " };
        expanded.push_str(&fill.repeat(wide.saturating_sub(value.chars().count())));
        expanded.push_str(&value);
        rest = behind.get(1..).unwrap_or_default();
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_have_settings_comments_and_continued_lines() {
        let text = "; c\n[program:web]\ncommand=/bin/a ; why\nenvironment =\n  A=\"1\",\n  B=2\nUser: ada\nbad\n[x]\n";
        let (sections, bad) = sections(&ImportText::new("s.conf", text));
        assert_eq!((sections.len(), bad.len(), bad[0].line), (2, 1, 8));
        let values: Vec<_> = sections[0]
            .items
            .iter()
            .map(|item| (item.key.as_str(), item.value.as_str()))
            .collect();
        assert_eq!(
            values,
            [
                ("command", "/bin/a"),
                ("environment", "\nA=\"1\",\nB=2"),
                ("user", "ada")
            ]
        );
    }

    #[test]
    fn a_comment_begins_behind_white_space() {
        for (line, expected) in [
            ("command=/bin/a ; why", "command=/bin/a "),
            ("command=/bin/a\t# why ; not", "command=/bin/a\t"),
            ("command=/bin/a#1;2 ;3", "command=/bin/a#1;2 "),
            ("color=#fff", "color=#fff"),
            ("  # why", "  "),
        ] {
            assert_eq!(without_comment(line), expected, "{line}");
        }
    }

    #[test]
    fn variables_are_separated_by_commas() {
        let found = variables("A=\"b, c\", D='e',F=g\nH=i").unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(found, [("A", "b, c"), ("D", "e"), ("F", "g"), ("H", "i")]);
        for wrong in ["A", "A=\"b", "a b=c", "=x", "FND_X=1"] {
            assert!(variables(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn expansions_are_filled_in() {
        let known = |name: &str| (name == "process_num").then(|| "7".to_owned());
        assert_eq!(
            expand("80%(process_num)02d %(process_num)s 5%%", &known).unwrap(),
            "8007 7 5%"
        );
        for wrong in ["%(x)s", "5%", "%(process_num)x", "%(process_num"] {
            assert!(expand(wrong, &known).is_err(), "{wrong}");
        }
    }
}
