//! Evaluates `ecosystem.config.js` with node, and finds the places of its keys.

use crate::failure::ImportFailure;
use crate::{text, tree};
use fnd_manifest::foreign::yaml::{Document, Value, YamlNode, YamlPosition};
use std::path::Path;
use std::process::{Command, Stdio};

/// Prints what the file exports, as JSON. A function in it is left out, as pm2 leaves it out.
const PROGRAM: &str = "import(require('node:url').pathToFileURL(process.argv[1])).then(\
    (it) => process.stdout.write(JSON.stringify(it.default ?? it)))";

/// Returns what a file exports. It is a program: node runs it as the user who calls.
///
/// # Errors
/// There is no node, or the file fails.
pub(super) fn evaluate(path: &Path) -> Result<Vec<Document>, ImportFailure> {
    let name = path.display().to_string();
    let bytes = text::read(path)?;
    let full = std::path::absolute(path).map_err(|error| ImportFailure::usage(format!("`{name}`: {error}")))?;
    let mut node = Command::new("node");
    node.args(["-e", PROGRAM, "--"]).arg(&full).stdin(Stdio::null());
    let output = node.output().map_err(|error| {
        ImportFailure::usage(format!("failed to run `node`, which evaluates `{name}`: {error}"))
            .help("write the file as JSON or YAML, or install Node")
    })?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        // node prints the place and the line of code before the error itself.
        let reason = message
            .lines()
            .find(|line| line.contains("Error"))
            .unwrap_or("node failed");
        // node names the place in a line of its own: `/srv/app/ecosystem.config.js:3`.
        let place = full.display().to_string() + ":";
        let line = message
            .lines()
            .find_map(|line| line.trim_end_matches(')').split_once(&place))
            .map(|(_, at)| at);
        let at = line.map(|at| format!(":{at}")).unwrap_or_default();
        return Err(
            ImportFailure::invalid(format!("`{name}{at}` cannot be evaluated: {}", reason.trim()))
                .help("`node FILE` shows the whole message"),
        );
    }
    let mut documents = tree::parse(&name, &output.stdout)?;
    place_in(&mut documents, &String::from_utf8_lossy(&bytes));
    Ok(documents)
}

/// Sets the places of all values to those in the text of the program.
pub(crate) fn place_in(documents: &mut [Document], text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    for document in documents {
        document.lines = lines.iter().map(|line| (*line).to_owned()).collect();
        let mut cursor = YamlPosition(1, 1);
        place(&mut document.root, &lines, &mut cursor);
    }
}

/// Sets the places of all values: a key is at the first line, from the key before it on, that has it before a colon.
fn place(node: &mut YamlNode, lines: &[&str], cursor: &mut YamlPosition) {
    let start = *cursor;
    node.at = start;
    match &mut node.value {
        Value::List(items) => {
            for item in items {
                *cursor = first_key(item, lines, *cursor).unwrap_or(*cursor);
                place(item, lines, cursor);
            }
        }
        Value::Map(entries) => {
            for (key, value) in entries {
                let Some(at) = find(key, lines, *cursor) else {
                    // It comes from elsewhere, such as `...common`.
                    let mut here = start;
                    place(value, lines, &mut here);
                    continue;
                };
                *cursor = at;
                place(value, lines, cursor);
                // The next key of this name is another one.
                if *cursor == at {
                    cursor.1 += u32::try_from(key.chars().count()).unwrap_or(0);
                }
            }
        }
        _ => {}
    }
}

/// Returns the place of the first key of a map, from a place on.
fn first_key(node: &YamlNode, lines: &[&str], from: YamlPosition) -> Option<YamlPosition> {
    let Value::Map(entries) = &node.value else {
        return None;
    };
    entries.iter().filter_map(|(key, _)| find(key, lines, from)).min()
}

fn find(key: &str, lines: &[&str], YamlPosition(line, column): YamlPosition) -> Option<YamlPosition> {
    let first = usize::try_from(line).ok()?.saturating_sub(1);
    for (number, content) in lines.iter().enumerate().skip(first) {
        let from = if number == first {
            usize::try_from(column).ok()?.saturating_sub(1)
        } else {
            0
        };
        let from = content.char_indices().nth(from).map_or(content.len(), |(at, _)| at);
        let rest = content.get(from..)?;
        let found = rest.match_indices(key).find(|(at, _)| {
            let before = rest.get(..*at).and_then(|before| before.chars().next_back());
            let after = rest
                .get(at + key.len()..)
                .unwrap_or_default()
                .trim_start_matches(['"', '\'']);
            before.is_none_or(|c| !c.is_alphanumeric() && c != '_') && after.trim_start().starts_with(':')
        });
        if let Some((at, _)) = found {
            let column = content.get(..from + at)?.chars().count() + 1;
            return Some(YamlPosition(
                u32::try_from(number + 1).ok()?,
                u32::try_from(column).ok()?,
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_their_order() {
        let lines = [
            "module.exports = { apps: [{",
            "  name: 'a', env_x: 1,",
            "  env: { 'A': 1 },",
            "}, { name: 'b' }] }",
        ];
        let at = find("name", &lines, YamlPosition(1, 1)).unwrap();
        assert_eq!(at, YamlPosition(2, 3));
        assert_eq!(find("env", &lines, at), Some(YamlPosition(3, 3)));
        assert_eq!(find("A", &lines, at), Some(YamlPosition(3, 11)));
        assert_eq!(find("name", &lines, YamlPosition(3, 11)), Some(YamlPosition(4, 6)));
        assert_eq!(find("none", &lines, at), None);
    }

    /// Of keys that come from elsewhere, such as `...common`, only the app's own ones tell where the app is.
    #[test]
    fn an_app_is_at_the_first_of_its_keys() {
        let json = br#"{"apps": [{"memory": "1G", "name": "a"}, {"memory": "1G", "name": "b"}]}"#;
        let text = "const common = { memory: '1G' };\nexport default { apps: [\n  { ...common, name: 'a' },\n  { ...common, name: 'b' },\n] };";
        let mut documents = tree::parse("ecosystem.config.js", json).unwrap();
        place_in(&mut documents, text);
        let Value::Map(root) = &documents[0].root.value else {
            panic!();
        };
        let Value::List(apps) = &root[0].1.value else {
            panic!();
        };
        let places: Vec<_> = apps.iter().map(|app| app.at).collect();
        assert_eq!(places, [YamlPosition(3, 16), YamlPosition(4, 16)]);
    }
}
