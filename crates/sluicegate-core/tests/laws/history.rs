//! Random histories: when is asked, and for how much.

use proptest::prelude::*;
use sluicegate_core::{AskDecision, Micros, Retry};

use crate::{
    key::{Key, check_answer},
    oracle::Oracle,
    spec::{HOUR, SECOND, Spec},
};

/// How the clock moves before an ask.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Move {
    Stay,
    Us(u64),
    /// Thousandths of the window.
    Window(u64),
    /// Thousandths of the time in which one token comes.
    Token(u64),
    /// To the retry of the last answer, and so many µs more.
    Retry(i64),
    /// To the reset of the last answer, and so many µs more.
    Reset(i64),
    /// To the next multiple of the window, and so many µs more.
    Edge(i64),
    /// By any number of µs, back as well.
    Jump(i64),
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pay {
    Just(u64),
    /// Thousandths of the capacity.
    Share(u64),
    /// What remains, and so much more.
    Remaining(u64),
    /// The capacity, and so much more.
    Capacity(u64),
}

pub(crate) type Step = (Move, Pay);

fn forward() -> impl Strategy<Value = Move> {
    prop_oneof![
        3 => Just(Move::Stay),
        2 => (0..3_000u64).prop_map(Move::Us),
        3 => (0..2_500u64).prop_map(Move::Window),
        3 => (0..4_000u64).prop_map(Move::Token),
        2 => (-1..2i64).prop_map(Move::Retry),
        1 => (-1..2i64).prop_map(Move::Reset),
        1 => (-1..2i64).prop_map(Move::Edge),
    ]
}

fn jump() -> impl Strategy<Value = Move> {
    let five = 5 * i64::try_from(SECOND).unwrap();
    let far = i64::try_from(48 * HOUR).unwrap();
    prop_oneof![
        (-5_000..5_000i64).prop_map(Move::Jump),
        (-five..=five).prop_map(Move::Jump),
        (-five - 2_000_000..=-five + 2).prop_map(Move::Jump),
        (-far..far).prop_map(Move::Jump),
    ]
}

fn pay() -> impl Strategy<Value = Pay> {
    prop_oneof![
        4 => Just(Pay::Just(1)),
        2 => (0..6u64).prop_map(Pay::Just),
        3 => (0..1_000u64).prop_map(Pay::Share),
        2 => (0..2u64).prop_map(Pay::Remaining),
        1 => (0..2u64).prop_map(Pay::Capacity),
        1 => prop::sample::select(vec![1 << 53, (1 << 53) + 1, u64::MAX - 1, u64::MAX]).prop_map(Pay::Just),
    ]
}

/// Asks while the clock runs forward.
pub(crate) fn steps() -> BoxedStrategy<Vec<Step>> {
    prop::collection::vec((forward(), pay()), 1..40).boxed()
}

/// Asks while the clock jumps back and forth.
pub(crate) fn jumpy_steps() -> BoxedStrategy<Vec<Step>> {
    let moves = prop_oneof![2 => forward(), 1 => jump()];
    prop::collection::vec((moves, pay()), 1..40).boxed()
}

/// Where time begins, given the window: at the epoch, around 2^k seconds, anywhere, and near the end of time.
pub(crate) fn epochs(window_us: u64) -> impl Strategy<Value = u64> {
    let last = Micros::MAX.as_u64();
    prop_oneof![
        2 => 0..=(2 * window_us).min(last),
        4 => (0..=32u32, -1_500_000..1_500_000i64)
            .prop_map(move |(k, off)| ((1u64 << k) * SECOND).saturating_add_signed(off)),
        2 => 0..=last,
        1 => (0..=3 * window_us).prop_map(move |before| last.saturating_sub(before)),
    ]
}

/// A limit, where time begins, and what is asked.
pub(crate) fn stories(
    specs: impl Strategy<Value = Spec>,
    steps: BoxedStrategy<Vec<Step>>,
) -> impl Strategy<Value = (Spec, u64, Vec<Step>)> {
    specs.prop_flat_map(move |spec| (Just(spec), epochs(spec.window_us), steps.clone()))
}

/// The clock of a history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    pub(crate) now_us: u64,
    last: Option<AskDecision>,
}

impl Watch {
    pub(crate) fn new(now_us: u64) -> Self {
        Self { now_us: now_us.min(Micros::MAX.as_u64()), last: None }
    }

    pub(crate) fn turn(&mut self, spec: &Spec, by: Move) {
        let scaled = |permille: u64, whole: u64| {
            u64::try_from(u128::from(permille) * u128::from(whole) / 1_000).unwrap()
        };
        let retry = self.last.and_then(|answer| match answer.retry {
            Some(Retry::After(wait)) => Some(wait),
            _ => None,
        });
        let reset = self.last.map(|answer| answer.reset_after);
        let micros = |wait: Option<std::time::Duration>| {
            wait.map_or(0, |wait| u64::try_from(wait.as_micros()).unwrap())
        };
        let at = match by {
            Move::Stay => self.now_us,
            Move::Us(us) => self.now_us + us,
            Move::Window(permille) => self.now_us + scaled(permille, spec.window_us),
            Move::Token(permille) => self.now_us + scaled(permille, spec.window_us / spec.amount.max(1)),
            Move::Retry(off) => forth(self.now_us, micros(retry), off),
            Move::Reset(off) => forth(self.now_us, micros(reset), off),
            Move::Edge(off) => forth(self.now_us, spec.window_us - self.now_us % spec.window_us, off),
            Move::Jump(off) => self.now_us.saturating_add_signed(off),
        };
        self.now_us = at.min(Micros::MAX.as_u64());
    }

    pub(crate) fn saw(&mut self, answer: AskDecision) {
        self.last = Some(answer);
    }
}

/// Forward by `by` and `off`, never back.
fn forth(now_us: u64, by: u64, off: i64) -> u64 {
    (now_us + by).saturating_add_signed(off).max(now_us)
}

pub(crate) fn cost(spec: &Spec, key: &Key<'_>, now_us: u64, pay: Pay) -> u64 {
    match pay {
        Pay::Just(cost) => cost,
        Pay::Share(permille) => {
            u64::try_from(u128::from(permille) * u128::from(spec.capacity()) / 1_000).unwrap()
        }
        Pay::Remaining(more) => key.peek(now_us, 0).remaining.unwrap() + more,
        Pay::Capacity(more) => spec.capacity() + more,
    }
}

/// Plays a history on a key and on the oracle: every answer is the oracle's, keeps its promises, and the law holds.
pub(crate) fn play<'s>(spec: &'s Spec, start_us: u64, steps: &[Step]) -> Oracle<'s> {
    let rule = spec.rule();
    let mut key = Key::new(&rule);
    let mut oracle = Oracle::new(spec);
    let mut watch = Watch::new(start_us);
    for (by, pay) in steps {
        watch.turn(spec, *by);
        let now_us = watch.now_us;
        let cost = cost(spec, &key, now_us, *pay);
        let before = key.clone();
        let answer = key.take(now_us, cost);
        let expected = oracle.take(now_us, cost);
        assert_eq!(answer.allowed, expected.is_some(), "at {now_us} for {cost}: {:?}", before.stored);
        if let Some(delay_us) = expected {
            assert_eq!(answer.delay.as_micros(), u128::from(delay_us), "the delay at {now_us}");
        }
        assert_eq!(key.rebases, oracle.rebases, "moved back at {now_us}");
        check_answer(spec, &before, &key, now_us, cost, &answer);
        watch.saw(answer);
    }
    assert_eq!(oracle.breach(), None);
    oracle
}
