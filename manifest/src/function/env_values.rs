//! Whether a file of a function has values of `[env]`, which only admins see.

use super::inline;
use crate::schema::source::Source;
use toml::{Table, Value};

/// Says whether a file has a manifest, or may have one, with values of the environment. A manifest that cannot be read
/// counts: nobody knows what is in it.
#[must_use]
pub fn has_env_values(path: &str, bytes: &[u8]) -> bool {
    let source = if path.rsplit('.').next() == Some("toml") {
        Source::whole(path, bytes).map(Some)
    } else {
        inline::block(path, bytes)
    };
    let Ok(source) = source else { return true };
    let Some(Source { toml, .. }) = source else {
        return false;
    };
    toml.parse::<Table>().map_or(true, |manifest| {
        let build = manifest.get("build").and_then(Value::as_table);
        [Some(&manifest), build]
            .into_iter()
            .flatten()
            .any(|table| table.contains_key("env"))
    })
}

#[cfg(test)]
mod tests {
    use super::has_env_values;

    #[test]
    fn values_of_the_environment_are_found_in_every_form() {
        for (path, text, expected) in [
            ("function.toml", "[env]\nA = \"x\"\n", true),
            ("function.toml", "env.A = \"x\"\n", true),
            ("/f/hello.toml", "env = { A = \"x\" }\n", true),
            ("function.toml", "build = { env = { A = \"x\" } }\n", true),
            ("function.toml", "size = \"S\"\n[build]\nsecrets = []\n", false),
            ("function.toml", "broken = [\n", true),
            ("hello.sh", "# /// fnd\n# [env]\n# A = \"x\"\n# ///\necho\n", true),
            ("hello.sh", "# /// fnd\n# size = \"S\"\n# ///\n[env]\n", false),
            ("hello.sh", "# /// fnd\n# [env]\n", true),
            ("hello.sh", "[env]\nA=x\n", false),
        ] {
            assert_eq!(has_env_values(path, text.as_bytes()), expected, "{path} {text}");
        }
    }
}
