//! `fndctl runtimes install|remove|list` against a registry of its own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha512};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

const PACKAGE: &str = if cfg!(target_arch = "aarch64") {
    "@deno/linux-arm64-glibc"
} else {
    "@deno/linux-x64-glibc"
};

/// A registry in npm's form: answers by path, and what was asked for.
pub(crate) struct Registry {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Registry {
    pub(crate) fn start(answers: BTreeMap<String, Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/npm", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&asked);
        // It ends with the test's process.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let first = lines.next().unwrap().unwrap();
                let rest: Vec<String> = lines
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .collect();
                let path = first.split(' ').nth(1).unwrap().to_owned();
                let token = rest
                    .iter()
                    .find(|line| line.to_lowercase().starts_with("authorization:"));
                record.lock().unwrap().push(
                    format!("{path} {}", token.map_or("", |line| &line[15..]))
                        .trim()
                        .to_owned(),
                );
                let (status, body) = match answers.get(&path) {
                    Some(body) => ("200 OK", body.clone()),
                    None => ("404 Not Found", Vec::new()),
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
            }
        });
        Self { url, asked }
    }

    /// Returns a registry that has these versions of deno, each with its package.
    fn of(packages: &[(&str, Vec<u8>)]) -> Self {
        let mut answers = BTreeMap::new();
        let mut versions = serde_json::Map::new();
        for (version, package) in packages {
            let name = format!("linux-{version}.tgz");
            let sum = format!("sha512-{}", STANDARD.encode(Sha512::digest(package)));
            // A mirror may still name the host that it mirrors.
            let dist = serde_json::json!({"tarball": format!("https://else.example/x/-/{name}"), "integrity": sum});
            versions.insert((*version).to_owned(), serde_json::json!({"dist": dist}));
            answers.insert(format!("/npm/{PACKAGE}/-/{name}"), package.clone());
        }
        let newest = packages.last().unwrap().0;
        let list = serde_json::json!({"dist-tags": {"latest": newest}, "versions": versions});
        answers.insert(
            format!("/npm/{}", PACKAGE.replace('/', "%2F")),
            list.to_string().into_bytes(),
        );
        Self::start(answers)
    }
}

enum Entry<'a> {
    File(&'a str, &'a str),
    Link(&'a str, &'a str),
}

fn package(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for entry in entries {
        let mut header = tar::Header::new_gnu();
        let (path, content) = match entry {
            Entry::File(path, content) => (path, *content),
            Entry::Link(path, target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_link_name(target).unwrap();
                (path, "")
            }
        };
        // As it is, since the crate refuses `..`.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o4777);
        header.set_cksum();
        archive.append(&header, content.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

fn described(version: &str) -> String {
    format!("{{\"name\": \"{PACKAGE}\", \"version\": \"{version}\"}}")
}

fn deno(version: &str) -> Vec<u8> {
    package(&[
        Entry::File("package/package.json", &described(version)),
        Entry::File("package/deno", &format!("#!/bin/sh\necho deno {version}\n")),
    ])
}

pub(crate) struct Place {
    home: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn runs(&self, registry: &str, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fndctl"));
        command
            .env_clear()
            .env("HOME", self.home.path())
            .env("NPM_CONFIG_REGISTRY", registry);
        command
            .env("FND_SOCKET", self.path("no.sock"))
            .arg("runtimes")
            .args(arguments);
        if !arguments.contains(&"--user") {
            command.args(["--into".as_ref(), self.path("into").as_os_str()]);
        } else {
            command
                .env_remove("FND_SOCKET")
                .env("XDG_RUNTIME_DIR", self.home.path());
        }
        super::outcome(&command.output().unwrap())
    }

    #[track_caller]
    fn fails(&self, registry: &str, arguments: &[&str], code: i32, text: &str) {
        let (found, out, error) = self.runs(registry, arguments);
        assert_eq!(found, code, "{out}{error}");
        assert!(error.contains(text), "{text}: {error}");
        // Nothing of it stays, except the interpreter's empty directory.
        let left = std::fs::read_dir(self.path("into/deno")).into_iter().flatten().count();
        assert_eq!(left, 0, "{error}");
    }
}

pub(crate) fn says(program: &Path) -> String {
    String::from_utf8(Command::new(program).output().unwrap().stdout).unwrap()
}

#[test]
fn versions_lie_side_by_side_and_one_is_used() {
    let registry = Registry::of(&[
        ("2.4.9", deno("2.4.9")),
        ("2.4.10", deno("2.4.10")),
        ("3.0.0-rc.1", deno("3.0.0-rc.1")),
        ("2.5.0", deno("2.5.0")),
    ]);
    let place = Place::new();
    let program = place.path("into/deno/current/bin/deno");
    let (code, out, error) = place.runs(&registry.url, &["install", "deno"]);
    assert_eq!((code, error.as_str()), (0, ""), "{out}");
    assert!(
        out.contains("deno 2.5.0 is installed: ") && out.contains("/into/deno/current/bin/deno"),
        "{out}"
    );
    assert_eq!(says(&program), "deno 2.5.0\n");
    // The numbers are compared as numbers. No setuid bit comes from the archive.
    assert_eq!(place.runs(&registry.url, &["install", "deno", "2.4"]).0, 0);
    assert_eq!(says(&program), "deno 2.4.10\n");
    assert_eq!(
        std::fs::metadata(&program).unwrap().permissions().mode() & 0o7777,
        0o755
    );
    let (_, out, _) = place.runs(&registry.url, &["list", "-o", "json"]);
    let list: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list["interpreters"][1]["current"], true, "{out}");
    let (_, out, _) = place.runs(&registry.url, &["list", "deno", "--available"]);
    let rows: Vec<Vec<&str>> = out
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().take(3).collect())
        .collect();
    let expected = [
        ["deno", "2.5.0", "installed"],
        ["deno", "2.4.10", "used"],
        ["deno", "2.4.9", "available"],
    ];
    assert_eq!(rows, expected);
    // If the version that is used goes, the newest of the others is used.
    assert_eq!(place.runs("", &["remove", "deno", "2.4.10"]).0, 0);
    assert_eq!(says(&program), "deno 2.5.0\n");
    let (code, _, error) = place.runs("", &["remove", "deno", "2.4.10"]);
    assert!(code == 3 && error.contains("deno 2.4.10 is not installed"), "{error}");
    assert_eq!(place.runs("", &["remove", "deno"]).0, 0);
    assert!(!place.path("into/deno").exists());
    let (code, out, _) = place.runs("", &["list"]);
    assert!(code == 0 && out.contains("none is installed"), "{out}");
}

#[test]
fn the_same_version_again_replaces_its_files() {
    let registry = Registry::of(&[("2.5.0", deno("2.5.0"))]);
    let place = Place::new();
    for _ in 0..2 {
        assert_eq!(place.runs(&registry.url, &["install", "deno"]).0, 0);
        std::fs::write(place.path("into/deno/2.5.0/bin/deno"), "damaged").unwrap();
    }
    assert_eq!(place.runs(&registry.url, &["install", "deno", "2.5.0"]).0, 0);
    assert_eq!(says(&place.path("into/deno/current/bin/deno")), "deno 2.5.0\n");
    assert_eq!(std::fs::read_dir(place.path("into/deno")).unwrap().count(), 2);
}

#[test]
fn what_is_not_the_published_package_is_refused() {
    let place = Place::new();
    let mut answers = BTreeMap::new();
    let list = |integrity: &str| {
        let dist = serde_json::json!({"tarball": "x/deno-1.tgz", "integrity": integrity});
        let list = serde_json::json!({"dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"dist": dist}}});
        (
            format!("/npm/{}", PACKAGE.replace('/', "%2F")),
            list.to_string().into_bytes(),
        )
    };
    answers.extend([
        list("sha512-AAAA"),
        (format!("/npm/{PACKAGE}/-/deno-1.tgz"), deno("1.0.0")),
    ]);
    let registry = Registry::start(answers.clone());
    place.fails(
        &registry.url,
        &["install", "deno"],
        1,
        "the checksum of `http://127.0.0.1",
    );
    place.fails(
        &registry.url,
        &["install", "deno", "2"],
        3,
        "the registry has no version 2 of",
    );
    for weak in ["sha1-AAAA", ""] {
        answers.extend([list(weak)]);
        let registry = Registry::start(answers.clone());
        place.fails(&registry.url, &["install", "deno"], 1, "has no SHA-512 checksum");
    }
    // A hostile registry cannot choose a path by the name of a version.
    let dist = serde_json::json!({"tarball": "x/deno-1.tgz", "integrity": "sha512-AAAA"});
    let hostile = serde_json::json!({"dist-tags": {"latest": "../../x"}, "versions": {"../../x": {"dist": dist}}});
    answers.insert(list("").0, hostile.to_string().into_bytes());
    let registry = Registry::start(answers);
    place.fails(&registry.url, &["install", "deno"], 2, "`../../x` is not a version");
    place.fails(&registry.url, &["install", "node"], 1, "404");
    place.fails(
        "http://127.0.0.1:1",
        &["install", "deno"],
        1,
        "failed to get `http://127.0.0.1:1/",
    );
    place.fails(
        &registry.url,
        &["install", "perl"],
        2,
        "`perl` is not an interpreter that fndctl installs",
    );
}

#[test]
fn hostile_packages_are_refused_and_write_nothing_else() {
    let place = Place::new();
    let json = described("1.0.0");
    let good = Entry::File("package/package.json", &json);
    let outside = place.path("outside");
    let target = outside.display().to_string();
    for (entries, expected) in [
        (vec![good], "has no `deno`"),
        (
            vec![
                Entry::File("package/package.json", &json),
                Entry::Link("package/deno", "/bin/sh"),
            ],
            "is no regular file",
        ),
        (
            vec![
                Entry::File("package/package.json", &json),
                Entry::Link("package/deno", &target),
                Entry::File("package/deno", "x"),
            ],
            "is no regular file",
        ),
        (
            vec![
                Entry::File("package/package.json", &json),
                Entry::File("package/deno", "a"),
                Entry::File("package/deno", "b"),
            ],
            "is there twice",
        ),
        (
            vec![
                Entry::File("../package/deno", "x"),
                Entry::File("package/package.json", &json),
            ],
            "has no `deno`",
        ),
        (
            vec![
                Entry::File("package/../deno", "x"),
                Entry::File("package/package.json", &json),
            ],
            "has no `deno`",
        ),
        (vec![Entry::File("package/deno", "x")], "has no `package.json`"),
        (
            vec![
                Entry::File("package/package.json", "{\"name\": \"evil\", \"version\": \"1.0.0\"}"),
                Entry::File("package/deno", "x"),
            ],
            "is the package `evil`, not",
        ),
        (
            vec![
                Entry::File("package/package.json", &described("9.9.9")),
                Entry::File("package/deno", "x"),
            ],
            "is version 9.9.9",
        ),
        (
            vec![
                Entry::File("package/package.json", "{"),
                Entry::File("package/deno", "x"),
            ],
            "is damaged",
        ),
    ] {
        let registry = Registry::of(&[("1.0.0", package(&entries))]);
        place.fails(&registry.url, &["install", "deno"], 1, expected);
        assert!(!outside.exists());
    }
    let registry = Registry::of(&[("1.0.0", b"no archive at all".to_vec())]);
    place.fails(&registry.url, &["install", "deno"], 1, "failed to read the package");
    // What lies beside the program is not unpacked.
    let registry = Registry::of(&[(
        "1.0.0",
        package(&[
            Entry::File("../../escaped", "x"),
            Entry::File("/absolute", "x"),
            Entry::Link("package/lib", "/etc"),
            Entry::File("package/lib/passwd", "x"),
            Entry::File("package/package.json", &json),
            Entry::File("package/deno", "#!/bin/sh\necho fine\n"),
        ]),
    )]);
    assert_eq!(place.runs(&registry.url, &["install", "deno"]).0, 0);
    let files = Command::new("find")
        .arg(place.home.path())
        .args(["-type", "f"])
        .output()
        .unwrap();
    let files = String::from_utf8(files.stdout).unwrap();
    assert_eq!(files.lines().count(), 1, "{files}");
    assert_eq!(says(&place.path("into/deno/current/bin/deno")), "fine\n");
}

#[test]
fn npms_files_name_the_registry_and_its_token() {
    let registry = Registry::of(&[("2.5.0", deno("2.5.0"))]);
    let place = Place::new();
    let host = registry.url.trim_start_matches("http:");
    let text = format!("@deno:registry={}/\n{host}/:_authToken=secret\n", registry.url);
    std::fs::write(place.path(".npmrc"), text).unwrap();
    let (code, _, error) = place.runs("http://127.0.0.1:1", &["install", "deno"]);
    assert_eq!(code, 0, "{error}");
    let asked = registry.asked.lock().unwrap().clone();
    assert!(
        asked.len() == 2 && asked.iter().all(|line| line.ends_with("Bearer secret")),
        "{asked:?}"
    );
    // The option wins over files.
    let (code, _, error) = place.runs("", &["install", "deno", "--registry", "http://127.0.0.1:1"]);
    assert!(code == 1 && error.contains("http://127.0.0.1:1/"), "{error}");
}

#[test]
fn a_file_needs_no_registry() {
    let place = Place::new();
    std::fs::write(place.path("deno.tgz"), deno("2.5.0")).unwrap();
    let file = place.path("deno.tgz").display().to_string();
    let (code, out, error) = place.runs("http://127.0.0.1:1", &["install", "deno", "--file", &file]);
    assert!(code == 0 && out.contains("deno 2.5.0 is installed"), "{out}{error}");
    std::fs::write(place.path("odd.tgz"), deno("../../odd")).unwrap();
    let odd = place.path("odd.tgz").display().to_string();
    assert_eq!(place.runs("", &["remove", "deno"]).0, 0);
    place.fails("", &["install", "deno", "--file", &odd], 2, "is not a version");
    place.fails(
        "",
        &["install", "deno", "--file", "/nonexistent"],
        1,
        "failed to read the package `/nonexistent`",
    );
}

#[test]
fn a_persons_own_fnd_gets_it_by_configuration() {
    let registry = Registry::of(&[("2.5.0", deno("2.5.0"))]);
    let place = Place::new();
    let (code, out, error) = place.runs(&registry.url, &["install", "deno", "--user"]);
    assert_eq!(code, 0, "{out}{error}");
    let program = place.path(".local/share/fnd/interpreters/deno/current/bin/deno");
    assert_eq!(says(&program), "deno 2.5.0\n");
    let path = place.path(".config/fnd/conf.d/interpreter-deno.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains(&format!(
            "interpreters = {{ \"default\" = {:?} }}",
            program.display().to_string()
        )),
        "{text}"
    );
    assert_eq!(place.runs("", &["remove", "deno", "--user"]).0, 0);
    assert!(!path.exists());
}
