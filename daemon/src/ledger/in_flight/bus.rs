//! Keeps a mapped file that somebody shortens from ending fnd: access to a page behind the end of its file is SIGBUS. The page
//! is replaced by one in memory, and the owner of the mapping is told that it is of no use any more.
#![expect(unsafe_code, reason = "signal handlers have no safe wrapper")]

use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Most mappings at once: fnd has one, and its tests some.
const MAPPINGS: usize = 64;

/// A mapping, if `start` is not 0.
struct MappedRange {
    start: AtomicUsize,
    length: AtomicUsize,
    is_lost: AtomicBool,
}

static PLACES: [MappedRange; MAPPINGS] = [const {
    MappedRange {
        start: AtomicUsize::new(0),
        length: AtomicUsize::new(0),
        is_lost: AtomicBool::new(false),
    }
}; MAPPINGS];
static PAGE: AtomicUsize = AtomicUsize::new(0);
/// The action of SIGBUS before; absent if the handler could not be set.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

/// A mapping whose pages may vanish, until this value is dropped.
#[derive(Debug)]
pub(super) struct Guarded(usize);

impl Guarded {
    /// Begins to guard a mapping.
    ///
    /// # Errors
    /// From setting the handler; or there are too many mappings.
    pub(super) fn of(start: usize, length: usize) -> io::Result<Self> {
        if BEFORE.get_or_init(set).is_none() {
            return Err(io::Error::other("the handler of SIGBUS cannot be set"));
        }
        let taken = |place: &MappedRange| {
            place
                .start
                .compare_exchange(0, start, Ordering::AcqRel, Ordering::Acquire)
        };
        let free = PLACES.iter().position(|place| taken(place).is_ok());
        let at = free.ok_or_else(|| io::Error::other("there are too many mappings"))?;
        PLACES[at].is_lost.store(false, Ordering::Release);
        // The length comes last. Until then it is 0, so the handler finds no address in this place.
        PLACES[at].length.store(length, Ordering::Release);
        Ok(Self(at))
    }

    /// Returns whether a page was not there: what was stored in the mapping since is not in the file.
    pub(super) fn is_lost(&self) -> bool {
        PLACES[self.0].is_lost.load(Ordering::Acquire)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // The length goes first: a place that looks free may be taken at once, with another start.
        PLACES[self.0].length.store(0, Ordering::Release);
        PLACES[self.0].start.store(0, Ordering::Release);
    }
}

/// Sets the handler. Returns what it replaces.
fn set() -> Option<libc::sigaction> {
    PAGE.store(rustix::param::page_size(), Ordering::Release);
    // SAFETY: all fields of the structure may be zero.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_bus;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    let mut before = MaybeUninit::uninit();
    // SAFETY: both structures are valid, and the handler makes only calls that are allowed in one.
    let result = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, before.as_mut_ptr()) };
    // SAFETY: the call has filled the structure.
    (result == 0).then(|| unsafe { before.assume_init() })
}

/// Only atomic operations and system calls: the signal may come between any two instructions.
extern "C" fn on_bus(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with `SA_SIGINFO` the kernel passes a valid structure, which has an address for this signal.
    let at = unsafe { (*info).si_addr() } as usize;
    for place in &PLACES {
        let (start, length) = (
            place.start.load(Ordering::Acquire),
            place.length.load(Ordering::Acquire),
        );
        if start == 0 || !(start..start + length).contains(&at) {
            continue;
        }
        let page = PAGE.load(Ordering::Acquire);
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
        );
        let address = (at & !(page - 1)) as *mut libc::c_void;
        // SAFETY: the page belongs to a mapping of ours, and nothing else uses it.
        let mapped = unsafe { libc::mmap(address, page, access, kind, -1, 0) };
        if mapped != libc::MAP_FAILED {
            place.is_lost.store(true, Ordering::Release);
            return; // the instruction is executed again, on the new page
        }
    }
    // Another fault: the instruction is executed again, with what was there before.
    let before = BEFORE.get().and_then(Option::as_ref);
    // SAFETY: the structure is the one that the kernel gave, or absent, which changes nothing.
    unsafe {
        match before {
            Some(before) => drop(libc::sigaction(libc::SIGBUS, before, null_mut())),
            None => drop(libc::signal(libc::SIGBUS, libc::SIG_DFL)),
        }
    }
}
