//! `ExecStart=` and its like, as commands of bash.

use super::parse::{Specifiers, words};
use crate::script::{ReadScript, ScriptCode, quoted};
use fnd_manifest::schema::TextKind;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exec {
    /// `-`: its failure does not count.
    pub(super) lenient: bool,
    /// `@`: its own name for itself.
    zeroth: Option<String>,
    /// The program, by its path.
    program: String,
    /// The arguments, in the words of bash.
    arguments: Vec<String>,
    /// Whether a variable is split into words.
    pub(super) splits: bool,
    /// The whole line, to look for places.
    pub(super) line: String,
}

/// Reads the commands of a line; a `;` of its own separates them.
///
/// # Errors
/// The part of the line that fnd cannot do, as text for people.
pub(super) fn commands(value: &str, specifiers: &Specifiers) -> Result<Vec<Exec>, String> {
    let words = words(value)?;
    let parts = words.split(|word| word == ";").filter(|part| !part.is_empty());
    let commands: Vec<Exec> = parts.map(|part| command(part, specifiers)).collect::<Result<_, _>>()?;
    if commands.is_empty() {
        return Err("there is no command".to_owned());
    }
    Ok(commands)
}

fn command(words: &[String], specifiers: &Specifiers) -> Result<Exec, String> {
    let (first, rest) = words.split_first().ok_or("there is no command")?;
    let program = first.trim_start_matches(['-', '@', ':', '+', '!', '|']);
    let prefixes = first.get(..first.len() - program.len()).unwrap_or_default();
    if prefixes.contains(['+', '!']) {
        return Err("`+` and `!` run the command with the rights of root, which no function has".to_owned());
    }
    if prefixes.contains('|') {
        return Err("`|` runs the command in a login shell: name the shell itself".to_owned());
    }
    let program = specifiers.fill(program)?;
    if program.is_empty() || program.starts_with('$') {
        return Err("the program must be named".to_owned());
    }
    let mut rest = rest.iter();
    let zeroth = if prefixes.contains('@') { rest.next() } else { None };
    let mut splits = false;
    let expands = !prefixes.contains(':');
    let mut arguments = Vec::new();
    for word in rest {
        let word = if word == "\\;" {
            ";".to_owned()
        } else {
            specifiers.fill(word)?
        };
        // `$NAME` as a word of its own is split into words, `${NAME}` is not (systemd.service(5)).
        let name = word
            .strip_prefix('$')
            .filter(|name| TextKind::Variable.holds(name) && expands);
        splits |= name.is_some();
        arguments.push(match name {
            Some(name) => format!("${{{name}-}}"),
            None if expands => expanded(&word),
            None => quoted(&word),
        });
    }
    Ok(Exec {
        lenient: prefixes.contains('-'),
        zeroth: zeroth.cloned(),
        program,
        arguments,
        splits,
        line: words.join(" "),
    })
}

impl Exec {
    /// Returns the command; one that replaces the script where it is the `last`.
    pub(super) fn render(&self, code: &mut ScriptCode, script: ReadScript, last: bool) -> String {
        code.places.of_command(&self.line);
        let program = code.program(&self.program, script);
        let words = [&[program][..], &self.arguments].concat().join(" ");
        match (&self.zeroth, last) {
            (Some(zeroth), true) => format!("exec -a {} {words}", quoted(zeroth)),
            // Without the subshell, `exec` would end the script here.
            (Some(zeroth), false) => format!("(exec -a {} {words})", quoted(zeroth)),
            (None, true) => format!("exec {words}"),
            (None, false) => words,
        }
    }
}

/// Returns a word with `${NAME}` as bash reads it; `$$` is a `$`.
fn expanded(word: &str) -> String {
    let (mut literal, mut text) = (String::new(), String::new());
    let mut rest = word;
    let flush = |literal: &mut String, text: &mut String| {
        if !literal.is_empty() {
            text.push_str(&quoted(literal));
            literal.clear();
        }
    };
    while let Some(c) = rest.chars().next() {
        let name = rest.strip_prefix("${").and_then(|inner| inner.split_once('}'));
        if let Some((name, behind)) = name.filter(|(name, _)| TextKind::Variable.holds(name)) {
            flush(&mut literal, &mut text);
            text.push_str(&format!("\"${{{name}-}}\""));
            rest = behind;
        } else {
            literal.push(c);
            let skipped = if rest.starts_with("$$") { 2 } else { c.len_utf8() };
            rest = rest.get(skipped..).unwrap_or_default();
        }
    }
    flush(&mut literal, &mut text);
    // An empty argument is an argument, too.
    if text.is_empty() { "''".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(value: &str) -> String {
        let commands = commands(value, &Specifiers::default()).unwrap();
        let mut code = ScriptCode::new("/bin/bash");
        let lines = commands
            .iter()
            .map(|exec| exec.render(&mut code, crate::script::LINK, false));
        lines.collect::<Vec<_>>().join(" && ")
    }

    #[test]
    fn commands_are_those_of_bash() {
        for (value, expected) in [
            ("/bin/echo one 'two three'", "/bin/echo one 'two three'"),
            ("-/bin/false", "/bin/false"),
            ("@/bin/sh me -c x", "(exec -a me /bin/sh -c x)"),
            (
                "/bin/echo $A ${B}c \"${D} e\" a$F $$G",
                "/bin/echo ${A-} \"${B-}\"c \"${D-}\"' e' 'a$F' '$G'",
            ),
            (":/bin/echo $A ${B}", "/bin/echo '$A' '${B}'"),
            ("/bin/a ; /bin/b \\;", "/bin/a && /bin/b ';'"),
            ("/bin/echo 100%% it's", ""),
            ("/bin/echo \"\" *", "/bin/echo '' '*'"),
        ] {
            if expected.is_empty() {
                assert!(commands(value, &Specifiers::default()).is_err());
            } else {
                assert_eq!(rendered(value), expected, "{value}");
            }
        }
    }

    #[test]
    fn what_no_function_can_do_is_refused() {
        for (value, why) in [
            ("+/bin/a", "rights of root"),
            ("!!/bin/a", "rights of root"),
            ("|/bin/a", "login shell"),
            ("/bin/a %m", "`%m`"),
            ("-", "must be named"),
            ("", "no command"),
            ("; ;", "no command"),
        ] {
            let message = commands(value, &Specifiers::default()).unwrap_err();
            assert!(message.contains(why), "{value}: {message}");
        }
    }
}
