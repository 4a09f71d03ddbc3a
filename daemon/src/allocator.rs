//! How memory goes back to the kernel: free blocks of the C library's allocator, and code that only the start needs.
//!
//! By default the allocator adapts its limits: after the first large block was freed, blocks of that size (up to 32
//! MiB) come from the heap of the thread that asks. Free blocks there stay resident as long as something lies behind
//! them. So bodies and answers that are on the disk or long gone would still count as memory of fnd, some hundred
//! mebibytes of it.
//!
//! Why not mimalloc (version 3, preloaded; 2 CPUs; it has to give pages back at once and to do without huge pages,
//! otherwise fnd has 18 MiB at its start): at 8 callers it takes 65 us of CPU for a warm call instead of 81, of these
//! the main thread 46 instead of 57. But it has more memory: 4.1 MiB instead of 2.8 at the start, 17.9 instead of 16.0
//! with 1,000 functions, 13.0 instead of 10.5 after bodies of 6 MiB. And it copies a block that grows, where the C
//! library moves its pages: an echo of 6 MiB took the main thread 35 ms instead of 10.

use procfs::process::{MMPermissions, MMapPath, Process};
use rustix::mm::{Advice, madvise};

/// Blocks of this size or more get a mapping of their own, which ends when they are freed. A mapping costs page faults,
/// so smaller blocks stay in the heap.
#[cfg(target_env = "gnu")]
const MAPPED_FROM: libc::c_int = 1 << 20;

/// Free memory that is kept at the end of a heap. With the default (128 KiB) a thread that works in batches gives
/// memory back and takes it again with each batch.
#[cfg(target_env = "gnu")]
const KEPT_AT_END: libc::c_int = 1 << 20;

/// Sets both limits, which ends the adaptation (mallopt(3)). To be called before there are threads.
pub(crate) fn set_bounds() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_MMAP_THRESHOLD, MAPPED_FROM),
        (libc::M_TRIM_THRESHOLD, KEPT_AT_END),
    ] {
        #[expect(unsafe_code, reason = "mallopt(3) has no safe wrapper")]
        // SAFETY: it takes two numbers and keeps no pointer; it is called before other threads use the allocator.
        let was_taken = unsafe { libc::mallopt(parameter, value) } != 0;
        // Without these limits fnd works as well, with more memory.
        debug_assert!(was_taken, "mallopt({parameter}, {value})");
    }
}

/// Returns to the kernel what the process does not use: free pages inside of the heaps of all threads (malloc_trim(3)), and
/// the code of the program and its libraries, whose pages come back from the page cache when they are needed again. To be
/// called when much was freed or run through that is not needed again soon: it takes some milliseconds.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "malloc_trim(3) has no safe wrapper")]
    // SAFETY: it takes a number, and is safe to call at any time (MT-Safe); it moves no block that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
    if let Err(error) = give_back_code() {
        tracing::debug!("code that is not needed stays in memory: {error}");
    }
}

fn give_back_code() -> procfs::ProcResult<()> {
    let code = MMPermissions::READ | MMPermissions::EXECUTE | MMPermissions::PRIVATE;
    for map in Process::myself()?.maps()? {
        let (from, to) = map.address;
        let range = usize::try_from(from).ok().zip(usize::try_from(to - from).ok());
        if map.perms == code
            && matches!(map.pathname, MMapPath::Path(_))
            && let Some((from, length)) = range
        {
            let from = std::ptr::with_exposed_provenance_mut(from);
            #[expect(unsafe_code, reason = "madvise(2) has no safe wrapper")]
            // SAFETY: a page of a file that the process can't write to is the same when it is read again.
            let _ = unsafe { madvise(from, length, Advice::LinuxDontNeed) };
        }
    }
    Ok(())
}

#[cfg(test)]
#[cfg(target_env = "gnu")]
mod tests {
    use super::*;

    /// KiB of the code of the mathematical library that are in memory. Nothing else here calls it.
    fn resident() -> u64 {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let code = smaps
            .lines()
            .skip_while(|line| !(line.contains(" r-xp ") && line.contains("/libm.so")));
        let size = code.skip(1).find_map(|line| line.strip_prefix("Rss:")).unwrap();
        size.trim_end_matches("kB").trim().parse().unwrap()
    }

    #[test]
    fn code_leaves_the_memory_and_comes_back_when_it_is_needed() {
        let power = || std::hint::black_box(1.5_f64).powf(std::hint::black_box(2.5));
        let expected = power().to_bits();
        assert!(resident() > 0);
        give_back();
        assert_eq!(resident(), 0);
        assert_eq!(power().to_bits(), expected);
        assert!(resident() > 0);
    }
}
