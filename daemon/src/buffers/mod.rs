//! One budget for the bytes that fnd holds for its callers: bodies of requests until they have run, and answers until
//! they are read.
//!
//! Bytes within `[node] buffers` are in memory. Bytes beyond it are in one unlinked file of the state directory
//! ([`overflow`]), so that they cost no memory and are gone when fnd ends. If the disk does not take them either, the
//! request is refused, and may succeed later.
//!
//! Bytes that pass through fnd without being held (bodies of programs that serve HTTP, streams) are not counted: the
//! buffers of sockets bound them.
//!
//! Files:
//! - `gather`: a body that comes piece by piece
//! - `transit`: results on their way to their places
//! - `overflow`: the file that holds the bytes for which the budget has no room
//! - `unauthenticated`: the part of callers who have shown no credential

mod gather;
mod overflow;
mod transit;
mod unauthenticated;

pub use gather::Gathering;
pub use overflow::OverflowRange;
pub use transit::Reservation;
pub(crate) use transit::SMALL;
pub use unauthenticated::AddressShare;
pub(crate) use unauthenticated::keeping;

use crate::allocator;
use bytes::Bytes;
use fnd_core::data::{BytesOwner, Data};
use fnd_core::triggers::route::body_budget::BodyBudget;
use fnd_wire::units::print_size;
use overflow::Overflow;
use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use transit::Transit;

/// Answers up to this size are not counted: there are at most as many as connections.
pub const UNCOUNTED: usize = 16 << 10;

/// The budget, and how much of it is used.
#[derive(Debug)]
pub struct Buffers {
    max: AtomicU64,
    held: AtomicU64,
    refused: AtomicU64,
    overflow: Overflow,
    transit: Transit,
    /// The bodies of callers who have shown no credential, wherever they are.
    unauthenticated: Mutex<BodyBudget>,
    /// Whether the problem "memory does not suffice" is reported.
    full: AtomicBool,
    changed: OnceLock<BufferNotice>,
}

/// Called when memory begins not to suffice, and when it suffices again.
struct BufferNotice(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for BufferNotice {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Changed")
    }
}

/// Bytes of the budget; returned to it when this is dropped.
#[derive(Debug)]
pub struct Permit {
    of: Arc<Buffers>,
    bytes: u64,
}

impl Permit {
    /// Adds the bytes of another permit of the same budget.
    pub fn join(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Gives a part of the bytes back.
    pub fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        drop(self.of.permit(bytes));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.of.held.fetch_sub(self.bytes, Ordering::Relaxed);
        allocator::freed(self.bytes);
        // Only while the problem is reported: the check takes the lock of the file.
        if self.of.full.load(Ordering::Relaxed) {
            self.of.check_full();
        }
    }
}

/// Bytes in memory that count against the budget.
#[derive(Debug)]
struct BudgetedBytes {
    bytes: Vec<u8>,
    _permit: Permit,
}

impl BytesOwner for BudgetedBytes {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn bytes(&self) -> io::Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(&self.bytes))
    }
}

/// A result or an answer in memory that counts until its bytes are gone.
struct CountedBytes {
    bytes: Bytes,
    permit: Permit,
    /// Whether it is a result that was read, and so may be on its way.
    is_result: bool,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        if self.is_result {
            self.permit.of.transit.end(&self.bytes);
        }
    }
}

/// The place of an answer until it is read.
#[derive(Debug)]
pub enum AnswerPlace {
    Memory(Bytes),
    /// In the file.
    Kept(OverflowRange),
}

fn counted(bytes: Bytes, permit: Permit, is_result: bool) -> Bytes {
    Bytes::from_owner(CountedBytes {
        bytes,
        permit,
        is_result,
    })
}

impl Buffers {
    /// Returns a budget of `max` bytes, with a file in `directory` for what is beyond it.
    pub fn new(max: u64, directory: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            max: AtomicU64::new(max),
            held: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            overflow: Overflow::new(directory),
            transit: Transit::new(max),
            unauthenticated: Mutex::default(),
            full: AtomicBool::new(false),
            changed: OnceLock::new(),
        })
    }

    /// Changes the budget. Bytes that are already held stay where they are.
    pub fn resize(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
        self.transit.resize(max);
    }

    /// Returns how many bytes are held in memory, and how many in the file.
    pub fn held(&self) -> (u64, u64) {
        (self.held.load(Ordering::Relaxed), self.overflow.live())
    }

    /// Returns how many bodies and answers were refused so far because neither memory nor disk took them.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Sets the callback that is called, on any thread, whenever [`Self::problem`] begins or is over. Only the first
    /// one is kept.
    pub fn on_change(&self, changed: impl Fn() + Send + Sync + 'static) {
        let _ = self.changed.set(BufferNotice(Box::new(changed))); // an error: the first one stays
    }

    /// Returns the problem to report, from when the disk is needed until there is enough memory again.
    pub fn problem(&self) -> Option<String> {
        self.full.load(Ordering::Relaxed).then(|| {
            let (memory, disk) = self.held();
            format!(
                "bodies and answers of callers fill their memory: {} of {} ([node] buffers); {} more lie on the disk until they \
                 are used",
                print_size(memory),
                print_size(self.max.load(Ordering::Relaxed)),
                print_size(disk)
            )
        })
    }

    /// Checks whether memory suffices, and reports a change. It counts as sufficient again only below a quarter of the
    /// budget: otherwise each body at the limit would be reported.
    fn check_full(&self) {
        let (memory, disk) = self.held();
        let was = self.full.load(Ordering::Relaxed);
        let is = disk > 0 || (was && memory > self.max.load(Ordering::Relaxed) / 4);
        // Of several threads that see the change, one reports it.
        if self.full.swap(is, Ordering::Relaxed) != is
            && let Some(BufferNotice(changed)) = self.changed.get()
        {
            changed();
        }
    }

    /// Returns a permit for bytes of a body; nothing where the budget has no room. Bodies leave half of the budget to
    /// answers: otherwise a few waiting bodies would send every larger answer to the disk.
    fn take_for_body(self: &Arc<Self>, bytes: u64) -> Option<Permit> {
        self.take(bytes, self.max.load(Ordering::Relaxed) / 2)
    }

    fn take(self: &Arc<Self>, bytes: u64, max: u64) -> Option<Permit> {
        let more = |held: u64| held.checked_add(bytes).filter(|held| *held <= max);
        // Relaxed: the number guards no other memory.
        let taken = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| self.permit(bytes))
    }

    /// Returns a permit for bytes that are counted already.
    fn permit(self: &Arc<Self>, bytes: u64) -> Permit {
        let of = Arc::clone(self);
        Permit { of, bytes }
    }

    /// Returns a permit for bytes that are in memory whether the budget has room or not, such as the piece of an answer
    /// on the disk that its caller is about to read. The caller of this has a limit of its own.
    #[must_use]
    pub fn take_anyway(self: &Arc<Self>, bytes: u64) -> Permit {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.permit(bytes)
    }

    /// Returns a permit for an answer; nothing where the budget has no room. If a quarter of the budget is in use,
    /// there are several answers: they leave a quarter to the pieces that callers are reading of answers on the disk.
    fn take_for_answer(self: &Arc<Self>, bytes: u64) -> Option<Permit> {
        self.take(bytes, self.answers_max(self.held.load(Ordering::Relaxed)))
    }

    /// Returns how much of the budget may be in use with an answer, beside which `others` bytes are held.
    fn answers_max(&self, others: u64) -> u64 {
        let max = self.max.load(Ordering::Relaxed);
        if others < max / 4 { max } else { max - max / 4 }
    }

    /// Returns room for a result of a function that is to be read, if there is room now.
    #[must_use]
    pub fn reserve_now(&self, bytes: u64) -> Option<Reservation> {
        self.transit.reserve_now(bytes)
    }

    /// Waits for room for a result of a function that is to be read.
    pub async fn reserve(self: Arc<Self>, bytes: u64) -> Reservation {
        self.transit.reserve(bytes).await
    }

    /// Counts a result that was read, with the room that was reserved for it, until its bytes are gone.
    #[must_use]
    pub fn carry(self: &Arc<Self>, bytes: Bytes, reservation: Reservation) -> Bytes {
        self.transit.begin(&bytes, reservation);
        let permit = self.take_anyway(bytes.len() as u64);
        counted(bytes, permit, true)
    }

    /// Returns whether a result that is counted already may stay in memory until its caller reads it.
    fn stays(&self, bytes: u64) -> bool {
        let held = self.held.load(Ordering::Relaxed);
        held <= self.answers_max(held.saturating_sub(bytes))
    }

    /// Holds an answer until it is read.
    ///
    /// # Errors
    /// Neither the budget nor the disk has room for it.
    pub async fn hold_answer(self: &Arc<Self>, bytes: Bytes) -> io::Result<AnswerPlace> {
        if bytes.len() <= UNCOUNTED {
            return Ok(AnswerPlace::Memory(bytes));
        }
        // A result on its way is counted already.
        if self.transit.has(&bytes) {
            if self.stays(bytes.len() as u64) {
                self.transit.settle(&bytes);
                return Ok(AnswerPlace::Memory(bytes));
            }
        } else if let Some(permit) = self.take_for_answer(bytes.len() as u64) {
            return Ok(AnswerPlace::Memory(counted(bytes, permit, false)));
        }
        let buffers = Arc::clone(self);
        // A slow disk must not hold up the thread that every request shares.
        let kept = tokio::task::spawn_blocking(move || buffers.keep(&bytes)).await;
        kept.map_err(io::Error::other)?.map(AnswerPlace::Kept)
    }

    /// Holds an answer that must not be on the disk until it is read. The limit of results bounds it.
    #[must_use]
    pub fn hold_in_memory(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        if self.transit.has(&bytes) {
            self.transit.settle(&bytes);
            return bytes;
        }
        let permit = self.take_anyway(bytes.len() as u64);
        counted(bytes, permit, false)
    }

    /// Holds a body that is there already.
    ///
    /// # Errors
    /// Neither the budget nor the disk has room for it.
    pub async fn hold_body(self: &Arc<Self>, bytes: Vec<u8>) -> io::Result<Data> {
        if let Some(permit) = self.take_for_body(bytes.len() as u64) {
            return Ok(Data::new(BudgetedBytes { bytes, _permit: permit }));
        }
        let buffers = Arc::clone(self);
        let kept = tokio::task::spawn_blocking(move || buffers.keep(&bytes)).await;
        kept.map_err(io::Error::other)?.map(Data::new)
    }

    /// Holds bytes that were accepted before, such as those of a queued invocation at a start: they cannot be refused.
    #[must_use]
    pub fn hold(self: &Arc<Self>, data: &Data) -> Data {
        // Bytes that cannot be read stay where they are: the run that needs them reports the error.
        let Ok(bytes) = data.bytes() else { return data.clone() };
        if let Some(permit) = self.take_for_body(bytes.len() as u64) {
            let bytes = bytes.into_owned();
            return Data::new(BudgetedBytes { bytes, _permit: permit });
        }
        // The bytes were accepted already: without room on the disk they stay as they are.
        self.keep(&bytes).map_or_else(|_| data.clone(), Data::new)
    }

    fn keep(self: &Arc<Self>, bytes: &[u8]) -> io::Result<OverflowRange> {
        let begun = self.overflow.begin(bytes.len() as u64);
        let mut kept = OverflowRange::new(begun.inspect_err(|_| self.refuse())?, self);
        kept.append(bytes).inspect_err(|_| self.refuse())?;
        self.check_full();
        Ok(kept)
    }

    fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffers(max: u64) -> (tempfile::TempDir, Arc<Buffers>) {
        let directory = tempfile::tempdir().unwrap();
        let buffers = Buffers::new(max, directory.path().to_owned());
        (directory, buffers)
    }

    #[tokio::test]
    async fn what_is_beyond_the_budget_is_on_the_disk_and_comes_back_the_same() {
        let (directory, buffers) = buffers(100_000);
        let mut first = Gathering::new(&buffers);
        let mut second = Gathering::new(&buffers);
        second.push(&[2; 30_000], None).await.unwrap();
        assert_eq!((buffers.held(), buffers.problem()), ((30_000, 0), None));
        first.push(&[1; 60_000], None).await.unwrap();
        assert_eq!(buffers.held(), (30_000, 60_000));
        // The two bodies write by turns.
        for piece in 0..5_u8 {
            second.push(&[piece; 7_000], None).await.unwrap();
            first.push(&[piece; 9_000], None).await.unwrap();
        }
        assert_eq!(buffers.held(), (0, 60_000 + 45_000 + 30_000 + 35_000));
        assert!(buffers.problem().is_some());
        let (first, second) = (first.finish(), second.finish());
        assert_eq!((first.size(), second.size()), (105_000, 65_000));
        let expected: Vec<u8> = [vec![1; 60_000], (0..5).flat_map(|piece| vec![piece; 9_000]).collect()].concat();
        assert_eq!(&*first.bytes().unwrap(), expected);
        let expected: Vec<u8> = [vec![2; 30_000], (0..5).flat_map(|piece| vec![piece; 7_000]).collect()].concat();
        assert_eq!(&*second.bytes().unwrap(), expected);
        // The file has no name, and nothing of it stays.
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        drop(first);
        assert_eq!(buffers.held(), (0, 65_000));
        drop(second);
        assert_eq!((buffers.held(), buffers.problem()), ((0, 0), None));
        let mut third = Gathering::new(&buffers);
        third.push(&[3; 50_000], None).await.unwrap();
        assert_eq!(buffers.held(), (50_000, 0));
    }

    #[tokio::test]
    async fn what_neither_memory_nor_disk_takes_is_refused() {
        let buffers = Buffers::new(20, "/nonexistent".into());
        let mut body = Gathering::new(&buffers);
        body.push(b"0123456789", None).await.unwrap();
        assert!(body.push(b"x", None).await.is_err());
        drop(body);
        assert_eq!((buffers.held(), buffers.refused()), ((0, 0), 1));
        assert!(buffers.hold_answer(vec![0; UNCOUNTED + 1].into()).await.is_err());
        // Bytes that were accepted stay in memory.
        let data = Data::from(vec![7; 1000]);
        assert_eq!(buffers.hold(&data), data);
    }

    #[tokio::test]
    async fn an_answer_counts_until_its_last_reader_has_gone() {
        let (_directory, buffers) = buffers(100_000);
        let AnswerPlace::Memory(bytes) = buffers.hold_answer(vec![5; 70_000].into()).await.unwrap() else {
            panic!("there was room");
        };
        let part = bytes.slice(10..20);
        drop(bytes);
        assert_eq!(buffers.held(), (70_000, 0));
        let AnswerPlace::Kept(kept) = buffers.hold_answer(vec![6; 70_000].into()).await.unwrap() else {
            panic!("there was no room");
        };
        assert_eq!(kept.read(69_990, 100).unwrap(), [6; 10]);
        drop((part, kept));
        assert_eq!(buffers.held(), (0, 0));
    }

    /// A budget of which an eighth is room for two results, and nothing of which is free for answers.
    fn in_use() -> (tempfile::TempDir, Arc<Buffers>, Permit) {
        let (directory, buffers) = buffers(3_200_000);
        let in_use = buffers.take_anyway(3_000_000);
        (directory, buffers, in_use)
    }

    async fn waits<F: Future>(mut waiting: std::pin::Pin<&mut F>) -> bool {
        std::future::poll_fn(|cx| std::task::Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await
    }

    #[tokio::test]
    async fn a_result_is_not_read_before_those_before_it_have_their_place() {
        let (_directory, buffers, in_use) = in_use();
        let read = || buffers.carry(vec![1; 200_000].into(), buffers.reserve_now(190_000).unwrap());
        let (first, second) = (read(), read());
        assert!(buffers.reserve_now(190_000).is_none());
        let mut third = std::pin::pin!(Arc::clone(&buffers).reserve(190_000));
        assert!(waits(third.as_mut()).await);
        // The history has stored it, and its caller does not read it: it is on the disk.
        let AnswerPlace::Kept(_kept) = buffers.hold_answer(first.slice(..150_000)).await.unwrap() else {
            panic!("there was no room");
        };
        assert!(waits(third.as_mut()).await, "the history has not stored it");
        drop(first);
        let third = third.await;
        // There is room for an answer in memory: it counts, and is not on its way any more.
        drop(in_use);
        assert!(matches!(
            buffers.hold_answer(second.clone()).await.unwrap(),
            AnswerPlace::Memory(_)
        ));
        assert_eq!(buffers.held(), (200_000, 150_000));
        let fourth = buffers.reserve_now(190_000);
        assert!(fourth.is_some());
        drop((third, fourth, second));
        assert_eq!(buffers.held(), (0, 150_000));
    }

    #[tokio::test]
    async fn a_result_larger_than_the_room_is_read_alone_and_the_room_follows_the_budget() {
        let (_directory, buffers) = buffers(1_000_000);
        let large = buffers.reserve_now(900_000).unwrap();
        assert!(buffers.reserve_now(1).is_none());
        buffers.resize(2_000_000);
        let small = buffers.reserve_now(100_000).unwrap();
        buffers.resize(8_000);
        drop((large, small));
        let all = buffers.reserve_now(1_000_000).unwrap();
        assert!(buffers.reserve_now(1).is_none());
        drop(all);
        assert!(buffers.reserve_now(1).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_disk_keeps_no_end_back_for_ever() {
        let (_directory, buffers) = buffers(8_000);
        let _never = buffers.reserve_now(1_000);
        let before = tokio::time::Instant::now();
        drop(Arc::clone(&buffers).reserve(1_000).await);
        assert_eq!(before.elapsed().as_secs(), 300);
    }

    #[tokio::test]
    async fn an_answer_with_secrets_stays_in_memory_where_there_is_no_room() {
        let (directory, buffers) = buffers(1000);
        let bytes = buffers.hold_in_memory(vec![5; 70_000].into());
        assert_eq!((bytes.len(), buffers.held()), (70_000, (70_000, 0)));
        drop(bytes);
        assert_eq!(buffers.held(), (0, 0));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn one_large_answer_has_all_of_the_budget_and_several_leave_a_quarter() {
        let (_directory, buffers) = buffers(400_000);
        let hold = async |size: usize| buffers.hold_answer(vec![5; size].into()).await.unwrap();
        let alone = hold(400_000).await;
        assert!(matches!(alone, AnswerPlace::Memory(_)));
        drop(alone);
        let first = [hold(90_000).await, hold(90_000).await, hold(90_000).await];
        let last = [hold(40_000).await, hold(30_000).await];
        assert!(matches!(last, [AnswerPlace::Kept(_), AnswerPlace::Memory(_)]));
        assert_eq!(buffers.held(), (300_000, 40_000));
        // The piece that a caller is reading is counted also where there is no room.
        let in_hand = buffers.take_anyway(200_000);
        assert_eq!(buffers.held().0, 500_000);
        drop((first, last, in_hand));
        assert_eq!(buffers.held(), (0, 0));
    }
}
