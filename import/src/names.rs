//! Names for functions: from a command line or from the other system's name, valid, and each once. Lists of names of keys.

use fnd_manifest::schema::TextKind;
use std::collections::BTreeSet;

/// The longest name, with room for a number behind it.
const NAME_MAX: usize = 56;

/// Says whether a list has a name; white space is between its names.
pub(crate) fn lists(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|one| one == name)
}

/// Says whether a manifest may set a variable of this name; names that begin with `FND_` are fnd's own.
pub(crate) fn is_settable(name: &str) -> bool {
    TextKind::Variable.holds(name) && !name.starts_with("FND_")
}

/// The names that were given.
#[derive(Debug, Default)]
pub(crate) struct ImportedNames(BTreeSet<String>);

impl ImportedNames {
    /// Returns a name of a function that is like this text, and that was not given before.
    pub(crate) fn unique(&mut self, text: &str) -> String {
        let name = valid(text);
        let mut found = name.clone();
        let mut number = 2;
        while !self.0.insert(found.clone()) {
            found = format!("{name}-{number}");
            number += 1;
        }
        found
    }
}

/// Returns the valid name that is most like a text.
fn valid(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars().flat_map(char::to_lowercase) {
        let c = if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        // One hyphen for several characters that no name has.
        if (c != '-' || !name.ends_with('-')) && name.len() < NAME_MAX {
            name.push(c);
        }
    }
    let name = name.trim_matches(['-', '_']);
    let name = Some(name).filter(|name| !name.is_empty());
    name.unwrap_or("function").to_owned()
}

/// Commands that only prepare for the one that matters.
const BEFORE: &str = "cd test [ [[ export umask set sleep . source true fi done";

/// Words of the shell before a command.
const KEYWORDS: &str = "if then else elif while do !";

/// Commands that run another one.
const AROUND: &str = "timeout flock nice ionice env nohup exec command chronic sudo time run-one setsid";

/// Interpreters, whose script has the better name.
const INTERPRETERS: &str = "sh bash dash zsh python python3 perl ruby php node deno";

/// Returns a name for what a command line of a shell does: `dump` for `cd / && flock -n /run/x timeout 5m /usr/bin/dump.sh -a`.
pub(crate) fn of_command(command: &str) -> String {
    let parts = command.split(['&', ';', '|', '(', ')', '{', '}']);
    let mut fallback = String::new();
    for part in parts {
        let mut words = part.split_whitespace().peekable();
        while words
            .next_if(|word| is_assignment(word) || lists(KEYWORDS, word))
            .is_some()
        {}
        let Some(program) = target(&mut words) else {
            continue;
        };
        let name = stem(program);
        if !lists(BEFORE, name) {
            return name.to_owned();
        }
        // If all commands only prepare for another one, the first of them gives the name.
        if fallback.is_empty() {
            name.clone_into(&mut fallback);
        }
    }
    fallback
}

/// Returns the program that the words run in the end.
fn target<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut program = words.next()?.trim_matches(['"', '\'']);
    loop {
        let name = stem(program);
        let around = lists(AROUND, name);
        if !around && !lists(INTERPRETERS, name) {
            return Some(program);
        }
        let mut lock = name == "flock";
        let next = words.find(|word| {
            let plain = !word.starts_with('-') && !is_assignment(word) && !is_amount(word);
            // The first word of `flock` is its lock.
            plain && !std::mem::take(&mut lock)
        });
        match next {
            Some(word) => program = word.trim_matches(['"', '\'']),
            None => return Some(program),
        }
        // Behind an interpreter comes its script, and behind the script come only arguments.
        if !around {
            return Some(program);
        }
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
}

/// Says whether a word is a number or a duration, such as the `30m` of `timeout 30m`.
fn is_amount(word: &str) -> bool {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Returns the last part of a path without its suffix.
pub(crate) fn stem(path: &str) -> &str {
    let file = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
    match file.rsplit_once('.') {
        // A longer part behind a dot is rather a part of the name than a suffix.
        Some((stem, suffix)) if !stem.is_empty() && suffix.len() <= 4 => stem,
        _ => file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_the_name_of_what_it_runs() {
        for (command, name) in [
            ("/usr/local/bin/dump.sh --all", "dump"),
            ("cd / && run-parts --report /etc/cron.hourly", "run-parts"),
            (
                "test -x /usr/sbin/anacron || ( cd / && run-parts --report /x )",
                "run-parts",
            ),
            (
                "flock -n /run/lock/dump timeout 30m /usr/local/bin/dump.sh >>/var/log/x 2>&1",
                "dump",
            ),
            (
                "[ -x /x ] && if [ ! -d /run/y ]; then /usr/lib/php/sessionclean; fi",
                "sessionclean",
            ),
            ("LANG=C nice -n 19 ionice -c3 /opt/clean.py", "clean"),
            ("python3 -u /opt/shop/report.py daily", "report"),
            ("[ -x /usr/bin/certbot ] && certbot -q renew", "certbot"),
            ("\"/opt/my app\" x", "/opt/my"),
            ("", ""),
        ] {
            assert_eq!(of_command(command), stem(name), "{command}");
        }
    }

    #[test]
    fn names_are_valid_and_each_is_given_once() {
        let mut names = ImportedNames::default();
        let given: Vec<_> = ["dump", "Dump", "dump", "My App!", "--", "ä_", "über", ""]
            .iter()
            .map(|text| names.unique(text))
            .collect();
        assert_eq!(
            given,
            [
                "dump",
                "dump-2",
                "dump-3",
                "my-app",
                "function",
                "function-2",
                "ber",
                "function-3"
            ]
        );
        for text in [
            &"x".repeat(300),
            "a-----------------------------------------------------------b",
        ] {
            assert!(fnd_wire::ids::FunctionName::new(&names.unique(text)).is_ok());
        }
    }
}
