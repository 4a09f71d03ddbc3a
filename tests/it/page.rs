//! The page in a browser: `tests/page` has what a person does and sees. Each part has an fnd and a browser of its own.

use crate::metrics::free_address;
use fnd_tests::programs::{self, repository};
use fnd_tests::{Fnd, Setup, require};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// `nobody` may see `greet` and operate `web/*`, for `test_roles`.
const ROLES: &str = "[[access]]\nuser = \"nobody\"\nrole = \"viewer\"\nfunctions = [\"greet\"]\n\
                     [[access]]\nuser = \"nobody\"\nrole = \"operator\"\nfunctions = [\"web/*\"]\n";

macro_rules! parts {
    ($($part:ident),+ $(,)?) => {
        $(#[test]
        fn $part() {
            require!(chromium, page);
            walk(stringify!($part));
        })+
    };
}

parts! { test_axe, test_contract, test_hostile, test_live, test_look, test_morning, test_origin, test_roles }

/// Runs a part in a browser.
fn walk(part: &str) {
    let config = format!("[http]\nlisten = \"{}\"\n{ROLES}", free_address());
    let fnd = Fnd::start_with(&Setup::default().config(&config));
    let tools = programs::page_tools().unwrap();
    let mut python = Command::new(tools.join("python/bin/python"));
    python
        .args(["-B", "-m", "unittest", part])
        .current_dir(repository().join("tests/page"));
    python.env("FNDCTL", programs::program("fndctl"));
    python.env("FND_SOCKET", fnd.socket());
    python.env("FND_FUNCTIONS", fnd.path("functions"));
    python.env("FND_CHROMIUM", programs::chromium().unwrap());
    python.env("FND_PAGE_TOOLS", &tools);
    if let Some(fndctl) = for_nobody(&fnd) {
        python.env("FND_PAGE_VIEWER", fndctl);
    }
    let output = python.stdin(Stdio::null()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{part}: {printed}");
    fnd.finish();
}

/// Returns a copy of `fndctl`, with `fnd-web` beside it, that the user `nobody` may start; nothing without root.
pub(crate) fn for_nobody(fnd: &Fnd) -> Option<PathBuf> {
    if !fnd_tests::require::is_root() {
        return None;
    }
    std::fs::set_permissions(fnd.socket(), std::fs::Permissions::from_mode(0o666)).unwrap();
    let directory = fnd.path("programs");
    std::fs::create_dir(&directory).unwrap();
    for name in ["fndctl", "fnd-web"] {
        std::fs::copy(programs::program(name), directory.join(name)).unwrap();
    }
    Some(directory.join("fndctl"))
}
