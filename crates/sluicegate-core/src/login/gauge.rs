//! What a budget of guesses is measured with. Lua twin: `login_gauge.lua`.
//!
//! A gauge is charged before a secret is verified and given back afterwards, so that a guess that nobody reports stays
//! counted without anything having to happen. All times are milliseconds since the epoch.
//!
//! **Law** of leaks: charges that were not given back ≤ burst + d/every in every interval of length d, for each leak.
//! **Law** of a counter: at most `limit` charges that were not given back between two ends of its window or lockout.

/// A budget that leaks: `burst` guesses at once, and one more each `every_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The most guesses at one instant.
    pub burst: u32,
    /// How long one guess takes to drain, in milliseconds; at least 1.
    pub every_ms: u64,
}

/// The required counter: failures with a time to live, then a lockout that attempts do not extend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The failure that locks.
    pub limit: u32,
    /// How long failures are remembered, from the first of them, in milliseconds.
    pub ttl_ms: u64,
    /// How long the lockout lasts, in milliseconds; 0 refuses until the failures are forgotten.
    pub lockout_ms: u64,
}

/// How a budget is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// Up to three leaks, all of which must have room.
    Leaks([Option<Leak>; LEAKS]),
    /// A counter with a lockout.
    Counter(Counter),
}

/// The most leaks of a gauge.
pub const LEAKS: usize = 3;

/// What is stored of a gauge: of each leak the instant at which it has drained; of a counter its count, the end of its
/// window and the end of its lockout. All zero is a gauge that was never used.
pub type Reading = [u64; LEAKS];

impl Leak {
    /// The instant from which one more guess has room, if not now.
    fn retry_at(self, drained_at: u64, now: u64) -> Option<u64> {
        let room = u64::from(self.burst).saturating_sub(1).saturating_mul(self.every_ms);
        if self.burst == 0 {
            return Some(u64::MAX);
        }
        (drained_at.saturating_sub(now) > room).then(|| drained_at.saturating_sub(room))
    }

    fn charge(self, drained_at: u64, now: u64) -> u64 {
        drained_at.max(now).saturating_add(self.every_ms)
    }

    /// Units that have not drained, begun ones included.
    fn used(self, drained_at: u64, now: u64) -> u64 {
        drained_at.saturating_sub(now).div_ceil(self.every_ms.max(1))
    }

    /// What is left of one charge by now: more must not come back, since it has been drained for others already.
    fn give_back(self, drained_at: u64, now: u64, charged_at: u64) -> u64 {
        let left = self.every_ms.saturating_sub(now.saturating_sub(charged_at));
        drained_at.saturating_sub(left)
    }
}

impl Gauge {
    /// A gauge of leaks; more than [`LEAKS`] are not looked at.
    pub fn leaks(leaks: &[Leak]) -> Self {
        let mut kept = [None; LEAKS];
        for (place, leak) in kept.iter_mut().zip(leaks) {
            *place = Some(*leak);
        }
        Self::Leaks(kept)
    }

    /// The instant from which one more guess has room; `None` if it has room now.
    pub fn retry_at(&self, reading: &Reading, now: u64) -> Option<u64> {
        match self {
            Self::Leaks(leaks) => {
                pairs(leaks, reading).filter_map(|(leak, drained_at)| leak.retry_at(drained_at, now)).max()
            }
            Self::Counter(counter) => counter.retry_at(reading, now),
        }
    }

    /// The reading with one more guess, whether or not it has room.
    #[must_use]
    pub fn charge(&self, reading: Reading, now: u64) -> Reading {
        match self {
            Self::Leaks(leaks) => map(leaks, reading, |leak, drained_at| leak.charge(drained_at, now)),
            Self::Counter(counter) => counter.charge(reading, now),
        }
    }

    /// The reading without what is left of a guess that was charged at `charged_at`.
    #[must_use]
    pub fn give_back(&self, reading: Reading, now: u64, charged_at: u64) -> Reading {
        match self {
            Self::Leaks(leaks) => {
                map(leaks, reading, |leak, drained_at| leak.give_back(drained_at, now, charged_at))
            }
            Self::Counter(counter) => counter.give_back(reading, now, charged_at),
        }
    }

    /// The reading without all that a part of its charges, measured by itself as `own`, still owes.
    ///
    /// Two parts that are measured apart drain twice as fast as their sum, so the sum always owes at least what both
    /// owe together: what is left after `own` went is at least what the others owe, and their law still holds.
    #[must_use]
    pub fn without(&self, reading: Reading, own: &Reading, now: u64) -> Reading {
        match self {
            Self::Leaks(_) => {
                let mut left = reading;
                for (drained_at, own) in left.iter_mut().zip(own) {
                    *drained_at = drained_at.saturating_sub(own.saturating_sub(now));
                }
                left
            }
            Self::Counter(_) => [0; LEAKS],
        }
    }

    /// Guesses that count now: of leaks the most of the first, begun ones included.
    pub fn used(&self, reading: &Reading, now: u64) -> u64 {
        match self {
            Self::Leaks(leaks) => {
                pairs(leaks, reading).next().map_or(0, |(leak, drained_at)| leak.used(drained_at, now))
            }
            Self::Counter(counter) => counter.live(reading, now).0,
        }
    }

    /// Guesses that count now in the leak that owes the most, begun ones included.
    pub fn most_used(&self, reading: &Reading, now: u64) -> u64 {
        match self {
            Self::Leaks(leaks) => {
                pairs(leaks, reading).map(|(leak, drained_at)| leak.used(drained_at, now)).max().unwrap_or(0)
            }
            Self::Counter(counter) => counter.live(reading, now).0,
        }
    }

    /// The instant from which the gauge is as if never used.
    pub fn reset_at(&self, reading: &Reading) -> u64 {
        let [first, second, third] = *reading;
        match self {
            Self::Leaks(_) => first.max(second).max(third),
            Self::Counter(_) => second.max(third),
        }
    }

    /// The reading moved back by what the clock stepped back, with all that it owes.
    #[must_use]
    pub fn moved_back(&self, reading: Reading, by: u64) -> Reading {
        let [first, second, third] = reading.map(|instant| instant.saturating_sub(by));
        match self {
            Self::Leaks(_) => [first, second, third],
            Self::Counter(_) => [reading[0], second, third],
        }
    }
}

impl Counter {
    /// The count that is remembered, and until when.
    fn live(self, [count, until, _]: &Reading, now: u64) -> (u64, u64) {
        if *until > now { (*count, *until) } else { (0, now.saturating_add(self.ttl_ms)) }
    }

    fn retry_at(self, reading: &Reading, now: u64) -> Option<u64> {
        let [_, _, locked_until] = *reading;
        let (count, until) = self.live(reading, now);
        let full = (self.lockout_ms == 0 && count >= u64::from(self.limit)).then_some(until);
        (locked_until > now).then_some(locked_until).max(full)
    }

    /// A held guess is presumed to fail: the one that reaches the limit locks at once, and unlocks if it was right.
    fn charge(self, reading: Reading, now: u64) -> Reading {
        let [_, _, locked_until] = reading;
        let (count, until) = self.live(&reading, now);
        let count = count.saturating_add(1);
        let locks = self.lockout_ms > 0 && count >= u64::from(self.limit) && locked_until <= now;
        [count, until, if locks { now.saturating_add(self.lockout_ms) } else { locked_until }]
    }

    fn give_back(self, reading: Reading, now: u64, charged_at: u64) -> Reading {
        let [count, until, locked_until] = reading;
        let counted_here = until > now && until.saturating_sub(self.ttl_ms) <= charged_at;
        let count = count.saturating_sub(u64::from(counted_here));
        let locked_by_it = locked_until == charged_at.saturating_add(self.lockout_ms);
        let unlocks = locked_by_it || counted_here && count < u64::from(self.limit);
        [count, until, if unlocks { 0 } else { locked_until }]
    }
}

fn pairs<'a>(
    leaks: &'a [Option<Leak>; LEAKS],
    reading: &'a Reading,
) -> impl Iterator<Item = (Leak, u64)> + 'a {
    leaks.iter().zip(reading).filter_map(|(leak, drained_at)| Some(((*leak)?, *drained_at)))
}

fn map(leaks: &[Option<Leak>; LEAKS], reading: Reading, change: impl Fn(Leak, u64) -> u64) -> Reading {
    let mut changed = reading;
    for (drained_at, leak) in changed.iter_mut().zip(leaks) {
        if let Some(leak) = leak {
            *drained_at = change(*leak, *drained_at);
        }
    }
    changed
}
