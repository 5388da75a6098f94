//! Sliding logs, which do not fit a slot: the slot holds a place here.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use slab::Slab;
use sluicegate_core::algorithm::sliding_log::State;

/// Logs under a bound on their entries in all.
#[derive(Debug)]
pub(super) struct Logs {
    slab: Mutex<Slab<State>>,
    entries: AtomicUsize,
    max_entries: usize,
}

impl Logs {
    pub(super) fn new(max_entries: usize) -> Self {
        Self { slab: Mutex::new(Slab::new()), entries: AtomicUsize::new(0), max_entries }
    }

    /// Whether another log may be begun.
    pub(super) fn has_room(&self) -> bool {
        self.entries.load(Ordering::Relaxed) < self.max_entries
    }

    pub(super) fn read(&self, place: u64) -> Option<State> {
        self.slab.lock().get(index(place)).cloned()
    }

    /// Keeps a log, in its old place if it has one, and answers with its place.
    pub(super) fn write(&self, old: Option<u64>, mut log: State) -> u64 {
        let mut slab = self.slab.lock();
        let slot = old.and_then(|place| slab.get_mut(index(place)));
        let before = slot.as_ref().map_or(0, |slot| slot.entries.len());
        if log.entries.len() > before && !self.has_room() {
            merge_newest(&mut log);
        }
        self.entries.fetch_add(log.entries.len(), Ordering::Relaxed);
        self.entries.fetch_sub(before, Ordering::Relaxed);
        let place = match slot {
            Some(slot) => {
                *slot = log;
                return old.unwrap_or_default();
            }
            None => slab.insert(log),
        };
        u64::try_from(place).unwrap_or_default()
    }

    pub(super) fn remove(&self, place: u64) {
        if let Some(log) = self.slab.lock().try_remove(index(place)) {
            self.entries.fetch_sub(log.entries.len(), Ordering::Relaxed);
        }
    }
}

fn index(place: u64) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// Counts the last but one entry at the time of the last: one entry less, and never counted too little.
fn merge_newest(log: &mut State) {
    if let Some(newest) = log.entries.pop() {
        match log.entries.last_mut() {
            Some(last) => {
                last.time = newest.time;
                last.cost = last.cost.saturating_add(newest.cost);
            }
            None => log.entries.push(newest),
        }
    }
}
