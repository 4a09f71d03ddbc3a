//! Advice for keys of other tools, keys in another table, and values where a table belongs.

use super::words::fits;
use crate::schema::{Key, Schema, ValueKind};
use toml::de::DeValue;

/// Keys of systemd, compose and others that a manifest does not have, and the form of each here.
const OTHER_TOOLS: &[(&str, &str)] = crate::texts! {
    "after before depends_on needs requires wants":
        "functions have no order: `[hooks] on_success = [{ call = \"NAME\" }]` runs another function after this one",
    "cmd entrypoint exec script":
        "the file itself is the program: its arguments are `args = [\"...\"]`, and its interpreter is its suffix or its `#!` line",
    "container image": "functions run without containers: `runtime = \"python\"` names the language, `dependencies` its packages",
    "name": "a function has the name of its file: rename the file",
    "environment envs vars variables": "write `[env]`, and below it lines such as `NAME = \"value\"`",
    "volumes mounts binds":
        "`read_only = [\"/srv/in\"]` and `read_write = [\"/srv/out\"]` in `[sandbox]` show directories of the machine",
    "ports expose":
        "`[[http]]` with `path` and `auth` gives the function a path; `[http_server]` is for a program that listens itself",
    "route webhook endpoint": "write `[[http]]`, and below it `path = \"/hello\"` and `auth = \"token:hello-token\"`",
    "triggers on_event": "a function runs by `[[schedule]]`, `[[http]]`, `[[event]]`, `[[file]]` or `[[nats]]`",
    "restart restart_policy": "`[service]` is restarted when it ends; `retries = 3` in `[retry]` repeats a failed run",
    "killsignal kill_signal stopsignal": "write `stop_signal = \"INT\"` in `[service]`",
    "workdir working_dir working_directory cwd":
        "a function runs in the directory of its code and keeps files in `$STATE_DIRECTORY`; `cd` changes the directory",
    "replicas instances workers scale": "`max = 4` in `[pool]` is the number of processes at once; a `[service]` has `replicas`",
    "attempts max_retries max_attempts": "`retries = 3` in `[retry]` is the number of attempts after the first",
    "mem ram mem_limit max_memory": "write `memory = \"256M\"` in `[limits]`",
    "cpus cpu_limit": "write `cpu = \"0.5\"` in `[limits]`",
    "max_time runtime_max max_runtime": "write `timeout = \"30s\"` in `[limits]`",
    "email mail mailto notify notifications":
        "`call = \"NAME\"` in `[alert]` calls a function of yours that sends the message",
    "interval": "write `[[schedule]]`, and below it `every = \"5m\"`; the delay between retries is `interval` in `[retry]`",
    "requirements packages modules": "write `dependencies = [\"requests>=2\"]`",
    "version": "remove it: fnd makes the version of the content of the files",
};

/// Returns what to write for a key of another tool.
pub(super) fn of_other_tools(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let row = OTHER_TOOLS
        .iter()
        .find(|(names, _)| names.split(' ').any(|other| other == name));
    row.map(|(_, instead)| *instead)
}

/// Returns what to write for a value in the words of AWS; `key` is the whole name of the key.
pub(super) fn of_aws(key: &str, text: &str) -> Option<String> {
    match key {
        "http.path" if text.contains("+}") => Some(format!("write `{}`: `*` is the rest of the path", rest(text))),
        "http.auth" if text.eq_ignore_ascii_case("none") => Some("write it in small letters: `none`".to_owned()),
        "http.methods" if text == "*" || text.eq_ignore_ascii_case("any") => Some(
            "list each method, such as `[\"GET\", \"POST\", \"PUT\", \"PATCH\", \"DELETE\"]`; without the key a route has GET, HEAD and \
             POST"
                .to_owned(),
        ),
        "http.payload" if text == "2.0" => Some("write `lambda`, which is the form 2.0".to_owned()),
        "http.payload" if text == "1.0" => {
            Some("write `lambda`, which is the form 2.0: fnd does not have the form 1.0".to_owned())
        }
        _ => None,
    }
}

/// Returns a path with `{*proxy}` in place of `{proxy+}`.
fn rest(path: &str) -> String {
    let segment = |segment: &str| match segment.strip_prefix('{').and_then(|name| name.strip_suffix("+}")) {
        Some(name) => format!("{{*{name}}}"),
        None => segment.to_owned(),
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// Returns the arrays of tables that have a key: `[[schedule]]` for `cron`.
pub(super) fn in_arrays(schema: Schema, name: &str) -> Option<String> {
    let has =
        |key: &&Key| matches!(key.kind, ValueKind::Tables(_)) && key.kind.keys().iter().any(|key| key.name == name);
    let arrays: Vec<String> = schema
        .keys
        .iter()
        .filter(has)
        .map(|key| format!("[[{}]]", key.name))
        .collect();
    let arrays: Vec<&str> = arrays.iter().map(String::as_str).collect();
    (!arrays.is_empty()).then(|| crate::schema::one_of(&arrays))
}

/// Returns the table to write in place of a single value.
pub(super) fn as_table(name: &str, kind: &ValueKind, found: &DeValue<'_>) -> Option<String> {
    match kind {
        ValueKind::Map(..) => Some(format!(
            "write `[{name}]`, and below it lines such as `NAME = \"value\"`"
        )),
        ValueKind::Table(_) if found.as_bool() == Some(true) => Some(format!("write `[{name}]` on a line of its own")),
        ValueKind::Table(keys) => {
            let fitting = keys
                .iter()
                .find(|key| fits(&key.kind, found) && !key.example.is_empty())?;
            let example = format!("{} = {}", fitting.name, fitting.example);
            Some(format!("write `[{name}]`, and below it its keys, such as `{example}`"))
        }
        ValueKind::Tables(keys) => {
            let first = keys.iter().find(|key| !key.example.is_empty())?;
            let example = format!("{} = {}", first.name, first.example);
            Some(format!(
                "write `[[{name}]]`, and below it its keys, such as `{example}`"
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{OTHER_TOOLS, of_aws};
    use crate::function::keys::SCHEMA;

    #[test]
    fn values_of_aws_have_the_word_to_write() {
        for (key, text, expected) in [
            ("http.path", "/shop/{proxy+}", "write `/shop/{*proxy}`"),
            ("http.auth", "NONE", "`none`"),
            ("http.methods", "ANY", "list each method"),
            ("http.payload", "1.0", "write `lambda`"),
            ("http.payload", "2.0", "write `lambda`"),
        ] {
            let advice = of_aws(key, text).unwrap_or_default();
            assert!(advice.contains(expected), "{text}: {advice}");
        }
        assert_eq!(of_aws("http.methods", "GRT"), None);
    }

    #[test]
    fn no_advice_is_about_a_key_that_exists() {
        for name in OTHER_TOOLS.iter().flat_map(|(names, _)| names.split(' ')) {
            assert!(SCHEMA.keys.iter().all(|key| key.name != name), "{name}");
        }
    }
}
