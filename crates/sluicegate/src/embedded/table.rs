//! The table: all memory is laid out once, for a named number of keys, and never moves.
//!
//! A key has two buckets of 16 slots, by two parts of its fingerprint, and lives in one of them. There is no growth, no
//! rehash and no relocation: no request pays for a stall, and a reader may look at a slot without a lock. Pages that no
//! key has touched cost no memory yet.
//!
//! A bucket is searched by comparing all of its fingerprints, without an index: the sixteen loads are independent of one
//! another, so that a bucket that is in no cache costs one wait for memory and not two.
//!
//! A bucket's version is its lock: odd while a writer changes the bucket. A reader that sees one even version before and
//! after has read one state. Writers of several buckets lock them in rising order.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use bytemuck::allocation::zeroed_slice_box;
use sluicegate_core::{MAX_SKEW_US, Micros};
use smallvec::SmallVec;

use super::fingerprint::Fingerprint;

/// Slots in a bucket.
const SLOTS: usize = 16;
/// Words in a slot: the fingerprint, and the three of [`Words`].
const SLOT_WORDS: usize = 4;
/// Words in a bucket's header: the version and the earliest reset.
const HEADER_WORDS: usize = 2;
/// The fingerprint of a slot that is free.
const FREE: u64 = 0;
/// Counts and times stay below this bit; above it, the slot's second word holds more of the fingerprint.
const VALUE_BITS: u32 = 53;
/// One slot more for each so many keys, since the two buckets of a key may be fuller than the average.
const KEYS_PER_SPARE: usize = 5;
/// The first bucket takes new keys while it has this many free slots, else the emptier one does.
const KEPT_FREE: u32 = 8;
/// Tries before a waiting writer lets other threads run.
const SPINS: u32 = 64;
/// Buckets that one sweep looks at: far more than the one slot that the sweeping caller needs.
const SWEPT_AT_ONCE: usize = 16;
/// A slot is reused only this long after its reset: a clock may still step back by as much.
const GRACE_US: u64 = MAX_SKEW_US;

/// What a slot holds for its key: the instant from which it is as if never used (µs), and two numbers. All are below
/// 2^53.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) reset_us: u64,
    pub(super) a: u64,
    pub(super) b: u64,
}

impl Words {
    /// Whether the slot may be reused: its key has reset, long enough ago.
    fn are_over(self, now: Micros) -> bool {
        is_over(self.reset_us, now)
    }
}

/// What a claimed slot holds until it is written or given back: no search for room takes it for one that has reset.
const UNWRITTEN: Words = Words { reset_us: u64::MAX, a: 0, b: 0 };

/// Where a key lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    bucket: usize,
    slot: usize,
}

/// What was seen of a key without a lock.
#[derive(Clone, Copy, Debug)]
pub(super) enum Glimpse {
    Found(Seen),
    /// A writer was at work on a bucket of the key.
    Busy,
    Absent,
}

/// A key's words, and the version of the bucket that held them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) words: Words,
    place: Place,
    version: u64,
}

/// The buckets of a request, without an allocation for up to four keys.
type Buckets = SmallVec<[usize; 8]>;

/// The two buckets in which a key may live; they may be one.
pub(super) type Home = [usize; 2];

type Slot = [AtomicU64; SLOT_WORDS];

/// Zeroed words that begin with a cache line, of which a page costs nothing before its first use.
#[derive(Debug)]
struct Lines {
    words: Box<[AtomicU64]>,
    /// Words before the first cache line begins.
    skipped: usize,
}

impl Lines {
    fn zeroed(count: usize) -> Self {
        const LINE_BYTES: usize = 64;
        let words: Box<[AtomicU64]> = zeroed_slice_box(count + LINE_BYTES / 8);
        let skipped = words.as_ptr().align_offset(LINE_BYTES).min(LINE_BYTES / 8);
        Self { words, skipped }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    #[inline]
    #[expect(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        reason = "buckets come from `home`, which keeps them in range"
    )]
    fn chunk<const N: usize>(&self, index: usize) -> &[AtomicU64; N] {
        self.words[self.skipped + index * N..].first_chunk().unwrap()
    }
}

#[derive(Debug)]
pub(super) struct Table {
    buckets: usize,
    headers: Lines,
    slots: Lines,
    /// Where the next sweep goes on.
    hand: AtomicUsize,
}

impl Table {
    /// Room for `max_keys` keys, and a fifth more so that all of them find a place.
    pub(super) fn new(max_keys: usize) -> Self {
        let buckets = (max_keys + max_keys / KEYS_PER_SPARE).div_ceil(SLOTS).max(2);
        Self {
            buckets,
            headers: Lines::zeroed(buckets * HEADER_WORDS),
            slots: Lines::zeroed(buckets * SLOTS * SLOT_WORDS),
            hand: AtomicUsize::new(0),
        }
    }

    /// Frees slots whose keys have reset in the next few buckets of a round over all.
    pub(super) fn sweep(&self, now: Micros, mut reclaim: impl FnMut(Words)) {
        for _ in 0..SWEPT_AT_ONCE {
            let bucket = self.hand.fetch_add(1, Ordering::Relaxed) % self.buckets;
            self.lock([[bucket, bucket]].into_iter()).reclaim(now, &mut reclaim);
        }
    }

    /// The bytes that are laid out, touched or not.
    pub(super) fn bytes(&self) -> usize {
        self.headers.bytes() + self.slots.bytes()
    }

    #[inline]
    pub(super) fn home(&self, fingerprint: Fingerprint) -> Home {
        [fingerprint.first_of(self.buckets), fingerprint.second_of(self.buckets)]
    }

    /// Reads a key's words without a lock.
    #[expect(clippy::inline_always, reason = "an answer through memory costs a third of a check")]
    #[inline(always)]
    pub(super) fn glimpse(&self, fingerprint: Fingerprint, home: Home) -> Glimpse {
        let mut busy = false;
        for bucket in home {
            let version = self.version(bucket).load(Ordering::Acquire);
            let place = self.find_in(bucket, fingerprint).map(|slot| Place { bucket, slot });
            let found = place.map(|place| (place, self.read(place)));
            fence(Ordering::Acquire);
            let unchanged = self.version(bucket).load(Ordering::Relaxed) == version;
            busy |= !(unchanged && version.is_multiple_of(2));
            if let (Some((place, words)), false) = (found, busy) {
                return Glimpse::Found(Seen { words, place, version });
            }
        }
        if busy { Glimpse::Busy } else { Glimpse::Absent }
    }

    /// Writes if nothing in the bucket has changed since the glimpse. `false`: look again, under the lock.
    #[inline]
    pub(super) fn write_if_unchanged(&self, seen: &Seen, words: Words) -> bool {
        let version = self.version(seen.place.bucket);
        let locked =
            version.compare_exchange(seen.version, seen.version + 1, Ordering::Acquire, Ordering::Relaxed);
        if locked.is_ok() {
            fence(Ordering::Release);
            self.write(seen.place, words);
            version.store(seen.version + 2, Ordering::Release);
        }
        locked.is_ok()
    }

    /// Locks all buckets of some keys until the guard is dropped.
    pub(super) fn lock(&self, homes: impl Iterator<Item = Home>) -> Locked<'_> {
        let mut buckets: Buckets = homes.flatten().collect();
        buckets.sort_unstable();
        buckets.dedup();
        for bucket in &buckets {
            self.lock_bucket(*bucket);
        }
        fence(Ordering::Release);
        Locked { table: self, buckets }
    }

    fn lock_bucket(&self, bucket: usize) {
        let version = self.version(bucket);
        let mut tries = 0_u32;
        loop {
            let seen = version.load(Ordering::Relaxed);
            if seen.is_multiple_of(2)
                && version.compare_exchange_weak(seen, seen + 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            tries += 1;
            if tries.is_multiple_of(SPINS) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// The number of slots that hold a key that has not reset.
    pub(super) fn live_keys(&self, now: Micros) -> usize {
        let live = |[fingerprint, _, _, reset_us]: &&Slot| {
            fingerprint.load(Ordering::Relaxed) != FREE && reset_us.load(Ordering::Relaxed) > now.as_u64()
        };
        (0..self.buckets).map(|bucket| self.slots_of(bucket).iter().filter(live).count()).sum()
    }

    /// The slot of a bucket that holds a key.
    #[inline]
    fn find_in(&self, bucket: usize, fingerprint: Fingerprint) -> Option<usize> {
        let mut marks = self.marks(bucket, fingerprint.stored());
        while marks != 0 {
            let slot = usize::try_from(marks.trailing_zeros()).unwrap_or(0);
            let [_, a, ..] = self.slot(Place { bucket, slot });
            if a.load(Ordering::Relaxed) >> VALUE_BITS == fingerprint.extra() {
                return Some(slot);
            }
            marks &= marks - 1;
        }
        None
    }

    /// A bit for each slot of a bucket whose first word is that.
    #[inline]
    fn marks(&self, bucket: usize, stored: u64) -> u32 {
        let mut marks = 0;
        for (slot, [first, ..]) in self.slots_of(bucket).iter().enumerate() {
            marks |= u32::from(first.load(Ordering::Relaxed) == stored) << slot;
        }
        marks
    }

    #[inline]
    fn read(&self, place: Place) -> Words {
        let [_, a, b, reset_us] = self.slot(place);
        Words {
            reset_us: reset_us.load(Ordering::Relaxed),
            a: a.load(Ordering::Relaxed) & !(u64::MAX << VALUE_BITS),
            b: b.load(Ordering::Relaxed),
        }
    }

    #[inline]
    fn write(&self, place: Place, words: Words) {
        let [_, a, b, reset_us] = self.slot(place);
        let extra = a.load(Ordering::Relaxed) & (u64::MAX << VALUE_BITS);
        reset_us.store(words.reset_us, Ordering::Relaxed);
        a.store(words.a | extra, Ordering::Relaxed);
        b.store(words.b, Ordering::Relaxed);
        let earliest = self.earliest_reset(place.bucket);
        if words.reset_us < earliest.load(Ordering::Relaxed) {
            earliest.store(words.reset_us, Ordering::Relaxed);
        }
    }

    #[inline]
    fn version(&self, bucket: usize) -> &AtomicU64 {
        let [version, _] = self.headers.chunk::<HEADER_WORDS>(bucket);
        version
    }

    /// No slot of the bucket resets earlier.
    #[inline]
    fn earliest_reset(&self, bucket: usize) -> &AtomicU64 {
        let [_, earliest] = self.headers.chunk::<HEADER_WORDS>(bucket);
        earliest
    }

    #[inline]
    fn slots_of(&self, bucket: usize) -> &[Slot] {
        let (slots, _) = self.slots.chunk::<{ SLOTS * SLOT_WORDS }>(bucket).as_chunks();
        slots
    }

    #[inline]
    fn slot(&self, place: Place) -> &Slot {
        self.slots.chunk(place.bucket * SLOTS + place.slot)
    }
}

/// Some buckets of a table, locked.
#[derive(Debug)]
pub(super) struct Locked<'t> {
    table: &'t Table,
    buckets: Buckets,
}

impl Locked<'_> {
    pub(super) fn find(&self, fingerprint: Fingerprint, home: Home) -> Option<Place> {
        home.into_iter()
            .find_map(|bucket| self.table.find_in(bucket, fingerprint).map(|slot| Place { bucket, slot }))
    }

    pub(super) fn read(&self, place: Place) -> Words {
        self.table.read(place)
    }

    pub(super) fn write(&self, place: Place, words: Words) {
        self.table.write(place, words);
    }

    /// Reads the words of a slot that the caller is going to write or [`Locked::put_back`]. Until then no claim under
    /// this lock takes the slot, even if its key has reset.
    pub(super) fn hold(&self, place: Place, now: Micros) -> Words {
        let words = self.read(place);
        if words.are_over(now) {
            self.write(place, UNWRITTEN);
        }
        words
    }

    /// Leaves a held slot as it was.
    pub(super) fn put_back(&self, place: Place, words: Words, now: Micros) {
        if words.are_over(now) {
            self.write(place, words);
        }
    }

    /// Takes a free slot for a new key. `reclaim` is told the words of keys that have reset and make room.
    pub(super) fn claim(
        &self,
        fingerprint: Fingerprint,
        home: Home,
        now: Micros,
        reclaim: impl FnMut(Words),
    ) -> Option<Place> {
        let place = self.free_place(home).or_else(|| {
            self.reclaim(now, reclaim);
            self.free_place(home)
        })?;
        let [first, a, ..] = self.table.slot(place);
        first.store(fingerprint.stored(), Ordering::Relaxed);
        a.store(fingerprint.extra() << VALUE_BITS, Ordering::Relaxed);
        // Else the next claim under this lock would find the words of the key before, and take the slot again.
        self.table.write(place, UNWRITTEN);
        Some(place)
    }

    /// Gives a slot back.
    pub(super) fn release(&self, place: Place) {
        let [first, ..] = self.table.slot(place);
        first.store(FREE, Ordering::Relaxed);
    }

    fn free_place(&self, [first, second]: Home) -> Option<Place> {
        let [in_first, in_second] = [first, second].map(|bucket| self.table.marks(bucket, FREE));
        let (bucket, free) = if in_first.count_ones() >= KEPT_FREE.min(in_second.count_ones()) {
            (first, in_first)
        } else {
            (second, in_second)
        };
        let slot = usize::try_from(free.trailing_zeros()).ok().filter(|slot| *slot < SLOTS)?;
        Some(Place { bucket, slot })
    }

    /// Frees slots whose keys have reset. A bucket whose earliest reset is still to come is not searched.
    fn reclaim(&self, now: Micros, mut reclaim: impl FnMut(Words)) {
        for bucket in self.buckets.iter().copied() {
            let earliest = self.table.earliest_reset(bucket);
            if !is_over(earliest.load(Ordering::Relaxed), now) {
                continue;
            }
            let mut next = u64::MAX;
            let free = self.table.marks(bucket, FREE);
            for slot in (0..SLOTS).filter(|slot| free >> slot & 1 == 0) {
                let place = Place { bucket, slot };
                let words = self.table.read(place);
                if words.are_over(now) {
                    reclaim(words);
                    self.release(place);
                } else {
                    next = next.min(words.reset_us);
                }
            }
            earliest.store(next, Ordering::Relaxed);
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        for bucket in &self.buckets {
            self.table.version(*bucket).fetch_add(1, Ordering::Release);
        }
    }
}

fn is_over(reset_us: u64, now: Micros) -> bool {
    reset_us.saturating_add(GRACE_US) <= now.as_u64()
}
