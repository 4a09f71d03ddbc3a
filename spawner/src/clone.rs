//! `clone3(2)`: a copy of this process (launchers, cleaners), or a child that executes a program.
//!
//! The second is the vfork form: the child runs on a stack of its own in the caller's memory until it executes, so the cost
//! does not grow with the caller, and its few steps report where they failed through that memory. Between clone and exec
//! there are only raw system calls (see [`sandbox`](crate::sandbox)).

use crate::sandbox::identity::Identity;
use crate::sandbox::rlimits::Rlimit;
use crate::sandbox::{privileges, raw};
use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Stack of the vfork child; its steps need less than a page or two.
const STACK: usize = 64 * 1024;

/// A program to execute, with everything about it made ready.
#[derive(Debug, Default)]
pub struct Exec {
    /// The file.
    pub path: CString,
    /// Command line, with the name in front.
    pub argv: Vec<CString>,
    /// Environment, `NAME=VALUE`.
    pub environment: Vec<CString>,
    /// Working directory.
    pub directory: CString,
    /// As whom; absent: as this process, where it is not root.
    pub identity: Option<Identity>,
    /// Resource limits.
    pub rlimits: Vec<Rlimit>,
    /// The file by descriptor, where the user it runs as may be unable to reach it by `path`; a binary, no `#!` script.
    pub image: Option<OwnedFd>,
}

/// Where a child begins.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Leaf it is born in.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// Whether its parent is the caller's parent; the caller's own exit signal is then its, too.
    pub parent: bool,
    /// Standard input, output, error.
    pub stdio: [BorrowedFd<'a>; 3],
}

/// A child that was not to be.
#[derive(Debug, thiserror::Error)]
#[error("failed to {}: {}", STEPS.get(*.step).unwrap_or(&"run"), io::Error::from_raw_os_error(*.errno))]
pub struct CloneError {
    /// What failed, as an index into the steps.
    pub step: usize,
    /// Error number.
    pub errno: i32,
    /// The child, where there was one; whoever is its parent has to wait for it.
    pub child: Option<Child>,
}

impl CloneError {
    /// Returns the error of a step without a child.
    pub fn at(step: usize, errno: i32) -> Self {
        Self { step, errno, child: None }
    }
}

/// The step of entering the function's cgroups, done by the launcher once.
pub const ENTER_CGROUP: usize = 11;
/// The step of setting up the namespaces that stand in for a cgroup.
pub const SET_UP_NAMESPACE: usize = 12;

/// A process just made.
#[derive(Debug)]
pub struct Child {
    /// Its id.
    pub pid: u32,
    /// Its descriptor, which polls as readable when it ends.
    pub pidfd: OwnedFd,
}

impl Child {
    /// Sends it a signal; one that is gone needs none.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, signal);
    }
}

/// Steps of the child, in order.
const STEPS: [&str; 13] = [
    "clone",
    "make a session",
    "set the umask",
    "place standard input and output",
    "close inherited descriptors",
    "set resource limits",
    "empty the capability bounding set",
    "take on user and groups",
    "enter the code directory",
    "drop capabilities",
    "execute the program",
    "enter the function's cgroups",
    "set up a namespace for the process tree",
];

struct Order<'a> {
    exec: &'a Exec,
    argv: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    stdio: [RawFd; 3],
    // Written by the child, read by the caller after exec or exit.
    step: usize,
    errno: i32,
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Starts a program. Returns when it was executed.
///
/// # Errors
/// [`CloneError`] naming the step that failed.
pub fn start(exec: &Exec, place: Place<'_>) -> Result<Child, CloneError> {
    let mut order = Order {
        exec,
        argv: pointers(&exec.argv),
        environment: pointers(&exec.environment),
        stdio: place.stdio.map(|fd| fd.as_raw_fd()),
        step: 0,
        errno: 0,
    };
    // Only room, written by the child; freed when the child has executed or exited and uses it no more. Pieces of 16 bytes,
    // for the alignment.
    let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
    let (mut arguments, pidfd) = arguments(libc::CLONE_VM | libc::CLONE_VFORK, place.parent, place.cgroup);
    arguments.flags |= 0x1_0000_0000; // CLONE_CLEAR_SIGHAND
    arguments.stack = stack.as_mut_ptr() as u64;
    arguments.stack_size = STACK as u64;
    let result = vfork_clone(&arguments, &mut order);
    drop(stack);
    let child = taken(result, &pidfd).map_err(|errno| CloneError::at(0, errno))?;
    match order.errno {
        0 => Ok(child),
        errno => Err(CloneError { step: order.step, errno, child: Some(child) }),
    }
}

/// Copies this process, into a cgroup where one is given; `namespaces` are `CLONE_NEW*` flags. The copy runs `body`, ends
/// with what it returns, and never comes back into its caller's loop.
///
/// # Errors
/// From `clone3`.
#[expect(unsafe_code, reason = "clone3 has no wrapper; a copy must not run its parent's destructors and exit handlers")]
pub fn fork(
    cgroup: Option<BorrowedFd<'_>>,
    parent: bool,
    namespaces: i32,
    body: impl FnOnce() -> i32,
) -> io::Result<Child> {
    let (arguments, pidfd) = arguments(namespaces, parent, cgroup);
    // SAFETY: without CLONE_VM the copy has its own memory and returns on its own copy of the stack, as fork does. The
    // spawner has one thread, so no lock is held by another.
    let result =
        unsafe { raw(libc::SYS_clone3, [std::ptr::from_ref(&arguments) as usize, size_of_val(&arguments), 0, 0, 0]) };
    if result == Ok(0) {
        // A panic must not unwind into the copy of the spawner's loop.
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(70);
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(code) }
    }
    taken(result, &pidfd).map_err(io::Error::from_raw_os_error)
}

fn arguments(flags: i32, parent: bool, cgroup: Option<BorrowedFd<'_>>) -> (libc::clone_args, Box<RawFd>) {
    #[expect(unsafe_code, reason = "an all-zero structure of numbers")]
    // SAFETY: `clone_args` is numbers only, for which zero is valid and means absent.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    let mut pidfd = Box::new(-1);
    let flags = flags | libc::CLONE_PIDFD | if parent { libc::CLONE_PARENT } else { 0 };
    arguments.flags = u64::from(flags.cast_unsigned());
    arguments.pidfd = std::ptr::from_mut(pidfd.as_mut()) as u64;
    // With CLONE_PARENT the signal is inherited and must not be given. clone(2).
    arguments.exit_signal = if parent { 0 } else { u64::from(libc::SIGCHLD.cast_unsigned()) };
    if let Some(cgroup) = cgroup {
        arguments.flags |= 0x2_0000_0000; // CLONE_INTO_CGROUP
        arguments.cgroup = u64::from(cgroup.as_raw_fd().cast_unsigned());
    }
    (arguments, pidfd)
}

#[expect(unsafe_code, reason = "takes the descriptor the kernel has just made")]
fn taken(result: Result<usize, i32>, pidfd: &RawFd) -> Result<Child, i32> {
    let pid = result?;
    // SAFETY: clone3 succeeded, so it wrote a new descriptor nobody else owns. Volatile: the compiler did not see it written.
    let pidfd = unsafe { OwnedFd::from_raw_fd(std::ptr::read_volatile(pidfd)) };
    Ok(Child { pid: u32::try_from(pid).map_err(|_| libc::EOVERFLOW)?, pidfd })
}

/// Returns like `clone3` in the caller; the child runs [`child`] and never returns.
#[expect(unsafe_code, reason = "clone3 on a new stack can't return through a C function")]
fn vfork_clone(arguments: &libc::clone_args, order: &mut Order<'_>) -> Result<usize, i32> {
    let result: i64;
    // SAFETY: the child gets a stack of its own, aligned to 16, calls `child` on it and never comes back; `order` and
    // `arguments` outlive it because CLONE_VFORK suspends the caller until it has executed or exited.
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
            order = in(reg) std::ptr::from_mut(order),
            entry = in(reg) child as extern "C" fn(*mut Order<'_>) -> !,
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
            order = in(reg) std::ptr::from_mut(order),
            entry = in(reg) child as extern "C" fn(*mut Order<'_>) -> !,
            inout("x0") std::ptr::from_ref(arguments) as i64 => result,
            in("x1") size_of_val(arguments),
            in("x8") libc::SYS_clone3,
        );
    }
    usize::try_from(result).map_err(|_| i32::try_from(-result).unwrap_or(libc::EIO))
}

/// What the child does: each step counted, the first failure reported.
#[expect(unsafe_code, reason = "the child's few raw system calls")]
extern "C" fn child(order: *mut Order<'_>) -> ! {
    // SAFETY: the caller is suspended, so nobody else uses the order.
    let order = unsafe { &mut *order };
    let result = steps(order);
    if let Err(errno) = result {
        order.errno = errno;
    }
    loop {
        // SAFETY: ends this process.
        let _ = unsafe { raw(libc::SYS_exit_group, [127, 0, 0, 0, 0]) };
    }
}

#[expect(unsafe_code, reason = "the child's few raw system calls")]
fn steps(order: &mut Order<'_>) -> Result<(), i32> {
    let exec = order.exec;
    // SAFETY, for every call below: numbers, or pointers to strings and tables that live in the suspended caller.
    unsafe {
        order.step = 1;
        raw(libc::SYS_setsid, [0; 5])?;
        order.step = 2;
        raw(libc::SYS_umask, [0o077, 0, 0, 0, 0])?;
        order.step = 3;
        for (target, source) in order.stdio.into_iter().enumerate() {
            // The sources are above 2: the caller keeps 0 to 2 open. dup3 leaves close-on-exec off.
            raw(libc::SYS_dup3, [usize::try_from(source).map_err(|_| libc::EBADF)?, target, 0, 0, 0])?;
        }
        order.step = 4;
        // 4: CLOSE_RANGE_CLOEXEC, since `image` is needed until the end.
        raw(libc::SYS_close_range, [3, u32::MAX as usize, 4, 0, 0])?;
        order.step = 5;
        for limit in &exec.rlimits {
            limit.apply()?;
        }
        if let Some(identity) = &exec.identity {
            order.step = 6;
            privileges::empty_bounding_set()?;
            order.step = 7;
            identity.take()?;
        }
        order.step = 8;
        raw(libc::SYS_chdir, [exec.directory.as_ptr() as usize, 0, 0, 0, 0])?;
        order.step = 9;
        privileges::drop_all()?;
        order.step = 10;
        let none = 0u64;
        raw(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as usize, std::ptr::from_ref(&none) as usize, 0, 8, 0])?;
        let (argv, environment) = (order.argv.as_ptr() as usize, order.environment.as_ptr() as usize);
        if let Some(image) = &exec.image {
            let image = usize::try_from(image.as_raw_fd()).map_err(|_| libc::EBADF)?;
            let empty = c"".as_ptr() as usize;
            raw(libc::SYS_execveat, [image, empty, argv, environment, libc::AT_EMPTY_PATH as usize])?;
        } else {
            raw(libc::SYS_execve, [exec.path.as_ptr() as usize, argv, environment, 0, 0])?;
        }
    }
    Ok(())
}
