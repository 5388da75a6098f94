//! `token_bucket` and `gcra`: Σcost ≤ B + d·L/W in every interval of length d. `leaky_bucket`: a delay up to
//! `max_delay`, and releases that are costs of k apart span at least k·W/L − 1 tick, first come first released.

use proptest::prelude::*;

use crate::{
    history::{play, steps, stories},
    key::Key,
    oracle::{Event, breach},
    spec::{Kind, SECOND, Spec, bucket, queue},
};

proptest! {
    #[test]
    fn a_bucket_decides_as_its_law_says((spec, start, steps) in stories(bucket(), steps())) {
        play(&spec, start, &steps);
    }

    #[test]
    fn a_leaky_bucket_delays_as_its_law_says((spec, start, steps) in stories(queue(), steps())) {
        play(&spec, start, &steps);
    }

    /// A crowd of single asks, many in one tick: spacing, order and the longest delay, by the answers alone.
    #[test]
    fn releases_come_in_order_evenly_and_within_the_longest_delay(
        spec in queue(), gaps in prop::collection::vec(0..2_000u64, 1..80), start in 0..1u64 << 52
    ) {
        let rule = spec.rule();
        let Kind::Queue { max_delay_us } = spec.kind else { unreachable!() };
        let mut key = Key::new(&rule);
        let mut now_us = start;
        let mut events = Vec::new();
        for gap in gaps {
            now_us += spec.window_us / spec.amount.max(1) * (gap % 4) * gap / 2_000;
            let answer = key.take(now_us, 1);
            if answer.allowed {
                let delay_us = u64::try_from(answer.delay.as_micros()).unwrap();
                prop_assert!(delay_us <= max_delay_us, "{delay_us} µs of {max_delay_us}");
                let release_us = i128::from(now_us + delay_us);
                events.push(Event { tick: 0, cost: 1, window: 0, release_us });
            }
        }
        prop_assert_eq!(breach(&spec, &events), None);
    }
}

/// 7 per 3 s has no whole interval: rounded to µs it would drift; in units of 1/W token it does not.
#[test]
fn seven_in_three_seconds_is_exact_after_a_thousand_periods() {
    let rule = Spec { kind: Kind::Bucket { burst: 2 }, amount: 7, window_us: 3 * SECOND }.rule();
    let mut key = Key::new(&rule);
    let admitted = (0..=3_000 * SECOND / 500).filter(|step| key.take(step * 500, 1).allowed).count();
    assert_eq!(admitted, 7_002, "two at once and 7,000 in 3,000 s");
}

#[test]
fn a_cost_of_0_never_waits_in_a_queue() {
    let rule = Spec { kind: Kind::Queue { max_delay_us: SECOND }, amount: 10, window_us: SECOND }.rule();
    let mut key = Key::new(&rule);
    assert!(key.take(0, 10).allowed);
    assert_eq!(key.take(0, 10).delay.as_millis(), 1_000);
    let free = key.take(0, 0);
    assert!(free.allowed && free.delay.is_zero(), "{free:?}");
}
