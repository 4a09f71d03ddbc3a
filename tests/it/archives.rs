//! Archives in a functions directory are functions: every format runs, and one that is refused leaves the last good version
//! serving.

use fnd_tests::ctl::fndctl;
use fnd_tests::programs::runtimes;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Run, require, wait_until};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes an archive of the files in standard input to a path: `[[path, text, mode], ...]`. A mode says the type, too.
const PACK: &str = r"
import io, json, stat, sys, tarfile, zipfile
path, files = sys.argv[1], json.load(sys.stdin)
if path.endswith('.zip'):
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as archive:
        for name, text, mode in files:
            info = zipfile.ZipInfo(name, (2026, 1, 2, 3, 4, 6))
            info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            archive.writestr(info, text)
else:
    kind = {'gz': 'gz', 'tgz': 'gz', 'xz': 'xz', 'bz2': 'bz2'}.get(path.rsplit('.')[-1], '')
    with tarfile.open(path, 'w:' + kind) as archive:
        for name, text, mode in files:
            info = tarfile.TarInfo(name)
            info.mode, info.size = mode & 0o7777, len(text.encode())
            if stat.S_ISLNK(mode):
                info.type, info.linkname, info.size = tarfile.SYMTYPE, text, 0
            archive.addfile(info, io.BytesIO(text.encode()) if info.isreg() else None)
";

type File<'a> = (&'a str, &'a str, u32);

/// Puts an archive into a directory, at once as `mv` does.
fn pack(directory: &Path, name: &str, files: &[File<'_>]) {
    let plain = name.replace(".zst", "");
    let made = directory.join(format!(".{plain}"));
    let mut child = Command::new("/usr/bin/python3")
        .args(["-I", "-c", PACK])
        .arg(&made)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let spec = serde_json::to_vec(files).unwrap();
    child.stdin.take().unwrap().write_all(&spec).unwrap();
    assert!(child.wait().unwrap().success());
    if name.ends_with(".zst") {
        let packed = compress_to_vec(fs::read(&made).unwrap().as_slice(), CompressionLevel::Fastest);
        fs::write(&made, packed).unwrap();
    }
    fs::set_permissions(&made, fs::Permissions::from_mode(0o644)).unwrap();
    fs::rename(made, directory.join(name)).unwrap();
}

fn drop_archive(fnd: &Fnd, name: &str, files: &[File<'_>]) {
    pack(&fnd.function_path(""), name, files);
}

const QUIET: &str = "on_load = false\n";
const HANDLER: &str = "import words\ndef handler(event, context):\n    return words.hello(event['data'])\n";
const WORDS: &str = "def hello(name):\n    return 'hello ' + name\n";

/// Waits until a function is refused with these words, while its last version serves.
fn refused(fnd: &Fnd, function: &str, words: &[&str]) {
    wait_until(&format!("{words:?}"), PATIENCE, || {
        let error = fnd.function(function)?.error?;
        words.iter().all(|part| error.contains(part)).then_some(())
    });
}

fn answers(fnd: &Fnd, function: &str, expected: &str) {
    wait_until(expected, PATIENCE, || {
        fnd.invoke(function, "\"Ada\"").text().contains(expected).then_some(())
    });
}

/// Each of these has functions of its own.
#[test]
fn archives_of_one_directory() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    an_archive_of_every_format_runs(&fnd);
    the_last_good_version_serves_while_an_archive_is_refused(&fnd);
    a_million_entries_are_refused_at_once(&fnd);
    a_manifest_lies_beside_an_archive_or_in_it(&fnd);
    cat_and_edit_say_that_the_code_is_an_archive(&fnd);
    fnd.finish();
}

fn an_archive_of_every_format_runs(fnd: &Fnd) {
    let files = [
        ("function.toml", QUIET, 0o100_644),
        ("main.py", HANDLER, 0o100_644),
        ("words.py", WORDS, 0o100_644),
    ];
    for (number, suffix) in ["zip", "tar", "tar.gz", "tgz", "tar.xz", "tar.bz2", "tar.zst"]
        .iter()
        .enumerate()
    {
        drop_archive(fnd, &format!("f{number}.{suffix}"), &files);
    }
    for number in 0..7 {
        let function = format!("f{number}");
        let _ = fnd.wait_ready(&function);
        answers(fnd, &function, "hello Ada");
    }
    // A program in a directory at the top, as `git archive --prefix` and many websites pack it.
    let files = [
        ("tool-1.2/", "", 0o040_755),
        (
            "tool-1.2/function.toml",
            "on_load = false\nentry = \"bin/run\"\n",
            0o100_644,
        ),
        ("tool-1.2/bin/run", "#!/bin/sh\ncat text\n", 0o100_755),
        ("tool-1.2/text", "from the archive\n", 0o100_644),
    ];
    fs::create_dir(fnd.function_path("ops")).unwrap();
    pack(&fnd.function_path("ops"), "tool.tar.gz", &files);
    let _ = fnd.wait_ready("ops/tool");
    answers(fnd, "ops/tool", "from the archive");
}

fn the_last_good_version_serves_while_an_archive_is_refused(fnd: &Fnd) {
    let script = |text: &str| format!("# /// fnd\n# on_load = false\n# ///\necho {text}\n");
    let (one, two) = (script("one"), script("two"));
    drop_archive(fnd, "it.zip", &[("main.sh", &one, 0o100_644)]);
    let first = fnd.wait_ready("it").version;
    answers(fnd, "it", "one");
    drop_archive(fnd, "it.zip", &[("main.sh", &two, 0o100_644)]);
    answers(fnd, "it", "two");
    assert_ne!(fnd.function("it").unwrap().version, first);

    let good = ("main.sh", one.as_str(), 0o100_644);
    let bomb = "0".repeat(40 << 20);
    for (files, words) in [
        (
            vec![good, ("../evil", "x", 0o100_644)],
            "it.zip: entry `../evil`: it leads out of the function",
        ),
        (
            vec![good, ("/evil", "x", 0o100_644)],
            "it.zip: entry `/evil`: its path begins with `/`",
        ),
        (
            vec![good, ("link", "/etc/passwd", 0o120_777)],
            "it.zip: entry `link`: it is a symbolic link",
        ),
        (
            vec![good, ("su", "x", 0o104_755)],
            "it.zip: entry `su`: it has the setuid",
        ),
        (
            vec![good, ("MAIN.sh", "x", 0o100_644)],
            "it.zip: entry `MAIN.sh`: the name of another entry",
        ),
        (
            vec![good, ("bomb", &bomb, 0o100_644)],
            "it.zip: its content is more than 200 times larger",
        ),
        (vec![("notes.txt", "x", 0o100_644)], "it.zip: no file to run"),
    ] {
        drop_archive(fnd, "it.zip", &files);
        refused(fnd, "it", &[words]);
        answers(fnd, "it", "two");
    }
    // Not an archive at all, and one that is cut off.
    let path = fnd.function_path("it.zip");
    let replace = |bytes: &[u8]| {
        let temporary = fnd.function_path(".it");
        fs::write(&temporary, bytes).unwrap();
        fs::rename(temporary, &path).unwrap();
    };
    replace(b"#!/bin/sh\necho\n");
    refused(fnd, "it", &["it.zip: its content is not what its name says"]);
    drop_archive(fnd, ".packed.zip", &[good]);
    let whole = fs::read(fnd.function_path(".packed.zip")).unwrap();
    replace(&whole[..whole.len() - 5]);
    refused(fnd, "it", &["it.zip: it is damaged"]);
    // A second file of the name is the error that it always is.
    replace(&whole);
    answers(fnd, "it", "one");
    fnd.drop_file("it.sh", &two);
    refused(fnd, "it", &["several files have the name", "it.sh", "it.zip"]);
    fs::remove_file(fnd.function_path("it.sh")).unwrap();
    answers(fnd, "it", "one");
    assert!(fs::read_dir(fnd.path("state/versions")).unwrap().all(|entry| {
        let name = entry.unwrap().file_name();
        !name.to_string_lossy().starts_with('.')
    }));
}

/// A million entries: the child ends at the ten thousand and first.
fn a_million_entries_are_refused_at_once(fnd: &Fnd) {
    // Headers of a tar file that differ in nothing: even the second one would be refused, if it were not counted first.
    let directory = fnd.function_path("");
    let script = "import tarfile\n\
        header = tarfile.TarInfo('d')\nheader.type = tarfile.DIRTYPE\n\
        import gzip, sys\nblock = header.tobuf() * 10000\n\
        with gzip.open(sys.argv[1], 'wb', 1) as out:\n  [out.write(block) for _ in range(100)]\n";
    let made = directory.join(".many");
    let run = Command::new("/usr/bin/python3")
        .args(["-I", "-c", script])
        .arg(&made)
        .status();
    assert!(run.unwrap().success());
    fs::rename(made, directory.join("many.tar.gz")).unwrap();
    refused(fnd, "many", &["many.tar.gz: it has more than 10,000 entries"]);
}

fn a_manifest_lies_beside_an_archive_or_in_it(fnd: &Fnd) {
    let code = ("run.sh", "echo \"$WHO\"\n", 0o100_644);
    fnd.drop_file(
        "beside.toml",
        "on_load = false\nentry = \"run.sh\"\nenv = { WHO = \"beside\" }\n",
    );
    drop_archive(fnd, "beside.tgz", &[code]);
    let _ = fnd.wait_ready("beside");
    answers(fnd, "beside", "beside");
    fnd.drop_file(
        "beside.toml",
        "on_load = false\nentry = \"run.sh\"\nenv = { WHO = \"changed\" }\n",
    );
    answers(fnd, "beside", "changed");
    let inside = "on_load = false\nentry = \"run.sh\"\nenv = { WHO = \"inside\" }\n";
    drop_archive(fnd, "beside.tgz", &[code, ("function.toml", inside, 0o100_644)]);
    refused(fnd, "beside", &["the archive has a `function.toml`, but there is also"]);
    answers(fnd, "beside", "changed");
    fs::remove_file(fnd.function_path("beside.toml")).unwrap();
    answers(fnd, "beside", "inside");
    // A mistake is shown at its place in the archive.
    drop_archive(fnd, "beside.tgz", &[code, ("function.toml", "entri = 1\n", 0o100_644)]);
    refused(fnd, "beside", &["beside.tgz/function.toml:1:1", "entri"]);
}

fn of_directory(directory: &Path, words: &[&str]) -> Run {
    let runtimes = runtimes();
    let path = |word: &&str| {
        let file = directory.join(word);
        if file.exists() {
            file.display().to_string()
        } else {
            (*word).to_owned()
        }
    };
    let words: Vec<String> = words.iter().map(path).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    fndctl(&words, b"", &[("FND_RUNTIMES", runtimes.as_path())])
}

#[test]
fn fndctl_knows_archives_without_a_daemon() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let files = [("x/main.py", HANDLER, 0o100_644), ("x/words.py", WORDS, 0o100_644)];
    pack(directory.path(), "good.zip", &files);
    let of = |words: &[&str]| of_directory(directory.path(), words);
    let valid = of(&["validate", "good.zip"]).expect_code(0);
    assert!(valid.out().contains("1 function judged: 0 errors"), "{valid}");
    let run = of(&["run", "good.zip", "-d", "\"Ada\""]).expect_code(0);
    assert!(run.out().contains("hello Ada"), "{run}");
    // With changes of the command line, too.
    let run = of(&["run", "good.zip", "-d", "\"Ada\"", "-e", "A=1", "--timeout", "20s"]).expect_code(0);
    assert!(run.out().contains("hello Ada"), "{run}");
    // A script, which `run` must not let run by itself, with its manifest inside, in a block, and beside it.
    let toml = "env = { WHO = \"nobody\" }\n";
    let script = ("main.sh", "echo \"$WHO\"\n", 0o100_644);
    let block = format!("# /// fnd\n# {toml}# ///\necho \"$WHO\"\n");
    for (name, files) in [
        ("inside.tgz", vec![script, ("function.toml", toml, 0o100_644)]),
        ("block.tgz", vec![("main.sh", block.as_str(), 0o100_644)]),
        ("beside.tgz", vec![script]),
    ] {
        pack(directory.path(), name, &files);
        if name.starts_with("beside") {
            fs::write(directory.path().join("beside.toml"), toml).unwrap();
        }
        let run = of(&["run", name]).expect_code(0);
        assert!(run.out().contains("nobody"), "{name}: {run}");
        let run = of(&["run", name, "-e", "WHO=Ada"]).expect_code(0);
        assert!(run.out().contains("Ada"), "{name}: {run}");
    }

    pack(
        directory.path(),
        "bad.tar.gz",
        &[("main.py", "", 0o100_644), ("../evil", "x", 0o100_644)],
    );
    let refused = of(&["validate", "bad.tar.gz"]).expect_code(8);
    assert!(
        refused
            .to_string()
            .contains("entry `../evil`: it leads out of the function"),
        "{refused}"
    );
    pack(directory.path(), "bad.tar.gz", &[("main.py", "def (:\n", 0o100_644)]);
    let refused = of(&["validate", "bad.tar.gz"]).expect_code(8);
    assert!(refused.to_string().contains("bad.tar.gz/main.py:1"), "{refused}");
}

fn cat_and_edit_say_that_the_code_is_an_archive(fnd: &Fnd) {
    drop_archive(
        fnd,
        "shown.zip",
        &[("function.toml", QUIET, 0o100_644), ("main.sh", "echo\n", 0o100_644)],
    );
    let _ = fnd.wait_ready("shown");
    let shown = fnd.ctl(&["cat", "shown"]).expect_code(0);
    assert!(shown.out().contains("(an archive: function.toml, main.sh)"), "{shown}");
    let raw = fnd.ctl(&["cat", "shown", "-o", "raw"]).expect_code(0);
    assert_eq!(raw.stdout, fs::read(fnd.function_path("shown.zip")).unwrap());
}
