//! Messages of functions and interpreters, as records have them.

use crate::telemetry;

/// Returns a message in which the paths of an installed version are those of the function's own files. Escape sequences
/// are removed, so that printing the message later cannot control a terminal. `state` is fnd's state directory.
pub(crate) fn shown(state: &str, message: &str) -> String {
    // Most calls succeed, and have no message.
    if message.is_empty() {
        return String::new();
    }
    let versions = format!("{}/versions/", state.trim_end_matches('/'));
    let mut own = String::new();
    let mut rest = message;
    while let Some((before, path)) = rest.split_once(&versions) {
        if let Some(file) = own_path(path) {
            // Stack traces of deno, and of modules in node, name files by their URL.
            own += before.strip_suffix("file://").unwrap_or(before);
            rest = file;
        } else {
            own += before;
            own += &versions;
            rest = path;
        }
    }
    telemetry::escape(&whole(&(own + rest))).into_owned()
}

/// Replaces paths of which lua shows only the end: `...09af/code/x.lua`.
fn whole(message: &str) -> String {
    let mut pieces = message.split("...");
    let mut result = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let after_hash = piece.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        match after_hash
            .strip_prefix("/code/")
            .filter(|_| after_hash.len() < piece.len())
        {
            Some(path) => result += path,
            None => result = result + "..." + piece,
        }
    }
    result
}

/// Returns what follows `FUNCTION/HASH/code/`.
fn own_path(path: &str) -> Option<&str> {
    let (_function, path) = path.split_once('/')?;
    let (hash, path) = path.split_once('/')?;
    let is_hash = !hash.is_empty() && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    path.strip_prefix("code/").filter(|_| is_hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: &str) {
        assert_eq!(shown("/var/lib/fnd", message), expected);
    }

    #[test]
    fn paths_of_versions_are_those_of_the_function() {
        check("", "");
        check("no \x1b[31mdisk", "no \\x1b[31mdisk");
        check(
            "/var/lib/fnd/versions/web.a/09af/code/a.sh: line 3: b: command not found",
            "a.sh: line 3: b: command not found",
        );
        check(
            "Module not found \"file:///var/lib/fnd/versions/a/09af/code/lib/b.ts\", in /var/lib/fnd/versions/a/09af/code/a.ts",
            "Module not found \"lib/b.ts\", in a.ts",
        );
    }

    #[test]
    fn paths_that_lua_cuts_are_those_of_the_function() {
        check("lua: ...09af/code/a.lua:1: no ...x", "lua: a.lua:1: no ...x");
    }

    #[test]
    fn other_paths_stay() {
        for path in [
            ".../code/a.lua",
            "...09ag/code/a.lua",
            "/var/lib/fnd/versions/",
            "/var/lib/fnd/versions/a/xyz/code/a.sh",
            "/var/lib/fnd/versions/a//code/a.sh",
            "/var/lib/fnd/versions/a/09af/plan",
            "/srv/versions/a/09af/code/a.sh",
            "file:///srv/a.ts",
        ] {
            check(path, path);
        }
        let twice = "/var/lib/fnd/versions//var/lib/fnd/versions/a/1/code/b";
        check(twice, "/var/lib/fnd/versions/b");
    }
}
