//! Converts CHANGELOG.md to the form that Debian's tools read.

use anyhow::Context as _;

/// The maintainer in each entry; the same as in Cargo.toml.
const MAINTAINER: &str = env!("CARGO_PKG_AUTHORS");

/// Returns when this version was built: `SOURCE_DATE_EPOCH`, as usual for reproducible builds.
///
/// # Errors
/// The variable is absent or not a valid time.
pub(crate) fn built_at() -> anyhow::Result<jiff::Timestamp> {
    let text = std::env::var("SOURCE_DATE_EPOCH").context("SOURCE_DATE_EPOCH is not set")?;
    Ok(jiff::Timestamp::from_second(
        text.parse().context("SOURCE_DATE_EPOCH")?,
    )?)
}

/// Returns the newest section as the entry of this version: each of its points on an indented line.
pub(crate) fn debian(changes: &str, at: jiff::Timestamp) -> String {
    let newest = changes.split("\n## ").nth(1).unwrap_or_default();
    let mut entry = format!("fnd ({}) unstable; urgency=medium\n\n", env!("CARGO_PKG_VERSION"));
    for line in newest.lines().skip(1) {
        match (line.strip_prefix("- "), line.strip_prefix("  ")) {
            (Some(point), _) => entry += &format!("  * {point}\n"),
            (None, Some(more)) => entry += &format!("    {more}\n"),
            (None, None) => {}
        }
    }
    let date = at.strftime("%a, %d %b %Y %H:%M:%S +0000");
    entry + &format!("\n -- {MAINTAINER}  {date}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_section_is_the_entry() {
        let text = debian(
            "# Changes\n\nText.\n\n## Unreleased\n\nFirst.\n\n- One\n  more.\n- Two.\n\n## 0.0.1\n\n- Old.\n",
            jiff::Timestamp::UNIX_EPOCH,
        );
        assert!(text.starts_with("fnd ("), "{text}");
        assert!(text.contains("\n\n  * One\n    more.\n  * Two.\n\n -- "), "{text}");
        assert!(text.ends_with(">  Thu, 01 Jan 1970 00:00:00 +0000\n"), "{text}");
    }
}
