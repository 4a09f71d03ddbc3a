//! Detects handlers in Python: a top-level `handler`, or a top-level `main` or `handle` with two parameters.

use super::{Handler, line_of};

/// Returns the handler. A file that runs its own `main` when it is started is a script, whatever the parameters of
/// `main`.
pub(super) fn handler(text: &str) -> Option<Handler> {
    let code = blank(text);
    let guard = code
        .lines()
        .any(|line| line.starts_with("if ") && line.contains("__name__"));
    let mut position = 0;
    // Number of brackets that are open where the line begins. Text inside brackets is no definition and is read only
    // once.
    let mut depth = 0_usize;
    for line in code.split_inclusive('\n') {
        let rest = line.strip_prefix("async ").unwrap_or(line).trim_start_matches(' ');
        let top_level = depth == 0 && !line.starts_with([' ', '\t']);
        if let Some(rest) = rest.strip_prefix("def ").filter(|_| top_level) {
            let rest = rest.trim_start();
            let name = rest
                .split(|c: char| c != '_' && !c.is_alphanumeric())
                .next()
                .unwrap_or_default();
            let two = || {
                let from = line.find('(').map(|at| position + at);
                from.and_then(|from| code.get(from..))
                    .is_some_and(|tail| parameters(tail) == 2)
            };
            let what = match name {
                "handler" => Some("def handler"),
                "main" if !guard && two() => Some("def main"),
                "handle" if two() => Some("def handle"),
                _ => None,
            };
            if let Some(what) = what {
                return Some(Handler {
                    line: line_of(&code, position),
                    what,
                    http: false,
                });
            }
        }
        position += line.len();
        depth = line.bytes().fold(depth, |depth, byte| match byte {
            b'(' | b'[' | b'{' => depth + 1,
            b')' | b']' | b'}' => depth.saturating_sub(1),
            _ => depth,
        });
    }
    None
}

/// Returns the number of parameters of a list that begins with `(`; 0 if the list has no end.
fn parameters(text: &str) -> usize {
    let mut depth = 0;
    let mut count = 0;
    let mut word = String::new();
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if (depth == 1 && c == ',') || depth == 0 {
            // A single `*` or `/` only separates kinds of parameters.
            count += usize::from(!matches!(word.trim(), "" | "*" | "/"));
            word.clear();
            if depth == 0 {
                return count;
            }
        } else if !(depth == 1 && c == '(') {
            word.push(c);
        }
    }
    0
}

/// Returns the text with all strings and comments replaced by blanks, so that every line and byte keeps its position.
fn blank(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    // The quotes that end the current string.
    let mut open: Option<&str> = None;
    let mut comment = false;
    while let Some(c) = rest.chars().next() {
        let mut width = c.len_utf8();
        let mut keep = c == '\n';
        if c == '\n' {
            comment = false;
            // A string with single quotes ends at the end of its line, even if it is not closed.
            open = open.filter(|quotes| quotes.len() == 3);
        } else if comment {
        } else if let Some(quotes) = open {
            if c == '\\' {
                width += rest
                    .get(width..)
                    .and_then(|tail| tail.chars().next())
                    .filter(|c| *c != '\n')
                    .map_or(0, char::len_utf8);
            } else if rest.starts_with(quotes) {
                width = quotes.len();
                open = None;
            }
        } else if c == '#' {
            comment = true;
        } else if let Some(quotes) = ["\"\"\"", "'''", "\"", "'"]
            .into_iter()
            .find(|quotes| rest.starts_with(quotes))
        {
            width = quotes.len();
            open = Some(quotes);
        } else {
            keep = true;
        }
        let (taken, tail) = rest.split_at(width.min(rest.len()));
        if keep {
            result.push_str(taken);
        } else {
            // The closing quotes stay visible, so that a parameter whose default is a string still counts.
            result.extend(std::iter::repeat_n(
                if open.is_some() || comment { ' ' } else { '"' },
                taken.len(),
            ));
        }
        rest = tail;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::super::tests::expect;
    use super::*;

    fn check(text: &str, expected: Option<(u32, &str)>) {
        expect(handler(text), expected, text);
    }

    #[test]
    fn handlers_are_found() {
        check("def handler(event, context):\n    pass\n", Some((1, "def handler")));
        check(
            "import x\n\nasync def handler(event, context): ...\n",
            Some((3, "def handler")),
        );
        check("def main(args, env):\n  return 1\n", Some((1, "def main")));
        check(
            "def handle(\n    logger,\n    request: dict[str, int] = {'a': 1},\n):\n  pass\n",
            Some((1, "def handle")),
        );
        check(
            "def handler(event, context): pass\nif __name__ == '__main__':\n  handler(1, 2)\n",
            Some((1, "def handler")),
        );
    }

    #[test]
    fn scripts_are_left_alone() {
        check("", None);
        check("print('x')\n", None);
        check(
            "def main(argv):\n  pass\nif __name__ == \"__main__\":\n  main([])\n",
            None,
        );
        check(
            "def main(a, b):\n  pass\nif __name__ == \"__main__\":\n  main(1, 2)\n",
            None,
        );
        check("def main():\n  pass\nmain()\n", None);
        check("def handle(x):\n  pass\n", None);
        check("class A:\n  def handler(self): pass\n", None);
        check("def f():\n    def handler(): pass\n", None);
        check("x = '''\ndef handler(a, b):\n'''\n", None);
        check("x = \"\"\"it's\ndef handler(a, b):\n\"\"\"\n", None);
        check("# def handler\n", None);
        check("def handler_of(x): pass\n", None);
        check("def main(*, a): pass\n", None);
        check("x = [\ndef main(a, b): pass\n", None);
    }

    /// Every file is read once, so that the time is linear whatever it contains.
    #[test]
    fn hostile_files_take_no_time() {
        for text in [
            "def main(\n",
            "def main\n",
            "def handle(a,\n",
            "def main((\n",
            "\"\"\"",
            "(",
            "\\",
        ] {
            check(&text.repeat(100_000), None);
        }
        check(&format!("{}{}", "def main(\n".repeat(50_000), ")".repeat(50_000)), None);
    }
}
