//! Stored state of any algorithm, and the functions with which a store decides.

use std::time::Duration;

use crate::{
    algorithm::{GiveBack, Machine, bucket, fixed_window, quota, sliding_counter, sliding_log},
    decision::{AskDecision, DecidedBy, Retry},
    rule::{AnyMachine, Rule},
    time::{At, Micros, Skew},
};

/// What a store keeps for one limit and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Of a fixed window.
    FixedWindow(fixed_window::State),
    /// Of a sliding log.
    SlidingLog(sliding_log::State),
    /// Of a sliding counter.
    SlidingCounter(sliding_counter::State),
    /// Of a token bucket, GCRA or leaky bucket.
    Bucket(bucket::State),
    /// Of a quota.
    Quota(quota::State),
}

/// Runs `body` with the machine of a rule and the state of its kind; state of another algorithm counts as none.
macro_rules! paired {
    ($rule:expr, $stored:expr, |$machine:ident, $state:ident| $body:expr, else $other:ident => $none:expr) => {
        match ($rule.machine(), $stored) {
            (AnyMachine::FixedWindow($machine), State::FixedWindow($state)) => $body,
            (AnyMachine::SlidingLog($machine), State::SlidingLog($state)) => $body,
            (AnyMachine::SlidingCounter($machine), State::SlidingCounter($state)) => $body,
            (AnyMachine::Bucket($machine), State::Bucket($state)) => $body,
            (AnyMachine::Quota($machine), State::Quota($state)) => $body,
            (_, $other) => $none,
        }
    };
}

macro_rules! into_state {
    ($($state:ty => $variant:ident),+ $(,)?) => {$(
        impl From<$state> for State {
            fn from(state: $state) -> Self {
                Self::$variant(state)
            }
        }
    )+};
}

into_state!(
    fixed_window::State => FixedWindow,
    sliding_log::State => SlidingLog,
    sliding_counter::State => SlidingCounter,
    bucket::State => Bucket,
    quota::State => Quota,
);

/// One ask as the arithmetic sees it.
///
/// A store reads the state, lets [`Question::roll`] bring it to now, asks [`Question::admits`], and stores what
/// [`Question::charge`] returns if every ask of the request is admitted. It does so in one atomic step.
///
/// ```
/// use std::time::Duration;
/// use sluicegate_core::{Align, Micros, Question, Rule};
/// let rule = Rule::fixed_window(1, Duration::from_secs(60), Align::Epoch)?;
/// let question = Question { rule: &rule, key: b"alice", cost: 1, now: Micros::from_secs(30) };
/// let state = question.roll(None)?;
/// assert!(question.admits(&state));
/// let state = question.charge(state);
/// assert!(!question.admits(&state));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The limit's numbers.
    pub rule: &'a Rule,
    /// The key, for windows that are shifted per key.
    pub key: &'a [u8],
    /// The cost; 0 checks without counting and is always admitted.
    pub cost: u64,
    /// The time.
    pub now: Micros,
}

impl Question<'_> {
    /// The stored state as it is now.
    ///
    /// # Errors
    /// [`Skew`] if the state lies too far in the future; see [`Question::rebase`].
    #[inline]
    pub fn roll(&self, stored: Option<State>) -> Result<State, Skew> {
        let at = self.at();
        let Some(stored) = stored else { return Ok(self.fresh()) };
        paired!(self.rule, stored, |machine, state| machine.roll(state, at).map(Into::into), else _other => {
            Ok(self.fresh())
        })
    }

    /// The stored state moved to now with all that was used, if it lies too far in the future.
    ///
    /// A store keeps what this returns **even if the ask is then denied**: otherwise each later ask moves the same
    /// state to its own now, nothing ever drains, and the key is locked until the clock has caught up.
    #[must_use]
    pub fn rebase(&self, stored: State) -> State {
        if self.roll(Some(stored.clone())).is_ok() {
            return stored;
        }
        let at = self.at();
        paired!(self.rule, stored, |machine, state| machine.rebase(state, at).into(), else other => other)
    }

    /// Whether the cost can ever fit.
    #[inline]
    pub fn fits(&self) -> bool {
        self.cost <= self.rule.max_cost()
    }

    /// Whether a rolled state admits the cost.
    #[inline]
    pub fn admits(&self, state: &State) -> bool {
        let (now, cost) = (self.at().now, self.cost);
        cost == 0
            || self.fits()
                && paired!(self.rule, state, |machine, state| machine.admits(state, now, cost), else _other => false)
    }

    /// The rolled state with the cost counted.
    #[inline]
    #[must_use]
    pub fn charge(&self, state: State) -> State {
        if self.cost == 0 {
            return state;
        }
        let (now, cost) = (self.at().now, self.cost);
        paired!(self.rule, state, |machine, state| machine.charge(state, now, cost).into(), else other => other)
    }

    /// The tick under which a charged state counts the cost, to be kept for [`Question::give_back`]: the tick of
    /// `now`, or a later one if the state was ahead of this clock.
    pub fn charged_at(&self, state: &State) -> u64 {
        let now = self.at().now;
        paired!(self.rule, state, |machine, state| machine.charged_at(state, now), else _other => now)
    }

    /// The stored state (not rolled) after a part of an earlier charge came back.
    #[must_use]
    pub fn give_back(&self, state: State, back: GiveBack) -> State {
        paired!(self.rule, state, |machine, state| machine.give_back(state, back).into(), else other => other)
    }

    /// The tick under which a cost is counted that is charged now, to be kept for [`Question::settle`].
    pub fn charged_now(&self) -> u64 {
        self.charged_at(&self.fresh())
    }

    /// The stored state (not rolled) after a charge turned out to cost something else. A rate limit gets back what was not
    /// used; a quota counts what was used, more or less.
    ///
    /// ```
    /// use sluicegate_core::{Micros, Period, Question, Rule, algorithm::GiveBack};
    /// let rule = Rule::quota(100, Period::default())?;
    /// let question = Question { rule: &rule, key: b"acme", cost: 40, now: Micros::from_secs(1_800_000_000) };
    /// let held = question.charge(question.fresh());
    /// let charge = GiveBack { charged_at: question.charged_now(), held: 40, actual: 130 };
    /// let settled = question.settle(Some(held), charge).ok_or("nothing is stored")?;
    /// assert_eq!(question.report(&settled, false).remaining, Some(0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn settle(&self, stored: Option<State>, charge: GiveBack) -> Option<State> {
        match (self.rule.machine(), stored) {
            (AnyMachine::Quota(machine), Some(State::Quota(state))) => {
                machine.settle(Some(state), charge, self.at().now).map(Into::into)
            }
            (AnyMachine::Quota(machine), _) => machine.settle(None, charge, self.at().now).map(Into::into),
            (_, stored) => stored.map(|state| self.give_back(state, charge)),
        }
    }

    /// The instant from which the key is as if never used, in microseconds; `None` if it is so in this state.
    #[inline]
    pub fn reset_at_us(&self, state: &State) -> Option<u64> {
        let tick = paired!(self.rule, state, |machine, state| machine.reset_at(state), else _other => None);
        tick.map(|tick| self.rule.tick().start_us(tick))
    }

    /// The answer. `state` is rolled, and charged exactly if `charged`.
    #[inline]
    pub fn report(&self, state: &State, charged: bool) -> AskDecision {
        let allowed = charged || self.admits(state);
        let (now, counted) = (self.at().now, if charged { self.cost } else { 0 });
        let (remaining, release_at) = paired!(self.rule, state, |machine, state| {
            (machine.remaining(state, now), machine.release_at(state, counted))
        }, else _other => (0, 0));
        AskDecision {
            allowed,
            limit: Some(self.rule.amount()),
            capacity: Some(self.rule.max_cost()),
            remaining: Some(remaining),
            reset_after: self.reset_at_us(state).map_or(Duration::ZERO, |at| self.until(at)),
            retry: (!allowed).then(|| self.retry(state)),
            delay: if allowed && self.cost > 0 {
                self.until(self.rule.tick().start_us(release_at))
            } else {
                Duration::ZERO
            },
            decided_by: DecidedBy::Store,
        }
    }

    /// When the refused cost is worth another try.
    pub fn retry(&self, state: &State) -> Retry {
        if !self.fits() {
            return Retry::Never;
        }
        let (now, cost) = (self.at().now, self.cost);
        let tick = paired!(self.rule, state, |machine, state| machine.retry_at(state, now, cost), else _other => now);
        Retry::After(self.until(self.rule.tick().start_us(tick)))
    }

    /// The state of a key that was never used.
    #[inline]
    pub fn fresh(&self) -> State {
        let at = self.at();
        match self.rule.machine() {
            AnyMachine::FixedWindow(machine) => machine.fresh(at).into(),
            AnyMachine::SlidingLog(machine) => machine.fresh(at).into(),
            AnyMachine::SlidingCounter(machine) => machine.fresh(at).into(),
            AnyMachine::Bucket(machine) => machine.fresh(at).into(),
            AnyMachine::Quota(machine) => machine.fresh(at).into(),
        }
    }

    #[inline]
    fn at(&self) -> At {
        self.rule.at(self.now, self.key)
    }

    fn until(&self, instant_us: u64) -> Duration {
        Duration::from_micros(instant_us.saturating_sub(self.now.as_u64()))
    }
}
