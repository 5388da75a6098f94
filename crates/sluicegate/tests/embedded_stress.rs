//! The embedded store far beyond its cap: slots are claimed, given back and reused while other threads look at them,
//! and every key keeps its law, counted from a log of all that was admitted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::{
    collections::HashMap,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use sluicegate::{
    core::{Align, Ask, LimitId, Micros, Rule, Subject},
    embedded::{EmbeddedConfig, EmbeddedStore},
};

const NOON: Micros = Micros::from_secs(1_800_000_000);
const WINDOW: Duration = Duration::from_secs(20);
const AMOUNT: u64 = 6;
const KEYS: u64 = 3_000;
const THREADS: u64 = 4;
const ROUNDS: u64 = 100;
const CALLS: usize = 150;
const FORGETTINGS: u64 = 1_000;

/// A rule, a key, a time and a cost that was admitted.
type Admitted = (usize, u64, u64, u64);

fn rules() -> Vec<Rule> {
    vec![
        Rule::fixed_window(AMOUNT, WINDOW, Align::Epoch).unwrap(),
        Rule::sliding_log(AMOUNT, WINDOW).unwrap(),
        Rule::sliding_counter(AMOUNT, WINDOW).unwrap(),
        Rule::token_bucket(AMOUNT, WINDOW, AMOUNT).unwrap(),
    ]
}

/// A generator of Marsaglia's ("Xorshift RNGs", 2003): repeatable, and enough to mix calls.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    /// Some keys are hot, and most are hardly ever seen.
    fn key(&mut self) -> u64 {
        let bound = 1 + self.below(KEYS);
        self.below(bound)
    }
}

fn ask(rules: &[Rule], rule: usize, key: u64, cost: u64) -> Ask<'_> {
    let subject = Subject::new("test", &[], &[("user", Some(&key.to_string()))]);
    Ask::new(&rules[rule], LimitId::of(&rule.to_string(), &rules[rule]), subject, cost)
}

/// One call of one to three asks of different limits; what it admitted.
fn call(store: &EmbeddedStore, rules: &[Rule], random: &mut Random, now: Micros) -> Vec<Admitted> {
    let first = usize::try_from(random.below(4)).unwrap();
    let picks: Vec<(usize, u64, u64)> = (0..=random.below(3))
        .map(|more| ((first + usize::try_from(more).unwrap()) % rules.len(), random.key(), random.below(4)))
        .collect();
    let asks: Vec<_> = picks.iter().map(|(rule, key, cost)| ask(rules, *rule, *key, *cost)).collect();
    if random.below(8) == 0 {
        store.peek_now(&asks, now);
        return Vec::new();
    }
    let admitted = store.take_now(&asks, now).allowed;
    let log = picks.into_iter().filter(|(_, _, cost)| admitted && *cost > 0);
    log.map(|(rule, key, cost)| (rule, key, now.as_u64(), cost)).collect()
}

/// The most that may be admitted from `from` up to and including `to`.
fn most(rule: usize, from: u64, to: u64) -> u64 {
    let window = u64::try_from(WINDOW.as_micros()).unwrap();
    match rule {
        0 => AMOUNT * (to / window - from / window + 1),
        1 => AMOUNT * ((to - from) / window + 1),
        2 => AMOUNT + AMOUNT * (to - from).div_ceil(window),
        _ => AMOUNT + AMOUNT * (to - from) / window,
    }
}

fn check(log: Vec<Admitted>) {
    let mut by_key: HashMap<(usize, u64), Vec<(u64, u64)>> = HashMap::new();
    for (rule, key, at, cost) in log {
        by_key.entry((rule, key)).or_default().push((at, cost));
    }
    for ((rule, key), mut admitted) in by_key {
        admitted.sort_unstable();
        for (index, (from, _)) in admitted.iter().enumerate() {
            let mut sum = 0;
            for (to, cost) in &admitted[index..] {
                sum += cost;
                let law = most(rule, *from, *to);
                assert!(sum <= law, "rule {rule}, key {key}: {sum} of {law} from {from} to {to}");
            }
        }
    }
}

fn race(max_keys: usize, max_log_entries: usize, seed: u64) -> usize {
    let (rules, barrier) = (rules(), Barrier::new(usize::try_from(THREADS).unwrap()));
    let store = EmbeddedStore::new(EmbeddedConfig { max_keys, max_log_entries, max_ids: 10 });
    let work = |thread: u64| {
        let mut random = Random(seed * 1_000 + thread + 1);
        let mut log = Vec::new();
        for round in 0..ROUNDS {
            // All threads are of one time, so that the log tells in which window each call was.
            barrier.wait();
            let now = NOON.plus(Duration::from_millis(1_700) * u32::try_from(round).unwrap());
            for _ in 0..CALLS {
                log.extend(call(&store, &rules, &mut random, now));
            }
        }
        log
    };
    let log: Vec<Admitted> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let work = &work;
                    move || work(thread)
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let admitted = log.len();
    check(log);
    admitted
}

#[test]
fn every_key_keeps_its_law_while_slots_and_logs_are_reused_beyond_the_cap() {
    for (seed, (keys, entries)) in [(1, 1), (40, 40), (300, 1_200), (3_000, 12_000)].into_iter().enumerate() {
        let admitted = race(keys, entries, u64::try_from(seed).unwrap());
        assert!(admitted > 1_000, "only {admitted} admitted with room for {keys} keys");
    }
}

/// Whoever takes while another forgets counts either before or after it.
#[test]
fn what_is_admitted_around_a_forget_is_counted_once_for_each_forgetting() {
    for rule in rules() {
        let rules = [rule];
        let store = EmbeddedStore::new(EmbeddedConfig::for_keys(1));
        let (admitted, forgotten, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let one = ask(&rules, 0, 1, 1);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let passed = store.take_now(std::slice::from_ref(&one), NOON).allowed;
                        admitted.fetch_add(u64::from(passed), Ordering::Relaxed);
                    }
                });
            }
            scope.spawn(|| {
                while forgotten.load(Ordering::Relaxed) < FORGETTINGS {
                    let some = store.forget_now(one.id, &one.subject);
                    forgotten.fetch_add(u64::from(some), Ordering::Relaxed);
                }
                done.store(true, Ordering::Relaxed);
            });
        });
        let (admitted, most) = (admitted.into_inner(), AMOUNT * (FORGETTINGS + 1));
        assert!(admitted >= FORGETTINGS && admitted <= most, "{admitted} of {most}: {rules:?}");
    }
}
