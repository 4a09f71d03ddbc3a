//! Words of messages: bounds, and the key of the manifest that a failure asks for.

use crate::messages::rules::Rules;

/// Longest message of a record, in bytes.
const MESSAGE_MAX: usize = 4 << 10;

/// Ports that a permission for a host need not name.
const DEFAULT_PORTS: [&str; 2] = [":80", ":443"];

/// The advice for a deno that does not know the permission for a Unix socket.
const NEEDS: &str = "handlers and functions with `[access]` need deno 2.9 or newer; run `fndctl runtimes install deno`";

/// Cuts a message to [`MESSAGE_MAX`] at the border of a character.
pub(crate) fn bounded(mut text: String) -> String {
    if text.len() > MESSAGE_MAX {
        text.truncate(text.floor_char_boundary(MESSAGE_MAX));
    }
    text
}

/// Returns the message of a start that failed.
pub(crate) fn of_start(rules: &Rules, text: String) -> String {
    // The file itself is there, it was installed: execve(2) says ENOENT for the interpreter of its `#!` line, too.
    let interpreter = rules.runtime == "exec" && text.contains("execute the program: No such file");
    if interpreter {
        return bounded(text + ": the interpreter that its `#!` line names does not exist");
    }
    bounded(text)
}

/// Returns a message of a function's own code, bounded. If deno refused a permission, the message names the key of the
/// manifest that grants it, in place of an option of deno. If deno is too old, it says which one is needed.
pub(crate) fn of_code(rules: &Rules, text: String) -> String {
    if rules.runtime != "deno" {
        return bounded(text);
    }
    // A deno before 2.9 reads the permission for a Unix socket as a host with a port.
    if text.contains("invalid port in 'unix:") {
        return bounded(format!("{text}: {NEEDS}"));
    }
    bounded(refused(&text).unwrap_or(text))
}

/// Returns the message of deno's `Requires net access to "example.com:443", run again with the --allow-net flag`.
fn refused(text: &str) -> Option<String> {
    let (what, _option) = text.split_once(", run again with the --allow-")?;
    let (_, needed) = what.rsplit_once("Requires ")?;
    let (name, to) = needed.split_once(" access")?;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return None;
    }
    let mut permission = name.to_owned();
    if !to.is_empty() {
        let target = to.strip_prefix(" to \"")?.strip_suffix('"')?;
        let host = DEFAULT_PORTS.iter().find_map(|port| target.strip_suffix(port));
        permission = format!("{name}={}", host.filter(|_| name == "net").unwrap_or(target));
    }
    // A comma would separate two permissions.
    (!permission.contains([',', '"', '\\']))
        .then(|| format!("{what}: put `permissions = [\"{permission}\"]` into its manifest"))
}

#[cfg(test)]
mod tests {
    use super::refused;

    #[test]
    fn a_refused_permission_names_its_key() {
        let message = |needed: &str, name: &str| {
            refused(&format!(
                "error: Uncaught (in promise) NotCapable: Requires {needed}, run again with the --allow-{name} flag"
            ))
        };
        let cases = [
            ("net access to \"example.com:443\"", "net", "net=example.com"),
            ("net access to \"127.0.0.1:8080\"", "net", "net=127.0.0.1:8080"),
            ("read access to \"/srv/a:80\"", "read", "read=/srv/a:80"),
            ("env access to \"HOME\"", "env", "env=HOME"),
            ("env access", "env", "env"),
            ("run access to \"ls\"", "run", "run=ls"),
        ];
        for (needed, name, permission) in cases {
            assert_eq!(
                message(needed, name).as_deref(),
                Some(&*format!(
                    "error: Uncaught (in promise) NotCapable: Requires {needed}: put `permissions = [\"{permission}\"]` into its manifest"
                )),
            );
        }
    }

    #[test]
    fn other_messages_stay() {
        for text in [
            "",
            "Requires patience",
            "Requires Magic access to \"x\", run again with the --allow-Magic flag",
            "Requires read access to \"a,b\", run again with the --allow-read flag",
            "Requires net access to x, run again with the --allow-net flag",
        ] {
            assert_eq!(refused(text), None, "{text}");
        }
    }
}
