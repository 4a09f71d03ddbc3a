//! `Environment=` and `EnvironmentFile=`.

use super::parse::{UnitSetting, words};
use super::unit::UnitImport;
use fnd_manifest::schema::TextKind;

/// Takes the variables of a line over.
///
/// # Errors
/// The line has no words.
pub(super) fn environment(maker: &mut UnitImport<'_>, item: &UnitSetting) -> Result<(), String> {
    for word in words(&item.value)? {
        match maker.specifiers.fill(&word) {
            Ok(pair) => variable(maker, item, &pair),
            Err(why) => maker.report.refused(&item.field, &why),
        }
    }
    Ok(())
}

fn variable(maker: &mut UnitImport<'_>, item: &UnitSetting, pair: &str) {
    match pair.split_once('=').filter(|(name, _)| TextKind::Variable.holds(name)) {
        Some((name, _)) if name.starts_with("FND_") => maker
            .report
            .refused(&item.field, "fnd itself sets variables with names like this"),
        Some((name, value)) => maker
            .made
            .works(&mut maker.report, &format!("env.{name}"), value, &item.field),
        None => {
            let shown: String = pair.chars().take(40).collect();
            maker
                .report
                .refused(&item.field, &format!("`{shown}` is no `NAME=VALUE`"));
        }
    }
}

/// Reads the file now: its variables become `[env]`, or secrets, if not everybody may read the file.
///
/// # Errors
/// The file cannot be read.
pub(super) fn environment_file(maker: &mut UnitImport<'_>, item: &UnitSetting) -> Result<(), String> {
    // With `-` the unit starts without the file, too (systemd.exec(5)).
    let lenient = item.value.starts_with('-');
    let path = maker.specifiers.fill(item.value.trim_start_matches('-'))?;
    let Some((text, public)) = (maker.machine.read)(&path) else {
        if lenient {
            let note = "the file is not there now; fnd does not look for it again";
            maker.report.differs(&item.field, "", note);
            return Ok(());
        }
        return Err(format!(
            "`{path}` cannot be read: import the unit where the file is, or write `-` before the path if the unit starts without it, too"
        ));
    };
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        match file_value(value.trim()) {
            Some(value) if public => variable(maker, item, &format!("{}={value}", name.trim())),
            // Everybody may read a manifest, but not this file.
            Some(value) => maker.secret(item, name.trim(), &value),
            None => {
                let why = format!(
                    "`{path}`: the value of `{}` goes on in the next line: write one line",
                    name.trim()
                );
                maker.report.refused(&item.field, &why);
            }
        }
    }
    Ok(())
}

/// Returns the value of a line of a file (systemd.exec(5)); nothing if it goes on in the next line. Other than in `Environment=`,
/// a quote counts only where a value begins, blanks inside stay, and `\n` is no line end.
fn file_value(text: &str) -> Option<String> {
    let mut value = String::new();
    let mut rest = text.trim_start();
    while let Some(quote) = rest.chars().next().filter(|c| ['"', '\''].contains(c)) {
        rest = quoted_part(rest.get(1..)?, quote, &mut value)?.trim_start();
    }
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        value.push(if c == '\\' { chars.next()? } else { c });
    }
    Some(value)
}

/// Adds the text up to the end of a quote to a value; returns what stands behind that.
fn quoted_part<'a>(text: &'a str, quote: char, value: &mut String) -> Option<&'a str> {
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            c if c == quote => return Some(chars.as_str()),
            '\\' if quote == '"' => {
                let next = chars.next()?;
                if !['"', '\\', '`', '$'].contains(&next) {
                    value.push('\\');
                }
                value.push(next);
            }
            c => value.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `parse_env_file` of systemd reads them.
    #[test]
    fn values_of_a_file_are_those_of_systemd() {
        for (text, expected) in [
            ("80", Some("80")),
            ("a  b # c", Some("a  b # c")),
            ("\"a b\"", Some("a b")),
            ("'a \\' 'b'", Some("a \\b")),
            ("a\"b\"c", Some("a\"b\"c")),
            ("it's", Some("it's")),
            (r"one\ntwo\\", Some(r"onentwo\")),
            (r#""one\n\$A\"""#, Some(r#"one\n$A""#)),
            ("", Some("")),
            ("\"a", None),
            (r"a\", None),
        ] {
            assert_eq!(file_value(text).as_deref(), expected, "{text}");
        }
    }
}
