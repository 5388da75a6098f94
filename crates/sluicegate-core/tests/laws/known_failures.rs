//! Failures that other limiters shipped and discussed in public, each as a test of the arithmetic. The comment tells
//! what went wrong there; the reference says where it can be read.

use std::time::Duration;

use sluicegate_core::{Align, AskDecision, Retry, State, algorithm::GiveBack};

use crate::{
    key::Key,
    spec::{DAY, HOUR, Kind, MINUTE, SECOND, Spec, one_of_each_kind},
};

fn limit(kind: Kind, amount: u64, window_us: u64) -> sluicegate_core::Rule {
    Spec { kind, amount, window_us }.rule()
}

fn bucket(amount: u64, window_us: u64, burst: u64) -> sluicegate_core::Rule {
    limit(Kind::Bucket { burst }, amount, window_us)
}

const EPOCH: Kind = Kind::Fixed(Align::Epoch);

/// How many of `tries` asks of 1 at one instant pass.
fn passed(key: &mut Key<'_>, now_us: u64, tries: u64) -> usize {
    (0..tries).filter(|_| key.take(now_us, 1).allowed).count()
}

fn after(answer: &AskDecision) -> Option<Duration> {
    match answer.retry {
        Some(Retry::After(wait)) => Some(wait),
        _ => None,
    }
}

fn micros(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros()).unwrap()
}

/// boinkor-net/governor#249, #107: five a second, spent at 0 s; two seconds later six passed.
#[test]
fn a_full_bucket_gives_its_burst_and_not_one_more() {
    let rule = bucket(5, SECOND, 5);
    let mut key = Key::new(&rule);
    assert_eq!(passed(&mut key, 0, 6), 5);
    assert_eq!(passed(&mut key, 2 * SECOND, 6), 5);
}

/// governor's changelog, 0.2.0: more than the burst at once was answered with "not yet".
#[test]
fn more_than_the_burst_is_never_and_not_later() {
    let rule = bucket(5, SECOND, 5);
    let answer = Key::new(&rule).peek(0, 6);
    assert_eq!((answer.retry, answer.capacity, answer.remaining), (Some(Retry::Never), Some(5), Some(5)));
}

/// redis-developer/redis-developer.github.io PR#613: a sample compared with `<` after INCR and let 9 of 10 pass.
#[test]
fn exactly_the_amount_passes() {
    for kind in one_of_each_kind().into_iter().filter(|kind| !matches!(kind, Kind::Queue { .. })) {
        let rule = limit(kind, 10, MINUTE);
        assert_eq!(passed(&mut Key::new(&rule), HOUR, 100), 10, "{kind:?}");
    }
}

/// django-ratelimit#76: one an hour let two pass, since looking and counting compared differently.
#[test]
fn peek_and_take_compare_alike() {
    let rule = limit(EPOCH, 1, HOUR);
    let mut key = Key::new(&rule);
    for _ in 0..3 {
        let seen = key.peek(DAY, 1).allowed;
        assert_eq!(key.take(DAY, 1).allowed, seen);
    }
    assert_eq!(key.peek(DAY, 1).remaining, Some(0));
}

/// symfony/symfony#40289: 60 a minute, 60 in the minute before, 12 s in and 12 used: told to wait for 48 s, though one
/// a second comes free.
#[test]
fn a_sliding_counter_tells_the_wait_until_enough_has_faded() {
    let rule = limit(Kind::Counter, 60, MINUTE);
    let mut key = Key::new(&rule);
    assert!(key.take(HOUR, 60).allowed);
    assert!(key.take(HOUR + 72 * SECOND, 12).allowed);
    assert_eq!(after(&key.peek(HOUR + 72 * SECOND, 1)), Some(Duration::from_secs(1)));
}

/// alisaifee/limits#200: two a minute, at 0 s and 10 s; at 20 s the wait was computed from the newer one.
#[test]
fn the_oldest_entry_of_a_log_leaves_first() {
    let rule = limit(Kind::Log, 2, MINUTE);
    let mut key = Key::new(&rule);
    key.take(HOUR, 1);
    key.take(HOUR + 10 * SECOND, 1);
    assert_eq!(after(&key.peek(HOUR + 20 * SECOND, 1)), Some(Duration::from_secs(40)));
}

/// sidekiq/sidekiq#2897, boinkor-net/governor#219: people expect at most L in any window of a bucket, and it lets 2L
/// pass in a little more than W. The bound is burst + rate·d, and is reached.
#[test]
fn a_bucket_lets_its_burst_and_the_refill_pass_and_no_more() {
    let rule = bucket(10, SECOND, 10);
    let mut key = Key::new(&rule);
    let first = passed(&mut key, HOUR, 100);
    let rest: usize = (1..=1_000).map(|ms| passed(&mut key, HOUR + ms * 1_000, 100)).sum();
    assert_eq!(first + rest, 20);
}

/// tower-governor cut the wait to whole seconds: the ninth request was told to retry after 0.
#[test]
fn a_refused_ask_is_never_told_to_come_back_at_once() {
    let rule = bucket(2, SECOND, 8);
    let mut key = Key::new(&rule);
    assert_eq!(passed(&mut key, HOUR, 9), 8);
    assert_eq!(after(&key.peek(HOUR, 1)), Some(Duration::from_millis(500)));
    let fast = bucket(2_000_000_000, SECOND, 1);
    let mut key = Key::new(&fast);
    assert!(key.take(HOUR, 1).allowed);
    assert_eq!(after(&key.peek(HOUR, 1)), Some(Duration::from_micros(1)));
}

/// flask-limiter#62: the wait was too short by 2 s, then 0, then negative.
#[test]
fn waiting_exactly_as_told_succeeds_for_every_algorithm() {
    for kind in one_of_each_kind() {
        let rule = limit(kind, 3, MINUTE);
        let mut key = Key::new(&rule);
        let mut now_us = 7 * HOUR + 13 * SECOND + 1;
        for _ in 0..50 {
            let answer = key.take(now_us, 2);
            if let Some(wait) = after(&answer) {
                now_us += micros(wait);
                assert!(key.take(now_us, 2).allowed, "{kind:?}");
            }
        }
    }
}

/// rate-limiter-flexible#172, koajs/ratelimit PR#55: 10 used under a limit that is now 5 showed −5.
#[test]
fn nothing_negative_remains_after_a_limit_was_lowered() {
    for kind in one_of_each_kind() {
        let (ten, five) = (limit(kind, 10, MINUTE), limit(kind, 5, MINUTE));
        let mut key = Key::new(&ten);
        key.take(HOUR, 10);
        let lowered = Key { rule: &five, ..key };
        assert!(lowered.peek(HOUR, 0).remaining <= Some(5), "{kind:?}");
    }
}

/// rate-limiter-flexible: a reward of 10 on a fresh key of 5 left 15.
#[test]
fn giving_back_never_leaves_more_than_the_amount() {
    for kind in one_of_each_kind() {
        let rule = limit(kind, 5, MINUTE);
        let mut key = Key::new(&rule);
        assert!(key.take(HOUR, 1).allowed);
        let question = key.question(HOUR, 1);
        let stored = key.stored.take().unwrap();
        let back = GiveBack { charged_at: question.charged_at(&stored), held: 10, actual: 0 };
        key.stored = Some(question.give_back(stored, back));
        let answer = key.peek(HOUR, 0);
        assert!(answer.remaining <= answer.capacity, "{kind:?}");
    }
}

/// express-rate-limit's changelog, 8.6.0: the window turned while the request ran, and the decrement made −1.
#[test]
fn what_was_charged_in_a_window_that_is_over_is_not_given_back_to_the_next() {
    for kind in [EPOCH, Kind::Fixed(Align::FirstRequest), Kind::Log] {
        let rule = limit(kind, 5, MINUTE);
        let mut key = Key::new(&rule);
        assert!(key.take(HOUR, 2).allowed);
        let charged_at = key.question(HOUR, 2).charged_at(key.stored.as_ref().unwrap());
        assert!(key.take(HOUR + MINUTE, 3).allowed);
        let question = key.question(HOUR + MINUTE, 2);
        let back = GiveBack { charged_at, held: 2, actual: 0 };
        key.stored = key.stored.map(|stored| question.give_back(stored, back));
        assert_eq!(Key { ..key }.peek(HOUR + MINUTE, 0).remaining, Some(2), "{kind:?}");
    }
}

/// throttled PR#81, brandur/redis-cell#12, redis/redis#15113: a refused oversize request reported that all remained,
/// a reset of 0 and a retry of −1, whatever was used.
#[test]
fn an_oversize_ask_is_answered_with_what_is_true_and_never() {
    let rule = bucket(10, SECOND, 10);
    let mut key = Key::new(&rule);
    assert!(key.take(HOUR, 4).allowed);
    let answer = key.take(HOUR, 11);
    assert_eq!((answer.allowed, answer.remaining, answer.retry), (false, Some(6), Some(Retry::Never)));
    assert_eq!(answer.reset_after, Duration::from_millis(400));
}

/// `redis_rate#42`: −1 ns stood for "no wait" and is easily slept on.
#[test]
fn an_admitted_ask_has_no_retry_at_all() {
    let rule = bucket(10, SECOND, 10);
    assert_eq!(Key::new(&rule).take(HOUR, 1).retry, None);
}

/// bucket4j, greedy refill at 3/s: told to wait for 333,333,333 ns, after which 999,999,999/10⁹ of a token was there.
#[test]
fn a_wait_for_a_third_of_a_second_is_rounded_up() {
    let rule = bucket(3, SECOND, 1);
    let mut key = Key::new(&rule);
    assert!(key.take(HOUR, 1).allowed);
    assert_eq!(after(&key.peek(HOUR, 1)), Some(Duration::from_micros(333_334)));
    assert!(!key.admits(HOUR + 333_333, 1));
    assert!(key.take(HOUR + 333_334, 1).allowed);
}

/// bucket4j#220: 3 in 2 s, asked for 4, gave a wait of 0.66 s; google/guava#7130: 5,000 at 5/s were granted at once.
#[test]
fn a_cost_above_the_capacity_is_refused_for_good() {
    for (amount, window_us, cost) in [(3, 2 * SECOND, 4), (5, SECOND, 5_000)] {
        let rule = bucket(amount, window_us, amount);
        let answer = Key::new(&rule).take(HOUR, cost);
        assert_eq!((answer.allowed, answer.retry), (false, Some(Retry::Never)));
    }
}

/// rate-limiter-flexible: half a second became a window without end, 1.9 s became 1 s.
#[test]
fn windows_that_are_no_whole_seconds_are_kept_to_the_millisecond() {
    for window_us in [SECOND / 2, 1_900_000] {
        let rule = limit(Kind::Fixed(Align::FirstRequest), 5, window_us);
        let mut key = Key::new(&rule);
        assert_eq!(passed(&mut key, HOUR, 9), 5);
        assert_eq!(passed(&mut key, HOUR + window_us - 1, 9), 0);
        assert_eq!(passed(&mut key, HOUR + window_us, 9), 5);
    }
}

/// brandur/redis-cell#50: 1,000 a minute with a burst of 1,000: the state lived for 0 s, and 1,000 remained for ever.
#[test]
fn one_more_than_the_burst_is_refused_at_any_rate() {
    for (amount, window_us) in [(1_000, MINUTE), (1_000_000_000, SECOND), (1, DAY)] {
        let rule = bucket(amount, window_us, 1_000);
        assert_eq!(passed(&mut Key::new(&rule), HOUR, 1_001), 1_000);
    }
}

/// Southclaws/swirl PR#3: the lifetime came from the first entry, and with it the whole hour vanished: one at 0:00,
/// eight at 0:59, limit 10, and at 1:01 nine more passed.
#[test]
fn the_first_entry_takes_nothing_along_when_it_leaves() {
    let rule = limit(Kind::Log, 10, HOUR);
    let mut key = Key::new(&rule);
    assert!(key.take(DAY, 1).allowed);
    assert!(key.take(DAY + 59 * MINUTE, 8).allowed);
    assert_eq!(passed(&mut key, DAY + 61 * MINUTE, 10), 2);
}

/// marcosbarbero/spring-cloud-zuul-ratelimit#200: the first increment was 0, and what was counted later never ended.
#[test]
fn a_first_cost_of_0_leaves_nothing_and_the_next_cost_ends() {
    for kind in one_of_each_kind() {
        let rule = limit(kind, 50, MINUTE);
        let mut key = Key::new(&rule);
        assert!(key.take(HOUR, 0).allowed);
        assert_eq!(key.stored, None, "{kind:?}");
        let cost = if let Kind::Bucket { burst } = kind { burst } else { 33 };
        let answer = key.take(HOUR, cost);
        assert!(answer.allowed && !answer.reset_after.is_zero(), "{kind:?}");
        assert!(key.is_as_new(HOUR + micros(answer.reset_after)), "{kind:?}");
    }
}

/// rate-limiter-flexible#286, upstash/ratelimit PR#161: of 10, 8 used; asking for 5 was refused and burned the rest.
#[test]
fn a_refusal_burns_nothing() {
    for kind in one_of_each_kind().into_iter().filter(|kind| !matches!(kind, Kind::Queue { .. })) {
        let rule = limit(kind, 10, MINUTE);
        let mut key = Key::new(&rule);
        assert!(key.take(HOUR, 8).allowed);
        assert!(!key.take(HOUR, 5).allowed);
        let answer = key.take(HOUR, 1);
        assert_eq!((answer.allowed, answer.remaining), (true, Some(1)), "{kind:?}");
    }
}

/// upstash/ratelimit (2026-03): the check ignored the cost: of 10, 9 used, 5 more accepted, −4 left.
#[test]
fn the_check_knows_the_cost() {
    for kind in one_of_each_kind().into_iter().filter(|kind| !matches!(kind, Kind::Queue { .. })) {
        let rule = limit(kind, 10, MINUTE);
        let mut key = Key::new(&rule);
        assert!(key.take(HOUR, 9).allowed);
        let answer = key.take(HOUR, 5);
        assert_eq!((answer.allowed, answer.remaining), (false, Some(1)), "{kind:?}");
    }
}

/// alisaifee/limits: cost 0 counted, cost −5 left 15 of 10; `redis_rate`: a rate of 0 was a script error. A cost here
/// cannot be negative, 0 counts nothing, and an amount of 0 is an answer.
#[test]
fn a_cost_of_0_counts_nothing_and_an_amount_of_0_denies() {
    for kind in one_of_each_kind() {
        let rule = limit(kind, 10, MINUTE);
        let mut key = Key::new(&rule);
        for _ in 0..100 {
            assert!(key.take(HOUR, 0).allowed);
        }
        assert_eq!(key.stored, None);
        let none = limit(kind, 0, MINUTE);
        assert_eq!(Key::new(&none).take(HOUR, 1).retry, Some(Retry::Never), "{kind:?}");
    }
}

/// golang/go#52584: a reservation that failed moved the state, and the next delay was too long.
#[test]
fn a_refused_reservation_does_not_lengthen_the_next_delay() {
    let rule = limit(Kind::Queue { max_delay_us: SECOND }, 1, SECOND);
    let mut key = Key::new(&rule);
    assert!(key.take(HOUR, 1).allowed);
    assert!(key.take(HOUR, 1).allowed);
    for _ in 0..10 {
        assert!(!key.take(HOUR + 1, 1).allowed);
    }
    assert_eq!(key.take(HOUR + SECOND, 1).delay, Duration::from_secs(1));
}

/// alisaifee/limits' changelog, 3.5.0: one member per unit of cost overflowed the script's stack above 8,000.
#[test]
fn a_large_cost_is_one_entry() {
    let rule = limit(Kind::Log, 1_000, MINUTE);
    let mut key = Key::new(&rule);
    assert!(key.take(HOUR, 1_000).allowed);
    let Some(State::SlidingLog(state)) = key.stored else { panic!("no log") };
    assert_eq!(state.entries.len(), 1);
}

/// boinkor-net/governor#203: 700,000,000 a second became an interval of 1 ns, which is 1,000,000,000 a second.
#[test]
fn seven_hundred_million_a_second_are_not_a_billion() {
    let rule = bucket(700_000_000, SECOND, 700_000_000);
    let mut key = Key::new(&rule);
    assert!(key.take(HOUR, 700_000_000).allowed);
    assert_eq!(key.peek(HOUR + SECOND / 2, 0).remaining, Some(350_000_000));
    assert_eq!(key.peek(HOUR + 1, 0).remaining, Some(700));
}

/// bucket4j#51: after twelve idle hours the refill overflowed, and the tokens were negative.
#[test]
fn after_a_hundred_idle_years_a_key_has_exactly_its_capacity() {
    for (amount, window_us) in [(10, MINUTE), ((1 << 51) / 1_000, 1_000), (2_000_000_000, SECOND)] {
        let rule = bucket(amount, window_us, amount);
        let mut key = Key::new(&rule);
        assert!(key.take(HOUR, amount).allowed);
        assert_eq!(key.peek(HOUR + 36_525 * DAY, 0).remaining, Some(amount));
    }
}

/// alisaifee/limits, rate-limiter-flexible: 2⁵³ + 1 was stored as 2⁵³, and 1700000000123456789 as 1.7000000001235e+18.
#[test]
fn costs_beyond_exact_numbers_are_refused_and_leave_nothing() {
    for kind in one_of_each_kind() {
        let rule = limit(kind, 1_000, MINUTE);
        for cost in [(1 << 53) - 1, (1 << 53) + 1, 1_700_000_000_123_456_789, u64::MAX] {
            let mut key = Key::new(&rule);
            key.take(HOUR, 1);
            let stored = key.stored.clone();
            assert_eq!(key.take(HOUR, cost).retry, Some(Retry::Never), "{kind:?} {cost}");
            assert_eq!(key.stored, stored);
        }
    }
}

/// apache/polaris PR#3433, gengteng/axum-limit#2: one token per 10 s, refilled in whole tokens with the clock set to
/// now: of 25 s, 5 were lost. Polled at 25 s and at 30 s there are two, then three in total.
#[test]
fn a_part_of_a_token_is_not_lost_between_polls() {
    let rule = bucket(1, 10 * SECOND, 10);
    let mut key = Key::new(&rule);
    assert!(key.take(HOUR, 10).allowed);
    assert_eq!(passed(&mut key, HOUR + 25 * SECOND, 9), 2);
    assert_eq!(passed(&mut key, HOUR + 30 * SECOND, 9), 1);
}

/// spring-cloud/spring-cloud-gateway#2412, zeromicro/go-zero#4072: a late message with an older time set the clock of
/// the bucket back, and what had flowed since flowed again: burst 4, and four more at the same time.
#[test]
fn a_late_message_does_not_set_a_key_back() {
    let rule = bucket(1, SECOND, 4);
    for late in [1, SECOND, 4 * SECOND, 5 * SECOND] {
        let mut key = Key::new(&rule);
        assert_eq!(passed(&mut key, HOUR, 9), 4);
        assert_eq!(passed(&mut key, HOUR - late, 1), 0);
        assert_eq!(passed(&mut key, HOUR, 4), 0);
    }
}

/// sethvargo/go-limiter#41, ProfessionalWiki/MediaWiki-MCP-Server#557, tikv/pd#10744: the clock went back an hour, and
/// a bucket got nothing until it had caught up, or made tokens from nothing.
#[test]
fn a_clock_that_goes_back_an_hour_neither_locks_nor_opens() {
    for kind in one_of_each_kind() {
        let rule = limit(kind, 10, MINUTE);
        let mut key = Key::new(&rule);
        let now_us = 100 * HOUR;
        assert!((0..10).any(|_| !key.take(now_us, 10).allowed), "never full: {kind:?}");
        let back_us = now_us - HOUR;
        assert!(!key.take(back_us, 10).allowed, "opened: {kind:?}");
        let locked = after(&key.peek(back_us, 10)).unwrap();
        assert!(locked <= Duration::from_secs(120), "locked for {locked:?}: {kind:?}");
        assert!(key.take(back_us + micros(locked), 10).allowed, "{kind:?}");
    }
}

/// PyrateLimiter#191: three in 3 s, ten waiters at once; after one sleep each was taken to have succeeded.
#[test]
fn ten_waiters_on_three_in_3_s_pass_in_threes() {
    let rule = limit(Kind::Log, 3, 3 * SECOND);
    let mut key = Key::new(&rule);
    let mut waiters = vec![HOUR; 10];
    let mut finished = Vec::new();
    for _ in 0..100 {
        let Some(now_us) = waiters.iter().copied().min() else { break };
        let index = waiters.iter().position(|at| *at == now_us).unwrap();
        let answer = key.take(now_us, 1);
        if let Some(wait) = after(&answer) {
            waiters[index] = now_us + micros(wait);
        } else {
            finished.push((now_us - HOUR) / SECOND);
            waiters.remove(index);
        }
    }
    assert_eq!(finished, [0, 0, 0, 3, 3, 3, 6, 6, 6, 9]);
}

/// uber-go/ratelimit#119, #122: with a slack of 2, four idle seconds at 1/s let a hundred pass at once;
/// resilience4j#822: waiters fell into one cycle; udoprog/leaky-bucket#39: idle time gave tokens without end.
#[test]
fn idle_time_saves_up_no_more_than_the_burst() {
    let rule = bucket(1, SECOND, 3);
    let mut key = Key::new(&rule);
    assert_eq!(passed(&mut key, HOUR, 9), 3);
    assert_eq!(passed(&mut key, HOUR + 400 * SECOND, 100), 3);
    let queue = limit(Kind::Queue { max_delay_us: MINUTE }, 1, SECOND);
    let mut key = Key::new(&queue);
    key.take(HOUR, 1);
    let delays: Vec<u64> = (0..5).map(|_| key.take(HOUR + 400 * SECOND, 1).delay.as_secs()).collect();
    assert_eq!(delays, [0, 1, 2, 3, 4]);
}

/// rack-attack PR#85: the count began anew inside its window, since the key's life ended at the edge. By the
/// arithmetic the last µs of a window still counts in it.
#[test]
fn the_last_microsecond_of_a_window_belongs_to_it() {
    let rule = limit(EPOCH, 1, MINUTE);
    let mut key = Key::new(&rule);
    assert!(key.take(HOUR, 1).allowed);
    assert!(!key.take(HOUR + MINUTE - 1, 1).allowed);
    assert!(key.take(HOUR + MINUTE, 1).allowed);
}
