//! A table of records that never forgets what still counts, and never grows beyond a named number.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    hash::{BuildHasher, RandomState},
};

use parking_lot::Mutex;

/// Parts with a lock each.
const PARTS: usize = 64;
/// Records of one part that keys share which find no place: the fewer, the earlier they are refused.
const SHARED: u64 = 64;
/// How often a full part is searched for what no longer counts, in milliseconds.
const SEARCH_EVERY_MS: u64 = 1_000;

/// Records by 128-bit keys.
pub(super) struct Table<V> {
    parts: Box<[Mutex<Part<V>>]>,
    most: usize,
    hasher: RandomState,
}

struct Part<V> {
    own: HashMap<[u8; 16], Kept<V>>,
    shared: HashMap<u64, Kept<V>>,
    searched_at: u64,
}

struct Kept<V> {
    record: V,
    reset_at: u64,
}

impl<V: Clone + Default> Table<V> {
    pub(super) fn with_capacity(most: usize) -> Self {
        let part = || Mutex::new(Part { own: HashMap::new(), shared: HashMap::new(), searched_at: 0 });
        let parts = std::iter::repeat_with(part).take(PARTS).collect();
        Self { parts, most: most.div_ceil(PARTS).max(1), hasher: RandomState::new() }
    }

    /// Changes the record of a key under its lock. A record that does not count afterwards is not kept.
    pub(super) fn with<R>(
        &self,
        key: &[u8; 16],
        now: u64,
        change: impl FnOnce(&mut V) -> R,
        reset_at: impl Fn(&V) -> u64,
    ) -> R {
        let hash = self.hasher.hash_one(key);
        let Some(part) = self.part(hash) else { return change(&mut V::default()) };
        let mut part = part.lock();
        part.make_room(key, now, self.most);
        let is_full = part.own.len() >= self.most;
        let Part { own, shared, .. } = &mut *part;
        let place = (hash >> 8) % SHARED;
        match own.entry(*key) {
            Entry::Vacant(_) if is_full => {
                let kept = shared.entry(place).or_default();
                let result = change(&mut kept.record);
                kept.reset_at = reset_at(&kept.record);
                result
            }
            Entry::Vacant(vacant) => {
                // What it may have owed while it had no place of its own.
                let shared = shared.get(&place).filter(|kept| kept.reset_at > now);
                let mut record = shared.map(|kept| kept.record.clone()).unwrap_or_default();
                let result = change(&mut record);
                let reset_at = reset_at(&record);
                if reset_at > now {
                    vacant.insert(Kept { record, reset_at });
                }
                result
            }
            Entry::Occupied(mut occupied) => {
                let kept = occupied.get_mut();
                let result = change(&mut kept.record);
                kept.reset_at = reset_at(&kept.record);
                if kept.reset_at <= now {
                    occupied.remove();
                }
                result
            }
        }
    }

    pub(super) fn read(&self, key: &[u8; 16]) -> Option<V> {
        let part = self.part(self.hasher.hash_one(key))?.lock();
        part.own.get(key).map(|kept| kept.record.clone())
    }

    pub(super) fn drop_one(&self, key: &[u8; 16]) -> bool {
        let part = self.part(self.hasher.hash_one(key));
        part.is_some_and(|part| part.lock().own.remove(key).is_some())
    }

    fn part(&self, hash: u64) -> Option<&Mutex<Part<V>>> {
        let parts = u64::try_from(self.parts.len()).ok()?;
        self.parts.get(usize::try_from(hash % parts).ok()?)
    }
}

impl<V> Part<V> {
    fn make_room(&mut self, key: &[u8; 16], now: u64, most: usize) {
        let due = now.saturating_sub(self.searched_at) >= SEARCH_EVERY_MS;
        if due && self.own.len() >= most && !self.own.contains_key(key) {
            self.searched_at = now;
            self.own.retain(|_, kept| kept.reset_at > now);
            self.shared.retain(|_, kept| kept.reset_at > now);
        }
    }
}

impl<V: Default> Default for Kept<V> {
    fn default() -> Self {
        Self { record: V::default(), reset_at: 0 }
    }
}

impl<V> fmt::Debug for Table<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("most_of_part", &self.most).finish_non_exhaustive()
    }
}
