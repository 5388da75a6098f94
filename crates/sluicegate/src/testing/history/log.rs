//! The law of the sliding log: Σcost ≤ amount in every half-open window.

use super::{
    law::Law,
    line::Line,
    span::{Calls, FOREVER, Span, Tightest},
};

/// Every `[t, t + window)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    pub(super) amount: i128,
    pub(super) window: i128,
}

impl Log {
    /// The fullest of the windows that begin with a call, counting what lies wholly in them.
    fn in_one_window(&self, calls: &Calls) -> Option<Tightest> {
        let by_end = calls.admitted_by_end();
        let (mut ending, mut beginning) = (by_end.iter().peekable(), calls.admitted.iter().peekable());
        let (mut sum, mut worst) = (0, None);
        while let Some(from) = beginning.peek().map(|span| span.from) {
            let to = from + self.window - 1;
            while let Some(span) = ending.next_if(|span| span.to <= to) {
                sum += if span.from >= from { span.cost } else { 0 };
            }
            worst = Tightest::of(worst, Some(Tightest { from, to, sum, bound: self.amount }));
            while let Some(span) = beginning.next_if(|span| span.from == from) {
                sum -= if span.to <= to { span.cost } else { 0 };
            }
        }
        worst
    }
}

impl Law for Log {
    /// A call that takes longer than a window lies in none; a line still counts it.
    fn certain(&self, calls: &Calls) -> Option<Tightest> {
        let (amount, window) = (self.amount, self.window);
        let line = Line { amount, window, capacity: amount * window, queue: None };
        Tightest::of(self.in_one_window(calls), line.certain(calls))
    }

    fn possible(&self, calls: &Calls) -> Option<Tightest> {
        // Moved to the right, a window loses nothing until something ended at its begin.
        let window_of = |from| {
            let to = from + self.window - 1;
            Tightest { from, to, sum: calls.at_most_in(from, to), bound: self.amount }
        };
        let fullest =
            calls.ended.ticks().filter(|end| *end < FOREVER).map(window_of).max_by_key(Tightest::over);
        // What may never have ended lies in the last window too.
        let last = calls.started.ticks().last().map(window_of);
        Tightest::of(fullest, last)
    }

    fn breaking_cost(&self) -> i128 {
        self.amount + 1
    }

    fn false_denials(&self, calls: &Calls, denied: &[Span]) -> Vec<Span> {
        let had_room = |denial: &&Span| {
            calls.at_most_in(denial.from - self.window + 1, denial.to) + denial.cost <= self.amount
        };
        denied.iter().filter(had_room).copied().collect()
    }
}
