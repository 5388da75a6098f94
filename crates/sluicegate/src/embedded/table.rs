//! The table: all memory is laid out once, for a named number of keys, and never moves.
//!
//! A bucket is 512 bytes: a header and 15 slots of half a cache line each. A key has two buckets, by two parts of its
//! fingerprint, and lives in one of them. There is no growth, no rehash and no relocation: no request pays for a stall, and
//! a reader may look at a slot without a lock. Pages that no key has touched cost no memory yet.
//!
//! A slot's [`Stamp`] is its lock and its sequence number: a reader that sees one stamp before and after has read one
//! state, and a writer that swaps the stamp which it read writes what follows from that state. So an ask about one key
//! that has a slot writes to one cache line, and to none if it is denied. Whatever moves keys in or out locks their
//! buckets in rising order first, then slots.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use bytemuck::allocation::zeroed_slice_box;
use sluicegate_core::{MAX_SKEW_US, Micros};
use smallvec::SmallVec;

use super::fingerprint::Fingerprint;

/// Slots in a bucket, numbered from 1: what would be slot 0 is the header.
const SLOTS: usize = 15;
/// Quads in a bucket.
const QUADS: usize = SLOTS + 1;
/// One slot more for each so many keys: nearly every key then finds room in its first bucket.
const KEYS_PER_SPARE: usize = 2;
/// The first bucket takes new keys while it has this many free slots, else the emptier one does.
const KEPT_FREE: usize = 4;
/// Tries before a waiting writer lets other threads run.
const SPINS: u32 = 64;
/// Buckets that one sweep looks at: far more than the one slot that the sweeping caller needs.
const SWEPT_AT_ONCE: usize = 16;
/// A slot is reused only this long after its reset: a clock may still step back by as much.
const GRACE_US: u64 = MAX_SKEW_US;

/// What a slot holds for its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) a: u64,
    pub(super) b: u64,
}

/// Numbers to write, and the instant from which the key is as if never used (µs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) reset_us: u64,
    pub(super) numbers: Numbers,
}

/// Where a key lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    bucket: usize,
    slot: usize,
}

/// What guards a slot: the upper half says when its key has reset, the lower half counts its writes, odd while one is
/// under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp(u64);

impl Stamp {
    /// The unit of a reset is 2^21 µs, about two seconds, so that 32 bits reach as far as time does.
    const UNIT_BITS: u32 = 21;
    const LOCKED: u64 = 1;
    const WRITES: u64 = 0xffff_ffff;

    #[inline]
    fn is_locked(self) -> bool {
        self.0 & Self::LOCKED != 0
    }

    #[inline]
    fn locked(self) -> Self {
        Self(self.0 | Self::LOCKED)
    }

    #[inline]
    fn unlocked(self) -> Self {
        Self(self.0 & !Self::LOCKED)
    }

    /// After one more write. The reset is rounded up.
    #[inline]
    fn written(self, reset_us: u64) -> Self {
        let units = (reset_us >> Self::UNIT_BITS).saturating_add(1).min(Self::WRITES);
        Self(units << 32 | (self.unlocked().0.wrapping_add(2) & Self::WRITES))
    }

    fn reset_us(self) -> u64 {
        (self.0 >> 32) << Self::UNIT_BITS
    }

    /// Whether the slot may be reused: its key has reset, long enough ago, and nobody is at work on it.
    fn is_over(self, now: Micros) -> bool {
        !self.is_locked() && is_over(self.reset_us(), now)
    }
}

fn is_over(reset_us: u64, now: Micros) -> bool {
    reset_us.saturating_add(GRACE_US) <= now.as_u64()
}

/// Others are changing the key's slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Busy;

/// A key's numbers, and the stamp under which they were read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'t> {
    pub(super) numbers: Numbers,
    stamp: Stamp,
    slot: Slot<'t>,
}

impl Seen<'_> {
    /// Writes if the slot has not changed since it was seen.
    #[inline]
    pub(super) fn write_if_unchanged(&self, words: Words) -> Result<(), Busy> {
        if !self.slot.lock_if(self.stamp) {
            return Err(Busy);
        }
        self.slot.write(self.stamp, words);
        Ok(())
    }
}

/// Four words that never lie across two cache lines: a bucket's header, or a slot.
type Quad = [AtomicU64; 4];

/// Of a key: the low word of its fingerprint, its stamp, and its two numbers.
#[derive(Clone, Copy, Debug)]
struct Slot<'t>(&'t Quad);

impl<'t> Slot<'t> {
    #[inline]
    fn holds(self, fingerprint: Fingerprint) -> bool {
        let [low, ..] = self.0;
        low.load(Ordering::Relaxed) == fingerprint.low
    }

    #[inline]
    fn stamp(self) -> &'t AtomicU64 {
        let [_, stamp, ..] = self.0;
        stamp
    }

    #[inline]
    fn read(self) -> Numbers {
        let [_, _, a, b] = self.0;
        Numbers { a: a.load(Ordering::Relaxed), b: b.load(Ordering::Relaxed) }
    }

    /// The numbers if the slot is the key's, without a lock.
    #[inline]
    fn glimpse(self, fingerprint: Fingerprint) -> Result<Option<Seen<'t>>, Busy> {
        let stamp = Stamp(self.stamp().load(Ordering::Acquire));
        if !self.holds(fingerprint) {
            return Ok(None);
        }
        let numbers = self.read();
        fence(Ordering::Acquire);
        let unchanged = self.stamp().load(Ordering::Relaxed) == stamp.0;
        if unchanged && !stamp.is_locked() {
            Ok(Some(Seen { numbers, stamp, slot: self }))
        } else {
            Err(Busy)
        }
    }

    /// Locks the slot if its stamp is still this one.
    #[inline]
    fn lock_if(self, seen: Stamp) -> bool {
        let (lock, locked) = (self.stamp(), seen.locked().0);
        let swapped = lock.compare_exchange(seen.0, locked, Ordering::Acquire, Ordering::Relaxed).is_ok();
        fence(Ordering::Release);
        swapped
    }

    fn lock(self) {
        wait_until(|| {
            let seen = Stamp(self.stamp().load(Ordering::Relaxed));
            !seen.is_locked() && self.lock_if(seen)
        });
    }

    /// Writes and unlocks a locked slot.
    #[inline]
    fn write(self, stamp: Stamp, words: Words) {
        let [_, own_stamp, a, b] = self.0;
        a.store(words.numbers.a, Ordering::Relaxed);
        b.store(words.numbers.b, Ordering::Relaxed);
        own_stamp.store(stamp.written(words.reset_us).0, Ordering::Release);
    }
}

/// A bucket's quads, of which the first is its header: lock, two words of eight one-byte tags, and the earliest reset.
/// The first byte of the tags is the header's own, and no tag.
#[derive(Clone, Copy, Debug)]
struct Bucket<'t>(&'t [Quad]);

impl<'t> Bucket<'t> {
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "a bucket has 16 quads")]
    fn quad(self, index: usize) -> &'t Quad {
        &self.0[index % QUADS]
    }

    #[inline]
    fn slot(self, slot: usize) -> Slot<'t> {
        Slot(self.quad(slot))
    }

    fn lock(self) -> &'t AtomicU64 {
        let [lock, ..] = self.quad(0);
        lock
    }

    #[inline]
    fn tags(self) -> [&'t AtomicU64; 2] {
        let [_, low, high, _] = self.quad(0);
        [low, high]
    }

    fn earliest_reset_us(self) -> &'t AtomicU64 {
        let [.., earliest] = self.quad(0);
        earliest
    }

    /// The slots whose tag is the fingerprint's.
    #[inline]
    fn tagged(self, fingerprint: Fingerprint) -> Marks {
        let wanted = u64::from(fingerprint.tag()) * LOW_BITS;
        let [low, high] = self.tags().map(|tags| zero_bytes(tags.load(Ordering::Relaxed) ^ wanted));
        Marks(low >> 7 | high >> 6)
    }

    #[inline]
    fn glimpse(self, fingerprint: Fingerprint) -> Result<Option<Seen<'t>>, Busy> {
        for slot in self.tagged(fingerprint) {
            if let Some(seen) = self.slot(slot).glimpse(fingerprint)? {
                return Ok(Some(seen));
            }
        }
        Ok(None)
    }

    fn is_free(self, slot: usize) -> bool {
        self.tag(slot) == 0
    }

    fn free_slots(self) -> usize {
        (1..=SLOTS).filter(|slot| self.is_free(*slot)).count()
    }

    fn tag(self, slot: usize) -> u8 {
        let tags = self.tags().map(|tags| tags.load(Ordering::Relaxed).to_le_bytes());
        tags.as_flattened().get(slot).copied().unwrap_or(0)
    }

    fn set_tag(self, slot: usize, tag: u8) {
        let [low, high] = self.tags();
        let tags = if slot < 8 { low } else { high };
        let mut bytes = tags.load(Ordering::Relaxed).to_le_bytes();
        if let Some(own) = bytes.get_mut(slot % 8) {
            *own = tag;
        }
        tags.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
    }

    /// Empties a locked slot.
    fn release(self, slot: usize) {
        self.set_tag(slot, 0);
        let quad = self.slot(slot);
        let [low, ..] = quad.0;
        low.store(0, Ordering::Relaxed);
        let stamp = Stamp(quad.stamp().load(Ordering::Relaxed));
        quad.write(stamp, Words { reset_us: 0, numbers: Numbers { a: 0, b: 0 } });
    }
}

/// Tries again and again, and lets other threads run in between.
fn wait_until(mut done: impl FnMut() -> bool) {
    let mut tries = 0_u32;
    while !done() {
        tries += 1;
        if tries.is_multiple_of(SPINS) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// The two buckets in which a key may live; they may be one.
pub(super) type Home = [usize; 2];

#[derive(Debug)]
pub(super) struct Table {
    words: Box<[AtomicU64]>,
    /// Words before the first cache line begins.
    skipped: usize,
    buckets: usize,
    /// Where the next sweep goes on.
    hand: AtomicUsize,
}

impl Table {
    /// Room for `max_keys` keys, and half as many more so that all of them find a place.
    pub(super) fn new(max_keys: usize) -> Self {
        const LINE_BYTES: usize = 64;
        let buckets = (max_keys + max_keys / KEYS_PER_SPARE).div_ceil(SLOTS).max(2);
        // A page of zeroed memory costs nothing before its first use.
        let words: Box<[AtomicU64]> = zeroed_slice_box(buckets * QUADS * 4 + LINE_BYTES / 8);
        let skipped = words.as_ptr().align_offset(LINE_BYTES).min(LINE_BYTES / 8);
        Self { words, skipped, buckets, hand: AtomicUsize::new(0) }
    }

    /// Frees slots whose keys have reset in the next few buckets of a round over all.
    pub(super) fn sweep(&self, now: Micros, mut reclaim: impl FnMut(Numbers)) {
        for _ in 0..SWEPT_AT_ONCE {
            let bucket = self.hand.fetch_add(1, Ordering::Relaxed) % self.buckets;
            self.lock([[bucket, bucket]].into_iter()).reclaim(now, &mut reclaim);
        }
    }

    /// The bytes that are laid out, touched or not.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    #[inline]
    pub(super) fn home(&self, fingerprint: Fingerprint) -> Home {
        [fingerprint.first_of(self.buckets), fingerprint.second_of(self.buckets)]
    }

    /// Reads a key's numbers without a lock; `None` if it has no slot.
    #[expect(clippy::inline_always, reason = "an answer through memory costs a third of a check")]
    #[inline(always)]
    pub(super) fn glimpse(&self, fingerprint: Fingerprint) -> Result<Option<Seen<'_>>, Busy> {
        for bucket in self.home(fingerprint) {
            let bucket = self.bucket(bucket);
            // Asks memory for the line where the key probably is before the header tells: a bucket that is in no cache
            // then costs one wait, and not one after the other.
            std::hint::black_box(bucket.slot(preferred(fingerprint)).holds(fingerprint));
            if let Some(seen) = bucket.glimpse(fingerprint)? {
                return Ok(Some(seen));
            }
        }
        Ok(None)
    }

    /// Locks all buckets of some keys until the guard is dropped.
    pub(super) fn lock(&self, homes: impl Iterator<Item = Home>) -> Locked<'_> {
        let mut buckets: Buckets = homes.flatten().collect();
        buckets.sort_unstable();
        buckets.dedup();
        for bucket in &buckets {
            let lock = self.bucket(*bucket).lock();
            wait_until(|| lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok());
        }
        Locked { table: self, buckets }
    }

    /// The number of slots that hold a key that has not reset.
    pub(super) fn live_keys(&self, now: Micros) -> usize {
        let live = |bucket: usize| {
            let bucket = self.bucket(bucket);
            let occupied = (1..=SLOTS).filter(move |slot| !bucket.is_free(*slot));
            let reset_us = move |slot| Stamp(bucket.slot(slot).stamp().load(Ordering::Relaxed)).reset_us();
            occupied.filter(|slot| reset_us(*slot) > now.as_u64()).count()
        };
        (0..self.buckets).map(live).sum()
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "buckets come from `home`")]
    fn bucket(&self, bucket: usize) -> Bucket<'_> {
        let (quads, _) = self.words[self.skipped + bucket * QUADS * 4..][..QUADS * 4].as_chunks();
        Bucket(quads)
    }

    fn slot(&self, place: Place) -> Slot<'_> {
        self.bucket(place.bucket).slot(place.slot)
    }
}

/// The slot that a key takes if it is free. It may follow from the tag, which is compared all the same.
#[inline]
fn preferred(fingerprint: Fingerprint) -> usize {
    (usize::from(fingerprint.tag()) % QUADS).max(1)
}

/// The buckets of a request, without an allocation for up to four keys.
type Buckets = SmallVec<[usize; 8]>;

/// Some buckets of a table, locked: no key moves in or out. A slot of theirs is locked by [`Locked::hold`] or
/// [`Locked::claim`] until it is written, put back or released, and a claim takes none that is locked.
#[derive(Debug)]
pub(super) struct Locked<'t> {
    table: &'t Table,
    buckets: Buckets,
}

impl Locked<'_> {
    pub(super) fn find(&self, fingerprint: Fingerprint, home: Home) -> Option<Place> {
        home.into_iter().find_map(|bucket| {
            let quads = self.table.bucket(bucket);
            let slot = quads.tagged(fingerprint).find(|slot| quads.slot(*slot).holds(fingerprint))?;
            Some(Place { bucket, slot })
        })
    }

    /// Locks a slot and reads it.
    pub(super) fn hold(&self, place: Place) -> Numbers {
        let slot = self.table.slot(place);
        slot.lock();
        slot.read()
    }

    /// Leaves a held slot as it was.
    pub(super) fn put_back(&self, place: Place) {
        let stamp = self.table.slot(place).stamp();
        stamp.store(Stamp(stamp.load(Ordering::Relaxed)).unlocked().0, Ordering::Release);
    }

    /// Writes a held slot.
    pub(super) fn write(&self, place: Place, words: Words) {
        let slot = self.table.slot(place);
        slot.write(Stamp(slot.stamp().load(Ordering::Relaxed)), words);
        let earliest = self.table.bucket(place.bucket).earliest_reset_us();
        if words.reset_us < earliest.load(Ordering::Relaxed) {
            earliest.store(words.reset_us, Ordering::Relaxed);
        }
    }

    /// Empties a held slot.
    pub(super) fn release(&self, place: Place) {
        self.table.bucket(place.bucket).release(place.slot);
    }

    /// Takes a free slot for a new key, and holds it. `reclaim` is told the numbers of keys that have reset and make room.
    pub(super) fn claim(
        &self,
        fingerprint: Fingerprint,
        home: Home,
        now: Micros,
        reclaim: impl FnMut(Numbers),
    ) -> Option<Place> {
        let place = self.free_place(fingerprint, home).or_else(|| {
            self.reclaim(now, reclaim);
            self.free_place(fingerprint, home)
        })?;
        let slot = self.table.slot(place);
        slot.lock();
        let [low, ..] = slot.0;
        low.store(fingerprint.low, Ordering::Relaxed);
        self.table.bucket(place.bucket).set_tag(place.slot, fingerprint.tag());
        Some(place)
    }

    /// A free slot, in the cache line that is asked for first if there is one.
    fn free_place(&self, fingerprint: Fingerprint, [first, second]: Home) -> Option<Place> {
        let free = [first, second].map(|bucket| self.table.bucket(bucket).free_slots());
        let bucket = match free {
            [0, 0] => return None,
            [in_first, in_second] if in_first >= KEPT_FREE || in_first >= in_second => first,
            _ => second,
        };
        let preferred = preferred(fingerprint);
        let of_its_line = [preferred, (preferred ^ 1).max(1)];
        let quads = self.table.bucket(bucket);
        let slot = of_its_line.into_iter().chain(1..=SLOTS).find(|slot| quads.is_free(*slot))?;
        Some(Place { bucket, slot })
    }

    /// Frees slots whose keys have reset. A bucket whose earliest reset is still to come is not searched.
    fn reclaim(&self, now: Micros, mut reclaim: impl FnMut(Numbers)) {
        for bucket in self.buckets.iter().map(|bucket| self.table.bucket(*bucket)) {
            let earliest = bucket.earliest_reset_us();
            if !is_over(earliest.load(Ordering::Relaxed), now) {
                continue;
            }
            let mut next = u64::MAX;
            for number in (1..=SLOTS).filter(|slot| !bucket.is_free(*slot)) {
                let slot = bucket.slot(number);
                let stamp = Stamp(slot.stamp().load(Ordering::Relaxed));
                if stamp.is_over(now) && slot.lock_if(stamp) {
                    reclaim(slot.read());
                    bucket.release(number);
                } else {
                    next = next.min(stamp.reset_us());
                }
            }
            earliest.store(next, Ordering::Relaxed);
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        for bucket in &self.buckets {
            self.table.bucket(*bucket).lock().store(0, Ordering::Release);
        }
    }
}

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// The high bit of each byte that is zero. Exact, unlike the shorter form, which also marks a 1 above a 0.
#[inline]
const fn zero_bytes(word: u64) -> u64 {
    let low_bits_set = (word & !HIGH_BITS).wrapping_add(!HIGH_BITS);
    !(low_bits_set | word) & HIGH_BITS
}

/// The slots that are marked: of the first eight by the lowest bits of a word's bytes, of the others by the next bits.
struct Marks(u64);

impl Iterator for Marks {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let bit = usize::try_from(self.0.trailing_zeros()).ok()?;
        self.0 &= self.0.checked_sub(1)?;
        Some(bit / 8 + bit % 2 * 8)
    }
}
