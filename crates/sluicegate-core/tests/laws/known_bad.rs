//! Limiters that are known to be wrong, as people write them. The oracles that judge ours must catch every one of
//! them: a test that cannot fail proves nothing.

use crate::{
    key::Key,
    oracle::{Event, Oracle, breach},
    spec::{HOUR, Kind, MINUTE, SECOND, Spec},
};

fn event(tick: u64, cost: u64) -> Event {
    Event { tick: tick.into(), cost: cost.into(), window: 0, release_us: 0 }
}

/// What a limiter admitted of asks at these times (µs) with these costs.
fn admitted(mut take: impl FnMut(u64, u64) -> bool, asks: &[(u64, u64)]) -> Vec<Event> {
    asks.iter().filter(|(now, cost)| take(*now, *cost)).map(|(now, cost)| event(*now, *cost)).collect()
}

fn ours(spec: &Spec, asks: &[(u64, u64)]) -> Vec<Event> {
    let rule = spec.rule();
    let mut key = Key::new(&rule);
    admitted(|now_us, cost| key.take(now_us, cost).allowed, asks)
}

const FIVE_A_SECOND: Spec = Spec { kind: Kind::Bucket { burst: 5 }, amount: 5, window_us: SECOND };

/// Two callers read, then both write: the second check is as old as the first.
#[test]
fn check_then_increment_is_caught() {
    let spec = Spec { kind: Kind::Log, amount: 1_000, window_us: MINUTE / 60 };
    let (mut used, mut events) = (998, Vec::new());
    events.push(event(0, 998));
    let checked: Vec<bool> = (0..50).map(|_| used < spec.amount).collect();
    for passes in checked {
        if passes {
            used += 1;
            events.push(event(1, 1));
        }
    }
    assert_eq!(used, 1_048);
    assert!(breach(&spec, &events).is_some());
    let mut asks = vec![(0, 998)];
    asks.extend([(1, 1); 50]);
    let right = ours(&spec, &asks);
    assert_eq!((right.len(), breach(&spec, &right)), (1 + 2, None));
}

/// A tolerance of `burst` intervals instead of `burst − 1` lets one more pass than the burst.
#[test]
fn a_gcra_with_the_tolerance_of_a_whole_burst_is_caught() {
    let (interval, burst) = (SECOND / 5, 5);
    let mut arrival = 0;
    let naive = |now: u64, _cost: u64| {
        let passes = arrival <= now + burst * interval;
        if passes {
            arrival = arrival.max(now) + interval;
        }
        passes
    };
    let asks = [(7 * SECOND, 1); 10];
    let events = admitted(naive, &asks);
    assert_eq!(events.len(), 6);
    assert!(breach(&FIVE_A_SECOND, &events).is_some());
    let right = ours(&FIVE_A_SECOND, &asks);
    assert_eq!((right.len(), breach(&FIVE_A_SECOND, &right)), (5, None));
}

/// `elapsed_ms / ms_per_token`, with the clock set to now each time, loses the rest of each division.
#[test]
fn a_refill_that_truncates_is_caught() {
    let spec = Spec { kind: Kind::Bucket { burst: 2 }, amount: 1, window_us: 10 * SECOND };
    let (mut tokens, mut last) = (0, 0);
    let mut naive = |now: u64, cost: u64| {
        tokens = (tokens + (now - last) / (10 * SECOND)).min(2);
        last = now;
        let passes = tokens >= cost;
        tokens -= if passes { cost } else { 0 };
        passes
    };
    let mut oracle = Oracle::new(&spec);
    oracle.take(0, 2);
    let rule = spec.rule();
    let mut key = Key::new(&rule);
    key.take(0, 2);
    let polls: Vec<u64> = (1..=10).map(|poll| poll * 5 * SECOND).collect();
    let expected: Vec<bool> = polls.iter().map(|now| oracle.take(*now, 1).is_some()).collect();
    assert_eq!(polls.iter().map(|now| key.take(*now, 1).allowed).collect::<Vec<_>>(), expected);
    assert_ne!(polls.iter().map(|now| naive(*now, 1)).collect::<Vec<_>>(), expected);
    assert_eq!(expected.iter().filter(|passes| **passes).count(), 5);
}

/// `last = now` from a caller whose clock is behind: the time in between is refilled twice.
#[test]
fn a_bucket_whose_last_time_runs_backwards_is_caught() {
    let spec = Spec { kind: Kind::Bucket { burst: 4 }, amount: 1, window_us: SECOND };
    let at = 100 * SECOND;
    let (mut tokens, mut last) = (4, 0);
    let naive = |now: u64, cost: u64| {
        tokens = (tokens + now.saturating_sub(last) / SECOND).min(4);
        last = now;
        let passes = tokens >= cost;
        tokens -= if passes { cost } else { 0 };
        passes
    };
    let asks = [(at, 4), (at - 4 * SECOND, 1), (at, 4)];
    let events = admitted(naive, &asks);
    assert_eq!(events.len(), 2);
    assert!(breach(&spec, &events).is_some());
    assert_eq!(breach(&spec, &ours(&spec, &asks)), None);
}

/// A key that lives for one window only: at the turn of the window the previous count is gone.
#[test]
fn a_sliding_counter_that_forgets_its_previous_window_is_caught() {
    let spec = Spec { kind: Kind::Counter, amount: 10, window_us: SECOND };
    let (mut window, mut used) = (0, 0);
    let naive = |now: u64, cost: u64| {
        if now / SECOND != window {
            (window, used) = (now / SECOND, 0);
        }
        let passes = used + cost <= 10;
        used += if passes { cost } else { 0 };
        passes
    };
    let asks = [(SECOND - 1, 10), (SECOND, 10)];
    let events = admitted(naive, &asks);
    assert!(breach(&spec, &events).is_some());
    assert_eq!(ours(&spec, &asks).len(), 1);
}

/// A log that counts `now − time ≤ W`, or drops at `< W`, is off by one tick at the half-open end.
#[test]
fn a_log_that_drops_its_entries_a_tick_early_is_caught() {
    let spec = Spec { kind: Kind::Log, amount: 1, window_us: SECOND };
    let mut newest: Option<u64> = None;
    let naive = |now: u64, _cost: u64| {
        let passes = newest.is_none_or(|time| now - time >= SECOND - 1);
        if passes {
            newest = Some(now);
        }
        passes
    };
    let asks = [(0, 1), (SECOND - 1, 1)];
    assert!(breach(&spec, &admitted(naive, &asks)).is_some());
    assert_eq!(ours(&spec, &asks).len(), 1);
}

/// A store that moves the state to its clock but keeps that only if the ask is admitted: nothing ever drains.
#[test]
fn a_move_that_a_denial_throws_away_locks_the_key() {
    let rule = FIVE_A_SECOND.rule();
    let mut poisoned = Key::new(&rule);
    poisoned.take(100 * HOUR, 5);
    let forgetful = |now_us: u64| {
        let mut copy = poisoned.clone();
        copy.take(now_us, 1).allowed
    };
    let begin = 99 * HOUR;
    assert!((0..3_000).all(|second| !forgetful(begin + second * SECOND)), "locked for 50 minutes");
    let mut right = poisoned.clone();
    assert!(!right.take(begin, 1).allowed);
    assert!(right.take(begin + SECOND, 5).allowed);
}

/// Releases that are computed from a stale snapshot fall together.
#[test]
fn waiters_that_share_one_slot_are_caught() {
    let spec = Spec { kind: Kind::Queue { max_delay_us: MINUTE }, amount: 1, window_us: SECOND };
    let release = |second: u64| Event { release_us: (second * SECOND).into(), ..event(0, 1) };
    assert!(breach(&spec, &[release(0), release(1), release(1)]).is_some());
    assert!(breach(&spec, &[release(0), release(2), release(1)]).is_some());
    assert_eq!(breach(&spec, &[release(0), release(1), release(2)]), None);
}

/// The oracle of a fixed window tells windows apart and adds up within each.
#[test]
fn a_fixed_window_with_one_too_many_is_caught() {
    let spec = Spec { kind: Kind::Fixed(sluicegate_core::Align::Epoch), amount: 2, window_us: MINUTE };
    let counted = |window: i128| Event { window, ..event(0, 1) };
    assert_eq!(breach(&spec, &[counted(0), counted(0), counted(60_000), counted(60_000)]), None);
    assert!(breach(&spec, &[counted(0), counted(60_000), counted(0), counted(0)]).is_some());
}
