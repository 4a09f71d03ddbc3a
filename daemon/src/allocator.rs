//! How the C library's allocator gives memory back to the kernel.
//!
//! By default it learns: after the first large block was freed, blocks of that size (up to 32 MiB) come from the heap of the thread
//! that asks. There they stay resident when they are free, as long as something lies behind them: bodies and answers that lie on
//! the disk or have gone long ago would still be counted as memory of fnd, some hundred mebibytes of it.

/// Blocks from this size on are a mapping of their own, which ends when they are freed. A mapping costs page faults, so smaller
/// ones stay in the heap.
#[cfg(target_env = "gnu")]
const MAPPED_FROM: libc::c_int = 1 << 20;

/// Free memory at the end of a heap that is kept. The default (128 KiB) has a thread that works in batches give memory back and
/// take it again with each of them.
#[cfg(target_env = "gnu")]
const KEPT_AT_END: libc::c_int = 1 << 20;

/// Sets both bounds, which ends the learning (mallopt(3)). To be called before there are threads.
pub(crate) fn set_bounds() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_MMAP_THRESHOLD, MAPPED_FROM),
        (libc::M_TRIM_THRESHOLD, KEPT_AT_END),
    ] {
        #[expect(unsafe_code, reason = "mallopt(3) has no safe wrapper")]
        // SAFETY: it takes two numbers and keeps no pointer; it is called before other threads use the allocator.
        let was_taken = unsafe { libc::mallopt(parameter, value) } != 0;
        // Without it fnd works as well, with more memory.
        debug_assert!(was_taken, "mallopt({parameter}, {value})");
    }
}
