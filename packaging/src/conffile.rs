//! The configuration as it is installed: `config/fnd.toml` with every setting in a comment, so that a default that changes
//! with fnd changes for whoever did not decide otherwise.

/// Returns it.
pub(crate) fn installed(reference: &str) -> String {
    let mut result = String::from(
        "# Configuration of fnd: every key with its default; see fnd.toml(5). `fnd --check` judges it, `systemctl reload fnd`\n\
         # applies it. Remove the # before what you want to change.\n",
    );
    for line in reference.lines() {
        // `[table]` stays, so that a key whose # is removed stands in its table; an entry of a list is nothing by itself.
        let setting = !line.is_empty() && !line.starts_with('#') && (!line.starts_with('[') || line.starts_with("[["));
        if setting {
            result += "# ";
        }
        result += line;
        result.push('\n');
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::settings::resolve::configuration;

    #[test]
    fn what_is_installed_is_valid_and_changes_nothing() {
        let text = installed(include_str!("../../config/fnd.toml"));
        let installed = configuration([("fnd.toml", text.as_bytes())]).expect("it is valid");
        assert_eq!(
            installed.settings,
            configuration([]).expect("nothing is valid").settings
        );
        assert!(
            text.contains("\n# max_workers = 1000\n") && text.contains("\n[node]"),
            "{text}"
        );
    }
}
