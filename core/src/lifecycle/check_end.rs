//! Reads the result of a run of `fnd-check`, and makes the problem that people see of what an interpreter has printed.

use super::checks::CheckResult;
use crate::records::InvocationRecord;
use crate::records::outcome::Reason;
use fnd_manifest::diagnostic::{Diagnostic, Place};
use fnd_manifest::judge::checked_name;
use fnd_wire::ids::{FunctionName, InvocationId};
use fnd_wire::plan::CHECK;
use std::collections::BTreeMap;

/// How many lines of the output are shown with the function.
const LINES: usize = 5;
/// Longest line of the output that is shown, in characters.
const LINE_MAX: usize = 200;

/// The end of an invocation of `fnd-check`.
#[derive(Debug)]
pub struct CheckEnd {
    pub(super) id: InvocationId,
    /// The results of those functions that it names.
    pub(super) results: BTreeMap<FunctionName, CheckResult>,
    /// The result of a function that it does not name.
    pub(super) otherwise: CheckResult,
}

impl CheckEnd {
    /// Returns the end of an invocation, if it is one of `fnd-check`. `shown` changes a line of its output to the form that
    /// people see: with the paths of the function's own files.
    #[must_use]
    pub fn of(record: &InvocationRecord, shown: impl Fn(&str) -> String) -> Option<Self> {
        if record.function.as_str() != CHECK || !record.state.is_final() {
            return None;
        }
        // The output of a run that was killed may end within the lines of a file, which would pass for all of them.
        let result = record.result.as_ref().filter(|_| record.reason == Some(Reason::Ok));
        let result = result.map(|result| String::from_utf8_lossy(&result.data));
        let reason = record.reason.map(|reason| reason.to_string()).unwrap_or_default();
        Some(Self {
            id: record.id,
            results: results(&result.unwrap_or_default(), shown),
            otherwise: unchecked(&reason, &record.message),
        })
    }

    /// Returns the end of a run that could not be started.
    #[must_use]
    pub fn not_started(id: InvocationId, why: &str) -> Self {
        Self {
            id,
            results: BTreeMap::new(),
            otherwise: unchecked("not started", why),
        }
    }
}

/// Reads the output of a run of `fnd-check`. For each function it has a line `FUNCTION EXIT-CODE`, and after that the lines that
/// the interpreter printed, each with a space in front.
fn results(text: &str, shown: impl Fn(&str) -> String) -> BTreeMap<FunctionName, CheckResult> {
    let mut all = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let mut output = Vec::new();
        while let Some(line) = lines.peek().and_then(|line| line.strip_prefix(' ')) {
            output.push(shown(line));
            lines.next();
        }
        let (function, code) = line.rsplit_once(' ').unwrap_or_default();
        if let (Ok(function), Ok(code)) = (FunctionName::of_file_form(function), code.parse()) {
            all.insert(function, result(code, output.join("\n").trim_end()));
        }
    }
    all
}

/// Returns what the exit code of an interpreter says about the code. Some say nothing about it: 75 is a temporary failure
/// (sysexits.h), with 126 and 127 a shell says that it could not run the interpreter, and a code above 128 is the number of a
/// signal.
fn result(code: u8, output: &str) -> CheckResult {
    match code {
        0 => CheckResult::Passed,
        75 | 126 | 127 => unchecked(&Reason::Exit(code).to_string(), output),
        129..=192 => unchecked(&Reason::Signal(code - 128).to_string(), output),
        _ => CheckResult::Wrong(output.to_owned()),
    }
}

fn unchecked(reason: &str, message: &str) -> CheckResult {
    CheckResult::Unchecked(format!("({reason}): {}", message.replace('\n', " ")))
}

/// Returns the problem of a file, from the output of its check.
pub(super) fn syntax_problem(path: &str, entry: &str, output: &str) -> Diagnostic {
    let base = entry.rsplit('/').next().unwrap_or(entry);
    // The check gives the file another name, which people do not know.
    let output = output.replace(&checked_name(entry), base);
    let cut = |line: &str| line.trim_end().chars().take(LINE_MAX).collect::<String>();
    let lines: Vec<String> = output.lines().filter(|line| !line.trim().is_empty()).map(cut).collect();
    // This finds `error` and `Error`: each interpreter writes its own form.
    let names_error = |line: &&String| line.contains("rror");
    let words = lines.iter().find(names_error).or(lines.first());
    let words = words.map_or("the interpreter refuses it without a word", |line| {
        without_place(line, base)
    });
    let message = format!("its code has a syntax error: {words}");
    let help = "correct it, or write `[release] check = false` into its manifest, which switches this check off";
    let mut problem = Diagnostic::error("syntax", message).in_file(path).with_help(help);
    problem.place = lines
        .iter()
        .find_map(|line| place(line, base))
        .map(|(line, column)| Place {
            line,
            column,
            length: 0,
            excerpt: String::new(),
        });
    let others = lines.iter().filter(|line| !line.ends_with(words)).take(LINES);
    others.fold(problem, |problem, line| problem.with_note(line.as_str()))
}

/// Returns a line of output without the file and the place at its beginning.
fn without_place<'l>(line: &'l str, base: &str) -> &'l str {
    // In the middle of a sentence the name of the file is a part of the message.
    let Some((_, rest)) = line.split_once(base).filter(|(before, _)| !before.contains(' ')) else {
        return line.trim();
    };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':' || c == ' ');
    let rest = rest.strip_prefix("line ").unwrap_or(rest);
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':' || c == ' ');
    if rest.is_empty() { line.trim() } else { rest }
}

/// Returns the line and the column that a line of output names, after the name of the file or after another name with the same
/// suffix (a program that reads standard input makes up a name). Column 0: the output names no column.
fn place(line: &str, base: &str) -> Option<(u32, u32)> {
    let suffix = base.rfind('.').and_then(|at| base.get(at..));
    let after = |name: &str| line.split_once(name).map(|(_, rest)| rest);
    let rest = after(base).or_else(|| suffix.and_then(after))?;
    let words = [": line ", " on line ", ", line ", ":"];
    let rest = words.iter().find_map(|word| rest.strip_prefix(word))?;
    let number = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    let digits = number(rest);
    let column = rest
        .get(digits.len()..)
        .and_then(|rest| rest.strip_prefix(':'))
        .map(number);
    let column = column.and_then(|column| column.parse().ok()).unwrap_or_default();
    digits.parse().ok().filter(|line| *line > 0).map(|line| (line, column))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_manifest::diagnostic::Colour;

    #[test]
    fn only_an_exit_code_of_the_interpreter_says_that_code_is_wrong() {
        assert_eq!(result(0, ""), CheckResult::Passed);
        for code in [1, 2, 128, 255] {
            assert_eq!(
                result(code, "a.sh: line 3: x"),
                CheckResult::Wrong("a.sh: line 3: x".to_owned())
            );
        }
        for (code, reason) in [
            (75, "exit-75"),
            (126, "exit-126"),
            (127, "exit-127"),
            (134, "signal-ABRT"),
        ] {
            assert_eq!(result(code, "a\nb"), CheckResult::Unchecked(format!("({reason}): a b")));
        }
    }

    #[test]
    fn each_function_has_its_result_and_no_output_looks_like_one() {
        let found = results(
            "a 0\ngroup.b 1\n b.sh: line 3\n c 0\n \nd 127\nbroken\n\ne x\n f",
            str::to_owned,
        );
        let of = |name: &str| found.get(&FunctionName::new(name).unwrap()).cloned();
        assert_eq!(of("a"), Some(CheckResult::Passed));
        assert_eq!(of("group/b"), Some(CheckResult::Wrong("b.sh: line 3\nc 0".to_owned())));
        assert_eq!(of("d"), Some(CheckResult::Unchecked("(exit-127): ".to_owned())));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn the_place_and_the_words_of_each_interpreter_are_found() {
        let check = |entry: &str, output: &str, expected: &str| {
            let text = syntax_problem(&format!("/f/{entry}"), entry, output).text();
            assert_eq!(text.split("; correct it").next(), Some(expected));
        };
        check(
            "a.py",
            "/v/code/a.py:3:7: SyntaxError: invalid syntax\n",
            "/f/a.py:3:7: its code has a syntax error: SyntaxError: invalid syntax",
        );
        check(
            "a.sh",
            "/v/code/a.sh: line 5: syntax error near unexpected token `fi'\n/v/code/a.sh: line 5: `fi }'\n",
            "/f/a.sh:5: its code has a syntax error: syntax error near unexpected token `fi'",
        );
        check(
            "src/a.sh",
            "src/fnd-checked.sh: line 5: x\n",
            "/f/src/a.sh:5: its code has a syntax error: x",
        );
        check(
            "a.sh",
            "/v/code/a.sh: 5: Syntax error: Missing '))'\n",
            "/f/a.sh: its code has a syntax error: Syntax error: Missing '))'",
        );
        check(
            "a.cjs",
            "/v/code/a.cjs:3\n\n\nSyntaxError: Unexpected end of input\n    at wrapSafe (node:internal/modules:1464:18)\n",
            "/f/a.cjs:3: its code has a syntax error: SyntaxError: Unexpected end of input",
        );
        check(
            "a.rb",
            "/v/code/a.rb:4: syntax error, unexpected `end', expecting ')'\n",
            "/f/a.rb:4: its code has a syntax error: syntax error, unexpected `end', expecting ')'",
        );
        check(
            "a.php",
            "PHP Parse error:  syntax error, unexpected token \"{\", expecting variable in /v/code/a.php on line 3\n\
             Errors parsing /v/code/a.php\n",
            "/f/a.php:3: its code has a syntax error: PHP Parse error:  syntax error, unexpected token \"{\", \
             expecting variable in /v/code/a.php on line 3",
        );
        check(
            "a.lua",
            "/v/code/a.lua:2: unexpected symbol near '='\n",
            "/f/a.lua:2: its code has a syntax error: unexpected symbol near '='",
        );
        check(
            "a.ts",
            "error: SyntaxError: Expression expected\n  |\n3 | const x = ;\n  |  ~\n    at file:///v/code/_stdin.ts:3:19\n",
            "/f/a.ts:3:19: its code has a syntax error: error: SyntaxError: Expression expected",
        );
        check(
            "a",
            "",
            "/f/a: its code has a syntax error: the interpreter refuses it without a word",
        );
    }

    #[test]
    fn people_see_the_place_without_the_line() {
        let shown = |output: &str| {
            let text = syntax_problem("/f/a.sh", "a.sh", output).render(Colour::Plain);
            text.lines().nth(1).map(|line| line.trim().to_owned())
        };
        assert_eq!(shown("a.sh: line 5: x").as_deref(), Some("--> /f/a.sh:5"));
        assert_eq!(shown("a.sh:5:7: x").as_deref(), Some("--> /f/a.sh:5:7"));
        assert_eq!(shown("killed").as_deref(), Some("--> /f/a.sh"));
    }

    #[test]
    fn output_that_is_no_place_gives_none() {
        for line in [
            "a.py",
            "a.py:",
            "a.py:x",
            "a.py:0:1",
            "a.py:99999999999",
            "b.py line 3",
            ".py",
        ] {
            assert_eq!(place(line, "a.py"), None, "{line}");
        }
        assert_eq!(place("x\u{fffd}a.py:3:\u{e9}", "a.py"), Some((3, 0)));
        assert_eq!(place("x.py:3", "noending"), None);
    }
}
