//! Limiters that are known to be wrong, as people write them: each makes a history that is refuted.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use sluicegate::{
    Clock, SystemClock,
    core::{Align, Rule},
    testing::history::{Limits, Outcome, Record, Recorder, Verdict},
};

use crate::support::{Call, KEY, LIMIT, check};

const SECOND: u64 = 1_000_000;

fn outcome(passes: bool) -> Outcome {
    if passes { Outcome::Allowed } else { Outcome::Denied }
}

/// What a limiter answers to asks of cost 1 at these instants.
fn asked(asks: impl IntoIterator<Item = u64>, mut take: impl FnMut(u64) -> bool) -> Vec<Call> {
    asks.into_iter().map(|at_us| Call::at(at_us, 1, outcome(take(at_us)))).collect()
}

/// Real threads that all read before any of them writes, by the clock of the machine.
#[test]
fn check_then_increment_is_refuted() {
    const LEFT: u64 = 2;
    let (used, clock, recorder) = (AtomicU64::new(0), SystemClock::new(), Recorder::default());
    let (limit, callers) = (LEFT, 8);
    let read = Barrier::new(callers);
    let call = || {
        let start = clock.now();
        let passes = used.load(Ordering::SeqCst) < limit;
        read.wait();
        if passes {
            used.fetch_add(1, Ordering::SeqCst);
        }
        let record = Record { limit: LIMIT.into(), key: KEY.into(), cost: 1, start, ..Record::default() };
        recorder.record(Record { end: clock.now(), outcome: outcome(passes), ..record });
    };
    thread::scope(|scope| (0..callers).for_each(|_| _ = scope.spawn(call)));
    // However slow the machine is, all calls lie within a day, in which one token flows.
    let rule = Rule::token_bucket(1, Duration::from_secs(86_400), LEFT).unwrap();
    let report = recorder.check(&Limits::of([(LIMIT, rule)]));
    assert_eq!(report.verdict(), Verdict::Refuted, "{report}");
}

/// A time to live of one window takes the end of the window before with it (Southclaws/swirl PR#3).
#[test]
fn a_sliding_counter_whose_key_lives_for_one_window_is_refuted() {
    let rule = Rule::sliding_counter(10, Duration::from_secs(60)).unwrap();
    let (mut expires, mut counts) = (0, [0u64; 2]);
    let mut window = 0;
    let mut take = |now: u64| {
        if now >= expires {
            (counts, expires) = ([0; 2], now + 60 * SECOND);
        }
        if now / (60 * SECOND) > window {
            (window, counts) = (now / (60 * SECOND), [counts[1], 0]);
        }
        let left = 60 * SECOND - now % (60 * SECOND);
        let passes = counts[0] * left + (counts[1] + 1) * 60 * SECOND <= 10 * 60 * SECOND;
        counts[1] += u64::from(passes);
        passes
    };
    let asks = [0].into_iter().chain([59 * SECOND; 9]).chain([61 * SECOND; 10]);
    let report = check(&rule, &asked(asks, &mut take));
    assert_eq!(report.verdict(), Verdict::Refuted, "{report}");
}

/// Each of four processes counts for itself.
#[test]
fn counters_of_each_instance_are_refuted() {
    let rule = Rule::fixed_window(5, Duration::from_secs(60), Align::Epoch).unwrap();
    let mut used = [0u64; 4];
    let take = |now: u64| {
        let own = &mut used[usize::try_from(now % 4).unwrap()];
        *own += 1;
        *own <= 5
    };
    let report = check(&rule, &asked(0..40, take));
    assert_eq!(report.verdict(), Verdict::Refuted, "{report}");
    assert!(report.to_string().contains("20 of 5 in"), "{report}");
}

/// A clock that steps back by an hour opens a window that was full, and again when it comes by the second time.
#[test]
fn a_window_that_is_opened_again_by_a_step_of_the_clock_is_refuted() {
    for align in [Align::Epoch, Align::FirstRequest] {
        let rule = Rule::fixed_window(5, Duration::from_secs(60), align).unwrap();
        let (mut window, mut used) = (u64::MAX, 0);
        let take = |now: u64| {
            // From 30 s on the limiter's clock is an hour behind.
            let told = 7_200 * SECOND + now - if now >= 30 * SECOND { 3_600 * SECOND } else { 0 };
            if told / (60 * SECOND) != window {
                (window, used) = (told / (60 * SECOND), 0);
            }
            used += 1;
            used <= 5
        };
        let report = check(&rule, &asked((0..50).map(|second| second * SECOND), take));
        assert_eq!(report.verdict(), Verdict::Refuted, "{report}");
    }
}

/// `elapsed_ms / ms_per_token`, with the clock set to now each time, loses the rest of each division.
#[test]
fn a_refill_that_truncates_denies_falsely() {
    let rule = Rule::token_bucket(1, Duration::from_secs(9), 2).unwrap();
    let (mut tokens, mut last) = (2, 0);
    let take = |now: u64| {
        tokens = (tokens + (now - last) / (9 * SECOND)).min(2);
        last = now;
        let passes = tokens > 0;
        tokens -= u64::from(passes);
        passes
    };
    let report = check(&rule, &asked((0..20).map(|poll| poll * 5 * SECOND), take));
    assert_eq!(report.verdict(), Verdict::Proven, "{report}");
    assert!(report.false_denials() > 0, "{report}");
}
