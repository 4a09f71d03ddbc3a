//! The lines of a crontab, as crontab(5) of Debian and of cronie describe them.

use super::times::{self, Cron};
use crate::text::ImportText;
use fnd_manifest::schema::TextKind;

/// When an entry runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EntryTime {
    /// At these times.
    Cron(Cron),
    /// `@reboot`.
    Boot,
}

/// A line that means something. All columns count characters, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CrontabLine {
    /// `NAME=value`.
    Variable { line: usize, name: String, value: String },
    /// A command and its time.
    Entry(CrontabEntry),
    /// Neither.
    Bad { line: usize, column: usize, why: String },
}

/// A command and its time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CrontabEntry {
    pub(super) line: usize,
    pub(super) time: EntryTime,
    /// Where the time begins.
    pub(super) time_column: usize,
    /// The user, in a crontab that names users, and its column.
    pub(super) user: Option<(String, usize)>,
    /// The command of the shell.
    pub(super) command: String,
    pub(super) command_column: usize,
    /// Standard input of the command: what follows the first `%`, with line feeds for further ones.
    pub(super) input: Option<String>,
    /// The comment on the lines above, in one line.
    pub(super) comment: Option<String>,
}

/// Returns the lines of a crontab; `users` says whether its entries name a user.
pub(super) fn lines(text: &ImportText, users: bool) -> Vec<CrontabLine> {
    let mut lines = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for (index, content) in text.lines.iter().enumerate() {
        let line = index + 1;
        let trimmed = content.trim();
        if trimmed.is_empty() {
            // Only a comment directly above an entry describes it.
            comment.clear();
        } else if let Some(rest) = trimmed.strip_prefix('#') {
            comment.push(rest.trim_start_matches('#').trim());
        } else if let Some((name, value)) = variable(trimmed) {
            // cron, too, looks for a variable before it looks for an entry.
            comment.clear();
            lines.push(CrontabLine::Variable { line, name, value });
        } else {
            let found = entry(content, users).map(|entry| CrontabEntry {
                line,
                comment: description(&comment),
                ..entry
            });
            comment.clear();
            lines.push(match found {
                Ok(entry) => CrontabLine::Entry(entry),
                Err((column, why)) => CrontabLine::Bad { line, column, why },
            });
        }
    }
    lines
}

/// Reads `NAME=value`, `NAME = "value"` and their like.
fn variable(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once('=')?;
    let (name, value) = (unquoted(name.trim()), unquoted(value.trim()));
    // The command of an entry may have a `=`, too, but the text before that `=` is no name.
    TextKind::Variable
        .holds(name)
        .then(|| (name.to_owned(), value.to_owned()))
}

fn unquoted(text: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    text
}

/// Reads an entry. On an error, returns the column and what is wrong.
fn entry(content: &str, users: bool) -> Result<CrontabEntry, (usize, String)> {
    let mut rest = CrontabWords { content, at: 0 };
    let (time_column, first) = rest.word().unwrap_or((1, ""));
    let time = if first.starts_with('@') {
        match times::word(first) {
            Some(line) => EntryTime::Cron(Cron {
                line: line.to_owned(),
                random: false,
            }),
            None if first.eq_ignore_ascii_case("@reboot") => EntryTime::Boot,
            None => {
                let why = format!("`{first}` is none of @reboot @yearly @monthly @weekly @daily @hourly");
                return Err((time_column, why));
            }
        }
    } else {
        let mut fields = [first; 5];
        let mut columns = [time_column; 5];
        for (field, column) in fields.iter_mut().zip(&mut columns).skip(1) {
            let Some((place, word)) = rest.word() else {
                return Err((time_column, "a line of cron has five fields and a command".to_owned()));
            };
            (*column, *field) = (place, word);
        }
        let cron = times::fields(&fields);
        EntryTime::Cron(cron.map_err(|(number, why)| (columns.get(number).copied().unwrap_or(1), why))?)
    };
    let user = if users { rest.word() } else { None };
    if let Some((column, user)) = user.filter(|(_, user)| !is_name(user)) {
        let why = format!("`{user}` is no user: the lines of this place name one before the command");
        return Err((column, why));
    }
    let (command_column, command) = rest.all();
    if command.is_empty() {
        let user = if users { "the user or " } else { "" };
        return Err((command_column, format!("{user}the command is missing")));
    }
    let (command, input) = input(command);
    Ok(CrontabEntry {
        line: 0,
        time,
        time_column,
        user: user.map(|(column, user)| (user.to_owned(), column)),
        command,
        command_column,
        input,
        comment: None,
    })
}

/// Says whether a word can be the name or the number of a user.
fn is_name(word: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"_-.$@\\".contains(&b);
    word.bytes().all(inner) && !word.starts_with(['-', '.'])
}

/// Splits a command at its first `%`, and makes the other ones line feeds; `\%` is a `%`.
fn input(command: &str) -> (String, Option<String>) {
    let mut parts = vec![String::new()];
    let mut chars = command.chars().peekable();
    // In the command, a backslash behind another one means nothing, so a `%` behind both ends the command. In the input each
    // one counts.
    let mut escaped = false;
    while let Some(c) = chars.next() {
        if c == '%' && !escaped {
            parts.push(String::new());
            continue;
        }
        let keeps = c == '\\' && (!escaped || parts.len() > 1);
        escaped = keeps;
        if let Some(part) = parts.last_mut().filter(|_| !(keeps && chars.peek() == Some(&'%'))) {
            part.push(c);
        }
    }
    let input = parts.split_off(1);
    let command = parts.pop().unwrap_or_default().trim_end().to_owned();
    // cron ends the input with a line feed, unless it ends with one or there is nothing.
    let whole = |parts: Vec<String>| {
        let text = parts.join("\n");
        let is_ended = text.is_empty() || text.ends_with('\n');
        text + if is_ended { "" } else { "\n" }
    };
    (command, (!input.is_empty()).then(|| whole(input)))
}

/// Returns the comment above an entry as a description; the heading of Debian's crontabs is none.
fn description(comment: &[&str]) -> Option<String> {
    let heading = |line: &&&str| line.is_empty() || line.starts_with("m h ") || line.contains("* * *");
    let words: Vec<&str> = comment.iter().filter(|line| !heading(line)).copied().collect();
    let text = words.join(" ");
    // A long text is rather about the whole crontab.
    (!text.is_empty() && text.chars().count() <= 200 && !text.chars().any(char::is_control)).then_some(text)
}

/// The words of a line.
struct CrontabWords<'a> {
    content: &'a str,
    /// The byte up to which they were read.
    at: usize,
}

impl<'a> CrontabWords<'a> {
    /// Returns the next word and its column.
    fn word(&mut self) -> Option<(usize, &'a str)> {
        let (column, rest) = self.rest();
        let end = rest.find([' ', '\t']).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end)
            .filter(|word| !word.is_empty())
            .map(|word| (column, word))
    }

    /// Returns all that follows.
    fn all(mut self) -> (usize, &'a str) {
        self.rest()
    }

    /// Skips white space.
    fn rest(&mut self) -> (usize, &'a str) {
        let rest = self.content.get(self.at..).unwrap_or_default();
        let trimmed = rest.trim_start_matches([' ', '\t']);
        self.at += rest.len() - trimmed.len();
        let before = self.content.get(..self.at).unwrap_or_default();
        (before.chars().count() + 1, trimmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str, users: bool) -> Vec<CrontabEntry> {
        let entry = |line| match line {
            CrontabLine::Entry(entry) => Some(entry),
            _ => None,
        };
        lines(&ImportText::new("crontab", text), users)
            .into_iter()
            .filter_map(entry)
            .collect()
    }

    #[test]
    fn an_entry_has_time_user_command_input_and_comment() {
        let text = "# m h dom mon dow command\n# Tells Ada\n# every morning\n0 7 * * mon\tada  mail -s \"100\\% done\" ada%Hello%%Bye\n";
        let [entry] = entries(text, true).try_into().unwrap();
        assert_eq!(entry.user, Some(("ada".to_owned(), 13)));
        assert_eq!((entry.line, entry.time_column, entry.command_column), (4, 1, 18));
        assert_eq!(entry.command, "mail -s \"100% done\" ada");
        assert_eq!(entry.input.as_deref(), Some("Hello\n\nBye\n"));
        assert_eq!(entry.comment.as_deref(), Some("Tells Ada every morning"));
        for (line, command, input) in [
            ("@daily a%", "a", Some("")),
            ("@daily a%b%", "a", Some("b\n")),
            ("@daily a\\\\%b", "a\\\\", Some("b\n")),
            ("@daily a\\b%c\\\\%d", "a\\b", Some("c\\%d\n")),
            ("@daily a\\%b\\", "a%b\\", None),
        ] {
            let [entry] = entries(line, false).try_into().unwrap();
            assert_eq!(
                (entry.command.as_str(), entry.input.as_deref()),
                (command, input),
                "{line}"
            );
        }
        let [entry] = entries("  @reboot /opt/x", false).try_into().unwrap();
        assert_eq!((entry.time, entry.time_column, entry.input), (EntryTime::Boot, 3, None));
    }

    #[test]
    fn variables_are_read_as_cron_reads_them() {
        let text = "A=b\nPATH = \"/usr/bin:/bin\"\n'C'='d e'\nMAILTO=\n0 0 * * * X=1 run\n";
        let found = lines(&ImportText::new("crontab", text), false);
        let pairs: Vec<_> = found
            .iter()
            .filter_map(|line| match line {
                CrontabLine::Variable { name, value, .. } => Some((name.as_str(), value.as_str())),
                _ => None,
            })
            .collect();
        assert_eq!(
            pairs,
            [("A", "b"), ("PATH", "/usr/bin:/bin"), ("C", "d e"), ("MAILTO", "")]
        );
        assert_eq!(entries(text, false).len(), 1);
    }

    #[test]
    fn a_line_that_is_none_has_a_place() {
        for (content, users, column, why) in [
            ("0 25 * * * x", false, 3, "hour: 25"),
            ("ä 0 * * * x", false, 1, "minute"),
            ("0 0 * *", false, 1, "five fields"),
            ("0 0 * * *", false, 10, "the command is missing"),
            ("@daily ada", true, 11, "the user or the command"),
            ("@noon x", false, 1, "`@noon` is none of"),
            ("hello", false, 1, "five fields"),
        ] {
            let found = lines(&ImportText::new("crontab", content), users);
            let [
                CrontabLine::Bad {
                    line: 1,
                    column: at,
                    why: message,
                },
            ] = found.as_slice()
            else {
                panic!("{content}: {found:?}");
            };
            assert_eq!(*at, column, "{content}: {message}");
            assert!(message.contains(why), "{content}: {message}");
        }
    }
}
