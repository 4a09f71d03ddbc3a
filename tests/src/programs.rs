//! Finds the programs under test and the interpreters.

use std::fs;
use std::path::{Path, PathBuf};

#[must_use]
pub fn repository() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().map_or_else(|| tests.to_path_buf(), Path::to_path_buf)
}

/// Returns the runtimes that every fnd of the tests uses: those of the repository, or the copy that `FND_TEST_RUNTIMES` names.
/// `scripts/test.sh` makes such a copy where functions could not see or enter the checkout.
#[must_use]
pub fn runtimes() -> PathBuf {
    std::env::var_os("FND_TEST_RUNTIMES").map_or_else(|| repository().join("runtimes"), PathBuf::from)
}

/// Returns a built program. They lie beside the running test, or where `FND_BIN_DIR` says.
///
/// # Panics
/// When it was not built: `cargo build` does.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let directory = std::env::var_os("FND_BIN_DIR").map_or_else(beside_me, PathBuf::from);
    let path = directory.join(name);
    assert!(
        path.exists(),
        "{} is missing: run `cargo build` first (`make test` does)",
        path.display()
    );
    path
}

fn beside_me() -> PathBuf {
    let me = std::env::current_exe().expect("a running program has a path");
    let mut directory = me.parent().map(Path::to_path_buf).unwrap_or_default();
    if directory.ends_with("deps") {
        directory.pop();
    }
    directory
}

/// Returns deno's binary: `FND_DENO`, or the one set-up brought.
#[must_use]
pub fn deno() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("FND_DENO").filter(|path| !path.is_empty()) {
        return Some(PathBuf::from(path)).filter(|path| path.exists());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    let platform = if cfg!(target_arch = "aarch64") {
        "linux-arm64-glibc"
    } else {
        "linux-x64-glibc"
    };
    Some(target.join("deno/node_modules/@deno").join(platform).join("deno")).filter(|path| path.exists())
}

/// Returns Prometheus' promtool: `FND_PROMTOOL`, the one set-up brought, or one that is installed.
#[must_use]
pub fn promtool() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("FND_PROMTOOL").filter(|path| !path.is_empty()) {
        return Some(PathBuf::from(path)).filter(|path| path.exists());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    let places = [target.join("prometheus/usr/bin/promtool"), "/usr/bin/promtool".into()];
    places.into_iter().find(|path| path.exists())
}

/// Returns the directory of the CloudEvents SDKs that set-up brought.
#[must_use]
pub fn sdks() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    Some(target.join("tools/sdks")).filter(|path| path.join("installed.txt").exists())
}

/// Returns the ssh server that set-up unpacked, and the directory of a library that it needs; or the one that is installed. None
/// where another program is missing that its tests use.
#[must_use]
pub fn sshd() -> Option<(PathBuf, PathBuf)> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    let unpacked = target.join("sshd");
    let library = |root: &Path| {
        let systems = fs::read_dir(root.join("usr/lib"))
            .ok()?
            .flatten()
            .map(|entry| entry.path());
        systems.into_iter().find(|system| system.join("libwrap.so.0").exists())
    };
    let mut roots = [unpacked, PathBuf::from("/")].into_iter();
    let there = roots
        .find_map(|root| Some((root.join("usr/sbin/sshd"), library(&root)?)).filter(|(program, _)| program.exists()));
    let used = ["/usr/bin/ssh-keygen", "/usr/bin/git", "/usr/sbin/ip"];
    there.filter(|_| used.iter().all(|program| Path::new(program).exists()))
}

/// Returns the uv that set-up brought.
#[must_use]
pub fn uv() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    Some(target.join("tools/uv/bin/uv")).filter(|path| path.exists())
}

/// Returns the nats-server that set-up brought: `FND_NATS`, or that one.
#[must_use]
pub fn nats() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("FND_NATS").filter(|path| !path.is_empty()) {
        return Some(PathBuf::from(path)).filter(|path| path.exists());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    Some(target.join("tools/nats/bin/nats-server")).filter(|path| path.exists())
}

/// Returns the nats-server of Debian, the oldest one that fnd works with: `FND_NATS_FLOOR`, the one that set-up unpacked, or the
/// one that is installed.
#[must_use]
pub fn nats_floor() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("FND_NATS_FLOOR").filter(|path| !path.is_empty()) {
        return Some(PathBuf::from(path)).filter(|path| path.exists());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    let roots = [target.join("nats-floor"), PathBuf::from("/")];
    let places = roots
        .iter()
        .flat_map(|root| ["usr/sbin", "usr/bin"].map(|place| root.join(place).join("nats-server")));
    places.into_iter().find(|path| path.exists())
}

/// Returns the program that runs playbooks of Ansible, which set-up brought.
#[must_use]
pub fn ansible() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    let tools = target.join("tools/ansible");
    Some(tools.join("bin/ansible-playbook")).filter(|_| tools.join("installed.txt").exists())
}

/// Returns the Litestream that set-up brought.
#[must_use]
pub fn litestream() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    Some(target.join("tools/litestream/bin/litestream")).filter(|path| path.exists())
}

/// Returns the directory of Debian's cloud-init and of what it needs, as modules of Python, which set-up unpacked.
#[must_use]
pub fn cloud_init() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    let modules = target.join("cloud-init/usr/lib/python3/dist-packages");
    Some(modules).filter(|modules| modules.join("cloudinit").exists())
}

/// Returns the Python with the client library of the Model Context Protocol that set-up brought.
#[must_use]
pub fn mcp_client() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    let tools = target.join("tools/mcp");
    Some(tools.join("bin/python")).filter(|_| tools.join("installed.txt").exists())
}

/// Returns the directory of AWS Lambda's client for Python that set-up brought.
#[must_use]
pub fn lambda_python() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    let versions = fs::read_dir(target.join("tools/lambda/lib")).ok()?;
    let mut places = versions.flatten().map(|entry| entry.path().join("site-packages"));
    places.find(|path| path.join("awslambdaric").exists())
}

/// Returns the function with AWS Lambda's library for Rust that set-up built.
#[must_use]
pub fn lambda_rust() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    Some(target.join("lambda-rust/debug/bootstrap")).filter(|path| path.exists())
}

/// Returns the directory of playwright and axe-core that set-up brought.
#[must_use]
pub fn page_tools() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    Some(target.join("tools/page")).filter(|path| path.join("installed.txt").exists())
}

/// Returns the browser chromium: `FND_CHROMIUM`, or the one that is installed.
#[must_use]
pub fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("FND_CHROMIUM").filter(|path| !path.is_empty());
    Some(named.map_or_else(|| "/usr/bin/chromium".into(), PathBuf::from)).filter(|path| path.exists())
}
