//! The laws as brute force: every admitted cost is kept, and each question adds them up anew.

use sluicegate_core::{Align, Micros};

use crate::{
    key::NAME,
    spec::{Kind, Spec},
};

/// One admitted cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// When it counts, in ticks. A clock that is behind the key counts at the key's time.
    pub(crate) tick: i128,
    pub(crate) cost: i128,
    /// The start of the window that it was counted in (`fixed_window`).
    pub(crate) window: i128,
    /// When it may proceed, in µs.
    pub(crate) release_us: i128,
}

/// An interval in which more was admitted than the law allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    pub(crate) from: i128,
    pub(crate) to: i128,
    pub(crate) sum: i128,
}

/// All that was ever admitted for one key.
#[derive(Clone, Debug)]
pub(crate) struct Oracle<'s> {
    spec: &'s Spec,
    pub(crate) events: Vec<Event>,
    /// The time that the key is at: its window's start, its newest entry, or its level's time.
    reference: Option<i128>,
    pub(crate) rebases: u32,
}

impl<'s> Oracle<'s> {
    pub(crate) fn new(spec: &'s Spec) -> Self {
        Self { spec, events: Vec::new(), reference: None, rebases: 0 }
    }

    /// The delay in µs if the cost is admitted, and then it is kept.
    pub(crate) fn take(&mut self, now_us: u64, cost: u64) -> Option<u64> {
        let now = self.effective(self.spec.ticks(now_us));
        if cost == 0 {
            return Some(0);
        }
        let delay_us = self.delay_us(now_us, now, i128::from(cost))?;
        let release_us = i128::from(now_us) + i128::from(delay_us);
        let window = self.window_at(now);
        self.events.push(Event { tick: now, cost: i128::from(cost), window, release_us });
        self.reference = Some(match self.spec.kind {
            Kind::Fixed(_) | Kind::Counter => window,
            _ => now,
        });
        Some(delay_us)
    }

    /// The time that counts: never before the key's own, unless that is over 5 s ahead. Then the whole past moves.
    fn effective(&mut self, now: i128) -> i128 {
        let Some(reference) = self.reference else { return now };
        if reference - now > 5_000_000 / i128::from(self.spec.tick_us()) {
            let target = match self.spec.kind {
                Kind::Fixed(_) | Kind::Counter => self.opening(now),
                _ => now,
            };
            self.move_past(target - reference);
            self.reference = Some(target);
            self.rebases += 1;
        }
        now.max(self.reference.unwrap_or(now))
    }

    fn move_past(&mut self, by: i128) {
        let oldest = self.reference.unwrap_or(0) - self.spec.window();
        for event in &mut self.events {
            // An entry that a log still counts cannot be older than time.
            let counts = self.spec.kind == Kind::Log && event.tick > oldest;
            let floor = if counts { 0 } else { i128::MIN };
            event.tick = (event.tick + by).max(floor);
            event.window += by;
            event.release_us += by * i128::from(self.spec.tick_us());
        }
    }

    /// Where a window that opens now starts.
    fn opening(&self, now: i128) -> i128 {
        let window = self.spec.window();
        let phase = match self.spec.kind {
            Kind::Fixed(Align::FirstRequest) => return now,
            Kind::Fixed(Align::Hashed) => i128::from(self.spec.rule().at(Micros::new(0), NAME).phase),
            _ => 0,
        };
        (now - (now - phase).rem_euclid(window)).max(0)
    }

    /// The start of the window that is open now.
    fn window_at(&self, now: i128) -> i128 {
        match (self.spec.kind, self.reference) {
            (Kind::Fixed(_), Some(start)) if now < start + self.spec.window() => start,
            _ => self.opening(now),
        }
    }

    /// The delay with which the cost is admitted.
    pub(crate) fn delay_us(&self, now_us: u64, now: i128, cost: i128) -> Option<u64> {
        let (amount, window) = (i128::from(self.spec.amount), self.spec.window());
        let fits = match self.spec.kind {
            Kind::Fixed(_) => {
                let open = self.window_at(now);
                let used: i128 = self.events.iter().filter(|e| e.window == open).map(|e| e.cost).sum();
                used + cost <= amount
            }
            Kind::Log => self.between(now - window + 1, now) + cost <= amount,
            Kind::Counter => {
                let start = now - now.rem_euclid(window);
                let previous = self.between(start - window, start - 1);
                let current = self.between(start, start + window - 1);
                previous * (window - (now - start)) + (current + cost) * window <= amount * window
            }
            Kind::Bucket { burst } => {
                amount > 0 && self.owed(now) + cost * window <= i128::from(burst) * window
            }
            Kind::Queue { max_delay_us } => return self.queue_us(now_us, now, cost, max_delay_us),
        };
        fits.then_some(0)
    }

    fn queue_us(&self, now_us: u64, now: i128, cost: i128, max_delay_us: u64) -> Option<u64> {
        let amount = i128::from(self.spec.amount);
        let owed = self.owed(now);
        if cost > amount || owed > self.spec.ticks(max_delay_us) * amount {
            return None;
        }
        let ticks = (owed + amount - 1) / amount;
        let release_us = (now + ticks) * i128::from(self.spec.tick_us());
        Some(u64::try_from((release_us - i128::from(now_us)).max(0)).unwrap())
    }

    /// All that counts in `[from, to]`.
    fn between(&self, from: i128, to: i128) -> i128 {
        self.events.iter().filter(|e| (from..=to).contains(&e.tick)).map(|e| e.cost).sum()
    }

    /// By how much the costs of the worst interval that ends now exceed what has flowed in it, times the window:
    /// the law `Σc ≤ B + d·L/W` for all intervals that end now says that this plus the cost fits the burst.
    fn owed(&self, now: i128) -> i128 {
        let amount = i128::from(self.spec.amount);
        let excess = |from: i128| self.between(from, now) * self.spec.window() - (now - from) * amount;
        self.events.iter().map(|e| excess(e.tick)).max().unwrap_or(0).max(0)
    }

    pub(crate) fn breach(&self) -> Option<Breach> {
        breach(self.spec, &self.events)
    }
}

/// The first interval that breaks the law of the limit, by trying all of them.
pub(crate) fn breach(spec: &Spec, events: &[Event]) -> Option<Breach> {
    let (amount, window) = (i128::from(spec.amount), spec.window());
    let breaks = |from: i128, to: i128, sum: i128| {
        let d = to - from;
        match spec.kind {
            Kind::Fixed(_) => from == to && sum > amount,
            Kind::Log => d < window && sum > amount,
            Kind::Counter => sum * window > amount * (window + d),
            Kind::Bucket { burst } => sum * window > i128::from(burst) * window + d * amount,
            Kind::Queue { .. } => false,
        }
    };
    if let Kind::Queue { .. } = spec.kind {
        return crowded(spec, events);
    }
    let when = |e: &Event| if matches!(spec.kind, Kind::Fixed(_)) { e.window } else { e.tick };
    let mut points: Vec<(i128, i128)> = events.iter().map(|e| (when(e), e.cost)).collect();
    points.sort_unstable();
    for (first, (from, _)) in points.iter().enumerate() {
        let mut sum = 0;
        for (last, (to, cost)) in points.iter().enumerate().skip(first) {
            sum += cost;
            let whole = points.get(last + 1).is_none_or(|(next, _)| next != to);
            if whole && breaks(*from, *to, sum) {
                return Some(Breach { from: *from, to: *to, sum });
            }
        }
    }
    None
}

/// Two releases between which more was let out than the rate: costs `k` before one take `k·W/L`, less one tick.
fn crowded(spec: &Spec, events: &[Event]) -> Option<Breach> {
    for (first, a) in events.iter().enumerate() {
        let mut sum = 0;
        for (before, b) in events.iter().skip(first).zip(events.iter().skip(first + 1)) {
            sum += before.cost;
            let span = b.release_us - a.release_us;
            let slack = i128::from(spec.tick_us());
            let due = sum * i128::from(spec.window_us);
            if span < 0 || (span + slack) * i128::from(spec.amount) < due {
                return Some(Breach { from: a.release_us, to: b.release_us, sum });
            }
        }
    }
    None
}
