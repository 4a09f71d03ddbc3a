//! How the C library's allocator gives memory back to the kernel.
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

/// Returns free pages inside of the heaps of all threads to the kernel (malloc_trim(3)). To be called when much was freed
/// that is not needed again soon: it takes some milliseconds.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "malloc_trim(3) has no safe wrapper")]
    // SAFETY: it takes a number, and is safe to call at any time (MT-Safe); it moves no block that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
