//! Takes a page's commands apart, and compares what they print with what the page shows.

use super::values::plain;

/// A command of a page and what it prints there.
#[derive(Debug, PartialEq, Eq)]
pub struct Example {
    /// The command, of one or more lines.
    pub command: String,
    /// Empty: the page does not show what it prints.
    pub expected: Vec<String>,
    pub code: i32,
    /// The line of its block where its output begins, from 0.
    pub begin: usize,
}

/// A line that stands for any lines.
const ANY: &str = "...";

/// Returns the commands of a block: lines after `$ `, continued by lines after `> `. The lines below are its output; a line
/// `...` stands for any lines, and `exit code N` is the exit code, otherwise 0.
pub fn examples(text: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(command) = line.strip_prefix("$ ") {
            let command = command.to_owned();
            found.push(Example {
                command,
                expected: Vec::new(),
                code: 0,
                begin: number + 1,
            });
            continue;
        }
        let last = found.last_mut().expect("a block of commands begins with `$ `");
        let code = line.strip_prefix("exit code ").and_then(|code| code.parse().ok());
        match (line.strip_prefix("> "), code) {
            (Some(more), _) if last.expected.is_empty() => {
                last.command.push('\n');
                last.command += more;
                last.begin = number + 1;
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
        let is_own = self.command.trim_start_matches("sudo ").starts_with("fndctl ");
        is_own && (words.contains(&"-f") || words.contains(&"--watch"))
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

    /// Returns whether the page leaves lines of the output out.
    pub fn leaves_out(&self) -> bool {
        self.expected.iter().any(|line| line.trim() == ANY)
    }

    /// Returns whether the output is the one of the page. With `begun`, lines may follow: the command was ended.
    pub fn fits(&self, printed: &str, begun: bool) -> bool {
        let shown = self.expected.join("\n");
        let names = columns(&shown);
        let has_columns = !names.is_empty() && names == columns(printed);
        let plain_line = |line: &str| plain(line, has_columns);
        let plain = |text: &str| lines(text).into_iter().map(plain_line).collect::<Vec<_>>();
        let reloads = self.command.contains("fndctl reload");
        self.expected.is_empty() || lines_fit(&plain(printed), &plain(&shown), (begun, reloads))
    }

    /// Returns the output that the page shows from now on: that of the page where it is as good as what was printed. Only a
    /// block that is `shortened` may leave lines out, and the blanks of a table.
    pub fn recorded(&self, printed: &str, begun: bool, shortened: bool) -> Vec<String> {
        let printed_lines = lines(printed);
        let is_whole = !self.leaves_out() && (has_columns(&self.expected) || !has_columns(&printed_lines));
        if self.expected.is_empty() || (self.fits(printed, begun) && (shortened || is_whole)) {
            return self.expected.clone();
        }
        printed_lines.into_iter().map(str::to_owned).collect()
    }
}

/// Returns whether lines have the blanks of a table.
fn has_columns(lines: &[impl AsRef<str>]) -> bool {
    lines.iter().any(|line| line.as_ref().trim().contains("  "))
}

/// Returns the names of columns, of each table of an output: words in capitals.
fn columns(text: &str) -> Vec<Vec<&str>> {
    let is_name = |word: &&str| word.starts_with(char::is_uppercase) && *word == word.to_uppercase();
    let is_head = |words: &Vec<&str>| words.len() > 1 && words.iter().all(is_name);
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(is_head).collect()
}

/// Beginnings of lines that name limits which a machine cannot enforce.
const UNENFORCED: [&str; 2] = ["not enforced here", "limits without effect here"];

/// Returns whether a line names a limit that the reader's machine cannot enforce, of the node or of a function.
fn is_unenforced(line: &str) -> bool {
    let of_function = line.contains(": warning: ") && line.contains(" can't be enforced here: ");
    of_function || UNENFORCED.iter().any(|beginning| line.starts_with(beginning))
}

/// Returns the lines of an output, but for what a machine cannot do: readers have another machine.
fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.retain(|line| !is_unenforced(line));
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines
}

/// Returns whether a line comes and goes: `fndctl reload` prints it unless fnd has read the file before.
fn is_passing(line: &str) -> bool {
    line.ends_with(": applied") || line.ends_with(": removed")
}

fn lines_fit(printed: &[String], expected: &[String], (begun, reloads): (bool, bool)) -> bool {
    let passes = |line: &String| reloads && is_passing(line);
    let Some((wanted, rest)) = expected.split_first() else {
        return begun || printed.iter().all(passes);
    };
    if wanted == ANY {
        return (0..=printed.len()).any(|skipped| lines_fit(&printed[skipped..], rest, (begun, reloads)));
    }
    let fits = |(line, more): (&String, &[String])| {
        (line == wanted && lines_fit(more, rest, (begun, reloads)))
            || (passes(line) && lines_fit(more, expected, (begun, reloads)))
    };
    printed.split_first().is_some_and(fits) || (passes(wanted) && lines_fit(printed, rest, (begun, reloads)))
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
        let examples = examples("$ cat <<END\n> a\n> END\na   b\n...\nc 1s ago\n$ false\nexit code 1\n");
        assert_eq!(examples[0].command, "cat <<END\na\nEND");
        assert_eq!((examples[0].begin, examples[1].begin, examples[1].code), (3, 7, 1));
        let first = &examples[0];
        assert!(first.fits("a b\nx\ny\nc 2s ago", false));
        for machine in [
            "not enforced here: x\n",
            "\nf: warning: the limit `x` can't be enforced here: y\n\n",
        ] {
            assert!(first.fits(&format!("a b\nc 1s ago\n{machine}"), false), "{machine}");
        }
        for other in ["", "a b", "a b\nc 1s ago\nmore", "x\na b\nc 1s ago", "a b\nc ... ago"] {
            assert!(!first.fits(other, false), "{other}");
        }
        assert!(first.fits("a b\nc 1s ago\nmore", true));
        let verbs = verbs("`fndctl invoke F --async`, fndctl logs -f | grep --color x");
        assert_eq!(
            verbs,
            [
                ("invoke".to_owned(), vec!["--async".to_owned()]),
                ("logs".to_owned(), vec![])
            ]
        );
    }

    #[test]
    fn a_cell_without_a_value_keeps_its_column() {
        let table = &examples("$ a\nNAME  GROUP  KEY  MEMORY\nx     -      1    9M\n")[0];
        for (printed, is_as_good) in [
            ("NAME GROUP KEY MEMORY\nx - 1 -", true),
            ("NAME GROUP KEY MEMORY\nx 1 - 9M", false),
            ("NAME GROUP KEY MEMORY\nx 1 9M", false),
            ("NAME GROUP KEY\nx - 1", true),
        ] {
            assert_eq!(table.fits(printed, false), is_as_good, "{printed}");
        }
    }

    #[test]
    fn a_reload_may_find_that_all_is_read() {
        let [shown, other] =
            ["$ fndctl reload\na: applied\nb\n", "$ fndctl reload\nb\n"].map(|text| examples(text).remove(0));
        for printed in ["a: applied\nb", "b", "a: applied\nc: removed\nb"] {
            assert!(shown.fits(printed, false) && other.fits(printed, false), "{printed}");
        }
        assert!(!shown.fits("a: applied", false) && !other.fits("", false));
    }

    #[test]
    fn only_what_differs_is_recorded() {
        let shown = &examples("$ a\nb 1s ago\n")[0];
        let cut = &examples("$ a\nb 1s ago\n...\n")[0];
        let silent = &examples("$ a\n")[0];
        for (example, printed, shortened, expected) in [
            (shown, "b 2s ago\n", false, "b 1s ago"),
            (shown, "c\n\nnot enforced here: x\n", false, "c"),
            (cut, "b 2s ago\nc\n", false, "b 2s ago\nc"),
            (cut, "b 2s ago\nc\n", true, "b 1s ago\n..."),
            (cut, "c\n", true, "c"),
            (shown, "b   2s ago\n", false, "b   2s ago"),
            (silent, "b   2s ago\n", false, ""),
        ] {
            let recorded = example.recorded(printed, false, shortened).join("\n");
            assert_eq!(recorded, expected, "{printed}");
        }
    }
}
