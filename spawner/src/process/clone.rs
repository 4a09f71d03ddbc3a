//! Makes child processes with `clone3(2)`: a copy of this process (launchers, helpers, inits), or a child that executes
//! a program.
//!
//! A child that executes a program runs on a stack of its own in the caller's memory until it executes, as after vfork,
//! so the cost does not grow with the caller. Its few steps report a failure through that memory. Between clone and
//! exec there are only bare system calls. From `setresuid` on, a process of the same user may stop the child. So
//! `setresuid` is the last step but for capabilities, and the caller waits for the child by a futex with a deadline:
//! with vfork(2) the caller would hang.

use super::privileges;
use fnd_wire::frame::is_shortage;
use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, getppid, setrlimit};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::thread::futex;
use seccompiler::BpfProgram;
use std::cell::Cell;
use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Stack of the child in bytes; its steps need less than a page or two.
const STACK: usize = 64 * 1024;
/// Deadline in seconds from the clone until the child executes the program.
const PATIENCE: u32 = 4;
/// How often in a second a waiting caller checks whether the child has to be killed.
const CHECKS_PER_SECOND: u32 = 10;

/// A program to execute, with everything that the child needs prepared.
#[derive(Debug, Default)]
pub struct Exec {
    pub path: CString,
    /// Command line, beginning with the program's name.
    pub argv: Vec<CString>,
    /// Environment, `NAME=VALUE`.
    pub environment: Vec<CString>,
    pub directory: CString,
    /// User and groups of the child; absent: those of this process, which is not root then.
    pub identity: Option<super::identity::Identity>,
    /// Whether the capability bounding set is empty already.
    pub bounded: bool,
    pub rlimits: Vec<(Resource, u64)>,
    /// The last parts of the sandbox.
    pub seal: Seal,
    /// The caller's parent. If it has ended, the caller starts nothing more, and kills a child that is held up.
    pub parent: Option<Pid>,
}

impl Exec {
    /// Returns whether the caller's parent has ended. The first process of a pid namespace can't see that: its parent
    /// has no number there.
    pub fn is_alone(&self) -> bool {
        self.parent.zip(getppid()).is_some_and(|(expected, parent)| expected != parent)
    }
}

/// The rest of the sandbox, which each attempt puts around itself.
#[derive(Debug, Default)]
pub struct Seal {
    /// The last filter of system calls.
    pub filter: Option<BpfProgram>,
    pub rules: Option<OwnedFd>,
    /// Whether the launcher is in a user namespace of its own.
    pub user_namespace: bool,
    /// Where there are no cgroups: whether the pid namespace of each attempt gets a `/proc` of its own.
    pub proc: bool,
    /// Where there are no cgroups: the filters of the init of each attempt.
    pub filters: Vec<BpfProgram>,
}

/// The cgroup and the descriptors of a new child.
#[derive(Debug, Clone, Copy)]
pub struct ChildPlace<'a> {
    /// The leaf that the child is created in. The child's parent is then the caller's parent.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// Standard input, output, error.
    pub stdio: [BorrowedFd<'a>; 3],
    /// The child's descriptor 3: a handler's socket.
    pub channel: Option<BorrowedFd<'a>>,
}

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct NoStart {
    /// Which step failed, for people.
    pub why: String,
    /// The child, if one was made; its parent has to wait for it.
    pub child: Option<Child>,
    /// The error, if the machine has run out of something and this is the reason.
    pub shortage: Option<Errno>,
}

impl From<String> for NoStart {
    fn from(why: String) -> Self {
        Self { why, child: None, shortage: None }
    }
}

impl From<&str> for NoStart {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

/// Adds the name of the failed step to an error, and whether the machine has run out of something.
pub fn tried(what: &str) -> impl Fn(io::Error) -> NoStart {
    move |error| {
        let shortage = Errno::from_io_error(&error).filter(|_| is_shortage(&error));
        NoStart { shortage, ..format!("failed to {what}: {error}").into() }
    }
}

/// The same for a step in a function's cgroup: only somebody who has removed that can make it fail so.
pub fn tried_in_group(what: &str) -> impl Fn(io::Error) -> NoStart {
    move |error| {
        let gone = Errno::from_io_error(&error).filter(|errno| matches!(*errno, Errno::NOENT | Errno::NODEV));
        let failed = tried(what)(error);
        NoStart { shortage: failed.shortage.or(gone), ..failed }
    }
}

/// A new child process.
#[derive(Debug)]
pub struct Child {
    pub pid: u32,
    /// The process's descriptor, which polls as readable when the process ends.
    pub pidfd: OwnedFd,
}

impl Child {
    /// Sends the process a signal; does nothing if the process has ended.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, signal);
    }
}

struct CloneOrder<'a> {
    exec: &'a Exec,
    argv: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    place: ChildPlace<'a>,
    /// Not 0 while the child uses this memory. When the child has executed or exited, the kernel clears it and wakes
    /// the caller.
    underway: AtomicU32,
    /// The child writes these two, and the caller reads them when `underway` is 0: the child's last step, and its
    /// error.
    step: Cell<&'static str>,
    failed: Cell<Option<Errno>>,
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Starts a program and returns once it was executed.
///
/// # Errors
/// [`NoStart`] naming the step that failed.
pub fn start(exec: &Exec, place: ChildPlace<'_>) -> Result<Child, NoStart> {
    let (argv, environment) = (pointers(&exec.argv), pointers(&exec.environment));
    let (step, failed) = (Cell::new("clone"), Cell::new(None));
    let order = CloneOrder { exec, argv, environment, place, underway: AtomicU32::new(1), step, failed };
    // Uninitialized memory that only the child writes to; freed when the child has executed or exited. The items have
    // 16 bytes for the alignment.
    let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
    let (mut arguments, pidfd) =
        arguments(libc::CLONE_VM | libc::CLONE_CHILD_CLEARTID, place.cgroup.is_some(), place.cgroup);
    // Rust ignores SIGPIPE, and an ignored signal stays ignored over execve(2). Programs expect the default.
    arguments.flags |= 0x1_0000_0000; // CLONE_CLEAR_SIGHAND
    arguments.child_tid = order.underway.as_ptr() as u64;
    arguments.stack = stack.as_mut_ptr() as u64;
    arguments.stack_size = STACK as u64;
    let child = taken(vfork_clone(&arguments, &order), &pidfd).map_err(tried_in_group("clone"))?;
    let in_time = wait_until_executed(&order, &child);
    drop(stack);
    let failed = order.failed.get();
    let why = match failed {
        Some(errno) => format!("failed to {}: {errno}", order.step.get()),
        None if in_time => return Ok(child),
        None => format!("failed to {} within {PATIENCE} s: it was blocked or stopped (SIGSTOP)", order.step.get()),
    };
    // Of all errors of the child's steps, only ENFILE (no more open files in the whole system) is not the function's
    // fault.
    Err(NoStart { why, child: Some(child), shortage: failed.filter(|errno| *errno == Errno::NFILE) })
}

/// Waits until a child has executed or ended, and returns whether that was in time; a child that takes too long is
/// killed.
fn wait_until_executed(order: &CloneOrder<'_>, child: &Child) -> bool {
    let slice = Timespec { tv_sec: 0, tv_nsec: i64::from(1_000_000_000 / CHECKS_PER_SECOND) };
    let mut checks = 0;
    while order.underway.load(Ordering::Acquire) != 0 {
        // Not a private futex: at the child's exec or exit the kernel wakes those that wait on a shared one only
        // (set_tid_address(2)).
        match futex::wait(&order.underway, futex::Flags::empty(), 1, Some(&slice)) {
            // Only a slice that passes without a wake-up counts.
            Ok(()) | Err(Errno::AGAIN | Errno::INTR) => continue,
            Err(_) => checks += 1,
        }
        if checks >= PATIENCE * CHECKS_PER_SECOND || order.exec.is_alone() {
            // The loop goes on after the kill: the stack and `order` must outlive the child.
            child.signal(rustix::process::Signal::KILL);
            checks = checks.max(PATIENCE * CHECKS_PER_SECOND);
        }
        // Before Linux 5.16 the kernel does not clear `underway` for a child that dumps core.
        if poll(&mut [PollFd::new(&child.pidfd, PollFlags::IN)], Some(&Timespec::default())) == Ok(1) {
            break;
        }
    }
    checks < PATIENCE * CHECKS_PER_SECOND
}

/// Copies this process, into a cgroup if one is given; `flags` are others of `clone3`. The copy runs `body`, exits
/// with the code that `body` returns, and never returns into the caller's loop.
///
/// # Errors
/// If `clone3` fails.
#[expect(unsafe_code, reason = "clone3 has no wrapper; a copy must not run its parent's destructors and exit handlers")]
pub fn fork(cgroup: Option<BorrowedFd<'_>>, parent: bool, flags: i32, body: impl FnOnce() -> i32) -> io::Result<Child> {
    let (arguments, pidfd) = arguments(flags, parent, cgroup);
    // SAFETY: without CLONE_VM the copy has its own memory and returns on its own copy of the stack, as fork does. The
    // spawner has one thread, so no other thread holds a lock.
    let result = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of_val(&arguments)) };
    if result == 0 {
        // A panic must not unwind into the copy of the spawner's loop.
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(70);
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(code) }
    }
    taken(if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }, &pidfd)
}

/// Detaches a copy of this process from the spawner. The copy closes every descriptor above standard error except
/// `kept` (2: none), handles, ignores and receives no signal, has ordinary priority for the OOM killer, and leaves the
/// terminal's session.
#[expect(unsafe_code, reason = "signal dispositions have no safe wrapper")]
pub fn settle(kept: RawFd) {
    close_all_but(kept);
    let _ = SigSet::all().thread_set_mask();
    for signal in 1..=64 {
        // SAFETY: dispositions are set to the default only.
        // The result is ignored: SIGKILL and SIGSTOP can't be changed, and two numbers belong to the C library.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // Functions of the same user may not read or stop this process.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = rustix::thread::set_name(c"fnd-launcher");
    // It fails only for the leader of a process group, which a new copy is not.
    let _ = rustix::process::setsid();
    let _ = std::fs::write("/proc/self/oom_score_adj", "0"); // raising is always allowed
}

/// Closes a descriptor by its number.
#[expect(unsafe_code, reason = "in a helper that shares the table of descriptors, no owner of it is there")]
pub fn close(number: RawFd) {
    // SAFETY: the descriptor's owner gave up the number so that it is closed here.
    let _ = unsafe { libc::close(number) };
}

/// Closes every descriptor above standard error except one.
#[expect(unsafe_code, reason = "close_range has no wrapper")]
pub fn close_all_but(kept: RawFd) {
    let kept = kept.cast_unsigned();
    for (first, last) in [(3, kept - 1), (kept + 1, u32::MAX)] {
        // SAFETY: this copy of the process uses no other descriptor and ends without running destructors.
        let _ = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) }; // refused for an empty range
    }
}

fn arguments(flags: i32, parent: bool, cgroup: Option<BorrowedFd<'_>>) -> (libc::clone_args, Box<RawFd>) {
    #[expect(unsafe_code, reason = "an all-zero structure of numbers")]
    // SAFETY: `clone_args` is numbers only, for which zero is valid and means absent.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    // The kernel writes the descriptor after this function has returned, so the number needs an address that stays.
    let mut pidfd = Box::new(-1);
    let flags = flags | libc::CLONE_PIDFD | if parent { libc::CLONE_PARENT } else { 0 };
    arguments.flags = u64::from(flags.cast_unsigned());
    arguments.pidfd = std::ptr::from_mut(pidfd.as_mut()) as u64;
    // With CLONE_PARENT the exit signal is inherited and must not be given. clone(2).
    arguments.exit_signal = if parent { 0 } else { u64::from(libc::SIGCHLD.cast_unsigned()) };
    if let Some(cgroup) = cgroup {
        arguments.flags |= 0x2_0000_0000; // CLONE_INTO_CGROUP
        arguments.cgroup = u64::from(cgroup.as_raw_fd().cast_unsigned());
    }
    (arguments, pidfd)
}

#[expect(unsafe_code, reason = "takes the descriptor the kernel has just made")]
fn taken(result: io::Result<i64>, pidfd: &RawFd) -> io::Result<Child> {
    let pid = u32::try_from(result?).map_err(io::Error::other)?;
    // SAFETY: clone3 succeeded, so it wrote a new descriptor that nobody else owns. The read is volatile because the
    // compiler did not see the write.
    let pidfd = unsafe { OwnedFd::from_raw_fd(std::ptr::read_volatile(pidfd)) };
    Ok(Child { pid, pidfd })
}

/// Calls `clone3` and returns its result in the caller at once; the child runs [`child`] and never returns.
#[expect(unsafe_code, reason = "clone3 on a new stack can't return through a C function")]
fn vfork_clone(arguments: &libc::clone_args, order: &CloneOrder<'_>) -> io::Result<i64> {
    let result: i64;
    // SAFETY: the child gets a stack of its own, aligned to 16, calls `child` on it and never comes back; `order` and
    // the stack outlive it because the caller waits until the child has executed or exited, and does nothing else
    // meanwhile.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, {order}",
            "call {entry}",
            "ud2",
            "2:",
            order = in(reg) std::ptr::from_ref(order),
            entry = in(reg) child as extern "C" fn(*const CloneOrder<'_>) -> !,
            inout("rax") libc::SYS_clone3 => result,
            in("rdi") std::ptr::from_ref(arguments),
            in("rsi") size_of_val(arguments),
            out("rcx") _,
            out("r11") _,
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, {order}",
            "blr {entry}",
            "brk 1",
            "2:",
            order = in(reg) std::ptr::from_ref(order),
            entry = in(reg) child as extern "C" fn(*const CloneOrder<'_>) -> !,
            inout("x0") std::ptr::from_ref(arguments) as i64 => result,
            in("x1") size_of_val(arguments),
            in("x8") libc::SYS_clone3,
        );
    }
    if result < 0 { Err(io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(libc::EIO))) } else { Ok(result) }
}

/// Runs the child's steps and stores the first error.
#[expect(unsafe_code, reason = "the child shares the memory of its waiting caller")]
extern "C" fn child(order: *const CloneOrder<'_>) -> ! {
    // SAFETY: the caller keeps `order` until the child is gone, and reads what the child writes only then.
    let order = unsafe { &*order };
    order.failed.set(steps(order).err());
    // SAFETY: ends this process.
    unsafe { libc::_exit(127) }
}

/// Returns the umask of a program, from its environment: 022 without the variable. A program that serves HTTP makes a socket,
/// which gets fnd's group from its directory; then the group's permission bits must be kept.
fn umask(environment: &[CString]) -> u32 {
    let value =
        |name: &[u8]| environment.iter().find_map(|line| line.to_bytes().strip_prefix(name)?.strip_prefix(b"="));
    let octal = |mask: u32, digit: &u8| (b'0'..=b'7').contains(digit).then(|| mask << 3 | u32::from(digit - b'0'));
    let asked = value(fnd_wire::plan::UMASK.as_bytes()).and_then(|text| text.iter().try_fold(0, octal));
    let mask = asked.unwrap_or(0o022) & 0o777;
    if value(b"FND_SOCKET_PATH").is_some() { mask & !0o070 } else { mask }
}

#[expect(unsafe_code, reason = "execve, close_range and dup2 have no wrapper that takes what was prepared")]
fn steps(order: &CloneOrder<'_>) -> Result<(), Errno> {
    let exec = order.exec;
    order.step.set("create a session");
    // A new session has no controlling terminal, so a function can't reach that of the person who started fnd.
    rustix::process::setsid()?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask(&exec.environment)));
    order.step.set("place standard input and output");
    // The sources are above 2: the caller keeps 0 to 2 open.
    let [input, output, error] = order.place.stdio;
    dup2_stdin(input)?;
    dup2_stdout(output)?;
    dup2_stderr(error)?;
    let last = || Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO);
    if let Some(channel) = order.place.channel {
        order.step.set("place the worker protocol's socket");
        // SAFETY: numbers. The descriptor that had the number 3 was copied above, or is the socket; dup2 then keeps its
        // close-on-exec flag, which fcntl clears.
        if unsafe { libc::dup2(channel.as_raw_fd(), 3) < 0 || libc::fcntl(3, libc::F_SETFD, 0) < 0 } {
            return Err(last());
        }
    }
    order.step.set("close inherited descriptors");
    let first = 3 + u32::from(order.place.channel.is_some());
    // SAFETY: numbers. The descriptors are closed at exec and not now, since the program's path may name a descriptor.
    if unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) } != 0 {
        return Err(last());
    }
    order.step.set("set resource limits");
    let both = |value| Rlimit { current: Some(value), maximum: Some(value) };
    exec.rlimits.iter().try_for_each(|(resource, value)| setrlimit(*resource, both(*value)))?;
    let kept = exec.identity.as_ref().map_or(0, |identity| identity.capabilities);
    if let Some(identity) = &exec.identity {
        if !exec.bounded {
            order.step.set("empty the capability bounding set");
            privileges::empty_bounding_set(kept)?;
        }
        order.step.set("set groups");
        identity.take_groups()?;
        identity.see_files_as_user();
    }
    // With the user's file rights, so that root enters no directory that is closed to the user.
    order.step.set("enter the code directory");
    rustix::process::chdir(exec.directory.as_c_str())?;
    order.step.set("drop capabilities");
    privileges::drop_all_but(kept, exec.identity.as_ref().is_some_and(|identity| identity.uid != 0))?;
    // A mask of signals survives execve(2), and the launcher blocks every signal.
    let _ = SigSet::empty().thread_set_mask();
    // Landlock and seccomp need `no_new_privs`, which `drop_all_but` has set (landlock(7), seccomp(2)).
    if let Some(rules) = &exec.seal.rules {
        order.step.set("restrict signals and sockets");
        privileges::restrict(rules.as_fd())?;
    }
    if let Some(filter) = &exec.seal.filter {
        order.step.set("filter system calls");
        seccompiler::apply_filter(filter).map_err(|_| Errno::PERM)?;
    }
    if let Some(identity) = &exec.identity {
        order.step.set("set the user");
        identity.take_user()?;
    }
    order.step.set("execute the program");
    let (argv, environment) = (order.argv.as_ptr(), order.environment.as_ptr());
    // SAFETY: the strings and the tables, which end with null, live in the waiting caller.
    unsafe { libc::execve(exec.path.as_ptr(), argv, environment) };
    Err(last())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::frame::ExitStatus;

    #[test]
    fn who_has_another_parent_is_alone_but_the_first_process_of_a_namespace_never_is() {
        let alone = |parent: Pid, flags: i32| {
            let exec = Exec { parent: Some(parent), ..Exec::default() };
            let child = fork(None, false, flags, || i32::from(exec.is_alone())).ok()?;
            crate::process::reap::wait(&child).map(|ended| ended.status)
        };
        let (own, other) = (rustix::process::getpid(), Pid::from_raw(1).unwrap());
        assert_eq!([alone(own, 0), alone(other, 0)], [0, 1].map(|code| Some(ExitStatus::Code(code))));
        let first = alone(own, libc::CLONE_NEWPID | libc::CLONE_NEWUSER);
        assert!([None, Some(ExitStatus::Code(0))].contains(&first), "none: no namespaces here; {first:?}");
    }

    #[test]
    fn the_umask_is_that_of_the_manifest_and_a_socket_keeps_the_group() {
        for (lines, expected) in [
            (&[][..], 0o022),
            (&[c"FND_UMASK=027"], 0o027),
            (&[c"FND_UMASK=0077", c"HOME=/"], 0o077),
            (&[c"FND_UMASK=9", c"FND_UMASKED=1"], 0o022),
            (&[c"FND_SOCKET_PATH=/x"], 0o002),
            (&[c"FND_SOCKET_PATH=/x", c"FND_UMASK=077"], 0o007),
        ] {
            let lines: Vec<CString> = lines.iter().map(|line: &&std::ffi::CStr| (*line).to_owned()).collect();
            assert_eq!(umask(&lines), expected, "{lines:?}");
        }
    }
}
