//! Detects handlers in Python: a top-level `handler`, or a top-level `main` or `handle` with two parameters.

use super::lexer::{Literal, Syntax};
use super::{Uncalled, is_other, kubeless, line_of, lines};
use std::collections::BTreeSet;

pub(super) const SYNTAX: Syntax = Syntax::of(&[
    Literal::line(b"#"),
    string(b"\"\"\""),
    string(b"'''"),
    string_in_line(b"\""),
    string_in_line(b"'"),
]);

/// The closing quotes stay visible, so that a parameter whose default is a string still counts.
const fn string(quotes: &'static [u8]) -> Literal<'static> {
    Literal {
        shown: *b"  \"",
        ..Literal::string(quotes)
    }
}

/// A string with one quote on each side ends at the end of its line, even if it is not closed.
const fn string_in_line(quotes: &'static [u8]) -> Literal<'static> {
    Literal {
        escapes_line: false,
        in_line: true,
        ..string(quotes)
    }
}

/// Returns the handler. A file that runs its own `main` when it is started is a script, whatever the parameters of
/// `main`.
pub(super) fn handler(code: &str) -> Option<(usize, &'static str)> {
    let guard = code
        .lines()
        .any(|line| line.starts_with("if ") && line.contains("__name__"));
    let defined = top_level(code).find_map(|(position, line)| {
        let two = || parameters_at(code, position, line) == 2;
        let what = match defined(line)? {
            "handler" => "def handler",
            "main" if !guard && two() => "def main",
            "handle" if two() => "def handle",
            _ => return None,
        };
        Some((position, what))
    });
    defined.or_else(|| served(code))
}

/// Returns the line in which a file asks the SDK of Rafay to serve its handler, which may be in another file.
fn served(code: &str) -> Option<(usize, &'static str)> {
    const SDK: [&str; 2] = ["import python_sdk_rafay_workflow", "from python_sdk_rafay_workflow"];
    let imported = code.lines().any(|line| SDK.iter().any(|sdk| line.starts_with(sdk)));
    let position = code.find("serve_function(").filter(|_| imported)?;
    Some((position, "serve_function"))
}

/// Returns a `main` or `handle` that is no handler because of its parameters, or a handler of Kubeless, which may have any
/// name, if nothing runs it: it is named nowhere else, and the file consists only of definitions. In doubt there is none.
pub(super) fn uncalled(text: &str) -> Option<Uncalled> {
    let code = SYNTAX.blanked(text);
    let mut candidate = None;
    let mut of_kubeless = None;
    let mut decorated = false;
    for (position, line) in top_level(&code) {
        match defined(line) {
            // A decorator may run what it decorates.
            Some("main" | "handle") if decorated => return None,
            Some(name @ ("main" | "handle")) => candidate = candidate.or(Some((position, line, name))),
            Some(name) if !decorated && kubeless::is_list(code.get(position..)?, "") => {
                of_kubeless = Some((position, line, name));
            }
            // Other functions may stand beside the handler.
            Some(_) => {}
            None if only_defines(line) => {}
            None => return None,
        }
        decorated = line.starts_with('@');
    }
    let (position, line, name) = candidate.or(of_kubeless)?;
    kubeless::occurs_once(&code, name).then(|| Uncalled {
        line: line_of(&code, position),
        what: format!("def {name}"),
        name: name.to_owned(),
        parameters: parameters_at(&code, position, line),
        kubeless: candidate.is_none(),
    })
}

/// Most modules that are returned.
const IMPORTS_MAX: usize = 100;

/// Returns the modules that the file imports anywhere, without their submodules.
pub(super) fn imports(text: &str) -> Vec<String> {
    let code = SYNTAX.blanked(text);
    let mut found = BTreeSet::new();
    for line in code.lines().map(str::trim_start) {
        let modules = if let Some(rest) = line.strip_prefix("import ") {
            rest
        } else if let Some(rest) = line.strip_prefix("from ") {
            let (module, names) = rest.split_once("import ").unwrap_or((rest, ""));
            // `from . import x` imports the module beside.
            let module = module.trim().trim_start_matches('.');
            if module.is_empty() { names } else { module }
        } else {
            continue;
        };
        let first = |name: &str| name.trim().split(['.', ' ', ';']).next().unwrap_or_default().to_owned();
        found.extend(modules.split(',').map(first));
    }
    found.remove("");
    found.into_iter().take(IMPORTS_MAX).collect()
}

/// Says whether a top-level line without `def` runs nothing of the file: it is an import, a class, a decorator, an
/// assignment, or the end of a string or list.
fn only_defines(line: &str) -> bool {
    let line = line.trim();
    let begins = ["import ", "from ", "class ", "@", "\"", ")", "]", "}"];
    let rest = line
        .trim_start_matches(|c: char| c == '_' || c.is_alphanumeric())
        .trim_start();
    let assigns =
        rest.len() < line.len() && (rest.starts_with(':') || (rest.starts_with('=') && !rest.starts_with("==")));
    line.is_empty() || assigns || begins.iter().any(|begin| line.starts_with(begin))
}

/// Returns the lines at the top level, with their positions. Text inside brackets is no definition and is read only once.
fn top_level(code: &str) -> impl Iterator<Item = (usize, &str)> {
    // Number of brackets that are open where the line begins.
    let mut depth = 0_usize;
    lines(code).filter_map(move |(here, line)| {
        let is_top = depth == 0 && !line.starts_with([' ', '\t']);
        depth = line.bytes().fold(depth, |depth, byte| match byte {
            b'(' | b'[' | b'{' => depth + 1,
            b')' | b']' | b'}' => depth.saturating_sub(1),
            _ => depth,
        });
        is_top.then_some((here, line))
    })
}

/// Returns the name of the function that a line defines.
fn defined(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line).trim_start_matches(' ');
    let rest = rest.strip_prefix("def ")?.trim_start();
    rest.split(is_other).next()
}

/// Returns the number of parameters of the function that a line defines.
fn parameters_at(code: &str, position: usize, line: &str) -> usize {
    let from = line.find('(').map(|at| position + at);
    from.and_then(|from| code.get(from..)).map_or(0, parameters)
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

#[cfg(test)]
mod tests {
    use super::super::tests::expect;
    use super::*;

    fn check(text: &str, expected: Option<(u32, &str)>) {
        expect("python", expected, text);
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
    fn what_serves_a_function_of_rafay_is_a_handler() {
        check(
            "from function import handler\nimport python_sdk_rafay_workflow as sdk\n\nif __name__ == '__main__':\n    \
             sdk.serve_function(handler.handle)\n",
            Some((5, "serve_function")),
        );
        check(
            "from python_sdk_rafay_workflow import serve_function\ndef f(a, b): pass\nserve_function(f)\n",
            Some((3, "serve_function")),
        );
        check("def serve_function(f): pass\nserve_function(print)\n", None);
        check("import python_sdk_rafay_workflow\nprint('serve_function(x)')\n", None);
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

    #[test]
    fn a_function_that_nothing_calls_is_found() {
        for (text, expected) in [
            ("def main(args):\n    return {}\n", ("def main", 1, 1)),
            (
                "def main(anything: dict = {'a': (1, 2)}) -> dict:\n    return {}\n",
                ("def main", 1, 1),
            ),
            ("async def main(args): ...\n", ("def main", 1, 1)),
            (
                "\"\"\"Doc.\n\"\"\"\nimport os\nfrom x import (\n  y,\n)\n\nLOG = os.x()\n\ndef main(a):\n  pass\n",
                ("def main", 10, 1),
            ),
            ("def handle(request):\n    pass\n", ("def handle", 1, 1)),
            ("def main(name, count, greet):\n    pass\n", ("def main", 1, 3)),
            (
                "# main\ndef helper(x):\n    print('main')\n\ndef main():\n    pass\n",
                ("def main", 5, 0),
            ),
            (
                "@dataclass\nclass A:\n  x: int\n\ndef main(args):\n  pass\n",
                ("def main", 5, 1),
            ),
        ] {
            check(text, None);
            let found = uncalled(text).unwrap();
            assert_eq!((found.what.as_str(), found.line, found.parameters), expected, "{text}");
            assert!(!found.kubeless, "{text}");
        }
    }

    #[test]
    fn a_handler_of_kubeless_is_found_by_its_parameters() {
        for (text, expected) in [
            ("def foo(event, context):\n    return 'x'\n", ("def foo", 1)),
            (
                "import os\n\ndef helper(x):\n  pass\n\nasync def foo_bar(\n  event: dict, context=None,\n):\n  pass\n",
                ("def foo_bar", 6),
            ),
        ] {
            let found = uncalled(text).unwrap();
            assert_eq!((found.what.as_str(), found.line), expected, "{text}");
            assert_eq!((found.kubeless, found.parameters), (true, 2), "{text}");
        }
        for text in [
            "def foo(event, context):\n    pass\nfoo(1, 2)\n",
            "def foo(event, context):\n    pass\nprint(1)\n",
            "def foo(event):\n    pass\n",
            "def foo(event, contexts):\n    pass\n",
            "def foo(event, context, more):\n    pass\n",
            "@x\ndef foo(event, context):\n    pass\n",
            "class A:\n    def foo(event, context):\n        pass\n",
        ] {
            assert_eq!(uncalled(text), None, "{text}");
        }
    }

    #[test]
    fn a_script_that_does_something_is_not_found() {
        for text in [
            "",
            "print('x')\n",
            "import os\n",
            "def helper(args):\n    pass\n",
            "class A:\n  def main(self): pass\n",
            "def main(args):\n  pass\nmain([])\n",
            "import sys\ndef main(argv):\n  pass\nsys.exit(main(sys.argv))\n",
            "def main(argv):\n  pass\nif __name__ == '__main__':\n  main([])\n",
            "def main(argv):\n  pass\nCODE = main([])\n",
            "import typer\napp = typer.Typer()\n@app.command()\ndef main(name):\n  pass\napp()\n",
            "import fire\ndef main(name):\n  pass\nfire.Fire()\n",
            "import fire\n@fire.Fire\ndef main(name):\n  pass\n",
            "def main(args):\n  pass\nprint('x')\n",
            "try:\n  import x\nexcept ImportError:\n  x = None\ndef main(args):\n  pass\n",
        ] {
            assert_eq!(uncalled(text), None, "{text}");
        }
    }

    #[test]
    fn imported_modules_are_found() {
        for (text, expected) in [
            ("", vec![]),
            ("import a\n", vec!["a"]),
            ("import a.b as c, d ; x = 1\n", vec!["a", "d"]),
            ("from a.b import (\n  c,\n)\n", vec!["a"]),
            ("from .a import b\nfrom . import c, d\n", vec!["a", "c", "d"]),
            (
                "def f():\n    import a\ntry:\n    import b\nexcept ImportError:\n    pass\n",
                vec!["a", "b"],
            ),
            ("# import a\nx = \"\"\"\nimport b\n\"\"\"\nimportant = 1\n", vec![]),
        ] {
            assert_eq!(imports(text), expected, "{text}");
        }
    }

    /// Every file is read once, so that the time is linear whatever it contains.
    #[test]
    fn hostile_files_take_no_time() {
        for text in [
            "def main(\n",
            "def main\n",
            "def a\n",
            "def handle(a,\n",
            "def main((\n",
            "\"\"\"",
            "(",
            "\\",
        ] {
            check(&text.repeat(100_000), None);
            let _ = uncalled(&text.repeat(100_000));
        }
        check(&format!("{}{}", "def main(\n".repeat(50_000), ")".repeat(50_000)), None);
    }
}
