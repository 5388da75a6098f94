//! Keyed checks in one process against governor's default keyed limiter and throttlecrab's library.

use std::{
    hash::BuildHasher,
    num::NonZeroU32,
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use governor::{DefaultKeyedRateLimiter, Quota};
use sluicegate::{
    Clock, CoarseClock, SystemClock,
    core::Rule,
    embedded::{EmbeddedConfig, KeyedLimiter},
};
use sluicegate_bench::{Contestant, Shuffle, alternate, resident_bytes, thread_nanos};
use throttlecrab::{PeriodicStore, RateLimiter};

const ROUNDS: usize = 7;
const CALLS: usize = 1_000_000;

fn ours<C: Clock>(max_keys: usize, per_second: u64, clock: C) -> KeyedLimiter<C> {
    let rule = Rule::gcra(per_second, Duration::from_secs(1), per_second).unwrap();
    KeyedLimiter::with(rule, EmbeddedConfig::for_keys(max_keys), clock)
}

fn governor(per_second: u32) -> DefaultKeyedRateLimiter<String> {
    DefaultKeyedRateLimiter::keyed(Quota::per_second(NonZeroU32::new(per_second).unwrap()))
}

/// What a check cannot do without, as a floor: the clock, one 64-bit hash, a probe of a table of fingerprints and arrival
/// times in which keys never expire, and one compare-and-swap. It tells no two keys of one hash apart, knows one limit
/// and has no way to make room.
struct Bare {
    hasher: foldhash::fast::RandomState,
    slots: Vec<[AtomicU64; 2]>,
    interval_ns: u64,
    burst_ns: u64,
    clock: SystemClock,
}

impl Bare {
    fn new(max_keys: usize, per_second: u64) -> Self {
        let slots = (max_keys * 3 / 2).next_power_of_two();
        Self {
            hasher: foldhash::fast::RandomState::default(),
            slots: (0..slots).map(|_| [const { AtomicU64::new(0) }; 2]).collect(),
            interval_ns: 1_000_000_000 / per_second,
            burst_ns: 1_000_000_000,
            clock: SystemClock::new(),
        }
    }

    fn check(&self, key: &str) -> bool {
        let now = self.clock.now().as_u64() * 1_000;
        let fingerprint = self.hasher.hash_one(key).max(1);
        let mut at = fingerprint as usize;
        let arrival = loop {
            let [stored, arrival] = &self.slots[at & (self.slots.len() - 1)];
            let seen = stored.load(Ordering::Acquire);
            if seen == fingerprint
                || seen == 0
                    && stored.compare_exchange(0, fingerprint, Ordering::AcqRel, Ordering::Acquire).is_ok()
            {
                break arrival;
            }
            at += usize::from(seen != 0);
        };
        loop {
            let seen = arrival.load(Ordering::Relaxed);
            let next = seen.max(now) + self.interval_ns;
            if next > now + self.burst_ns {
                return false;
            }
            if arrival.compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
    }
}

fn key(i: usize) -> String {
    format!("user-{i:08}")
}

fn speed(name: &str, n: usize, threads: usize, per_second: u32) {
    let mut shuffle = Shuffle::new();
    let calls: Vec<String> = (0..CALLS).map(|_| key(shuffle.below(n))).collect();
    let exact = ours(n, u64::from(per_second), SystemClock::new());
    let coarse = ours(n, u64::from(per_second), CoarseClock::every(Duration::from_millis(1)).unwrap());
    let governor = governor(per_second);
    let bare = Bare::new(n, u64::from(per_second));
    let crab = Mutex::new(RateLimiter::new(PeriodicStore::builder().capacity(n).build()));
    let contestants = [
        Contestant { name: "sluicegate", decide: Box::new(|key| exact.check(key).is_ok()) },
        Contestant { name: "shared tick", decide: Box::new(|key| coarse.check(key).is_ok()) },
        Contestant { name: "governor", decide: Box::new(|key| governor.check_key(key).is_ok()) },
        Contestant { name: "bare table", decide: Box::new(|key| bare.check(key)) },
        Contestant {
            name: "throttlecrab",
            decide: Box::new(|key| {
                let (burst, rate) = (i64::from(per_second), i64::from(per_second));
                let decided = crab.lock().unwrap().rate_limit(key, burst, rate, 1, 1, SystemTime::now());
                decided.unwrap().0
            }),
        },
    ];
    let nanos = alternate(&contestants, (0..n).map(key), &calls, threads, ROUNDS);
    let [exact, coarse, governor, bare, crab] = nanos.as_slice() else { unreachable!() };
    let ratio = |peer: &f64| format!("{:.2}x / {:.2}x", peer / exact, peer / coarse);
    println!(
        "| {name} | {exact:.0} ns / {coarse:.0} ns | {governor:.0} ns | {crab:.0} ns | {bare:.0} ns | {} | {:.2}x |",
        ratio(governor),
        governor / bare
    );
}

/// Bytes of memory per key, each contestant in a process of its own.
fn bytes_per_key(n: usize) {
    let measure = |who: &str| -> f64 {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["bytes", who, &n.to_string()])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    };
    let (ours, governor) = (measure("sluicegate"), measure("governor"));
    println!("| bytes per key, {n} keys | {ours:.1} | {governor:.1} | | | {:.2}x | |", ours / governor);
}

fn bytes_in_this_process(who: &str, n: usize) {
    let before = resident_bytes();
    let (ours, governor) =
        (ours(if who == "sluicegate" { n } else { 1 }, 10, SystemClock::new()), governor(10));
    for i in 0..n {
        let key = key(i);
        match who {
            "sluicegate" => assert!(ours.check(&key).is_ok()),
            _ => assert!(governor.check_key(&key).is_ok()),
        }
    }
    println!("{}", (resident_bytes() - before) as f64 / n as f64);
}

/// The slowest slice of a flood of new keys, up to four times the cap, as a share of the first slice's speed.
fn flood(cap: usize) {
    const SLICE: usize = 20_000;
    let rule = Rule::gcra(10, Duration::from_secs(3_600), 10).unwrap();
    let limiter = KeyedLimiter::with(rule, EmbeddedConfig::for_keys(cap), SystemClock::new());
    let keys: Vec<String> = (0..cap * 4).map(key).collect();
    let seconds = |slice: &[String]| {
        let begin = thread_nanos();
        for key in slice {
            std::hint::black_box(limiter.check(key).is_ok());
        }
        (thread_nanos() - begin) as f64
    };
    let slices: Vec<f64> = keys.chunks(SLICE).map(seconds).collect();
    let slowest = slices.iter().copied().fold(0.0, f64::max);
    println!(
        "| flood of new keys to 4x a cap of {cap}: slowest slice of 20k against the first | {:.2}x | | | | | |",
        slices[0] / slowest
    );
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, "bytes", who, n] => bytes_in_this_process(who, n.parse().unwrap()),
        [_] => measure(""),
        [_, part] => measure(part),
        _ => eprintln!("usage: in_process [PART OF A NAME]"),
    }
}

/// Measures everything whose name holds `part`.
fn measure(part: &str) {
    println!(
        "| keyed check, String keys | sluicegate: exact clock / shared tick | governor | throttlecrab | bare table | governor / ours | governor / bare |"
    );
    println!("|---|---|---|---|---|---|---|");
    for threads in [1, 2] {
        for (what, n, per_second) in [
            ("1 key", 1, 1_000_000_000),
            ("10k keys", 10_000, 1_000_000_000),
            ("1M keys", 1_000_000, 1_000_000_000),
            ("1 denied key", 1, 1),
        ] {
            let name = format!("{what}, {threads} thread(s)");
            if name.contains(part) {
                speed(&name, n, threads, per_second);
            }
        }
    }
    for n in [1_000_000, 10_000_000] {
        if "bytes per key".contains(part) {
            bytes_per_key(n);
        }
    }
    for cap in [1_000_000, 100_000] {
        if "flood".contains(part) {
            flood(cap);
        }
    }
}
