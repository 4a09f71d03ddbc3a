//! How memory goes back to the kernel: free blocks of the C library's allocator, code and constants that only the start needs.
//!
//! By default the allocator adapts its limits, and a free block stays as long as one behind it is in use. Here the limits are
//! fixed: fnd keeps what was freed, and [gives it back](give_back_at_rest) some seconds later. If each body got a mapping of
//! its own, 6 MiB would be 1,500 page faults, and twice more in SQLite: an echo of that would take 20 ms instead of 16. fnd
//! has as much memory at its peak either way.
//!
//! Why not mimalloc (version 3, preloaded; 2 CPUs; it has to give pages back at once and to do without huge pages,
//! otherwise fnd has 18 MiB at its start): at 8 callers it takes 65 us of CPU for a warm call instead of 81, of these
//! the main thread 46 instead of 57. But it has more memory: 4.1 MiB instead of 2.8 at the start, 17.9 instead of 16.0
//! with 1,000 functions, 13.0 instead of 10.5 after bodies of 6 MiB. And an echo of 6 MiB took the main thread 35 ms instead of
//! 10. All of this was measured when large blocks had mappings and threads had heaps of their own.

use crate::descriptors;
use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};
use rustix::mm::{Advice, madvise};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// Bytes that were [freed] together after which memory is given back.
const LARGE: u64 = 1 << 20;

/// Bytes that an invocation which has ended leaves free, in many small blocks: its entry in the books, its events and its record.
pub(crate) const INVOCATION: u64 = 2 << 10;

/// The time from a start until memory is given back, and the time in which less than [`LARGE`] is freed where fnd is at rest.
const AT_REST: Duration = Duration::from_secs(10);

/// How many times [`AT_REST`] memory is kept at most where fnd is not at rest.
const KEPT_MAX: u32 = 6;

static FREED: Notify = Notify::const_new();

/// Bytes that were freed since memory was given back.
static FREED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes from which on a block has a mapping of its own, and that are kept free. The allocator takes no limit above 32 MiB.
const BOUND: i32 = 32 << 20;

/// Sets from which size on a block gets a mapping of its own, which ends when the block is freed, and how much free memory is
/// kept at the end of the heap; to be called before there are threads. This ends the adaptation (mallopt(3)). All threads share the first heap: malloc_trim(3)
/// does not give back the end of any other, and a block that one thread frees serves another (at 8 callers a tenth less CPU).
pub(crate) fn set_bounds() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [
        (libc::M_MMAP_THRESHOLD, BOUND),
        (libc::M_TRIM_THRESHOLD, BOUND),
        (libc::M_ARENA_MAX, 1),
    ] {
        #[expect(unsafe_code, reason = "mallopt(3) has no safe wrapper")]
        // SAFETY: it takes two numbers and keeps no pointer; it is called before other threads use the allocator.
        let was_taken = unsafe { libc::mallopt(parameter, value) } != 0;
        // Without these limits fnd works as well, with more memory.
        debug_assert!(was_taken, "mallopt({parameter}, {value})");
    }
}

/// Says that this many bytes were freed, or are about to be; from any thread. Small blocks count together: a thousand of them
/// are as much as a large one.
pub(crate) fn freed(bytes: u64) {
    let before = FREED_BYTES.fetch_add(bytes, Ordering::Relaxed);
    if before < LARGE && before.saturating_add(bytes) >= LARGE {
        FREED.notify_one();
    }
}

/// Gives memory back some seconds after a start, and then when fnd comes to rest after much was [freed]. While fnd is busy, it
/// needs the memory again.
pub(crate) async fn give_back_at_rest() -> Infallible {
    descriptors::sleep(AT_REST).await;
    loop {
        FREED_BYTES.store(0, Ordering::Relaxed);
        give_back();
        // A notice may be left of what was given back.
        while FREED_BYTES.load(Ordering::Relaxed) < LARGE {
            FREED.notified().await;
        }
        for _ in 0..KEPT_MAX {
            let before = FREED_BYTES.load(Ordering::Relaxed);
            descriptors::sleep(AT_REST).await;
            if FREED_BYTES.load(Ordering::Relaxed).saturating_sub(before) < LARGE {
                break;
            }
        }
    }
}

/// Returns to the kernel what the process does not use: free pages of the heap (malloc_trim(3)), and the code and constants of
/// the program and its libraries, whose pages come back from the page cache when they are needed again. To be called when much
/// was freed or run through that is not needed again soon: it takes some milliseconds.
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
    let maps = Process::myself()?.maps()?;
    for (number, map) in maps.iter().enumerate() {
        let (from, to) = map.address;
        let range = usize::try_from(from).ok().zip(usize::try_from(to - from).ok());
        let next = maps.0.get(number + 1);
        if let Some((from, length)) = range.filter(|_| is_unwritten(map, next)) {
            let from = std::ptr::with_exposed_provenance_mut(from);
            #[expect(unsafe_code, reason = "madvise(2) has no safe wrapper")]
            // SAFETY: a page of a file that the process can't write to, and never could, is the same when it is read again.
            let _ = unsafe { madvise(from, length, Advice::LinuxDontNeed) };
        }
    }
    Ok(())
}

/// Says whether a mapping has code, or the first part of a program or library: its constants. Into later parts that are read-only
/// now, the loader has written addresses. In a library that is smaller than a page of 64 KiB such a part begins with the file,
/// too; but no code follows it.
fn is_unwritten(map: &MemoryMap, next: Option<&MemoryMap>) -> bool {
    let constants = MMPermissions::READ | MMPermissions::PRIVATE;
    let code = constants | MMPermissions::EXECUTE;
    let is_before_code = || next.is_some_and(|next| next.perms == code && next.pathname == map.pathname);
    let is_first = map.perms == constants && map.offset == 0 && is_before_code();
    (map.perms == code || is_first) && matches!(map.pathname, MMapPath::Path(_))
}

#[cfg(test)]
#[cfg(target_env = "gnu")]
mod tests {
    use super::*;
    use procfs::FromBufRead as _;
    use procfs::process::MemoryMaps;

    /// MiB of memory that are this process's own.
    fn own_mib() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() >> 10
    }

    /// Uses 16 MiB, and says that they are free. Returns what lies behind them.
    fn use_some() -> Vec<u8> {
        let blocks: Vec<_> = (1..=4_u8).map(|n| vec![n; 4 << 20]).collect();
        let behind = vec![1; 100_000];
        freed(std::hint::black_box(blocks)[0].len() as u64);
        behind
    }

    /// Uses 16 MiB in small blocks, as a backlog does, and says that they are free. Returns what lies behind them.
    fn use_some_small() -> Vec<u8> {
        let blocks: Vec<_> = (0..4096_u32).map(|_| vec![1_u8; 4 << 10]).collect();
        let behind = vec![1; 100_000];
        let blocks = std::hint::black_box(blocks);
        blocks.iter().for_each(|block| freed(block.len() as u64));
        behind
    }

    #[tokio::test(start_paused = true)]
    async fn many_small_blocks_are_given_back_as_large_ones() {
        set_bounds();
        let before = own_mib();
        let uses = async {
            for _ in 0..2 {
                let _behind = use_some_small();
                assert!(own_mib() > before + 10, "{before} MiB, then {}", own_mib());
                tokio::time::sleep(AT_REST + Duration::from_secs(1)).await;
                assert!(own_mib() < before + 5, "{before} MiB, then {}", own_mib());
            }
            // While it is busy, the memory is kept, but not for ever.
            let begun = tokio::time::Instant::now();
            let _behind = use_some_small();
            while own_mib() > before + 5 {
                freed(LARGE);
                tokio::time::sleep(Duration::from_secs(1)).await;
                assert!(begun.elapsed() <= AT_REST * (KEPT_MAX + 1), "{} MiB", own_mib());
            }
            assert!(begun.elapsed() > AT_REST * 2);
        };
        tokio::select! {
            () = uses => {}
            never = give_back_at_rest() => match never {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn large_blocks_are_kept_for_a_moment_and_given_back_at_rest() {
        set_bounds();
        let before = own_mib();
        let uses = async {
            // The first time is the start's.
            for _ in 0..2 {
                let _behind = use_some();
                assert!(own_mib() > before + 10, "{before} MiB, then {}", own_mib());
                tokio::time::sleep(AT_REST + Duration::from_secs(1)).await;
                assert!(own_mib() < before + 5, "{before} MiB, then {}", own_mib());
            }
        };
        tokio::select! {
            () = uses => {}
            never = give_back_at_rest() => match never {}
        }
    }

    #[test]
    fn what_the_loader_has_written_stays() {
        let maps = "\
            1000-2000 r--p 00000000 fd:01 7 /usr/bin/fnd\n\
            2000-3000 r-xp 00001000 fd:01 7 /usr/bin/fnd\n\
            3000-4000 r--p 00002000 fd:01 7 /usr/bin/fnd\n\
            4000-5000 rw-p 00003000 fd:01 7 /usr/bin/fnd\n\
            10000-20000 r-xp 00000000 fd:01 8 /usr/lib/libnss_sss.so.2\n\
            20000-30000 r--p 00000000 fd:01 8 /usr/lib/libnss_sss.so.2\n\
            30000-40000 rw-p 00010000 fd:01 8 /usr/lib/libnss_sss.so.2\n\
            40000-50000 r--p 00000000 fd:01 9 /usr/lib/locale/locale-archive\n\
            50000-60000 r-xp 00000000 00:00 0 [vdso]\n";
        let maps = MemoryMaps::from_buf_read(maps.as_bytes()).unwrap().0;
        let found = maps.iter().enumerate();
        let found = found.filter(|(number, map)| is_unwritten(map, maps.get(number + 1)));
        let found: Vec<u64> = found.map(|(_, map)| map.address.0).collect();
        assert_eq!(found, [0x1000, 0x2000, 0x10000]);
    }

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
