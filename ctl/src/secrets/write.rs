//! Writes files so that each is complete or not there.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Writes a file beside its place, then renames it. A name with a dot in front is no secret and no function, so a file that a
/// killed process leaves is not listed.
///
/// # Errors
/// It cannot be written.
pub(crate) fn whole(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    let mut file = builder.prefix(".new-").tempfile_in(parent.unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    // The umask cuts the mode at creation.
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}
