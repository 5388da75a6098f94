//! `sliding_counter`: admits iff `previous·(W − elapsed) + (current + cost)·W ≤ L·W`, so that Σcost ≤ L·(1 + d/W) in
//! every interval of length d.

use proptest::prelude::*;

use crate::{
    history::{play, steps, stories},
    key::Key,
    spec::{Kind, MINUTE, SECOND, Spec, counter},
};

proptest! {
    #[test]
    fn a_sliding_counter_decides_as_its_law_says((spec, start, steps) in stories(counter(), steps())) {
        play(&spec, start, &steps);
    }
}

/// The bound is reached: L at the end of a window, then at the end of the next as much as has faded.
#[test]
fn the_bound_of_a_sliding_counter_is_tight() {
    let rule = Spec { kind: Kind::Counter, amount: 60, window_us: MINUTE }.rule();
    let mut key = Key::new(&rule);
    assert!(key.take(MINUTE - 1_000, 60).allowed);
    let mut admitted = 60;
    for second in 60..120 {
        admitted += (0..100).filter(|_| key.take(second * SECOND, 1).allowed).count();
    }
    // d = 59.001 s: at most 60·(1 + 59.001/60) = 119.001.
    assert_eq!(admitted, 119);
}
