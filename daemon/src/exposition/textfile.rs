//! `[metrics] textfile`: writes the metrics regularly for the node exporter's textfile collector.

use super::scrape;
use crate::driver::Daemon;
use crate::input::Input;
use crate::metrics::MetricsFormat;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// How often the file is written: Prometheus's usual scrape interval. Only used where the file is configured.
const EVERY: Duration = Duration::from_secs(15);

/// Writes the file until the configuration has another path or none: this future is dropped then.
pub(crate) async fn keep(daemon: Rc<Daemon>, path: PathBuf) {
    loop {
        let text = scrape(&daemon, MetricsFormat::Older).await;
        let to = path.clone();
        let written = tokio::task::spawn_blocking(move || write(&to, &text)).await;
        let problem = written.unwrap_or_else(|error| Err(io::Error::other(error))).err();
        let problem = problem.map(|error| {
            let path = path.display();
            format!("failed to write `{path}` (metrics.textfile): {error}; the user of fnd must be able to write to its directory")
        });
        daemon.input(Input::MetricsPlace("textfile", problem));
        // The file is written at intervals, so there is no event to wait for.
        tokio::time::sleep(EVERY).await;
    }
}

/// Replaces the file, so that a reader sees the old or the new one.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    // It is no `.prom` until it is complete, so that no collector reads it before.
    let mut file = tempfile::Builder::new()
        .prefix(".fnd-")
        .suffix(".tmp")
        .tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    // The collector runs as another user.
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    // Without a sync: after a power cut the file is written again within seconds of the start.
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_whole_and_readable_and_nothing_else_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fnd.prom");
        write(&path, "old 1\n").unwrap();
        write(&path, "new 1\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new 1\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(write(&directory.path().join("missing/fnd.prom"), "x").is_err());
    }
}
