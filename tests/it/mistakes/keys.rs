//! Mistakes in manifests.

use super::{Files, Mistake, Words};

/// A mistake in the manifest of `job.sh`, which is checked before it is saved elsewhere.
const fn manifest(what: &'static str, files: Files, fix: Words) -> Mistake {
    Mistake::new(what, files, &["validate DIR/job.sh"], fix)
}

const ECHO: (&str, &str, u32) = ("job.sh", "echo hello\n", 0o644);

pub(super) const ALL: &[Mistake] = &[
    manifest(
        "a key that is misspelt",
        &[ECHO, ("job.toml", "[limits]\nmemroy = \"1G\"\n", 0o644)],
        &["job.toml:2:1", "`memory`"],
    ),
    manifest(
        "a key in the wrong table",
        &[ECHO, ("job.toml", "memory = \"1G\"\n", 0o644)],
        &["job.toml:1:1", "limits"],
    ),
    manifest(
        "a table that is misspelt",
        &[ECHO, ("job.toml", "[limit]\nmemory = \"1G\"\n", 0o644)],
        &["`limits`"],
    ),
    manifest(
        "a size in words",
        &[ECHO, ("job.toml", "[limits]\nmemory = \"256 megabytes\"\n", 0o644)],
        &["256M"],
    ),
    manifest(
        "a duration without a unit",
        &[ECHO, ("job.toml", "[limits]\ntimeout = 30\n", 0o644)],
        &["\"30s\""],
    ),
    manifest(
        "a limit that is too low",
        &[ECHO, ("job.toml", "[limits]\nmemory = \"1K\"\n", 0o644)],
        &["from `1M`"],
    ),
    manifest(
        "a text where true or false belongs",
        &[ECHO, ("job.toml", "on_load = \"no\"\n", 0o644)],
        &["true", "`auto`"],
    ),
    manifest(
        "text without quotes",
        &[ECHO, ("job.toml", "runtime = bash\n", 0o644)],
        &["job.toml:1:11", "quote"],
    ),
    manifest(
        "a runtime that is misspelt",
        &[ECHO, ("job.toml", "runtime = \"pyhton\"\n", 0o644)],
        &["`python`"],
    ),
    manifest(
        "the same key twice",
        &[ECHO, ("job.toml", "on_load = true\non_load = false\n", 0o644)],
        &["job.toml:2"],
    ),
    manifest(
        "a schedule that never comes",
        &[ECHO, ("job.toml", "[[schedule]]\ncron = \"0 0 30 2 *\"\n", 0o644)],
        &["never comes", "job.toml:2"],
    ),
    manifest(
        "a value of retry.on that does not exist",
        &[ECHO, ("job.toml", "[retry]\non = [\"errors\"]\n", 0o644)],
        &["`error`"],
    ),
    manifest(
        "YAML instead of TOML",
        &[ECHO, ("job.toml", "limits:\n  memory: 1G\n", 0o644)],
        &["TOML"],
    ),
    manifest(
        "a comment block that is not closed",
        &[("job.sh", "# /// fnd\n# on_load = false\necho hello\n", 0o644)],
        &["job.sh:1:1", "# ///"],
    ),
    manifest(
        "a marker that is misspelt",
        &[("job.sh", "# // fnd\n# on_load = false\n# //\necho hello\n", 0o644)],
        &["job.sh:1:1", "# /// fnd"],
    ),
    manifest(
        "a manifest in the file and one beside it",
        &[
            ("job.sh", "# /// fnd\n# on_load = false\n# ///\necho hello\n", 0o644),
            ("job.toml", "on_load = false\n", 0o644),
        ],
        &["job.toml"],
    ),
];
