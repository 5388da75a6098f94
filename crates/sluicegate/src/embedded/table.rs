//! The table: all memory is laid out once, for a named number of keys, and never moves.
//!
//! A key has two buckets of 16 slots, by two parts of its fingerprint, and lives in one of them. There is no growth, no
//! rehash and no relocation: no request pays for a stall, and a reader may look at a slot without a lock. Pages that no
//! key has touched cost no memory yet.
//!
//! A header's version is its bucket's lock: odd while a writer changes the bucket. A reader that sees one even
//! version before and after has read one state. Writers of several buckets lock them in rising order.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use bytemuck::allocation::zeroed_slice_box;
use sluicegate_core::{MAX_SKEW_US, Micros};
use smallvec::SmallVec;

use super::fingerprint::Fingerprint;

/// Slots in a bucket: two words of eight one-byte tags.
const SLOTS: usize = 16;
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

const VERSION: usize = 0;
const LOW_TAGS: usize = 1;
const HIGH_TAGS: usize = 2;
const TAGS: [usize; 2] = [LOW_TAGS, HIGH_TAGS];
const EARLIEST_RESET: usize = 3;

/// What a slot holds for its key: the instant from which it is as if never used (µs), and two numbers.
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

/// Four words that never lie across two cache lines: a bucket's header, or a slot.
type Quad = [AtomicU64; 4];

/// Quads in zeroed memory, of which a page costs nothing before its first use.
#[derive(Debug)]
struct Quads {
    words: Box<[AtomicU64]>,
    /// Words before the first cache line begins.
    skipped: usize,
}

impl Quads {
    fn zeroed(count: usize) -> Self {
        const LINE_BYTES: usize = 64;
        let words: Box<[AtomicU64]> = zeroed_slice_box(count * 4 + LINE_BYTES / 8);
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
        reason = "buckets come from `home`, slots from 16 marks"
    )]
    fn chunk<const N: usize>(&self, index: usize) -> &[AtomicU64; N] {
        self.words[self.skipped + index * N..].first_chunk().unwrap()
    }
}

#[derive(Debug)]
pub(super) struct Table {
    buckets: usize,
    headers: Quads,
    slots: Quads,
    /// Where the next sweep goes on.
    hand: AtomicUsize,
}

impl Table {
    /// Room for `max_keys` keys, and a fifth more so that all of them find a place.
    pub(super) fn new(max_keys: usize) -> Self {
        let buckets = (max_keys + max_keys / KEYS_PER_SPARE).div_ceil(SLOTS).max(2);
        Self {
            buckets,
            headers: Quads::zeroed(buckets),
            slots: Quads::zeroed(buckets * SLOTS),
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
            self.touch(bucket);
            let version = self.word(bucket, VERSION).load(Ordering::Acquire);
            let found = self.find_in(bucket, fingerprint).map(|place| (place, self.read(place)));
            fence(Ordering::Acquire);
            let unchanged = self.word(bucket, VERSION).load(Ordering::Relaxed) == version;
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
        let version = self.word(seen.place.bucket, VERSION);
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
        let version = self.word(bucket, VERSION);
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
        let live = |bucket: usize| {
            let occupied = (0..SLOTS).filter(move |slot| self.tag(bucket, *slot) != 0);
            occupied.filter(|slot| self.reset_us(bucket, *slot) > now.as_u64()).count()
        };
        (0..self.buckets).map(live).sum()
    }

    #[inline]
    fn find_in(&self, bucket: usize, fingerprint: Fingerprint) -> Option<Place> {
        let wanted = u64::from(fingerprint.tag()) * LOW_BITS;
        for (word, first) in [(LOW_TAGS, 0), (HIGH_TAGS, SLOTS / 2)] {
            let mut marks = zero_bytes(self.word(bucket, word).load(Ordering::Relaxed) ^ wanted);
            while marks != 0 {
                let place = Place { bucket, slot: first + lowest_byte(marks) };
                if self.holds(place, fingerprint) {
                    return Some(place);
                }
                marks &= marks - 1;
            }
        }
        None
    }

    /// Asks memory for all lines of a bucket's slots at once, before the header has told which one is needed: a bucket
    /// that is in no cache then costs one wait, and not one after the other.
    #[inline]
    fn touch(&self, bucket: usize) {
        const LINE_WORDS: usize = 8;
        let (lines, _) = self.slots.chunk::<{ SLOTS * 4 }>(bucket).as_chunks::<LINE_WORDS>();
        let mut all = 0;
        for [first, ..] in lines {
            all ^= first.load(Ordering::Relaxed);
        }
        std::hint::black_box(all);
    }

    #[inline]
    fn holds(&self, place: Place, fingerprint: Fingerprint) -> bool {
        let [low, ..] = self.slot(place);
        low.load(Ordering::Relaxed) == fingerprint.low
    }

    #[inline]
    fn read(&self, place: Place) -> Words {
        let [_, reset_us, a, b] = self.slot(place);
        Words {
            reset_us: reset_us.load(Ordering::Relaxed),
            a: a.load(Ordering::Relaxed),
            b: b.load(Ordering::Relaxed),
        }
    }

    #[inline]
    fn write(&self, place: Place, words: Words) {
        let [_, reset_us, a, b] = self.slot(place);
        reset_us.store(words.reset_us, Ordering::Relaxed);
        a.store(words.a, Ordering::Relaxed);
        b.store(words.b, Ordering::Relaxed);
        let earliest = self.word(place.bucket, EARLIEST_RESET);
        if words.reset_us < earliest.load(Ordering::Relaxed) {
            earliest.store(words.reset_us, Ordering::Relaxed);
        }
    }

    fn reset_us(&self, bucket: usize, slot: usize) -> u64 {
        let [_, reset_us, ..] = self.slot(Place { bucket, slot });
        reset_us.load(Ordering::Relaxed)
    }

    fn free_slots(&self, bucket: usize) -> u32 {
        let free = |word| zero_bytes(self.word(bucket, word).load(Ordering::Relaxed)).count_ones();
        TAGS.into_iter().map(free).sum()
    }

    fn tag(&self, bucket: usize, slot: usize) -> u8 {
        let [low, high] = TAGS.map(|word| self.word(bucket, word).load(Ordering::Relaxed).to_le_bytes());
        low.into_iter().chain(high).nth(slot).unwrap_or(0)
    }

    fn set_tag(&self, place: Place, tag: u8) {
        let (word, byte) = if place.slot < 8 { (LOW_TAGS, place.slot) } else { (HIGH_TAGS, place.slot - 8) };
        let tags = self.word(place.bucket, word);
        let mut bytes = tags.load(Ordering::Relaxed).to_le_bytes();
        if let Some(own) = bytes.get_mut(byte) {
            *own = tag;
        }
        tags.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
    }

    #[inline]
    fn word(&self, bucket: usize, word: usize) -> &AtomicU64 {
        let [version, low_tags, high_tags, earliest] = self.headers.chunk(bucket);
        match word {
            VERSION => version,
            LOW_TAGS => low_tags,
            HIGH_TAGS => high_tags,
            _ => earliest,
        }
    }

    #[inline]
    fn slot(&self, place: Place) -> &Quad {
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
        home.into_iter().find_map(|bucket| self.table.find_in(bucket, fingerprint))
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
        let [low, ..] = self.table.slot(place);
        low.store(fingerprint.low, Ordering::Relaxed);
        self.table.set_tag(place, fingerprint.tag());
        // Else the next claim under this lock would find the words of the key before, and take the slot again.
        self.table.write(place, UNWRITTEN);
        Some(place)
    }

    /// Gives a slot back.
    pub(super) fn release(&self, place: Place) {
        self.table.set_tag(place, 0);
    }

    fn free_place(&self, [first, second]: Home) -> Option<Place> {
        let free = [first, second].map(|bucket| self.table.free_slots(bucket));
        let bucket = match free {
            [0, 0] => return None,
            [in_first, in_second] if in_first >= KEPT_FREE || in_first >= in_second => first,
            _ => second,
        };
        let slot = (0..SLOTS).find(|slot| self.table.tag(bucket, *slot) == 0)?;
        Some(Place { bucket, slot })
    }

    /// Frees slots whose keys have reset. A bucket whose earliest reset is still to come is not searched.
    fn reclaim(&self, now: Micros, mut reclaim: impl FnMut(Words)) {
        for bucket in self.buckets.iter().copied() {
            let earliest = self.table.word(bucket, EARLIEST_RESET);
            if !is_over(earliest.load(Ordering::Relaxed), now) {
                continue;
            }
            let mut next = u64::MAX;
            let occupied = (0..SLOTS).filter(|slot| self.table.tag(bucket, *slot) != 0);
            for place in occupied.map(|slot| Place { bucket, slot }).collect::<Vec<_>>() {
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
            self.table.word(*bucket, VERSION).fetch_add(1, Ordering::Release);
        }
    }
}

fn is_over(reset_us: u64, now: Micros) -> bool {
    reset_us.saturating_add(GRACE_US) <= now.as_u64()
}

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// The high bit of each byte that is zero. Exact, unlike the shorter form, which also marks a 1 above a 0.
const fn zero_bytes(word: u64) -> u64 {
    let low_bits_set = (word & !HIGH_BITS).wrapping_add(!HIGH_BITS);
    !(low_bits_set | word) & HIGH_BITS
}

/// The index of the lowest marked byte.
#[inline]
fn lowest_byte(marks: u64) -> usize {
    usize::try_from(marks.trailing_zeros() / 8).unwrap_or(0)
}
