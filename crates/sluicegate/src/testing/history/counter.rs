//! The law of the sliding counter: previous·(window − elapsed) + current·window ≤ amount·window at each count, and so
//! Σcost ≤ amount·(1 + d/window) in every interval of length d.

use super::{
    law::Law,
    line::Line,
    span::{Calls, Span, Tightest},
};

/// Windows `[k·window, (k + 1)·window)`, of which the one before fades.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    pub(super) amount: i128,
    pub(super) window: i128,
}

impl Counter {
    fn begin(&self, tick: i128) -> i128 {
        tick.div_euclid(self.window) * self.window
    }

    /// What may be counted in the window of `tick` up to it, if `previous` was counted in the one before.
    fn bound(&self, tick: i128, previous: i128) -> i128 {
        let left = self.window - tick.rem_euclid(self.window);
        (self.amount * self.window - previous * left).div_euclid(self.window)
    }

    /// At the last count of a window at the latest, all that lies wholly in the window was admitted beside what lies
    /// wholly in the one before.
    fn within_windows(&self, calls: &Calls) -> Option<Tightest> {
        let (mut begin, mut sum, mut before, mut worst) = (0, 0, 0, None);
        let by_end = calls.admitted_by_end();
        for span in by_end.iter().filter(|span| self.begin(span.from) == self.begin(span.to)) {
            let own = self.begin(span.from);
            if own != begin {
                before = if own == begin + self.window { sum } else { 0 };
                (begin, sum) = (own, 0);
            }
            sum += span.cost;
            let tightest = Tightest { from: own, to: span.to, sum, bound: self.bound(span.to, before) };
            worst = Tightest::of(worst, Some(tightest));
        }
        worst
    }

    fn at_most_before(&self, calls: &Calls, begin: i128) -> i128 {
        calls.at_most_in(begin - self.window, begin - 1)
    }
}

impl Law for Counter {
    /// Calls that lie across the edge of a window are counted by the line alone.
    fn certain(&self, calls: &Calls) -> Option<Tightest> {
        let (amount, window) = (self.amount, self.window);
        let line = Line { amount, window, capacity: amount * window, queue: None };
        Tightest::of(self.within_windows(calls), line.certain(calls))
    }

    /// A call that lies across an edge counts on both sides here, so that what obeys the law may not be proven.
    fn possible(&self, calls: &Calls) -> Option<Tightest> {
        let until = |tick| {
            let from = self.begin(tick);
            let bound = self.bound(tick, self.at_most_before(calls, from));
            Tightest { from, to: tick, sum: calls.at_most_in(from, tick), bound }
        };
        // A window is fullest at a count, or at its begin with what may have counted later than the window before.
        let ticks = calls.started.ticks().flat_map(|tick| [tick, self.begin(tick) + self.window]);
        // Without a count there is nothing to admit.
        ticks.map(until).filter(|tightest| tightest.sum > 0).max_by_key(Tightest::over)
    }

    fn breaking_cost(&self) -> i128 {
        self.amount + 1
    }

    /// A denial across the edge of a window is not judged.
    fn false_denials(&self, calls: &Calls, denied: &[Span]) -> Vec<Span> {
        let had_room = |denial: &&Span| {
            let begin = self.begin(denial.from);
            let bound = self.bound(denial.from, self.at_most_before(calls, begin));
            denial.to < begin + self.window && calls.at_most_in(begin, denial.to) + denial.cost <= bound
        };
        denied.iter().filter(had_room).copied().collect()
    }
}
