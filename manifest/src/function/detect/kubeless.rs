//! Finds handlers of Kubeless: functions with the parameters `(event, context)`, which may have any name, since the name is in
//! the manifest. Python has its own scanner, which needs only the checks of a list and of a name.

use super::{Uncalled, is_other, line_of, lines};

/// Longest list of parameters in bytes, so that the time is linear.
const PARAMETERS_MAX: usize = 200;

/// Beginnings of lines that run nothing, where they are not indented.
const DEFINES: [&str; 12] = [
    "#",
    "//",
    "/*",
    "*",
    "<?php",
    "?>",
    "use ",
    "require",
    "end",
    "}",
    "{",
    "namespace ",
];

/// Returns the handler of a file whose functions begin with a keyword, and their parameters with a mark. The file consists
/// only of functions, and the handler is named nowhere else. In doubt there is none.
pub(super) fn uncalled(text: &str, keyword: &str, mark: &str) -> Option<Uncalled> {
    let mut candidate = None;
    for (here, line) in lines(text) {
        if let Some(rest) = line.strip_prefix(keyword) {
            let end = rest.find(is_other)?;
            if is_list(text.get(here..)?, mark) {
                candidate = Some((here, rest.get(..end)?));
            }
        } else if !(line.trim().is_empty()
            || line.starts_with([' ', '\t'])
            || DEFINES.iter().any(|begin| line.starts_with(begin)))
        {
            return None;
        }
    }
    let (position, name) = candidate?;
    occurs_once(text, name).then(|| Uncalled {
        line: line_of(text, position),
        what: format!("{keyword}{name}"),
        name: name.to_owned(),
        parameters: 2,
        kubeless: true,
    })
}

/// Says whether the first list in brackets names `event` and `context`, each after a mark, and nothing else.
pub(super) fn is_list(code: &str, mark: &str) -> bool {
    // Only in its first line: otherwise each definition of a long file could be a search to the end.
    let first = code.split('\n').next().unwrap_or_default();
    let Some(list) = first.find('(').and_then(|at| code.get(at + 1..)) else {
        return false;
    };
    let end = list.bytes().take(PARAMETERS_MAX).position(|byte| byte == b')');
    let Some(list) = end.and_then(|end| list.get(..end)) else {
        return false;
    };
    let names = list.split(',').map(|parameter| {
        let parameter = parameter.trim();
        let parameter = parameter.strip_prefix(mark).unwrap_or_default();
        parameter.split([':', '=', ' ']).next().unwrap_or_default()
    });
    let mut names: Vec<&str> = names.collect();
    // A comma may end the list.
    if list.trim_end().ends_with(',') {
        names.pop();
    }
    names == ["event", "context"]
}

/// Says whether a name occurs once.
pub(super) fn occurs_once(code: &str, name: &str) -> bool {
    code.split(is_other).filter(|word| *word == name).count() == 1
}

#[cfg(test)]
mod tests {
    use super::uncalled;

    #[test]
    fn a_handler_with_any_name_is_found() {
        let ruby = |text: &str| uncalled(text, "def ", "").map(|found| (found.line, found.what));
        let php = |text: &str| uncalled(text, "function ", "$").map(|found| (found.line, found.what));
        let text = "require 'json'\n\ndef foo(event, context)\n  'x'\nend\n";
        assert_eq!(ruby(text), Some((3, "def foo".to_owned())));
        let text = "<?php\n\nfunction foo($event, $context) {\n  return 1;\n}\n";
        assert_eq!(php(text), Some((3, "function foo".to_owned())));
        for text in [
            "def foo(event, context)\nend\nfoo(1, 2)\n",
            "def foo(event)\nend\n",
            "puts 1\ndef foo(event, context)\nend\n",
            "def foo\nend\n",
            "",
        ] {
            assert_eq!(ruby(text), None, "{text}");
        }
        assert_eq!(php("<?php\nfunction foo($a, $b) {\n}\n"), None);
        for text in ["def foo(\n", "def foo(event,\n", "def \n", "(\n", "def a\n"] {
            assert_eq!(ruby(&text.repeat(100_000)), None);
        }
    }
}
