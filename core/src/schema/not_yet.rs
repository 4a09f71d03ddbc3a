//! The list of keys that are known, checked, and refused because their feature is not built yet.
//!
//! The commit that builds a feature deletes its line. A setting that has no effect is an error and never ignored; a
//! value that only asks for the present behaviour is accepted.

/// A key that is not built yet.
#[derive(Debug)]
pub struct NotYet {
    /// The key with its tables, `limits.tmp`; `*` stands for any name. A table stands for all of its keys.
    pub key: &'static str,
    /// Values, as TOML, that are accepted because they change nothing.
    pub accepted: &'static [&'static str],
}

const fn not_yet(key: &'static str, accepted: &'static [&'static str]) -> NotYet {
    NotYet { key, accepted }
}

/// Keys of a function's manifest.
pub const MANIFEST: &[NotYet] = &[
    not_yet("dependencies", &["[]"]),
    not_yet("secrets", &["{}"]),
    not_yet("bindings", &["[]"]),
    // A private /tmp comes with the sandbox.
    not_yet("limits.tmp", &[]),
    not_yet("schedule", &["[]"]),
    not_yet("http", &["[]"]),
    not_yet("event", &["[]"]),
    not_yet("file", &["[]"]),
    not_yet("hooks.on_success", &["[]"]),
    not_yet("hooks.on_failure", &["[]"]),
    not_yet("hooks.on_completion", &["[]"]),
    not_yet("alert.call", &[]),
    not_yet("alert.on", &[]),
    not_yet("alert.expect_success_every", &[]),
    not_yet("sandbox.profile", &["\"off\""]),
    not_yet("sandbox.network", &["\"host\""]),
    not_yet("sandbox.read_write", &["[]"]),
];

/// Keys of `fnd.toml`; the keys of `[defaults]` are in [`MANIFEST`].
pub const SETTINGS: &[NotYet] = &[
    not_yet("sizes.*.tmp", &[]),
    not_yet("http.listen", &[]),
    not_yet("http.public", &["false"]),
    not_yet("http.tls", &[]),
    not_yet("http.events", &[]),
    not_yet("http.access_log", &["true"]),
    not_yet("build.timeout", &["\"30m\""]),
    not_yet("build.memory", &["\"2G\""]),
    not_yet("build.env", &["{}"]),
    not_yet("build.secrets", &["[]"]),
    not_yet("events.nats", &[]),
    not_yet("ui.enabled", &["false"]),
];

/// Returns the entry of a key; absent if the key is built.
#[must_use]
pub fn find<'a>(list: &'a [NotYet], path: &[&str]) -> Option<&'a NotYet> {
    list.iter().find(|entry| {
        let mut parts = entry.key.split('.');
        path.iter()
            .all(|name| parts.next().is_some_and(|part| part == "*" || part == *name))
            && parts.next().is_none()
    })
}
