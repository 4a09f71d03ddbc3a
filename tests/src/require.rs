//! Checks whether the machine has what a test needs. If not, the test is skipped and says why.
//! `FND_REQUIRE=root,cgroup,deno` (a list) makes that a failure, so that a build machine cannot silently skip a part of
//! the suite.

use crate::{programs, tamper};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Returns from the test unless the machine meets the named needs: `require!(root, cgroup)`.
#[macro_export]
macro_rules! require {
    ($($need:ident),+) => {
        if !$crate::require::met(&[$(stringify!($need)),+]) {
            return;
        }
    };
}

/// Returns whether every need is met; records the skip otherwise.
///
/// # Panics
/// When a need is not met although `FND_REQUIRE` names it, or when it is not known.
#[must_use]
#[expect(clippy::print_stderr, reason = "a skip says so")]
pub fn met(needs: &[&str]) -> bool {
    let required = std::env::var("FND_REQUIRE").unwrap_or_default();
    for need in needs {
        let Some(why) = missing(need) else { continue };
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        assert!(
            !required.split(',').any(|r| r.trim() == *need),
            "{test}: FND_REQUIRE names `{need}`, but {why}"
        );
        eprintln!("skipped: {test}: {why}");
        log_skip(&format!("{test}: {why}"));
        return false;
    }
    true
}

/// Records that a part of the suite is skipped for another reason than a need; `FND_REQUIRE` may name `what`.
///
/// # Panics
/// When `FND_REQUIRE` names it.
#[expect(clippy::print_stderr, reason = "a skip says so")]
pub fn skip(what: &str, why: &str) {
    let required = std::env::var("FND_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|r| r.trim() == what),
        "FND_REQUIRE names `{what}`, but {why}"
    );
    eprintln!("skipped: {why}");
    log_skip(why);
}

fn log_skip(line: &str) {
    let Some(path) = std::env::var_os("FND_SKIP_LOG") else {
        return;
    };
    if let Ok(mut file) = fs::OpenOptions::new().append(true).create(true).open(path) {
        // An error is ignored: the list is for people, and the skip was printed already.
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}

fn missing(need: &str) -> Option<&'static str> {
    match need {
        "root" => (!is_root()).then_some("not running as root"),
        "cgroup" => (!can_limit()).then_some("no cgroups that this user may make"),
        "disk" => {
            let needed = ["/dev/loop-control", "/sbin/mkfs.ext4", "/sbin/e2fsck"];
            (!needed.iter().all(|path| Path::new(path).exists())).then_some("no loop devices, or no e2fsprogs")
        }
        "ansible" => programs::ansible()
            .is_none()
            .then_some("no ansible: run scripts/setup.sh --ci"),
        "cloud_init" => programs::cloud_init()
            .is_none()
            .then_some("no cloud-init: run scripts/setup.sh --ci"),
        "litestream" => programs::litestream()
            .is_none()
            .then_some("no litestream: run scripts/setup.sh --ci"),
        "page" => programs::page_tools()
            .is_none()
            .then_some("no playwright and axe-core: run scripts/setup.sh --ci"),
        "pid_max" => (!has_own_pid_max()).then_some("no `kernel.pid_max` for each namespace: it needs Linux 6.14"),
        "deno" => programs::deno()
            .is_none()
            .then_some("no deno: run scripts/setup.sh, or set FND_DENO"),
        "java" => (!Path::new("/usr/bin/java").exists()).then_some("no java: run scripts/setup.sh --ci"),
        "go" => (!Path::new("/usr/bin/go").exists()).then_some("no go: run scripts/setup.sh --ci"),
        "lambda_python" => programs::lambda_python()
            .is_none()
            .then_some("no awslambdaric: run scripts/setup.sh --ci"),
        "lambda_rust" => programs::lambda_rust()
            .is_none()
            .then_some("no function with lambda_runtime: run scripts/setup.sh --ci"),
        "lua" => (!Path::new("/usr/bin/lua5.4").exists()).then_some("no lua: run scripts/setup.sh --ci"),
        "mcp" => programs::mcp_client()
            .is_none()
            .then_some("no client library of MCP: run scripts/setup.sh --ci"),
        "mono" => (!Path::new("/usr/bin/mcs").exists()).then_some("no mono: run scripts/setup.sh --ci"),
        "nats" => programs::nats()
            .is_none()
            .then_some("no nats-server: run scripts/setup.sh --ci, or set FND_NATS"),
        "nats_floor" => programs::nats_floor()
            .is_none()
            .then_some("no nats-server of Debian: run scripts/setup.sh --ci, or set FND_NATS_FLOOR"),
        "php" => (!Path::new("/usr/bin/php").exists()).then_some("no php: run scripts/setup.sh --ci"),
        "bundler" => (!Path::new("/usr/bin/bundle").exists()).then_some("no bundler: run scripts/setup.sh --ci"),
        "composer" => (!Path::new("/usr/bin/composer").exists()).then_some("no composer: run scripts/setup.sh --ci"),
        "ruby" => (!Path::new("/usr/bin/ruby").exists()).then_some("no ruby: run scripts/setup.sh --ci"),
        "chromium" => programs::chromium()
            .is_none()
            .then_some("no chromium: run scripts/setup.sh --ci, or set FND_CHROMIUM"),
        "promtool" => programs::promtool()
            .is_none()
            .then_some("no promtool: run scripts/setup.sh --ci, or set FND_PROMTOOL"),
        "sdk" => programs::sdks()
            .is_none()
            .then_some("no SDKs of CloudEvents: run scripts/setup.sh --ci"),
        "sshd" => programs::sshd()
            .is_none()
            .then_some("no ssh server: run scripts/setup.sh --ci"),
        "strace" => tamper::strace()
            .is_none()
            .then_some("no strace that may trace: run scripts/setup.sh --ci"),
        "uv" => programs::uv().is_none().then_some("no uv: run scripts/setup.sh --ci"),
        "units" => (!Path::new("/usr/bin/systemd-analyze").exists()).then_some("no systemd-analyze"),
        other => panic!("`{other}` is not a need this harness knows"),
    }
}

/// Before Linux 6.14, a write to `kernel.pid_max` in a namespace changed the whole machine.
fn has_own_pid_max() -> bool {
    let system = nix::sys::utsname::uname().expect("uname answers");
    let release = system.release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(14))
}

/// Says whether tests run as root.
#[must_use]
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Returns the cgroup2 tree: the unified one, or the one beside version 1.
#[must_use]
pub fn cgroup2() -> Option<PathBuf> {
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .into_iter()
        .map(PathBuf::from)
        .find(|path| path.join("cgroup.controllers").exists())
}

/// Returns whether limits can be enforced: as root, with a writable cgroup2 tree that has `cgroup.kill`.
#[must_use]
pub fn can_limit() -> bool {
    let Some(tree) = cgroup2().filter(|_| is_root()) else {
        return false;
    };
    let thread = format!("{:?}", std::thread::current().id());
    let number: String = thread.chars().filter(char::is_ascii_digit).collect();
    let probe = tree.join(format!("fnd-probe-{}-{number}", std::process::id()));
    if fs::create_dir(&probe).is_err() {
        return false;
    }
    let kills = probe.join("cgroup.kill").exists();
    // The cgroup is empty; the leftovers check of the next run would find one that is not.
    let _ = fs::remove_dir(&probe);
    kills
}
