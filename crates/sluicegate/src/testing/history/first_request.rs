//! The law of fixed windows that begin with their first count: Σcost ≤ amount in each.

use super::{
    law::Law,
    line::Line,
    log::Log,
    span::{Calls, FOREVER, Span, Tightest},
};

/// Windows that begin with the first count after the window before.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstRequest {
    pub(super) amount: i128,
    pub(super) window: i128,
}

/// Where one window began: the n-th of the key, in every choice of ticks.
#[derive(Clone, Copy, Debug)]
struct Begin {
    /// What counts from here on is not in an earlier window.
    after: i128,
    earliest: i128,
    /// `None` if it may not have begun at all.
    latest: Option<i128>,
}

impl FirstRequest {
    /// What holds if nothing is known of where windows begin: d ticks touch at most 1 + ⌈d/window⌉ of them.
    pub(super) fn wherever_windows_begin(&self) -> Line {
        let capacity = (2 * self.window - 1) * self.amount;
        Line { amount: self.amount, window: self.window, capacity, queue: None }
    }

    fn begins(&self, calls: &Calls) -> Vec<Begin> {
        let first_ends = first_ends(&calls.admitted);
        let first_end = |from: i128| {
            let at = calls.admitted.partition_point(|span| span.from < from);
            first_ends.get(at).copied()
        };
        let mut begins = Vec::new();
        let (mut after, mut not_before) = (-FOREVER, -FOREVER);
        while let Some(earliest) = next_count(calls, not_before) {
            let latest = first_end(after);
            begins.push(Begin { after, earliest, latest });
            let Some(latest) = latest else { break };
            after = latest + self.window;
            not_before = earliest + self.window;
        }
        begins
    }
}

/// The first tick from `from` on at which anything can have counted.
fn next_count(calls: &Calls, from: i128) -> Option<i128> {
    if calls.at_most_in(from, from) > 0 { Some(from) } else { calls.started.next(from) }
}

/// For each span the first end of it and those after it.
fn first_ends(spans: &[Span]) -> Vec<i128> {
    let mut ends: Vec<i128> = spans.iter().map(|span| span.to).collect();
    let mut first = FOREVER;
    for end in ends.iter_mut().rev() {
        first = first.min(*end);
        *end = first;
    }
    ends
}

impl Law for FirstRequest {
    /// A window that begins at `earliest` or later holds what counts before `earliest + window`, unless that belongs to
    /// the window before. Errors of the begins add up under load without a pause; there the line still holds.
    fn certain(&self, calls: &Calls) -> Option<Tightest> {
        let within = |begin: Begin| {
            let end = begin.earliest + self.window;
            let first = calls.admitted.partition_point(|span| span.from < begin.after);
            let spans = calls.admitted.iter().skip(first).take_while(|span| span.from < end);
            let sum = spans.filter(|span| span.to < end).map(|span| span.cost).sum();
            Tightest { from: begin.earliest, to: end - 1, sum, bound: self.amount }
        };
        let in_one = self.begins(calls).into_iter().map(within).max_by_key(Tightest::over);
        let in_any = self.wherever_windows_begin().certain(calls);
        if in_any.is_some_and(|line| line.over() > 0) { Tightest::of(in_one, in_any) } else { in_one }
    }

    fn possible(&self, calls: &Calls) -> Option<Tightest> {
        let touching = |begin: Begin| {
            let to = begin.latest.map_or(FOREVER - 1, |latest| latest + self.window - 1);
            let sum = calls.at_most_in(begin.earliest, to);
            Tightest { from: begin.earliest, to, sum, bound: self.amount }
        };
        self.begins(calls).into_iter().map(touching).max_by_key(Tightest::over)
    }

    fn breaking_cost(&self) -> i128 {
        self.amount + 1
    }

    /// Whenever the window began, all that counts in it is younger than a window: as in a log.
    fn false_denials(&self, calls: &Calls, denied: &[Span]) -> Vec<Span> {
        Log { amount: self.amount, window: self.window }.false_denials(calls, denied)
    }
}
