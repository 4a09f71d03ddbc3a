//! The rights that the program gives up before it reads bytes of a browser. Afterwards it can open, change and remove no file,
//! start no process or thread, and make only Unix sockets.
//!
//! No rule names the directory of the control socket: up to ABI 8 Landlock has no right for the connection to a socket with a path
//! (it is `resolve_unix` of ABI 9). `fndctl web` removes the page's own socket: the right to remove a file holds for a whole
//! directory, here that of fnd's own sockets, or `/tmp`.

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, RulesetStatus,
    Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;
use std::error::Error;

/// The rights that are restricted: all that can be tested here. The kernel leaves out those that it does not know.
const RIGHTS: ABI = ABI::V6;

/// The system calls that the page needs: connections, memory, the clock, signals, its end.
const CALLS: [i64; 44] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_shutdown,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_fcntl,
    libc::SYS_ppoll,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_tgkill,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Calls that only this machine has.
#[cfg(target_arch = "x86_64")]
const MACHINE: [i64; 2] = [libc::SYS_epoll_wait, libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const MACHINE: [i64; 0] = [];

/// Gives up all files, all TCP connections, and signals to others. Returns whether the kernel has Landlock.
///
/// # Errors
/// The kernel has Landlock and refuses the rules.
pub(crate) fn files() -> Result<bool, Box<dyn Error>> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(RIGHTS))?
        .handle_access(AccessNet::from_all(RIGHTS))?
        .scope(Scope::from_all(RIGHTS))?;
    Ok(rules.create()?.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

/// Gives up all system calls but those of the list, for all threads.
///
/// # Errors
/// The kernel refuses the filter.
pub(crate) fn calls() -> Result<(), Box<dyn Error>> {
    Ok(seccompiler::apply_filter_all_threads(&filter()?)?)
}

/// Makes the filter: a call that is not on the list fails with EPERM, memory is never executable, sockets are Unix sockets,
/// calls of another architecture kill.
fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let calls = CALLS.iter().chain(&MACHINE).map(|call| (*call, Vec::new()));
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = calls.collect();
    let executable = u64::from(libc::PROT_EXEC.cast_unsigned());
    let without = rule(2, SeccompCmpOp::MaskedEq(executable), 0)?;
    rules.extend([libc::SYS_mmap, libc::SYS_mprotect].map(|call| (call, vec![without.clone()])));
    let unix = rule(0, SeccompCmpOp::Eq, u64::from(libc::AF_UNIX.cast_unsigned()))?;
    rules.insert(libc::SYS_socket, vec![unix]);
    // Other requests could type into the terminal that the page was started in (TIOCSTI).
    rules.insert(libc::SYS_ioctl, vec![rule(1, SeccompCmpOp::Eq, libc::FIONBIO)?]);
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, refused, SeccompAction::Allow, arch)?.try_into()
}

fn rule(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
    SeccompRule::new(vec![condition])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::ErrorKind;
    use std::net::TcpListener;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;
    use std::process::Command;

    /// The rights are gone for good, so the test runs itself in a process of its own.
    const INSIDE: &str = "FND_TEST_CONFINED";

    #[test]
    fn files_programs_and_the_network_are_gone_and_sockets_are_not() {
        if let Some(directory) = std::env::var_os(INSIDE) {
            return confined(Path::new(&directory));
        }
        let directory = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        let name = "confine::tests::files_programs_and_the_network_are_gone_and_sockets_are_not";
        let output = Command::new(own)
            .args(["--exact", name, "--nocapture", "--test-threads=1"])
            .env(INSIDE, directory.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    fn confined(directory: &Path) {
        let path = directory.join("web.sock");
        let listener = UnixListener::bind(&path).unwrap();
        files().unwrap();
        calls().unwrap();
        let denied = |result: Option<ErrorKind>| assert_eq!(result, Some(ErrorKind::PermissionDenied));
        denied(File::open("/etc/passwd").err().map(|error| error.kind()));
        denied(File::create(directory.join("new")).err().map(|error| error.kind()));
        denied(std::fs::remove_file(&path).err().map(|error| error.kind()));
        denied(Command::new("/bin/true").spawn().err().map(|error| error.kind()));
        denied(TcpListener::bind("127.0.0.1:0").err().map(|error| error.kind()));
        assert!(std::thread::Builder::new().spawn(|| {}).is_err());
        UnixStream::connect(&path).unwrap();
        listener.accept().unwrap();
    }
}
