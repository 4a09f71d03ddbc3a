//! Takes a page's commands apart, and compares what they print with what the page shows.

/// A command of a page and what it prints there.
#[derive(Debug, PartialEq, Eq)]
pub struct Example {
    /// The command, of one or more lines.
    pub command: String,
    /// Empty: the page does not show what it prints.
    pub expected: Vec<String>,
    pub code: i32,
}

/// Returns the commands of a block: lines after `$ `, continued by lines after `> `. The lines below are its output; `...`
/// stands for any text, a line `...` for any lines, and `exit code N` is the exit code, otherwise 0.
pub fn examples(text: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            let command = command.to_owned();
            found.push(Example {
                command,
                expected: Vec::new(),
                code: 0,
            });
            continue;
        }
        let last = found.last_mut().expect("a block of commands begins with `$ `");
        let code = line.strip_prefix("exit code ").and_then(|code| code.parse().ok());
        match (line.strip_prefix("> "), code) {
            (Some(more), _) if last.expected.is_empty() => {
                last.command.push('\n');
                last.command += more;
            }
            (_, Some(code)) => last.code = code,
            _ => last.expected.push(line.to_owned()),
        }
    }
    found
}

impl Example {
    /// Returns whether the command goes on until it is ended.
    pub fn follows(&self) -> bool {
        let words: Vec<&str> = self.command.split_whitespace().collect();
        words.contains(&"-f") || words.contains(&"--watch")
    }

    /// Returns whether the command only reads, so that it can be repeated until the state is the one that the page shows.
    pub fn reads(&self) -> bool {
        let command = self.command.strip_prefix("sudo ").unwrap_or(&self.command);
        const READERS: [&str; 12] = [
            "fndctl status",
            "fndctl list",
            "fndctl show",
            "fndctl logs",
            "fndctl history",
            "fndctl events",
            "fndctl dead-letters list",
            "fndctl report",
            "fndctl doctor",
            "curl -s http://127.0.0.1:9640",
            "cat ",
            "jq ",
        ];
        self.follows() || command == "fndctl dead-letters" || READERS.iter().any(|reader| command.starts_with(reader))
    }

    /// Returns whether the output is the one of the page. With `begun`, lines may follow: the command was ended.
    pub fn fits(&self, printed: &str, begun: bool) -> bool {
        let printed: Vec<String> = printed.trim_end().lines().map(words).collect();
        let expected: Vec<String> = self.expected.iter().map(|line| words(line)).collect();
        expected.is_empty() || lines_fit(&printed, &expected, begun)
    }
}

/// Columns are as wide as their content, so a run of blanks is compared as one.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn lines_fit(printed: &[String], expected: &[String], begun: bool) -> bool {
    let Some((wanted, rest)) = expected.split_first() else {
        return begun || printed.is_empty();
    };
    if wanted == "..." {
        return (0..=printed.len()).any(|skipped| lines_fit(&printed[skipped..], rest, begun));
    }
    printed
        .split_first()
        .is_some_and(|(line, more)| is_like(line, wanted) && lines_fit(more, rest, begun))
}

/// Returns whether a line fits a pattern in which `...` stands for any text.
fn is_like(line: &str, wanted: &str) -> bool {
    let mut rest = line;
    let parts: Vec<&str> = wanted.split("...").collect();
    for (number, part) in parts.iter().enumerate() {
        let at = match number {
            0 => rest.starts_with(part).then_some(0),
            _ if number + 1 == parts.len() => rest.len().checked_sub(part.len()).filter(|_| rest.ends_with(part)),
            _ => rest.find(part),
        };
        match at {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    parts.len() > 1 || rest.is_empty()
}

/// Returns the verbs of `fndctl` in a text with commands, each with its long options.
pub fn verbs(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for part in text.split("fndctl ").skip(1) {
        let end = part
            .find(['\n', '|', '&', ';', ')', '`', '#', '>', '\'', '<'])
            .unwrap_or(part.len());
        let mut words = part[..end].split_whitespace();
        // `--user`, `--socket PATH` and words such as `fndctl (`, `fndctl is`, are no verbs.
        let Some(verb) = words
            .next()
            .filter(|verb| verb.starts_with(|first: char| first.is_ascii_lowercase()))
        else {
            continue;
        };
        let verb = verb.trim_end_matches([',', '.', ':']).to_owned();
        let options = words
            .filter(|word| word.starts_with("--") && word.len() > 2)
            .map(|word| {
                let name = word.split(['=', ',', ']', '.', ':']).next().unwrap_or(word);
                name.to_owned()
            })
            .collect();
        found.push((verb, options));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_compared_with_what_is_printed() {
        let examples = examples("$ cat <<END\n> a\n> END\na   b\n...\nc ... d\n$ false\nexit code 1\n");
        assert_eq!(examples[0].command, "cat <<END\na\nEND");
        assert_eq!(examples[1].code, 1);
        let first = &examples[0];
        assert!(first.fits("a b\nx\ny\nc 1 d", false) && first.fits("a b\nc d d", false));
        for other in ["", "a b", "a b\nc 1 d\nmore", "x\na b\nc 1 d", "a b\nc 1 d 2"] {
            assert!(!first.fits(other, false), "{other}");
        }
        assert!(first.fits("a b\nc 1 d\nmore", true));
        let verbs = verbs("`fndctl invoke F --async`, fndctl logs -f | grep --color x");
        assert_eq!(
            verbs,
            [
                ("invoke".to_owned(), vec!["--async".to_owned()]),
                ("logs".to_owned(), vec![])
            ]
        );
    }
}
