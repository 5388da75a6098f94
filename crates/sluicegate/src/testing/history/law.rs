//! The law of a limit, to hold calls against.

use sluicegate_core::{Algorithm, Align, Headroom, Micros, Rule};

use super::{
    counter::Counter,
    first_request::FirstRequest,
    line::Line,
    log::Log,
    span::{Calls, Span, Tightest},
    windows::{Begins, Windows},
};

/// Decides what calls whose ticks are known only to lie in intervals say about a law.
pub(super) trait Law {
    /// The interval in which what must have counted, whatever the ticks, comes closest to the bound or exceeds it most.
    /// Above the bound no choice of ticks obeys the law.
    fn certain(&self, calls: &Calls) -> Option<Tightest>;

    /// The same of what may have counted in it. If it is within the bound, every choice of ticks obeys the law.
    fn possible(&self, calls: &Calls) -> Option<Tightest>;

    /// A cost that breaks the law at whatever tick it counts.
    fn breaking_cost(&self) -> i128;

    /// The denials that no choice of ticks explains: even with all that may have counted before, the cost had room.
    fn false_denials(&self, calls: &Calls, denied: &[Span]) -> Vec<Span>;
}

/// What a limit grants to those whose calls are looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) amount: i128,
    /// The largest cost that is ever admitted.
    pub(super) most: i128,
    /// Calls were counted by several instances, each for itself.
    pub(super) apart: bool,
}

impl Grant {
    /// All that the rule grants, counted together.
    pub(super) fn whole(rule: &Rule) -> Self {
        Self { amount: rule.amount().into(), most: rule.max_cost().into(), apart: false }
    }

    /// All that a fleet grants in fallback, each instance counting for itself.
    pub(super) fn fleet(rule: &Rule, headroom: Headroom) -> Self {
        let of = |whole| i128::from(headroom.of(whole));
        Self { amount: of(rule.amount()), most: of(rule.max_cost()), apart: true }
    }

    /// The largest share of it that one of several instances has.
    pub(super) fn share(rule: &Rule, headroom: Headroom, instances: u32) -> Self {
        let share = |whole| i128::from(headroom.of(whole).div_ceil(u64::from(instances.max(1))));
        Self { amount: share(rule.amount()), most: share(rule.max_cost()), apart: false }
    }
}

/// The law of a rule for a key.
pub(super) fn law_of(rule: &Rule, key: &str, grant: Grant) -> Box<dyn Law> {
    let (amount, window) = (grant.amount, i128::from(rule.window_ticks()));
    match (rule.algorithm(), rule.align()) {
        // Each instance opens windows of its own: together they obey what holds wherever windows begin.
        (Algorithm::FixedWindow, Some(Align::FirstRequest)) if grant.apart => {
            Box::new(FirstRequest { amount, window }.wherever_windows_begin())
        }
        (Algorithm::FixedWindow, Some(Align::FirstRequest)) => Box::new(FirstRequest { amount, window }),
        (Algorithm::FixedWindow, _) => {
            let phase = rule.at(Micros::new(0), key.as_bytes()).phase.into();
            Box::new(Windows { amount, begins: Begins::Even { window, phase } })
        }
        (Algorithm::Quota, _) => {
            let period = rule.period().cloned().unwrap_or_default();
            Box::new(Windows { amount, begins: Begins::Calendar(period) })
        }
        (Algorithm::SlidingLog, _) => Box::new(Log { amount, window }),
        (Algorithm::SlidingCounter, _) => Box::new(Counter { amount, window }),
        (Algorithm::TokenBucket | Algorithm::Gcra, _) => {
            Box::new(Line { amount, window, capacity: grant.most * window, queue: None })
        }
        (Algorithm::LeakyBucket, _) => {
            // The longest queue lets `max_delay + window` ticks' worth in, at a cost of the amount.
            let max_delay = i128::try_from(rule.horizon().saturating_sub(rule.window()).as_micros())
                .unwrap_or(0)
                / i128::from(rule.tick().as_micros());
            let queue = Some(max_delay * amount);
            Box::new(Line { amount, window, capacity: (max_delay + window) * amount, queue })
        }
    }
}
