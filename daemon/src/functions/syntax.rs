//! Files whose syntax is checked before they serve: which ones, and what a failed check says.

use super::Functions;
use super::install::CatalogChange;
use fnd_core::lifecycle::SourceFiles;
use fnd_core::lifecycle::checks::CheckResult;
use fnd_manifest::diagnostic::{Diagnostic, Place};
use fnd_manifest::judge::{Verdict, checked_name};
use fnd_wire::frame::Installed;
use fnd_wire::ids::FunctionName;
use std::path::Path;

/// How many lines of the output are shown with the function.
const LINES: usize = 5;
/// Longest line of the output that is shown, in characters.
const LINE_MAX: usize = 200;

/// The circumstances of an installation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeFacts<'a> {
    /// The name of this machine.
    pub(crate) host: &'a str,
    /// The time, Unix milliseconds.
    pub(crate) now_ms: u64,
    pub(crate) dirs: &'a [String],
    /// The one of them that has the uploads.
    pub(crate) uploads: &'a Path,
    /// The daemon's own user, if a person runs it.
    pub(crate) own_uid: Option<u32>,
    /// Whether the running spawner can prepare checks.
    pub(crate) can_check: bool,
}

impl Functions {
    /// Has the file checked that was installed, if its syntax is to be checked before it serves. Returns the file if it may
    /// serve.
    ///
    /// # Errors
    /// The change if it may not: nothing until its check is over.
    pub(super) fn checked_first(
        &mut self,
        candidate: SourceFiles,
        verdict: Verdict,
        installed: &Installed,
        node: NodeFacts<'_>,
    ) -> Result<(SourceFiles, Verdict), Option<CatalogChange>> {
        let (function, version) = (&candidate.function, installed.version);
        if !self.is_checked_first(function, &verdict, installed) {
            return Ok((candidate, verdict));
        }
        let checks = &mut self.installer.checks;
        if !node.can_check && checks.needs(function, version, node.now_ms) {
            checks.cannot(function, "(not started): the running fnd-spawner is older than checks");
        }
        match checks.result(function, version).cloned() {
            Some(CheckResult::Passed | CheckResult::Unchecked(_)) => Ok((candidate, verdict)),
            Some(CheckResult::Wrong(output)) => Err(Some(self.check_failed(
                candidate,
                verdict,
                (installed, &output),
                node.dirs,
            ))),
            None => {
                if checks.needs(function, version, node.now_ms) {
                    // The next request for this file asks the spawner for the check.
                    self.installer.requeue(candidate.clone());
                }
                self.registry.waits(candidate, verdict);
                Err(None)
            }
        }
    }

    /// Says whether a version of a file may not serve before its check is over.
    fn is_checked_first(&self, function: &FunctionName, verdict: &Verdict, installed: &Installed) -> bool {
        let releases = self.releases.get(function).filter(|_| verdict.checkable);
        releases.is_some_and(|releases| releases.is_checked_first(installed.load_key))
    }

    /// Refuses a file whose code is wrong; its serving version goes on.
    fn check_failed(
        &mut self,
        candidate: SourceFiles,
        verdict: Verdict,
        (installed, output): (&Installed, &str),
        dirs: &[String],
    ) -> CatalogChange {
        let (function, version) = (candidate.function.clone(), installed.version);
        let entry = verdict.manifest.as_ref().map(|manifest| manifest.entry.as_str());
        let entry = entry.unwrap_or_default();
        let dir = dirs.get(usize::from(candidate.directory));
        let mut path = format!("{}/{}", dir.map_or("", String::as_str), candidate.source);
        // Of a directory or an archive the problem names the file inside of it.
        if !path.ends_with(&format!("/{entry}")) {
            path = format!("{path}/{entry}");
        }
        let problem = problem(&path, entry, output);
        let why = problem.text();
        let (mut diagnostics, interpreters) = (verdict.diagnostics, verdict.interpreters);
        diagnostics.insert(0, problem);
        let before = self
            .registry
            .get(&function)
            .and_then(|known| known.findings.error.clone());
        let error = self.registry.unusable(candidate, interpreters, diagnostics);
        let hold = self.releases.get(&function).and_then(|releases| releases.hold());
        let is_asked = hold.is_some_and(|hold| hold.version == version && !hold.established);
        self.releases.change(&function, |releases| {
            releases.failed(version, &why);
            releases.is_no_canary(version);
        });
        if is_asked {
            self.releases.answer(&function, &Err(why));
        }
        self.decide_wrong(&function, (version, installed.load_key));
        let is_news = before.as_ref() != Some(&error);
        self.change_refused(function, error, is_news)
    }
}

/// Returns the problem that the output of a check tells of a file.
fn problem(path: &str, entry: &str, output: &str) -> Diagnostic {
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
    // In the middle of a sentence it belongs to the words.
    let Some((_, rest)) = line.split_once(base).filter(|(before, _)| !before.contains(' ')) else {
        return line.trim();
    };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':' || c == ' ');
    let rest = rest.strip_prefix("line ").unwrap_or(rest);
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':' || c == ' ');
    if rest.is_empty() { line.trim() } else { rest }
}

/// Returns line and column in a line of output: after the name of the file, or of another one with its suffix (a program that
/// reads standard input makes up a name). Column 0: none is given.
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
    fn the_place_and_the_words_of_each_interpreter_are_found() {
        let check = |entry: &str, output: &str, expected: &str| {
            let text = problem(&format!("/f/{entry}"), entry, output).text();
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
            let text = problem("/f/a.sh", "a.sh", output).render(Colour::Plain);
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
