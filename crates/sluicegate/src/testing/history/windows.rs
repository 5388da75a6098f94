//! The law of fixed windows whose begins are known: Σcost ≤ amount in each.

use sluicegate_core::{Micros, Period};

use super::{
    law::Law,
    line::Line,
    span::{Calls, Span, Tightest},
};

/// Windows, or the periods of a calendar.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    pub(super) amount: i128,
    pub(super) begins: Begins,
}

/// Where windows begin.
#[derive(Clone, Debug)]
pub(super) enum Begins {
    /// `[k·window + phase, (k + 1)·window + phase)`.
    Even { window: i128, phase: i128 },
    /// By a calendar; a tick is a microsecond.
    Calendar(Period),
}

impl Windows {
    fn number(&self, tick: i128) -> i128 {
        match &self.begins {
            Begins::Even { window, phase } => (tick - phase).div_euclid(*window),
            Begins::Calendar(period) => period.number(micros(tick)).into(),
        }
    }

    /// The first and the last tick of the window that contains a tick.
    fn window_of(&self, tick: i128) -> (i128, i128) {
        match &self.begins {
            Begins::Even { window, phase } => {
                let from = self.number(tick) * window + phase;
                (from, from + window - 1)
            }
            Begins::Calendar(period) => {
                let span = period.span(micros(tick));
                (span.start.into(), i128::from(span.end) - 1)
            }
        }
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
        let of_number = |number| {
            let mut ticks = calls.admitted.iter().flat_map(|span| [span.from, span.to]);
            ticks.find(|tick| self.number(*tick) == number).map(|tick| self.window_of(tick))
        };
        let ((from, _), (_, to)) = (of_number(tightest.from)?, of_number(tightest.to)?);
        Some(Tightest { from, to, ..tightest })
    }

    fn possible(&self, calls: &Calls) -> Option<Tightest> {
        // The fullest window is one that something began in: later ones hold what is left of it.
        let window_of = |tick| {
            let (from, to) = self.window_of(tick);
            Tightest { from, to, sum: calls.at_most_in(from, to), bound: self.amount }
        };
        calls.started.ticks().map(window_of).max_by_key(Tightest::over)
    }

    fn breaking_cost(&self) -> i128 {
        self.amount + 1
    }

    fn false_denials(&self, calls: &Calls, denied: &[Span]) -> Vec<Span> {
        let had_room = |denial: &&Span| {
            let (begin, _) = self.window_of(denial.from);
            calls.at_most_in(begin, denial.to) + denial.cost <= self.amount
        };
        denied.iter().filter(had_room).copied().collect()
    }
}

fn micros(tick: i128) -> Micros {
    Micros::new(u64::try_from(tick.max(0)).unwrap_or(u64::MAX))
}
