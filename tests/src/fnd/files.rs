//! Adds and removes files of functions.

use super::Fnd;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};

impl Fnd {
    /// Installs a function file as a careful editor does: it is written beside the old one, then renamed.
    ///
    /// # Panics
    /// When that fails.
    pub fn drop_file(&self, path: &str, content: &str) {
        self.drop_bytes(path, content.as_bytes(), 0o644);
    }

    /// Installs an executable file.
    ///
    /// # Panics
    /// When that fails.
    pub fn drop_executable(&self, path: &str, content: &[u8]) {
        self.drop_bytes(path, content, 0o755);
    }

    /// Installs a file with any content and mode, and makes its directory.
    ///
    /// # Panics
    /// When that fails.
    pub fn drop_bytes(&self, path: &str, content: &[u8], mode: u32) {
        let target = self.function_path(path);
        let directory = target.parent().expect("a file has a directory");
        fs::create_dir_all(directory).expect("its directory is made");
        let name = target.file_name().expect("a file has a name").to_string_lossy();
        let temporary = directory.join(format!(".{name}.tmp"));
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&temporary)
            .expect("a file in the functions directory");
        file.write_all(content).expect("it is written");
        // The umask cuts the mode at creation, so the mode is set again.
        fs::set_permissions(&temporary, fs::Permissions::from_mode(mode)).expect("its mode is set");
        fs::rename(&temporary, &target).expect("it is renamed into place");
    }

    /// Removes a file from the functions directory.
    ///
    /// # Panics
    /// When that fails.
    pub fn remove(&self, path: &str) {
        fs::remove_file(self.function_path(path)).expect("the function's file is removed");
    }
}
