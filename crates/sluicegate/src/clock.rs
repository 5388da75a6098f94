//! Where `now` comes from.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use sluicegate_core::Micros;

/// Tells the time that decisions are made with.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Micros;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    #[inline]
    fn now(&self) -> Micros {
        (**self).now()
    }
}

/// The machine's clock: a monotonic counter, led towards wall time by at most 500 parts in a million.
///
/// A step of the wall clock neither re-opens a window nor locks one, and windows still begin when the wall clock says
/// so, in the long run. Reading it takes about half the time of [`std::time::Instant::now`] where the processor has an
/// invariant time-stamp counter.
#[derive(Debug)]
pub struct SystemClock {
    counter: quanta::Clock,
    started: u64,
    /// What to add to the counter's microseconds since the start.
    offset_us: AtomicU64,
    /// The counter's microseconds at which the wall clock is asked again.
    next_look_us: AtomicU64,
}

/// How often the wall clock is looked at.
const LOOK_EVERY_US: u64 = 1_000_000;
/// The most that one look may correct: 500 parts in a million, as `adjtime` does.
const MAX_CORRECTION_US: u64 = LOOK_EVERY_US / 2_000;

impl SystemClock {
    /// A clock that starts at the wall clock's time.
    pub fn new() -> Self {
        let counter = quanta::Clock::new();
        Self {
            started: counter.raw(),
            counter,
            offset_us: AtomicU64::new(wall_us()),
            next_look_us: AtomicU64::new(LOOK_EVERY_US),
        }
    }

    #[cold]
    fn look_at_the_wall_clock(&self, counted_us: u64, due_us: u64) {
        let next = counted_us + LOOK_EVERY_US;
        let mine = self.next_look_us.compare_exchange(due_us, next, Ordering::Relaxed, Ordering::Relaxed);
        if mine.is_ok() {
            let offset = self.offset_us.load(Ordering::Relaxed);
            self.offset_us.store(corrected(offset, counted_us, wall_us()), Ordering::Relaxed);
        }
    }
}

/// The offset, moved towards the one at which the clock would agree with the wall clock.
fn corrected(offset_us: u64, counted_us: u64, wall_us: u64) -> u64 {
    let wanted = wall_us.saturating_sub(counted_us);
    wanted.clamp(offset_us.saturating_sub(MAX_CORRECTION_US), offset_us.saturating_add(MAX_CORRECTION_US))
}

fn wall_us() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Micros {
        let counted_us = self.counter.delta_as_nanos(self.started, self.counter.raw()) / 1_000;
        let due_us = self.next_look_us.load(Ordering::Relaxed);
        if counted_us >= due_us {
            self.look_at_the_wall_clock(counted_us, due_us);
        }
        Micros::new(self.offset_us.load(Ordering::Relaxed).saturating_add(counted_us))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_step_of_the_wall_clock_moves_the_time_by_500_parts_in_a_million() {
        let offset = 1_000_000_000;
        assert_eq!(corrected(offset, 7, offset + 7 + 3_600_000_000), offset + 500);
        assert_eq!(corrected(offset, 7, offset + 7 - 900_000_000), offset - 500);
        assert_eq!(corrected(offset, 7, offset + 7 + 20), offset + 20);
    }

    #[test]
    fn the_clock_agrees_with_the_wall_clock() {
        let clock = SystemClock::new();
        let (before, now, after) = (wall_us(), clock.now(), wall_us());
        // The two are read one after the other, and the counter is calibrated to a few parts in a million.
        let slack = Duration::from_millis(50);
        assert!(now.plus(slack) >= Micros::new(before) && now <= Micros::new(after).plus(slack));
    }
}
