//! Writes the configuration as it is installed: `config/fnd.toml` with every setting in a comment, so that a new
//! default takes effect for users who have not set a value.

/// Returns the installed configuration.
pub(crate) fn installed(reference: &str) -> String {
    let mut result = String::from(
        "# Configuration of fnd: every key with its default; see fnd.toml(5). `fnd --check` judges it, `systemctl reload fnd`\n\
         # applies it. Remove the # before what you want to change.\n",
    );
    for line in reference.lines() {
        // `[table]` stays, so that a key whose # is removed is in its table; an entry of a list means nothing without
        // its keys.
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
    use fnd_manifest::settings::resolve::configuration;

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
