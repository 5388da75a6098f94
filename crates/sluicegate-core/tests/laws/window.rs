//! `fixed_window`: Σcost ≤ amount in each window `[start, start + W)`.

use std::collections::HashMap;

use proptest::prelude::*;
use sluicegate_core::{Align, Micros};

use crate::{
    history::{play, steps, stories},
    key::{Key, NAME},
    spec::{Kind, MINUTE, SECOND, Spec, fixed},
};

proptest! {
    #[test]
    fn a_fixed_window_decides_as_its_law_says((spec, start, steps) in stories(fixed(), steps())) {
        let oracle = play(&spec, start, &steps);
        let Kind::Fixed(align) = spec.kind else { unreachable!() };
        if align == Align::FirstRequest {
            return Ok(());
        }
        // Told once more without any memory of open windows: by the number of the window on the time line.
        let phase = i128::from(spec.rule().at(Micros::new(0), NAME).phase);
        let mut sums: HashMap<i128, i128> = HashMap::new();
        for event in oracle.events.iter().filter(|event| event.tick >= phase + spec.window()) {
            *sums.entry((event.tick - phase).div_euclid(spec.window())).or_default() += event.cost;
        }
        prop_assert!(sums.values().all(|sum| *sum <= i128::from(spec.amount)), "{sums:?}");
    }

    #[test]
    fn a_hashed_window_starts_at_most_one_window_ago(
        window in 1_000..10 * SECOND, now in 0..30 * SECOND, name in "[a-z]{0,8}"
    ) {
        let spec = Spec { kind: Kind::Fixed(Align::Hashed), amount: 1, window_us: window };
        let at = spec.rule().at(Micros::new(now), name.as_bytes());
        prop_assert!(at.phase < window);
        let start = at.window_start(window);
        prop_assert!(start <= now && now < start + window);
        prop_assert!(start == 0 || (start + window - at.phase).is_multiple_of(window));
    }
}

#[test]
fn hashed_windows_of_many_keys_begin_all_over_the_window() {
    let rule = Spec { kind: Kind::Fixed(Align::Hashed), amount: 1, window_us: MINUTE }.rule();
    let phase =
        |key: usize| rule.at(Micros::from_secs(1 << 31), format!("{{api:user={key}}}").as_bytes()).phase;
    let mut tenths = [0; 10];
    for key in 0..10_000 {
        tenths[usize::try_from(phase(key) / 6_000).unwrap()] += 1;
    }
    assert!(tenths.iter().all(|keys| (850..1_150).contains(keys)), "{tenths:?}");
}

#[test]
fn the_first_count_opens_the_window_of_first_request() {
    let rule = Spec { kind: Kind::Fixed(Align::FirstRequest), amount: 2, window_us: MINUTE }.rule();
    let mut key = Key::new(&rule);
    assert!(key.take(59 * SECOND, 2).allowed);
    assert!(!key.admits(119 * SECOND - 1, 1));
    assert!(key.admits(119 * SECOND, 2));
}
