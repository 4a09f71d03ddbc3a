//! Makes the C library's allocator give freed memory back to the kernel at once. By default the allocator adapts its limits, and
//! a free block stays with the process as long as a block behind it is in use.

/// Sets the limits of the allocator. To be called before there are threads. A block of 1 MiB or more gets a mapping of its own,
/// which ends when the block is freed; and at most 1 MiB is kept free at the end of the heap. With a smaller limit (128 KiB is
/// the default), memory would go and come with each batch of work. This call ends the adaptation (mallopt(3)).
pub(crate) fn set_bounds() {
    #[cfg(target_env = "gnu")]
    for parameter in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        #[expect(unsafe_code, reason = "mallopt(3) has no safe wrapper")]
        // SAFETY: it takes two numbers and keeps no pointer; it is called before other threads use the allocator.
        let was_taken = unsafe { libc::mallopt(parameter, 1 << 20) } != 0;
        // Without these limits this program works as well, with more memory.
        debug_assert!(was_taken, "mallopt({parameter})");
    }
}

#[cfg(test)]
#[cfg(target_env = "gnu")]
mod tests {
    use super::*;

    /// MiB of memory that are this process's own.
    fn own_mib() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() >> 10
    }

    #[test]
    fn large_blocks_are_handed_back_at_once() {
        set_bounds();
        let before = own_mib();
        let blocks: Vec<_> = (1..=4_u8).map(|n| vec![n; 4 << 20]).collect();
        let _behind = std::hint::black_box(vec![1; 100_000]);
        assert!(own_mib() > before + 10);
        drop(std::hint::black_box(blocks));
        assert!(own_mib() < before + 5, "{before} MiB, then {}", own_mib());
    }
}
