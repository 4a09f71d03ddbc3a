//! Archives that are no backups are refused, and nothing is written.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};
use tar::{Builder, EntryType, Header};

fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o6755);
    header.set_uid(rustix::process::getuid().as_raw().into());
    header.set_gid(rustix::process::getgid().as_raw().into());
    header
}

/// Makes an archive: name, kind, and the content or where a link leads. Names are written as they are.
fn archive(at: &Path, entries: &[(&str, EntryType, &str)]) {
    let mut builder = Builder::new(fs::File::create(at).unwrap());
    for (name, kind, content) in entries {
        let mut header = header(*kind, if kind.is_file() { content.len() as u64 } else { 0 });
        let bytes = header.as_old_mut();
        bytes.name[..name.len()].copy_from_slice(name.as_bytes());
        if kind.is_symlink() || kind.is_hard_link() {
            bytes.linkname[..content.len()].copy_from_slice(content.as_bytes());
        }
        header.set_cksum();
        let data = if kind.is_file() { content.as_bytes() } else { b"" };
        builder.append(&header, data).unwrap();
    }
    builder.finish().unwrap();
}

fn restore(root: &Path, more: &[&str]) -> Output {
    let at = |name: &str| root.join(name).display().to_string();
    Command::new(env!("CARGO_BIN_EXE_fndctl"))
        .args([
            "restore",
            &at("b.tar"),
            "--config",
            &at("etc/fnd.toml"),
            "--functions",
            &at("functions"),
            "--state",
            &at("state"),
        ])
        .args(more)
        .output()
        .unwrap()
}

const LEDGER: (&str, EntryType, &str) = ("state/ledger.db", EntryType::Regular, "database");

#[test]
fn an_archive_with_a_foreign_entry_is_refused_and_nothing_is_written() {
    for hostile in [
        ("/etc/passwd", EntryType::Regular, "x"),
        ("../escaped", EntryType::Regular, "x"),
        ("home/../../escaped", EntryType::Regular, "x"),
        ("functions/0/../../../escaped", EntryType::Regular, "x"),
        ("functions/7/a.sh", EntryType::Regular, "x"),
        ("state/lock", EntryType::Regular, "x"),
        ("state/ledger.db", EntryType::Symlink, "/etc/passwd"),
        ("uids", EntryType::Symlink, "/etc/passwd"),
        ("home", EntryType::Symlink, "/etc"),
        ("home/f/hard", EntryType::Link, "/etc/passwd"),
        ("home/f/device", EntryType::Char, ""),
        ("home/f/pipe", EntryType::Fifo, ""),
    ] {
        let root = tempfile::tempdir().unwrap();
        archive(&root.path().join("b.tar"), &[LEDGER, hostile]);
        let output = restore(root.path(), &[]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{hostile:?}: {message}");
        assert!(
            message.contains("not a backup of fnd") || message.contains("functions directories"),
            "{message}"
        );
        assert_eq!(
            fs::read_dir(root.path()).unwrap().count(),
            1,
            "{hostile:?}: nothing but the archive"
        );
    }
    let root = tempfile::tempdir().unwrap();
    archive(&root.path().join("b.tar"), &[("home/f", EntryType::Directory, "")]);
    assert_eq!(restore(root.path(), &[]).status.code(), Some(2), "without a ledger");
    fs::write(root.path().join("b.tar"), "no tar at all").unwrap();
    assert_eq!(restore(root.path(), &[]).status.code(), Some(2));
}

#[test]
fn links_are_made_and_never_written_through() {
    let root = tempfile::tempdir().unwrap();
    let outside = root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    archive(
        &root.path().join("b.tar"),
        &[
            LEDGER,
            ("home", EntryType::Directory, ""),
            ("home/f", EntryType::Directory, ""),
            ("home/f/link", EntryType::Symlink, &outside.display().to_string()),
            ("home/f/program", EntryType::Regular, "#!"),
            ("home/f/link/through", EntryType::Regular, "x"),
        ],
    );
    // `restore` makes links last; then the directory `home/f/link`, made for the file below it, is in the way.
    let _ = restore(root.path(), &[]);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);

    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("state/home/f")).unwrap();
    let outside = root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, root.path().join("state/home/f/planted")).unwrap();
    archive(
        &root.path().join("b.tar"),
        &[LEDGER, ("home/f/planted/x", EntryType::Regular, "x")],
    );
    let output = restore(root.path(), &["--force"]);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

/// A secret or a file of the configuration that somebody made on this machine; other files beside it do not matter.
#[test]
fn a_file_beside_the_configuration_is_not_overwritten() {
    for name in ["secrets/token", "conf.d/own.toml"] {
        let root = tempfile::tempdir().unwrap();
        let (directory, _) = name.split_once('/').unwrap();
        archive(
            &root.path().join("b.tar"),
            &[
                LEDGER,
                (&format!("config/{directory}"), EntryType::Directory, ""),
                (&format!("config/{name}"), EntryType::Regular, "archived"),
            ],
        );
        let here = root.path().join("etc").join(name);
        fs::create_dir_all(here.parent().unwrap()).unwrap();
        fs::write(&here, "made here").unwrap();
        let output = restore(root.path(), &[]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(&format!("{name}` exists already")), "{message}");
        assert_eq!(fs::read_to_string(&here).unwrap(), "made here");
        assert!(
            !root.path().join("state/state/ledger.db").exists(),
            "nothing is written"
        );
        fs::write(here.with_file_name("other"), "made here").unwrap();
        fs::write(&here, "archived").unwrap();
        assert!(restore(root.path(), &[]).status.success());
        assert_eq!(fs::read_to_string(&here).unwrap(), "archived");
    }
}

#[test]
fn modes_and_owners_are_kept_and_nothing_runs_as_its_owner() {
    let root = tempfile::tempdir().unwrap();
    archive(
        &root.path().join("b.tar"),
        &[
            LEDGER,
            ("config/fnd.toml", EntryType::Regular, "keep_versions = 2\n"),
            ("functions/0", EntryType::Directory, ""),
            ("functions/0/a.sh", EntryType::Regular, "echo\n"),
            ("home", EntryType::Directory, ""),
            ("home/link", EntryType::Symlink, "nowhere"),
        ],
    );
    fs::create_dir(root.path().join("etc")).unwrap();
    fs::write(root.path().join("etc/fnd.toml"), "before").unwrap();
    let output = restore(root.path(), &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let about = fs::metadata(root.path().join("functions/a.sh")).unwrap();
    assert_eq!(about.permissions().mode() & 0o7777, 0o755);
    assert_eq!(about.uid(), rustix::process::getuid().as_raw());
    assert_eq!(
        fs::read_to_string(root.path().join("etc/fnd.toml.before-restore")).unwrap(),
        "before"
    );
    assert_eq!(
        fs::read_to_string(root.path().join("state/state/ledger.db")).unwrap(),
        "database"
    );
    assert_eq!(
        fs::read_link(root.path().join("state/home/link")).unwrap(),
        Path::new("nowhere")
    );
    let again = restore(root.path(), &[]);
    assert_eq!(again.status.code(), Some(2), "something is there");
    assert!(restore(root.path(), &["--force"]).status.success());
}
