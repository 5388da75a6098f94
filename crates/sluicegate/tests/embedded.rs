//! The embedded store: exact under threads, equal to the arithmetic, bounded in memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::unchecked_time_subtraction)]

use std::{
    collections::HashMap,
    sync::{
        Barrier,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use proptest::prelude::*;
use sluicegate::{
    core::{Align, Ask, Decision, LimitId, Micros, Question, Rule, State, Subject},
    embedded::{EmbeddedConfig, EmbeddedStore},
};

const NOON: Micros = Micros::from_secs(1_800_000_000);
const MINUTE: Duration = Duration::from_secs(60);

fn subject(key: &str) -> Subject {
    Subject::new("test", &[], &[("user", Some(key))])
}

fn ask<'a>(rule: &'a Rule, name: &str, key: &str, cost: u64) -> Ask<'a> {
    Ask::new(rule, LimitId::of(name, rule), subject(key), cost)
}

fn rules(amount: u64) -> Vec<Rule> {
    vec![
        Rule::fixed_window(amount, MINUTE, Align::Epoch).unwrap(),
        Rule::fixed_window(amount, MINUTE, Align::Hashed).unwrap(),
        Rule::fixed_window(amount, MINUTE, Align::FirstRequest).unwrap(),
        Rule::sliding_log(amount, MINUTE).unwrap(),
        Rule::sliding_counter(amount, MINUTE).unwrap(),
        Rule::token_bucket(amount, MINUTE, amount).unwrap(),
        Rule::gcra(amount, MINUTE, amount).unwrap(),
        Rule::leaky_bucket(amount, MINUTE, MINUTE - MINUTE / u32::try_from(amount.max(1)).unwrap()).unwrap(),
    ]
}

/// Lets `threads` threads call at once, `calls` times each, and counts the calls that answer yes.
fn at_once(threads: usize, calls: usize, call: impl Fn(usize) -> bool + Sync) -> usize {
    let (barrier, yes) = (Barrier::new(threads), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..threads {
            let (barrier, yes, call) = (&barrier, &yes, &call);
            scope.spawn(move || {
                barrier.wait();
                let own = (0..calls).filter(|i| call(thread * calls + i)).count();
                yes.fetch_add(own, Ordering::Relaxed);
            });
        }
    });
    yes.load(Ordering::Relaxed)
}

#[test]
fn ten_of_two_hundred_at_once_pass_when_990_of_1000_are_used() {
    for rule in rules(1_000) {
        let store = EmbeddedStore::default();
        assert!(store.take_now(&[ask(&rule, "a", "alice", 990)], NOON).allowed);
        let passed = at_once(8, 25, |_| store.take_now(&[ask(&rule, "a", "alice", 1)], NOON).allowed);
        assert_eq!(passed, 10, "{rule:?}");
    }
}

/// A published library lets 101 of 100 through in a few of 5,000 rounds: its check and its count are two steps.
#[test]
fn a_hundred_of_a_hundred_pass_in_every_one_of_5000_rounds() {
    let rule = Rule::gcra(100, MINUTE, 100).unwrap();
    let store = EmbeddedStore::new(EmbeddedConfig::for_keys(10_000));
    for round in 0..5_000 {
        let ask = ask(&rule, "a", &format!("round {round}"), 1);
        let passed = at_once(4, 30, |_| store.take_now(std::slice::from_ref(&ask), NOON).allowed);
        assert_eq!(passed, 100, "round {round}");
    }
}

#[test]
fn a_request_that_the_last_limit_denies_charges_none_of_the_others() {
    let rules = rules(1_000);
    for last in &rules {
        let store = EmbeddedStore::default();
        let asks = |cost| {
            let first = rules.iter().enumerate().map(|(i, rule)| ask(rule, &format!("n{i}"), "alice", cost));
            first.chain([ask(last, "last", "org", cost * 10)]).collect::<Vec<_>>()
        };
        let passed = at_once(8, 50, |_| store.take_now(&asks(1), NOON).allowed);
        assert_eq!(passed, 100, "{last:?}");
        for (ask, decision) in asks(0).iter().zip(store.peek_now(&asks(0), NOON).asks) {
            let left = if ask.id == LimitId::of("last", last) { 0 } else { 900 };
            let leaky_left = if left == 0 { 0 } else { 1_000 };
            let expected = if ask.rule.algorithm().name() == "leaky_bucket" { leaky_left } else { left };
            assert_eq!(decision.remaining, Some(expected), "{:?}", ask.rule);
        }
    }
}

#[test]
fn mixed_costs_at_once_never_exceed_the_amount_and_leave_less_than_the_least_cost() {
    for rule in rules(1_000).into_iter().filter(|rule| rule.algorithm().name() != "leaky_bucket") {
        let (store, admitted) = (EmbeddedStore::default(), AtomicU64::new(0));
        at_once(8, 100, |i| {
            let cost = 2 + u64::try_from(i % 7).unwrap();
            let allowed = store.take_now(&[ask(&rule, "a", "alice", cost)], NOON).allowed;
            admitted.fetch_add(if allowed { cost } else { 0 }, Ordering::Relaxed);
            allowed
        });
        let admitted = admitted.load(Ordering::Relaxed);
        assert!((999..=1_000).contains(&admitted), "{admitted} by {rule:?}");
    }
}

#[test]
fn requests_over_the_same_keys_in_any_order_never_deadlock() {
    let rule = Rule::fixed_window(1_000_000, MINUTE, Align::Epoch).unwrap();
    let store = EmbeddedStore::new(EmbeddedConfig::for_keys(64));
    let names: Vec<String> = (0..8).map(|i| format!("k{i}")).collect();
    at_once(4, 2_000, |i| {
        let asks = (0..4).map(|j| ask(&rule, "a", &names[(i * (j + 1) + j) % names.len()], 1));
        store.take_now(&asks.collect::<Vec<_>>(), NOON).allowed
    });
    let used = |name: &String| {
        1_000_000 - store.peek_now(&[ask(&rule, "a", name, 0)], NOON).asks[0].remaining.unwrap()
    };
    assert_eq!(names.iter().map(used).sum::<u64>(), 4 * 4 * 2_000);
}

#[test]
fn the_same_limit_and_key_twice_in_one_request_is_charged_twice() {
    for rule in rules(10).into_iter().filter(|rule| rule.algorithm().name() != "leaky_bucket") {
        let store = EmbeddedStore::default();
        let twice = |cost| [ask(&rule, "a", "alice", cost), ask(&rule, "a", "alice", cost)];
        assert!(!store.take_now(&twice(6), NOON).allowed, "{rule:?}");
        let decision = store.take_now(&twice(4), NOON);
        assert!(decision.allowed && decision.asks.len() == 2);
        assert_eq!(decision.asks[1].remaining, Some(2), "{rule:?}");
    }
}

#[test]
fn a_peek_a_denial_and_a_cost_of_nothing_leave_no_trace() {
    for rule in rules(10) {
        let store = EmbeddedStore::default();
        let id = LimitId::of("a", &rule);
        for attempt in [ask(&rule, "a", "new", 11), ask(&rule, "a", "new", 0)] {
            store.take_now(&[attempt.clone(), ask(&rule, "b", "new", 0)], NOON);
            store.take_now(&[attempt], NOON);
        }
        store.peek_now(&[ask(&rule, "a", "new", 1)], NOON);
        assert_eq!(store.state(&rule, id, &subject("new")), None, "{rule:?}");
        assert!(store.take_now(&[ask(&rule, "a", "old", 10)], NOON).allowed);
        let before = store.state(&rule, id, &subject("old"));
        store.take_now(&[ask(&rule, "a", "old", 10)], NOON);
        store.take_now(&[ask(&rule, "b", "other", 1), ask(&rule, "a", "old", 10)], NOON);
        assert_eq!(store.state(&rule, id, &subject("old")), before, "{rule:?}");
        assert_eq!(store.state(&rule, LimitId::of("b", &rule), &subject("other")), None);
    }
}

#[test]
fn forget_drops_one_limit_of_one_key_and_nothing_else() {
    for rule in rules(10) {
        let store = EmbeddedStore::default();
        for (name, key) in [("a", "alice"), ("b", "alice"), ("a", "bob")] {
            assert!(store.take_now(&[ask(&rule, name, key, 5)], NOON).allowed);
        }
        assert!(store.forget_now(LimitId::of("a", &rule), &subject("alice")));
        assert!(!store.forget_now(LimitId::of("a", &rule), &subject("alice")));
        assert_eq!(store.state(&rule, LimitId::of("a", &rule), &subject("alice")), None);
        assert!(store.state(&rule, LimitId::of("b", &rule), &subject("alice")).is_some());
        assert!(store.state(&rule, LimitId::of("a", &rule), &subject("bob")).is_some());
    }
}

/// Argo CD's bounded table evicted random entries, so that a flood of invented names freed the one under attack
/// (CVE-2024-21662).
#[test]
fn a_flood_of_new_keys_frees_no_attacker_and_admits_nobody_uncounted() {
    for rule in rules(10) {
        let store = EmbeddedStore::new(EmbeddedConfig::for_keys(1_000));
        let attack = ask(&rule, "a", "attacker", 10);
        assert!(store.take_now(std::slice::from_ref(&attack), NOON).allowed);
        let flood: Vec<_> = (0..10_000).map(|i| ask(&rule, "a", &format!("flood {i}"), 1)).collect();
        for ask in &flood {
            store.take_now(std::slice::from_ref(ask), NOON);
        }
        let last = ask(&rule, "a", "attacker", 10);
        assert!(!store.take_now(&[last], NOON).allowed, "{rule:?}");
        let latecomer = ask(&rule, "a", "latecomer", 1);
        let passed =
            (0..100).filter(|_| store.take_now(std::slice::from_ref(&latecomer), NOON).allowed).count();
        assert!(passed <= 10, "{passed} of a latecomer pass by {rule:?}");
    }
}

/// The named number of keys is counted exactly: nobody is refused on account of others before it is reached.
#[test]
fn every_key_up_to_the_cap_has_a_place_of_its_own() {
    for max_keys in [100, 1_000, 50_000] {
        let rule = Rule::fixed_window(1, MINUTE, Align::Epoch).unwrap();
        let store = EmbeddedStore::new(EmbeddedConfig::for_keys(max_keys));
        let keys: Vec<_> = (0..max_keys).map(|i| ask(&rule, "a", &i.to_string(), 1)).collect();
        let passed =
            keys.iter().filter(|ask| store.take_now(std::slice::from_ref(ask), NOON).allowed).count();
        assert_eq!((passed, store.live_keys(NOON)), (max_keys, max_keys));
        let again = keys.iter().filter(|ask| store.take_now(std::slice::from_ref(ask), NOON).allowed).count();
        assert_eq!(again, 0);
    }
}

#[test]
fn keys_that_have_reset_make_room_without_a_sweep() {
    for rule in rules(10) {
        let store = EmbeddedStore::new(EmbeddedConfig { max_keys: 100, max_log_entries: 100, max_ids: 10 });
        for round in 0..50_u32 {
            // Two horizons and the grace of 5 s later, all that was counted before has reset.
            let now = NOON.plus((MINUTE * 4) * round);
            let fresh = (0..100).map(|i| ask(&rule, "a", &format!("{round} {i}"), 10));
            let refused = fresh.filter(|ask| !store.take_now(std::slice::from_ref(ask), now).allowed).count();
            assert_eq!(refused, 0, "round {round} of {rule:?}");
        }
    }
}

#[test]
fn logs_beyond_their_bound_are_counted_longer_and_never_shorter() {
    let rule = Rule::sliding_log(50, MINUTE).unwrap();
    let store = EmbeddedStore::new(EmbeddedConfig { max_keys: 100, max_log_entries: 20, max_ids: 10 });
    let mut admitted: Vec<(Micros, u64)> = Vec::new();
    for second in 0..600 {
        let now = NOON.plus(Duration::from_millis(500) * second);
        if store.take_now(&[ask(&rule, "a", "alice", 1)], now).allowed {
            admitted.push((now, 1));
        }
        let recent = admitted.iter().filter(|(at, _)| now.since(*at) < MINUTE).count();
        assert!(recent <= 50, "{recent} within a minute");
    }
    let Some(State::SlidingLog(log)) = store.state(&rule, LimitId::of("a", &rule), &subject("alice")) else {
        panic!("no log");
    };
    assert!(log.entries.len() <= 20, "{} entries", log.entries.len());
    assert!(admitted.len() > 100, "only {} admitted", admitted.len());
}

/// What the store must do, written without any of its parts: the arithmetic over a map.
#[derive(Default)]
struct Model(HashMap<(LimitId, Subject), State>);

impl Model {
    fn decide(&mut self, asks: &[Ask<'_>], now: Micros, count: bool) -> Decision {
        let question = |ask: &Ask<'_>, key: &[u8]| -> State {
            let question = Question { rule: ask.rule, key, cost: ask.cost, now };
            let stored = self.0.get(&(ask.id, ask.subject.clone())).cloned();
            let moved = stored.map(|state| question.rebase(state));
            question.roll(moved).unwrap()
        };
        let states: Vec<State> =
            asks.iter().map(|ask| question(ask, ask.subject.as_str().as_bytes())).collect();
        let of = |ask: &Ask<'_>| -> (Rule, u64) { (ask.rule.clone(), ask.cost) };
        let admits = asks.iter().zip(&states).all(|(ask, state)| {
            let (rule, cost) = of(ask);
            Question { rule: &rule, key: ask.subject.as_str().as_bytes(), cost, now }.admits(state)
        });
        let mut answers = Vec::new();
        for (ask, state) in asks.iter().zip(states) {
            let question =
                Question { rule: ask.rule, key: ask.subject.as_str().as_bytes(), cost: ask.cost, now };
            let charged = admits && count && ask.cost > 0;
            let state = if charged { question.charge(state) } else { state };
            answers.push(question.report(&state, charged));
            let key = (ask.id, ask.subject.clone());
            let stored = self.0.get(&key).cloned();
            let moved =
                stored.clone().map(|stored| question.rebase(stored)).filter(|_| ask.cost > 0 && count);
            if charged {
                self.0.insert(key, state);
            } else if let Some(moved) = moved {
                self.0.insert(key, moved);
            }
        }
        Decision::of(answers)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_store_answers_as_the_arithmetic_does(
        steps in proptest::collection::vec(
            (proptest::collection::vec((0..8_usize, 0..3_u8, 0..13_u64), 1..4), -40_000..90_000_i64, any::<bool>()),
            1..120
        ),
        epoch in prop_oneof![Just(0), Just(1_u64 << 31), Just(1 << 32), 0..4_000_000_000_u64],
    ) {
        let (rules, mut model) = (rules(10), Model::default());
        let store = EmbeddedStore::new(EmbeddedConfig::for_keys(64));
        let mut now_ms = i64::try_from(epoch).unwrap() * 1_000;
        for (picks, move_ms, count) in steps {
            now_ms = (now_ms + move_ms).max(0);
            let now = Micros::new(u64::try_from(now_ms).unwrap() * 1_000);
            let mut asks: Vec<Ask<'_>> = Vec::new();
            for (rule, key, cost) in picks {
                let ask = ask(&rules[rule], &rule.to_string(), &key.to_string(), cost);
                if !asks.iter().any(|other| other.id == ask.id && other.subject == ask.subject) {
                    asks.push(ask);
                }
            }
            let got = if count { store.take_now(&asks, now) } else { store.peek_now(&asks, now) };
            prop_assert_eq!(got, model.decide(&asks, now, count));
        }
    }
}

/// A slot that one ask of a request has claimed looks, until it is written, like the key that left it. The search for
/// room for another ask of the same request then took it again: two keys in one slot, and one of them uncounted.
#[test]
fn two_new_keys_of_one_request_never_share_a_slot() {
    let rules = rules(5);
    for rule in &rules {
        let store = EmbeddedStore::new(EmbeddedConfig::for_keys(1));
        let pair =
            |i: usize, cost| [ask(rule, "a", &format!("{i}"), cost), ask(rule, "b", &format!("{i}"), cost)];
        let mut now = NOON;
        for wave in 0..20 {
            let keys = wave * 100..wave * 100 + 40;
            let admitted: Vec<usize> = keys.filter(|i| store.take_now(&pair(*i, 5), now).allowed).collect();
            assert!(!admitted.is_empty(), "{rule:?}");
            for i in admitted {
                for ask in pair(i, 1) {
                    assert!(!store.take_now(&[ask], now).allowed, "{rule:?}: {i} of wave {wave} twice");
                }
            }
            now = now.plus(MINUTE * 3);
        }
    }
}

/// The same with a key that had a slot and has reset: its slot was found for it, and then taken for the key after it.
#[test]
fn a_key_that_has_reset_and_a_new_key_of_one_request_never_share_a_slot() {
    for rule in rules(5) {
        let store = EmbeddedStore::new(EmbeddedConfig::for_keys(1));
        let key = |name: &str, i: usize, cost| ask(&rule, name, &i.to_string(), cost);
        let old: Vec<usize> =
            (0..60).filter(|i| store.take_now(&[key("old", *i, 5)], NOON).allowed).collect();
        let later = NOON.plus(MINUTE * 3);
        let pairs = old
            .into_iter()
            .filter(|i| store.take_now(&[key("old", *i, 5), key("new", *i, 5)], later).allowed);
        let pairs: Vec<usize> = pairs.collect();
        assert!(!pairs.is_empty(), "{rule:?}");
        for i in pairs {
            for ask in [key("old", i, 1), key("new", i, 1)] {
                assert!(!store.take_now(std::slice::from_ref(&ask), later).allowed, "{ask:?} twice");
            }
        }
    }
}

/// A flood of logs once filled their own memory, and then every new key of every other algorithm was counted in the
/// sketch, where it may be refused on account of others, although the table had room.
#[test]
fn full_logs_leave_the_keys_of_other_algorithms_their_places() {
    let log = Rule::sliding_log(1, MINUTE).unwrap();
    let window = Rule::fixed_window(1, MINUTE, Align::Epoch).unwrap();
    let store = EmbeddedStore::new(EmbeddedConfig { max_keys: 10_000, max_log_entries: 10, max_ids: 10 });
    let logs = (0..100).map(|i| ask(&log, "log", &i.to_string(), 1));
    assert!(logs.filter(|ask| store.take_now(std::slice::from_ref(ask), NOON).allowed).count() >= 10);
    let before = store.live_keys(NOON);
    let windows = (0..5_000).map(|i| ask(&window, "window", &i.to_string(), 1));
    let passed = windows.filter(|ask| store.take_now(std::slice::from_ref(ask), NOON).allowed).count();
    let placed = store.live_keys(NOON) - before;
    // A few meet a log in both rows of the sketch, and nobody can tell them from it.
    assert!(passed == placed && placed > 4_900, "{passed} passed, {placed} of 5000 have a place");
}
