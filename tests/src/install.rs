//! Installs functions with a manifest in one step, and waits until they serve.

use crate::Fnd;

impl Fnd {
    /// Installs a function with a manifest inside its file, in the comments of its language.
    ///
    /// # Panics
    /// If it is not ready, or has an error.
    #[track_caller]
    pub fn install(&self, file: &str, manifest: &str, code: &str) {
        self.drop_file(file, &with_manifest(file, manifest, code));
        let (name, _) = file.rsplit_once('.').expect("a file has a suffix");
        assert_eq!(self.wait_ready(name).error, None, "{name}");
    }

    /// Installs a function with a manifest beside its file. It does not run by itself.
    ///
    /// # Panics
    /// If it is not ready.
    #[track_caller]
    pub fn install_beside(&self, file: &str, manifest: &str, code: &str) {
        let (name, _) = file.rsplit_once('.').expect("a file has a suffix");
        self.drop_file(&format!("{name}.toml"), &format!("on_load = false\n{manifest}"));
        self.drop_file(file, code);
        self.wait_ready(name);
    }
}

/// Returns code with a manifest in the comments of its language.
#[must_use]
pub fn with_manifest(file: &str, manifest: &str, code: &str) -> String {
    let comment = if file.ends_with(".py") || file.ends_with(".sh") {
        "#"
    } else {
        "//"
    };
    let mut text = format!("{comment} /// fnd\n");
    for line in manifest.lines() {
        text += &format!("{comment} {line}\n");
    }
    format!("{text}{comment} ///\n{code}")
}
