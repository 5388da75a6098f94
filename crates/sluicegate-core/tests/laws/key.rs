//! One key as a store keeps it.

use std::time::Duration;

use sluicegate_core::{AskDecision, Micros, Question, Retry, Rule, State};

use crate::spec::Spec;

/// One key of one limit, decided as every store does: roll, admit, charge, report; nothing stored by a refusal.
#[derive(Clone, Debug)]
pub(crate) struct Key<'r> {
    pub(crate) rule: &'r Rule,
    pub(crate) stored: Option<State>,
    /// How often the state was moved back to the clock.
    pub(crate) rebases: u32,
}

pub(crate) const NAME: &[u8] = b"{api:user=alice}";

impl<'r> Key<'r> {
    pub(crate) fn new(rule: &'r Rule) -> Self {
        Self { rule, stored: None, rebases: 0 }
    }

    pub(crate) fn question(&self, now_us: u64, cost: u64) -> Question<'r> {
        Question { rule: self.rule, key: NAME, cost, now: Micros::new(now_us) }
    }

    pub(crate) fn take(&mut self, now_us: u64, cost: u64) -> AskDecision {
        let question = self.question(now_us, cost);
        let rolled = self.rolled(&question);
        if !question.admits(&rolled) {
            return question.report(&rolled, false);
        }
        let charged = question.charge(rolled);
        if cost > 0 {
            self.stored = Some(charged.clone());
        }
        question.report(&charged, true)
    }

    /// The state as of now; moved back first, and stored so, if it is too far ahead.
    pub(crate) fn rolled(&mut self, question: &Question<'_>) -> State {
        if let Ok(rolled) = question.roll(self.stored.clone()) {
            return rolled;
        }
        let moved = question.rebase(self.stored.take().expect("no state is never ahead"));
        self.stored = Some(moved.clone());
        self.rebases += 1;
        question.roll(Some(moved)).expect("a moved state is not ahead")
    }

    pub(crate) fn peek(&self, now_us: u64, cost: u64) -> AskDecision {
        let mut copy = self.clone();
        let question = self.question(now_us, cost);
        let rolled = copy.rolled(&question);
        question.report(&rolled, false)
    }

    pub(crate) fn admits(&self, now_us: u64, cost: u64) -> bool {
        self.peek(now_us, cost).allowed
    }

    /// Whether the key behaves in every respect as one that was never used.
    pub(crate) fn is_as_new(&self, now_us: u64) -> bool {
        let question = self.question(now_us, 1);
        question.roll(self.stored.clone()) == question.roll(None)
    }
}

/// Everything that an answer promises, tried out. `before` is the key as it was asked, `after` as it was left.
pub(crate) fn check_answer(
    spec: &Spec,
    before: &Key<'_>,
    after: &Key<'_>,
    now_us: u64,
    cost: u64,
    answer: &AskDecision,
) {
    let moved = after.rebases > before.rebases;
    if (!answer.allowed || cost == 0) && !moved {
        assert_eq!(before.stored, after.stored, "a refusal or a cost of 0 left a trace");
    }
    assert!(cost != 0 || answer.allowed, "cost 0 always passes");
    assert_eq!(answer.retry.is_none(), answer.allowed);
    assert_eq!(answer.limit, Some(spec.amount));
    assert_eq!(answer.capacity, Some(spec.capacity()));
    check_remaining(spec, after, now_us, answer);
    check_reset(after, now_us, answer);
    match answer.retry {
        None => {}
        Some(Retry::Never) => {
            let fresh = Key::new(after.rule);
            assert!(!fresh.admits(now_us, cost), "never was said, but a fresh key admits {cost}");
        }
        Some(Retry::After(wait)) => check_retry(after, now_us, cost, wait),
    }
}

fn check_remaining(spec: &Spec, key: &Key<'_>, now_us: u64, answer: &AskDecision) {
    let remaining = answer.remaining.expect("a bounded limit");
    assert!(remaining <= spec.capacity(), "{remaining} remain of {}", spec.capacity());
    assert!(key.admits(now_us, remaining), "{remaining} remain, but are refused");
    assert!(!key.admits(now_us, remaining + 1), "{} pass, but {remaining} remain", remaining + 1);
}

fn check_retry(key: &Key<'_>, now_us: u64, cost: u64, wait: Duration) {
    assert!(Key::new(key.rule).admits(now_us, cost), "a cost that never fits was given a time");
    assert!(wait > Duration::ZERO, "a refused ask is not worth a try at once");
    let Some(at) = later(now_us, wait) else { return };
    assert!(key.admits(at, cost), "refused after the wait of {wait:?}");
    assert!(!key.admits(at - 1, cost), "admitted 1 µs before the wait of {wait:?} ended");
}

fn check_reset(key: &Key<'_>, now_us: u64, answer: &AskDecision) {
    let Some(at) = later(now_us, answer.reset_after) else { return };
    assert!(key.is_as_new(at), "not as new after {:?}: {:?}", answer.reset_after, key.stored);
    if at > now_us {
        assert!(!key.is_as_new(at - 1), "as new 1 µs before {:?}", answer.reset_after);
    }
}

/// The instant `wait` later, unless it lies behind the last one that is counted with.
fn later(now_us: u64, wait: Duration) -> Option<u64> {
    let at = now_us + u64::try_from(wait.as_micros()).expect("no wait is longer than time");
    (at <= Micros::MAX.as_u64()).then_some(at)
}
