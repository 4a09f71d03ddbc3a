//! Checks whether the kernel has what fnd needs: by a call where one call shows it, else by the version.

use super::finding::Finding;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, getpid, pidfd_open};

const CHECK: &str = "kernel";

/// `clone3` into a cgroup came with 5.7, `cgroup.kill` with 5.14; fnd is not tested on older kernels.
const FLOOR: (u32, u32) = (5, 14);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KernelFacts {
    /// `uname -r`.
    release: String,
    /// System calls that are missing.
    missing: Vec<&'static str>,
}

pub(crate) fn inspect() -> KernelFacts {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    // EPERM comes from a seccomp filter around this program, not from the kernel's lack of the call.
    let lacks = |result: Result<(), Errno>| result == Err(Errno::NOSYS);
    let opened = openat2(
        CWD,
        "/",
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    );
    let probes = [
        ("pidfd_open", lacks(pidfd_open(getpid(), PidfdFlags::empty()).map(drop))),
        ("openat2", lacks(opened.map(drop))),
    ];
    let missing = probes.into_iter().filter(|(_, lacks)| *lacks).map(|(name, _)| name);
    KernelFacts {
        release,
        missing: missing.collect(),
    }
}

pub(crate) fn judge(facts: &KernelFacts) -> Vec<Finding> {
    let release = &facts.release;
    let newer = "run Debian 12 or newer, or another system with Linux 5.14 or newer";
    vec![if !facts.missing.is_empty() {
        Finding::error(CHECK, format!("Linux {release} has no {}", facts.missing.join(", "))).fix(newer)
    } else if version(release).is_some_and(|version| version < FLOOR) {
        let what = format!("Linux {release} is older than 5.14: it has no `cgroup.kill`");
        Finding::error(CHECK, what).fix(newer)
    } else {
        Finding::ok(CHECK, format!("Linux {release}"))
    }]
}

/// Returns the first two numbers of a release.
fn version(release: &str) -> Option<(u32, u32)> {
    // A kernel may have any text as its release. One without numbers is judged by its system calls alone.
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::tests::brief;
    use super::*;

    #[test]
    fn calls_and_versions() {
        for (release, missing, expected) in [
            ("6.1.0-18-amd64", vec![], "ok Linux 6.1.0-18-amd64"),
            ("5.14", vec![], "ok Linux 5.14"),
            ("odd", vec![], "ok Linux odd"),
            (
                "5.10.0-28-amd64",
                vec![],
                "error Linux 5.10.0-28-amd64 is older than 5.14: it has no `cgroup.kill`",
            ),
            (
                "4.19",
                vec!["pidfd_open", "openat2"],
                "error Linux 4.19 has no pidfd_open, openat2",
            ),
        ] {
            let facts = KernelFacts {
                release: release.into(),
                missing,
            };
            assert_eq!(brief(&judge(&facts)), [expected]);
        }
    }

    #[test]
    fn the_kernel_of_this_machine_is_new_enough() {
        assert_eq!(inspect().missing, Vec::<&str>::new());
    }
}
