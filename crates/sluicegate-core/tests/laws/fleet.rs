//! A fleet without its store: each instance keeps the law of its share, and so the fleet keeps the limit's, with
//! `headroom × amount` and `headroom × burst`.

use std::num::NonZeroU32;

use proptest::prelude::*;
use sluicegate_core::{Align, Headroom, Micros, Rule, Share};

use crate::{
    key::{Key, NAME},
    oracle::{Event, breach},
    spec::{Kind, SECOND, Spec, any_spec},
};

/// One call: at which instance, after which part of a window, at which cost in thousandths of what is granted.
type Call = (usize, u64, u64);

fn headrooms() -> impl Strategy<Value = Headroom> {
    prop_oneof![3 => Just(1_000), 2 => 10..=100_000u32, 2 => 500..=2_000u32]
        .prop_map(|permille| Headroom::from_permille(permille).unwrap())
}

fn share(instances: u32, rank: u32) -> Share {
    Share::new(NonZeroU32::new(instances).unwrap(), rank).unwrap()
}

/// Random calls on a fleet that is empty at first; what was admitted.
fn play(rule: &Rule, instances: u32, headroom: Headroom, calls: &[Call]) -> Vec<Event> {
    let rules: Vec<Option<Rule>> =
        (0..instances).map(|rank| rule.share(headroom, share(instances, rank))).collect();
    let mut keys: Vec<Option<Key<'_>>> = rules.iter().map(|rule| rule.as_ref().map(Key::new)).collect();
    let (mut now_us, mut events) = (50 * 366 * 86_400 * SECOND, Vec::new());
    let window_us = rule.window_ticks() * rule.tick().as_micros();
    for (instance, part, cost) in calls {
        now_us += window_us / 1_000 * part;
        let at = instance % keys.len();
        let Some(key) = &mut keys[at] else { continue };
        let cost = (key.rule.max_cost() / 1_000 * cost).max(1);
        if !key.take(now_us, cost).allowed {
            continue;
        }
        let at = rule.at(Micros::new(now_us), NAME);
        events.push(Event {
            tick: i128::from(at.now),
            cost: i128::from(cost),
            window: i128::from(at.window_start(rule.window_ticks())),
            release_us: 0,
        });
    }
    events
}

proptest! {
    #[test]
    fn the_shares_of_a_fleet_add_up_to_exactly_what_it_may_grant(
        whole in prop_oneof![0..50u64, 0..=1u64 << 51], instances in 1..200u32, headroom in headrooms()
    ) {
        let granted = headroom.of(whole);
        let exact = u128::from(whole) * u128::from(headroom.permille()) / 1_000;
        prop_assert_eq!(u128::from(granted), exact);
        let shares: Vec<u64> = (0..instances).map(|rank| share(instances, rank).of(granted)).collect();
        prop_assert_eq!(shares.iter().sum::<u64>(), granted);
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        prop_assert!(most - least <= 1 && shares.is_sorted_by(|a, b| a >= b), "{:?}", shares);
    }

    #[test]
    fn a_fleet_without_its_store_keeps_the_law_of_every_limit_with_the_headroom(
        spec in any_spec(),
        instances in prop::sample::select(vec![1u32, 2, 4, 7]),
        headroom in headrooms(),
        calls in prop::collection::vec((0..7usize, prop_oneof![3 => Just(0), 1 => 0..1_500u64], 0..=1_000u64), 0..80),
    ) {
        let rule = spec.rule();
        // A queue's releases and windows that each instance opens for itself are not sums over a fleet.
        let summed = !matches!(spec.kind, Kind::Queue { .. } | Kind::Fixed(Align::FirstRequest));
        prop_assume!(summed && rule.check_headroom(headroom).is_ok());
        let kind = match spec.kind {
            Kind::Bucket { burst } => Kind::Bucket { burst: headroom.of(burst) },
            kind => kind,
        };
        let whole = Spec { kind, amount: headroom.of(spec.amount), ..spec };
        let events = play(&rule, instances, headroom, &calls);
        prop_assert_eq!(breach(&whole, &events), None);
    }

    #[test]
    fn a_share_stays_within_exact_numbers_and_keeps_algorithm_and_window(
        spec in any_spec(), instances in 1..50u32, at in 0..50u32, headroom in headrooms()
    ) {
        let rule = spec.rule();
        prop_assume!(rule.check_headroom(headroom).is_ok());
        let Some(part) = rule.share(headroom, share(instances, at % instances)) else { return Ok(()) };
        prop_assert_eq!((part.algorithm(), part.window_ticks()), (rule.algorithm(), rule.window_ticks()));
        prop_assert!(part.amount() > 0 && part.max_cost() > 0);
        let again = Spec {
            kind: match spec.kind {
                Kind::Bucket { .. } => Kind::Bucket { burst: part.max_cost() },
                kind => kind,
            },
            amount: part.amount(),
            ..spec
        };
        // The same numbers are a rule that may be written down: gcra and token_bucket are told apart by the burst here.
        let written = again.try_rule();
        prop_assert_eq!(written.as_ref().map(Rule::machine), Ok(part.machine()));
    }
}

/// All of it at once, everywhere: exactly the whole, not one less.
#[test]
fn a_hammered_fleet_admits_exactly_the_whole() {
    for instances in [1, 2, 4, 7, 40] {
        for (amount, permille, whole) in [(5, 1_000, 5), (100, 1_000, 100), (100, 1_500, 150), (7, 333, 2)] {
            let spec = Spec { kind: Kind::Fixed(Align::Epoch), amount, window_us: SECOND };
            let calls: Vec<Call> = (0..8_000).map(|call| (call, 0, 0)).collect();
            let headroom = Headroom::from_permille(permille).unwrap();
            assert_eq!(play(&spec.rule(), instances, headroom, &calls).len(), whole, "{instances} {amount}");
        }
    }
}
