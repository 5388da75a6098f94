//! Where `now` comes from.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
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
    /// Microseconds of one tick of the counter, in units of 2^-64.
    us_per_tick: u64,
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
            us_per_tick: us_per_tick(&counter),
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

/// What one multiplication turns ticks into microseconds by; a counter has at least one tick in each.
fn us_per_tick(counter: &quanta::Clock) -> u64 {
    const TICKS: u64 = 1 << 40;
    let nanos = u128::from(counter.delta_as_nanos(0, TICKS));
    u64::try_from((nanos << 24) / 1_000).unwrap_or(u64::MAX)
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
        let ticks = u128::from(self.counter.raw().saturating_sub(self.started));
        let counted_us = u64::try_from((ticks * u128::from(self.us_per_tick)) >> 64).unwrap_or(u64::MAX);
        let due_us = self.next_look_us.load(Ordering::Relaxed);
        if counted_us >= due_us {
            self.look_at_the_wall_clock(counted_us, due_us);
        }
        Micros::new(self.offset_us.load(Ordering::Relaxed).saturating_add(counted_us))
    }
}

/// A [`SystemClock`] that a thread of its own reads for everybody: telling the time costs a load.
///
/// It is late by up to the period and what the scheduler adds, so limits hold in this clock's time: a window may last
/// that much longer. For checks in this process that should cost no more than the check itself.
///
/// ```
/// use std::time::Duration;
/// use sluicegate::{Clock, CoarseClock, core::Rule, embedded::{EmbeddedConfig, KeyedLimiter}};
///
/// let clock = CoarseClock::every(Duration::from_millis(1))?;
/// let rule = Rule::gcra(10, Duration::from_secs(1), 10)?;
/// let limiter = KeyedLimiter::with(rule, EmbeddedConfig::for_keys(10_000), clock);
/// assert!(limiter.check("alice").is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CoarseClock(Arc<AtomicU64>);

impl CoarseClock {
    /// Starts the thread, which ends when the last clone of the clock is dropped.
    ///
    /// # Errors
    /// If the system has no thread to give.
    pub fn every(period: Duration) -> std::io::Result<Self> {
        let system = SystemClock::new();
        let now = Arc::new(AtomicU64::new(system.now().as_u64()));
        let told = Arc::downgrade(&now);
        let tick = move || {
            while let Some(now) = told.upgrade() {
                now.store(system.now().as_u64(), Ordering::Relaxed);
                drop(now);
                thread::sleep(period);
            }
        };
        thread::Builder::new().name("sluicegate-clock".to_owned()).spawn(tick)?;
        Ok(Self(now))
    }
}

impl Clock for CoarseClock {
    #[inline]
    fn now(&self) -> Micros {
        Micros::new(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {

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
    #[test]
    fn a_coarse_clock_goes_on_and_its_thread_ends_with_it() {
        let clock = CoarseClock::every(Duration::from_micros(100)).unwrap();
        let (before, told) = (clock.now(), Arc::downgrade(&clock.0));
        while clock.now() == before {
            thread::yield_now();
        }
        drop(clock);
        // The thread holds the time for an instant in each period.
        while told.upgrade().is_some() {
            thread::yield_now();
        }
    }
}
