//! Giving back: after a hold was settled at its actual cost, the law holds for actual costs, and only the window or
//! entry that was charged is touched.

use proptest::prelude::*;
use sluicegate_core::{
    Align, Micros, State,
    algorithm::{GiveBack, bucket, fixed_window, sliding_counter},
};

use crate::{
    history::{Step, Watch, cost, epochs, steps},
    key::Key,
    oracle::{Event, breach},
    spec::{HOUR, Kind, MINUTE, SECOND, Spec, any_spec, one_of_each_kind},
};

/// A cost that was taken and may be settled, once.
#[derive(Clone, Copy, Debug)]
struct Hold {
    event: usize,
    charged_at: u64,
    held: u64,
}

/// How a settlement is computed: as ours, or in one of the ways that let too much pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refund {
    Ours,
    /// The whole difference, whatever has drained.
    Plain,
    /// What has drained by the caller's clock, which may be behind the key.
    ByTheCallersClock,
}

/// Plays holds and settlements on one key.
struct Desk<'s, 'r> {
    spec: &'s Spec,
    key: Key<'r>,
    events: Vec<Event>,
    holds: Vec<Hold>,
    refund: Refund,
}

impl<'s, 'r> Desk<'s, 'r> {
    fn new(spec: &'s Spec, key: Key<'r>, refund: Refund) -> Self {
        Self { spec, key, events: Vec::new(), holds: Vec::new(), refund }
    }

    fn hold(&mut self, now_us: u64, cost: u64) -> bool {
        let answer = self.key.take(now_us, cost);
        if answer.allowed && cost > 0 {
            let charged = self.key.stored.clone().unwrap();
            let charged_at = self.key.question(now_us, cost).charged_at(&charged);
            let window = if let State::FixedWindow(state) = &charged { i128::from(state.start) } else { 0 };
            let release_us = i128::from(now_us) + i128::try_from(answer.delay.as_micros()).unwrap();
            self.holds.push(Hold { event: self.events.len(), charged_at, held: cost });
            self.events.push(Event { tick: charged_at.into(), cost: cost.into(), window, release_us });
        }
        answer.allowed
    }

    fn settle(&mut self, now_us: u64, index: usize, actual: u64) {
        let Hold { event, charged_at, held } = self.holds.swap_remove(index);
        let back = GiveBack { charged_at, held, actual };
        let question = self.key.question(now_us, 1);
        let stored = self.key.stored.clone().unwrap();
        let state = match (self.refund, stored) {
            (Refund::Ours, stored) => question.give_back(stored, back),
            (refund, State::Bucket(stored)) => self.badly(refund, now_us, stored, back).into(),
            (_, stored) => stored,
        };
        self.key.stored = Some(state);
        self.events[event].cost = actual.into();
    }

    fn badly(&self, refund: Refund, now_us: u64, state: bucket::State, back: GiveBack) -> bucket::State {
        let (window, tick) = (u64::try_from(self.spec.window()).unwrap(), self.spec.tick_us());
        let drained = match refund {
            Refund::ByTheCallersClock => self.spec.amount * (now_us / tick).saturating_sub(back.charged_at),
            _ => 0,
        };
        let returned = (back.unspent() * window).saturating_sub(drained);
        bucket::State { level: state.level.saturating_sub(returned), ..state }
    }

    /// What remains by the law, if it can be told exactly from actual costs alone.
    fn remains(&self, now_us: u64) -> Option<u64> {
        let (amount, window) = (i128::from(self.spec.amount), self.spec.window());
        let now = self.spec.ticks(now_us);
        let sum = |counts: &dyn Fn(&Event) -> bool| -> i128 {
            self.events.iter().filter(|event| counts(event)).map(|event| event.cost).sum()
        };
        let left = match self.spec.kind {
            Kind::Fixed(_) => {
                let open =
                    sum(&|e| e.window <= now && now < e.window + window && e.window == self.newest_window());
                amount - open
            }
            Kind::Log => amount - sum(&|e| e.tick > now - window),
            Kind::Counter => {
                let start = now - now.rem_euclid(window);
                let previous = sum(&|e| (start - window..start).contains(&e.tick));
                let current = sum(&|e| e.tick >= start);
                (amount * window - previous * (window - (now - start))) / window - current
            }
            _ => return None,
        };
        Some(u64::try_from(left.max(0)).unwrap())
    }

    fn newest_window(&self) -> i128 {
        self.events.iter().map(|event| event.window).max().unwrap_or(0)
    }
}

/// An ask, or a settlement: of which hold, at how many thousandths of it.
type Deed = (Step, Option<(usize, u64)>);

/// What is done next: hold, or settle one of the holds at a share of it.
fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let settlement = prop::option::of((any::<usize>(), prop_oneof![Just(0), 0..=1_200u64]));
    steps().prop_flat_map(move |steps| {
        let settlements = prop::collection::vec(settlement.clone(), steps.len());
        (Just(steps), settlements)
            .prop_map(|(steps, settlements)| steps.into_iter().zip(settlements).collect())
    })
}

fn stories() -> impl Strategy<Value = (Spec, u64, Vec<Deed>)> {
    // Hashed windows overlap in the first two windows after 1970, where one would have to begin before time does.
    let begin = |spec: Spec, at: u64| {
        if spec.kind == Kind::Fixed(Align::Hashed) { at.max(2 * spec.window_us) } else { at }
    };
    any_spec().prop_flat_map(move |spec| {
        (Just(spec), epochs(spec.window_us).prop_map(move |at| begin(spec, at)), deeds())
    })
}

proptest! {
    #[test]
    fn the_law_holds_for_actual_costs((spec, start, deeds) in stories(), behind in 0..5_000_000u64) {
        let rule = spec.rule();
        let mut desk = Desk::new(&spec, Key::new(&rule), Refund::Ours);
        let mut watch = Watch::new(start);
        for (index, ((by, pay), settlement)) in deeds.into_iter().enumerate() {
            watch.turn(&spec, by);
            // Every third caller's clock is behind the others', by less than is doubted.
            let now_us = watch.now_us.saturating_sub(if index % 3 == 2 { behind } else { 0 });
            let before = desk.key.peek(now_us, 0);
            match settlement {
                Some((index, permille)) if !desk.holds.is_empty() => {
                    let index = index % desk.holds.len();
                    let held = desk.holds[index].held;
                    let actual = u64::try_from(u128::from(held) * u128::from(permille) / 1_000).unwrap().min(held);
                    desk.settle(now_us, index, actual);
                    let after = desk.key.peek(now_us, 0);
                    prop_assert!(after.remaining >= before.remaining, "settling took something");
                    prop_assert!(after.remaining <= after.capacity, "more than the whole remains");
                }
                _ => {
                    let cost = cost(&spec, &desk.key, now_us, pay);
                    desk.hold(now_us, cost);
                }
            }
        }
        prop_assert_eq!(breach(&spec, &desk.events), None, "{:?}", desk.events);
    }

    /// The same with clocks that agree, where what remains can be told exactly.
    #[test]
    fn only_the_window_or_entry_that_was_charged_gets_something_back((spec, start, deeds) in stories()) {
        let rule = spec.rule();
        let mut desk = Desk::new(&spec, Key::new(&rule), Refund::Ours);
        let mut watch = Watch::new(start);
        for ((by, pay), settlement) in deeds {
            watch.turn(&spec, by);
            match settlement {
                Some((index, permille)) if !desk.holds.is_empty() => {
                    let index = index % desk.holds.len();
                    let actual = u64::try_from(u128::from(desk.holds[index].held) * u128::from(permille.min(1_000)) / 1_000);
                    desk.settle(watch.now_us, index, actual.unwrap());
                }
                _ => {
                    let cost = cost(&spec, &desk.key, watch.now_us, pay);
                    desk.hold(watch.now_us, cost);
                }
            }
            if let Some(remains) = desk.remains(watch.now_us) {
                let left = desk.key.peek(watch.now_us, 0).remaining;
                prop_assert_eq!(left, Some(remains), "{:?} {:?}", desk.key.stored, desk.events);
            }
        }
    }
}

const TEN_A_SECOND: Spec = Spec { kind: Kind::Bucket { burst: 10 }, amount: 1, window_us: SECOND };

/// Holds 10 at 0 s, takes 5 at 5 s, settles the hold at 0, and takes 10 more; answers whether the law broke.
fn fifteen_at_once(refund: Refund, settled_at_us: u64) -> (u64, bool) {
    let rule = TEN_A_SECOND.rule();
    let mut desk = Desk::new(&TEN_A_SECOND, Key::new(&rule), refund);
    assert!(desk.hold(0, 10));
    assert!(desk.hold(5 * SECOND, 5));
    desk.settle(settled_at_us, 0, 0);
    let more = (1..=10).rev().find(|cost| desk.hold(5 * SECOND, *cost)).unwrap_or(0);
    (more, breach(&TEN_A_SECOND, &desk.events).is_some())
}

#[test]
fn what_has_drained_already_does_not_come_back() {
    assert_eq!(fifteen_at_once(Refund::Ours, 5 * SECOND), (5, false));
    // Known bad: a plain refund lets 15 pass at once.
    assert_eq!(fifteen_at_once(Refund::Plain, 5 * SECOND), (10, true));
}

#[test]
fn what_has_drained_is_told_by_the_keys_clock_not_by_the_callers() {
    assert_eq!(fifteen_at_once(Refund::Ours, SECOND), (5, false));
    // Known bad: to a caller that is 4 s behind only 1 of the 5 has drained.
    assert_eq!(fifteen_at_once(Refund::ByTheCallersClock, SECOND), (9, true));
}

/// Three queue up at 1/s; the second leaves. Were its slot given to the next, two would be released together.
#[test]
fn a_slot_in_a_queue_is_not_given_away_twice() {
    let spec = Spec { kind: Kind::Queue { max_delay_us: MINUTE }, amount: 1, window_us: SECOND };
    let rule = spec.rule();
    for (refund, broken) in [(Refund::Ours, false), (Refund::Plain, true)] {
        let mut desk = Desk::new(&spec, Key::new(&rule), refund);
        for _ in 0..3 {
            assert!(desk.hold(0, 1));
        }
        let promised = desk.events.clone();
        desk.settle(0, 1, 0);
        assert!(desk.hold(0, 1));
        let mut all = promised;
        all.push(*desk.events.last().unwrap());
        assert_eq!(breach(&spec, &all).is_some(), broken, "{refund:?}");
    }
}

#[test]
fn a_hold_settled_at_once_and_at_0_leaves_a_key_as_new() {
    for kind in one_of_each_kind() {
        let spec = Spec { kind, amount: 10, window_us: MINUTE };
        let rule = spec.rule();
        let mut desk = Desk::new(&spec, Key::new(&rule), Refund::Ours);
        assert!(desk.hold(HOUR, 7));
        desk.settle(HOUR, 0, 0);
        let queue = matches!(kind, Kind::Queue { .. });
        for later in [0, 1, 30 * SECOND] {
            assert_eq!(desk.key.is_as_new(HOUR + later), !queue, "{kind:?} {later}");
        }
    }
}

/// After the state was moved to a clock an hour back, nobody knows how much of an old hold has drained.
#[test]
fn a_charge_that_cannot_be_placed_gives_nothing_back() {
    let kinds = one_of_each_kind().into_iter().filter(|kind| !matches!(kind, Kind::Queue { .. }));
    for kind in kinds {
        let spec = Spec { kind, amount: 10, window_us: MINUTE };
        let rule = spec.rule();
        let mut desk = Desk::new(&spec, Key::new(&rule), Refund::Ours);
        assert!(desk.hold(100 * HOUR, 7));
        assert!(desk.hold(99 * HOUR, 1));
        assert_eq!(desk.key.rebases, 1, "{kind:?}");
        desk.settle(99 * HOUR, 0, 0);
        assert_eq!(desk.key.peek(99 * HOUR, 0).remaining, Some(2), "{kind:?}");
    }
}

/// What comes back of 3 that were charged at `charged_at` ticks, to a state that was stored.
fn returned(spec: &Spec, state: impl Into<State>, charged_at: u64) -> State {
    let rule = spec.rule();
    let question = Key::new(&rule).question(0, 1);
    question.give_back(state.into(), GiveBack { charged_at, held: 3, actual: 0 })
}

#[test]
fn a_fixed_window_gets_back_what_was_charged_from_its_first_to_its_last_tick() {
    let spec = Spec { kind: Kind::Fixed(Align::Epoch), amount: 10, window_us: SECOND };
    let (start, end) = (7 * SECOND, 8 * SECOND);
    for (charged_at, used) in [(start - 1, 5), (start, 2), (end - 1, 2), (end, 5)] {
        let left = returned(&spec, fixed_window::State { start, used: 5 }, charged_at);
        assert_eq!(left, fixed_window::State { start, used }.into(), "{charged_at}");
    }
}

#[test]
fn a_sliding_counter_gets_back_to_the_window_that_was_charged() {
    let spec = Spec { kind: Kind::Counter, amount: 10, window_us: SECOND };
    let start = 7 * SECOND;
    for (charged_at, previous, current) in [
        (start - SECOND - 1, 4, 5),
        (start - SECOND, 1, 5),
        (start - 1, 1, 5),
        (start, 4, 2),
        (start + SECOND - 1, 4, 2),
        (start + SECOND, 4, 5),
    ] {
        let left = returned(&spec, sliding_counter::State { start, previous: 4, current: 5 }, charged_at);
        assert_eq!(left, sliding_counter::State { start, previous, current }.into(), "{charged_at}");
    }
}

/// A caller that is 3 s behind, over the edge of a window: what it held is found where it was counted.
#[test]
fn a_hold_of_a_clock_that_is_behind_comes_back_whole() {
    for kind in one_of_each_kind().into_iter().filter(|kind| !matches!(kind, Kind::Queue { .. })) {
        let spec = Spec { kind, amount: 10, window_us: MINUTE };
        let rule = spec.rule();
        let phase = rule.at(Micros::new(0), crate::key::NAME).phase * spec.tick_us();
        let edge = HOUR + phase;
        let mut desk = Desk::new(&spec, Key::new(&rule), Refund::Ours);
        assert!(desk.hold(edge, 1));
        assert!(desk.hold(edge - 3 * SECOND, 5));
        desk.settle(edge - 3 * SECOND, 1, 0);
        assert_eq!(desk.key.peek(edge, 0).remaining, Some(9), "{kind:?}");
        assert_eq!(desk.key.rebases, 0);
    }
}

/// All of a window came back; a caller that is behind must still not be counted in the window before it, which is
/// forgotten: 10 of 10 were used there.
#[test]
fn a_window_that_is_empty_again_keeps_its_place() {
    let spec = Spec { kind: Kind::Fixed(Align::Epoch), amount: 10, window_us: MINUTE };
    let rule = spec.rule();
    let mut desk = Desk::new(&spec, Key::new(&rule), Refund::Ours);
    assert!(desk.hold(HOUR - 30 * SECOND, 10));
    assert!(desk.hold(HOUR, 4));
    desk.settle(HOUR, 1, 0);
    assert!(desk.hold(HOUR - SECOND, 10));
    assert_eq!(breach(&spec, &desk.events), None, "{:?}", desk.events);
    assert_eq!(desk.key.peek(HOUR, 0).remaining, Some(0));
}

/// The newest entry came back whole: without its time a caller that is behind would be admitted beside what a log has
/// dropped by then.
#[test]
fn a_log_keeps_the_time_of_an_entry_that_came_back() {
    let spec = Spec { kind: Kind::Log, amount: 10, window_us: SECOND };
    let rule = spec.rule();
    let mut desk = Desk::new(&spec, Key::new(&rule), Refund::Ours);
    assert!(desk.hold(HOUR, 10));
    assert!(desk.hold(HOUR + SECOND, 10));
    desk.settle(HOUR + SECOND, 1, 0);
    assert!(desk.hold(HOUR + 1, 10));
    assert_eq!(breach(&spec, &desk.events), None, "{:?}", desk.events);
    assert!(!desk.key.admits(HOUR + 2 * SECOND - 1, 1));
}
