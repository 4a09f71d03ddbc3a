//! Adds and removes files of functions.

use super::Fnd;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// When the files were written, since 1970. fnd waits for a file that is younger than two seconds if no event has said that the
/// file is complete, so every start on files of just now would wait. Tests of saving write their files themselves.
const WRITTEN: Duration = Duration::from_secs(1_000_000_000);

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
        file.set_modified(SystemTime::UNIX_EPOCH + WRITTEN)
            .expect("its time is set");
        fs::rename(&temporary, &target).expect("it is renamed into place");
        // While fnd runs, a new time of a directory would be one more change.
        if self.child.is_none() {
            self.age_directories(directory);
        }
    }

    /// Makes a directory below the functions directory as old as its files, and those above it: they count, too, where they are
    /// a function.
    fn age_directories(&self, directory: &Path) {
        let functions = self.path("functions");
        let is_below = |path: &Path| path.parent().is_some_and(|parent| parent.starts_with(&functions));
        for above in directory.ancestors().take_while(|path| is_below(path)) {
            let opened = fs::File::open(above).expect("the directory opens");
            opened
                .set_modified(SystemTime::UNIX_EPOCH + WRITTEN)
                .expect("its time is set");
        }
    }

    /// Removes a file from the functions directory.
    ///
    /// # Panics
    /// When that fails.
    pub fn remove(&self, path: &str) {
        fs::remove_file(self.function_path(path)).expect("the function's file is removed");
    }
}
