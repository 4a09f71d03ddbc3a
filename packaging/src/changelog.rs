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

/// The version of the package.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the section of this version as its entry: each point on indented lines, below the heading of its part.
pub(crate) fn debian(changes: &str, at: jiff::Timestamp) -> String {
    let heading = format!("{VERSION} - ");
    let mut sections = changes.split("\n## ").filter(|section| section.starts_with(&heading));
    let mut entry = format!("fnd ({VERSION}) unstable; urgency=medium\n");
    for line in sections.next().unwrap_or_default().lines() {
        if let Some(part) = line.strip_prefix("### ") {
            entry += &format!("\n  [ {part} ]\n");
        } else if let Some(point) = line.strip_prefix("- ") {
            entry += &format!("  * {point}\n");
        } else if let Some(more) = line.strip_prefix("  ") {
            entry += &format!("    {more}\n");
        }
    }
    // A `Timestamp` is printed in UTC.
    let date = at.strftime("%a, %d %b %Y %H:%M:%S +0000");
    entry + &format!("\n -- {MAINTAINER}  {date}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_of_this_version_is_the_entry() {
        let changes = format!(
            "# Changes\n\nText.\n\n## Unreleased\n\n- New.\n\n## {VERSION} - 2026-11-22\n\nFirst.\n\n### Added\n\n#### Here\n- One\n  \
             more.\n- Two.\n\n### Fixed\n\n- Three.\n\n## 0.0.1 - 2026-11-01\n\n- Old.\n"
        );
        let text = debian(&changes, jiff::Timestamp::UNIX_EPOCH);
        assert!(text.starts_with(&format!("fnd ({VERSION}) unstable; ")), "{text}");
        let points = "\n\n  [ Added ]\n  * One\n    more.\n  * Two.\n\n  [ Fixed ]\n  * Three.\n\n -- ";
        assert!(text.contains(points), "{text}");
        assert!(text.ends_with(">  Thu, 01 Jan 1970 00:00:00 +0000\n"), "{text}");
    }

    #[test]
    fn this_version_has_a_section() {
        let text = debian(include_str!("../../CHANGELOG.md"), jiff::Timestamp::UNIX_EPOCH);
        assert!(text.contains("\n  * "), "{text}");
    }
}
