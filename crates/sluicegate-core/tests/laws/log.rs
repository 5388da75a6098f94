//! `sliding_log`: Σcost ≤ amount in every half-open window `[t, t + W)`, exactly.

use proptest::prelude::*;
use sluicegate_core::State;

use crate::{
    history::{play, steps, stories},
    key::Key,
    spec::{Kind, MINUTE, SECOND, Spec, log},
};

proptest! {
    #[test]
    fn a_sliding_log_decides_as_its_law_says((spec, start, steps) in stories(log(), steps())) {
        play(&spec, start, &steps);
    }
}

#[test]
fn a_log_merges_equal_times_and_never_has_more_entries_than_its_amount() {
    let rule = Spec { kind: Kind::Log, amount: 1_000, window_us: MINUTE }.rule();
    let mut key = Key::new(&rule);
    for ms in 0..2_000 {
        key.take(ms * 1_000, 1);
        key.take(ms * 1_000, 1);
    }
    let Some(State::SlidingLog(state)) = key.stored else { panic!("no log") };
    assert_eq!(state.sum, 1_000);
    assert_eq!(state.entries.len(), 500);
    assert!(state.entries.iter().all(|entry| entry.cost == 2));
}

/// A clock that begins anew at 1970: no entry can be older than that, and those that meet there become one.
#[test]
fn entries_that_are_moved_to_the_epoch_become_one() {
    let rule = Spec { kind: Kind::Log, amount: 10, window_us: MINUTE }.rule();
    let mut key = Key::new(&rule);
    for second in [0, 10, 20, 30] {
        assert!(key.take(MINUTE + second * SECOND, 2).allowed);
    }
    assert!(key.take(15 * SECOND, 1).allowed);
    let Some(State::SlidingLog(state)) = key.stored else { panic!("no log") };
    let entries: Vec<(u64, u64)> = state.entries.iter().map(|entry| (entry.time, entry.cost)).collect();
    assert_eq!((state.sum, entries), (9, vec![(0, 4), (5_000, 2), (15_000, 3)]));
}

#[test]
fn an_entry_leaves_exactly_one_window_after_it_came() {
    let rule = Spec { kind: Kind::Log, amount: 1, window_us: SECOND }.rule();
    let mut key = Key::new(&rule);
    assert!(key.take(7, 1).allowed);
    assert!(!key.admits(SECOND + 6, 1));
    assert!(key.admits(SECOND + 7, 1));
}
