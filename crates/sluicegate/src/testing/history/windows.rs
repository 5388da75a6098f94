//! The law of fixed windows whose begins are known: Σcost ≤ amount in each.

use super::{
    law::Law,
    line::Line,
    span::{Calls, Span, Tightest},
};

/// Windows `[k·window + phase, (k + 1)·window + phase)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    pub(super) amount: i128,
    pub(super) window: i128,
    pub(super) phase: i128,
}

impl Windows {
    fn number(&self, tick: i128) -> i128 {
        (tick - self.phase).div_euclid(self.window)
    }

    fn begin(&self, number: i128) -> i128 {
        number * self.window + self.phase
    }
}

impl Law for Windows {
    /// What lies wholly in windows k to m exceeds none of them only if it is within (m − k + 1)·amount; for costs of 1
    /// that is enough too (Hall's theorem for intervals). Counted in windows, it is a bucket's law.
    fn certain(&self, calls: &Calls) -> Option<Tightest> {
        let in_windows =
            |span: &Span| Span { from: self.number(span.from), to: self.number(span.to), ..*span };
        let numbered = Calls::new(calls.admitted.iter().map(in_windows).collect(), &[]);
        let line = Line { amount: self.amount, window: 1, capacity: self.amount, queue: None };
        let tightest = line.certain(&numbered)?;
        let (from, to) = (self.begin(tightest.from), self.begin(tightest.to + 1) - 1);
        Some(Tightest { from, to, ..tightest })
    }

    fn possible(&self, calls: &Calls) -> Option<Tightest> {
        // The fullest window is one that something began in: later ones hold what is left of it.
        let window_of = |tick| {
            let from = self.begin(self.number(tick));
            let to = from + self.window - 1;
            Tightest { from, to, sum: calls.at_most_in(from, to), bound: self.amount }
        };
        calls.started.ticks().map(window_of).max_by_key(Tightest::over)
    }

    fn breaking_cost(&self) -> i128 {
        self.amount + 1
    }

    fn false_denials(&self, calls: &Calls, denied: &[Span]) -> Vec<Span> {
        let had_room = |denial: &&Span| {
            let begin = self.begin(self.number(denial.from));
            calls.at_most_in(begin, denial.to) + denial.cost <= self.amount
        };
        denied.iter().filter(had_room).copied().collect()
    }
}
