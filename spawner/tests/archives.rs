//! Archives as the spawner sees them: a child reads them, and whatever it says, no file lands outside of the function. The child
//! of these tests says what the archive contains.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, Outcome, is_root, until};
use fnd_wire::archive::{ArchiveRefusal, BYTES_MAX, Why};
use fnd_wire::form::Bytes;
use fnd_wire::frame::Installed;
use fnd_wire::unpack::{UnpackRecord, Unpacked};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

fn file(path: &str, executable: bool, content: &[u8]) -> Vec<u8> {
    let mut bytes =
        UnpackRecord::File(Unpacked { path: path.to_owned(), executable, length: content.len() as u64 }).framed();
    for part in content.chunks(60_000) {
        bytes.extend(UnpackRecord::Data(Bytes(part.to_vec())).framed());
    }
    bytes
}

fn archive(files: &[Vec<u8>]) -> Vec<u8> {
    [files.concat(), UnpackRecord::End.framed()].concat()
}

fn put(harness: &Harness, name: &str, bytes: &[u8]) {
    fs::write(harness.path("functions").join(name), bytes).unwrap();
}

fn install(harness: &mut Harness, name: &str, manifest: Option<&str>) -> Installed {
    match harness.try_install(name, manifest) {
        Outcome::Installed(installed) => installed,
        Outcome::Refused(problems, _) => panic!("{problems:?}"),
    }
}

/// What is left in the directory of versions, except those of functions.
fn staged(harness: &Harness) -> Vec<String> {
    let entries = fs::read_dir(harness.path("state/versions")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

#[test]
fn an_archive_is_installed_as_a_directory_with_its_files_is() {
    let mut harness = Harness::start();
    let large = vec![b'd'; 3 << 20];
    let manifest = b"entry=main.sh";
    let files = [
        file("function.toml", false, manifest),
        file("main.sh", true, b"cat lib/text; wc -c <data"),
        file("lib/text", false, b"from lib\n"),
        file("data", false, &large),
    ];
    put(&harness, "it.zip", &archive(&files));
    let zip = install(&mut harness, "it.zip", None);
    assert_eq!(staged(&harness), [""; 0]);
    let code = harness.path(&format!("state/versions/it/{}/code", zip.version.hex()));
    assert_eq!(fs::read(code.join("lib/text")).unwrap(), b"from lib\n");
    assert_eq!(fs::metadata(code.join("data")).unwrap().len(), 3 << 20);
    if is_root() {
        assert_eq!(harness.run(&zip, None, &[]).stdout, "from lib\n3145728\n");
    }
    // Another archive of the same files, in another order, is the same version; and so is the directory.
    fs::remove_file(harness.path("functions/it.zip")).unwrap();
    let [a, b, c, d] = files;
    put(&harness, "it.tar.gz", &archive(&[d, c, b, a]));
    let tar = install(&mut harness, "it.tar.gz", None);
    assert_eq!((tar.version, tar.load_key), (zip.version, zip.load_key));
    fs::remove_file(harness.path("functions/it.tar.gz")).unwrap();
    harness.write("it/function.toml", "entry=main.sh");
    let main = harness.write("it/main.sh", "cat lib/text; wc -c <data");
    fs::set_permissions(main, Permissions::from_mode(0o755)).unwrap();
    harness.write("it/lib/text", "from lib\n");
    harness.write("it/data", &"d".repeat(3 << 20));
    let directory = install(&mut harness, "it", None);
    assert_eq!((directory.version, directory.load_key), (zip.version, zip.load_key));
}

#[test]
fn a_manifest_beside_an_archive_is_part_of_its_version() {
    let mut harness = Harness::start();
    put(&harness, "it.zip", &archive(&[file("main.sh", false, b"echo $SHOWN")]));
    harness.write("it.toml", "entry=main.sh");
    let first = install(&mut harness, "it.zip", Some("it.toml"));
    harness.write("it.toml", "entry=main.sh\nmemory=99999999");
    let second = install(&mut harness, "it.zip", Some("it.toml"));
    assert!(first.version != second.version && first.load_key != second.load_key);
    let text = harness.refusal("it.zip", Some("other.toml"));
    assert!(text.contains("is not the manifest of function `it`"), "{text}");
}

#[test]
fn a_child_that_lies_puts_no_file_anywhere() {
    let mut harness = Harness::start();
    let good = || file("a", false, b"x");
    let too_long = UnpackRecord::File(Unpacked { path: "a".to_owned(), executable: false, length: BYTES_MAX + 1 });
    let refused = |entry: Option<&str>, why| {
        UnpackRecord::Refused(ArchiveRefusal { entry: entry.map(str::to_owned), why }).framed()
    };
    for (bytes, words) in [
        (archive(&[good(), file("../../../evil", false, b"x")]), "a path that is not allowed"),
        (archive(&[file("/tmp/fnd-evil", false, b"x")]), "a path that is not allowed"),
        (archive(&[file("a/../b", false, b"x")]), "a path that is not allowed"),
        (archive(&[good(), good()]), "two files of one name"),
        (archive(&[good(), file("a/b", false, &vec![0; 2 << 20])]), "it"),
        (too_long.framed(), "more files or bytes than are allowed"),
        (archive(&[]), "no file"),
        (good(), "ended without an answer"),
        (Vec::new(), "ended without an answer"),
        (vec![0xff; 100], "a record that is too long"),
        (vec![b'x'; 5], "record"),
        (refused(None, Why::Bomb), "more than 200 times larger than the archive"),
        (refused(Some("../e\u{1b}[31m"), Why::Outside), "entry `../e\\u{1b}[31m`: it leads out of the function"),
        ([good(), refused(Some("b"), Why::SymbolicLink)].concat(), "entry `b`: it is a symbolic link"),
        (b"endless".to_vec(), "more files or bytes than are allowed"),
    ] {
        put(&harness, "it.zip", &bytes);
        let text = harness.refusal("it.zip", None);
        assert!(text.contains(words) && text.contains("functions/it.zip: "), "{words}: {text}");
        until("nothing is staged", || staged(&harness).is_empty());
    }
    assert!(!harness.path("evil").exists() && !harness.path("state/evil").exists());
    // A good one is installed as ever.
    put(&harness, "it.zip", &archive(&[file("it", false, b"echo")]));
    harness.write("it.toml", "entry=it");
    install(&mut harness, "it.zip", Some("it.toml"));
}

/// Its helper waits for it, and nobody else does.
#[test]
fn a_child_that_says_nothing_holds_nobody_up() {
    let mut harness = Harness::start();
    put(&harness, "it.zip", b"silent");
    let install = fnd_wire::frame::Install {
        directory: 0,
        function: fnd_wire::ids::FunctionName::new("it").unwrap(),
        source: "it.zip".to_owned(),
        sidecar: None,
        directory_form: false,
    };
    harness.send(&fnd_wire::frame::Request::Install(install), Vec::new());
    harness.install("other.sh", "echo", "");
    harness.is_served();
}

#[test]
fn an_archive_has_the_rules_of_a_file() {
    let mut harness = Harness::start();
    put(&harness, "it.zip", &archive(&[file("it", false, b"echo")]));
    fs::set_permissions(harness.path("functions/it.zip"), Permissions::from_mode(0o664)).unwrap();
    let text = harness.refusal("it.zip", None);
    assert!(text.contains("INSECURE MODE"), "{text}");
    std::os::unix::fs::symlink("/etc/passwd", harness.path("functions/out.zip")).unwrap();
    assert!(harness.refusal("out.zip", None).contains("leads out"));
    if is_root() {
        fs::set_permissions(harness.path("functions/it.zip"), Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::chown(harness.path("functions/it.zip"), Some(4321), None).unwrap();
        harness.write("it.toml", "entry=it\nread_write=/srv");
        let text = harness.refusal("it.zip", Some("it.toml"));
        assert!(text.contains("root does not own all of its files"), "{text}");
    }
}
