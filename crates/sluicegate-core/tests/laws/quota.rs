//! The law of a quota: Σcost ≤ amount in each period of its calendar, whatever the clock does.

use std::collections::HashMap;

use proptest::prelude::*;
use sluicegate_core::{Every, Period, Retry, Rule, Weekday, algorithm::GiveBack};

use crate::key::Key;

/// Noon of a day on which clocks were set back in Berlin.
const BEGIN_US: u64 = 1_793_010_000_000_000;

fn period() -> impl Strategy<Value = Period> {
    let months = |count| Every::Months { count, first_month: 1, anchor_day: 31 };
    let every = [Every::Hour, Every::Day, Every::Week(Weekday::Sunday), months(1), months(3), months(12)];
    let zone = prop_oneof![Just("UTC"), Just("Europe/Berlin"), Just("America/St_Johns")];
    (prop::sample::select(every.to_vec()), zone).prop_map(|(every, zone)| Period::new(every, zone).unwrap())
}

/// Steps of a clock in parts of a longest period, and costs.
fn steps() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let step = prop_oneof![Just(0_u64), 1..100_u64, 1..5_000_u64];
    prop::collection::vec((step, 0..8_u64), 1..60)
}

proptest! {
    #[test]
    fn no_period_holds_more_than_the_amount(period in period(), amount in 0..20_u64, steps in steps()) {
        let rule = Rule::quota(amount, period.clone()).unwrap();
        let (mut key, mut now_us) = (Key::new(&rule), BEGIN_US);
        let mut counted: HashMap<u64, u64> = HashMap::new();
        for (step, cost) in steps {
            now_us += u64::try_from(rule.window().as_micros()).unwrap() / 5_000 * step;
            let span = period.span(sluicegate_core::Micros::new(now_us));
            let used = counted.entry(span.start).or_default();
            let (before, answer) = (key.stored.clone(), key.take(now_us, cost));
            prop_assert_eq!(answer.allowed, cost == 0 || *used + cost <= amount);
            if answer.allowed {
                *used += cost;
            } else {
                prop_assert_eq!(&key.stored, &before, "a denial left a trace");
            }
            prop_assert_eq!(answer.remaining, Some(amount - *used));
            let left_us = u128::from(span.end - now_us);
            let reset_us = if *used > 0 { left_us } else { 0 };
            prop_assert_eq!(answer.reset_after.as_micros(), reset_us);
            match answer.retry {
                Some(Retry::Never) => prop_assert!(cost > amount),
                Some(Retry::After(wait)) => {
                    prop_assert_eq!(wait.as_micros(), left_us);
                    prop_assert!(key.admits(span.end, cost) && !key.admits(span.end - 1, cost));
                }
                None => prop_assert!(answer.allowed),
            }
        }
    }

    /// What comes back comes back to the period that was charged, and to no later one.
    #[test]
    fn what_is_given_back_opens_no_other_period(period in period(), held in 1..10_u64, actual in 0..12_u64, later in any::<bool>()) {
        let rule = Rule::quota(10, period.clone()).unwrap();
        let mut key = Key::new(&rule);
        let question = key.question(BEGIN_US, held);
        key.take(BEGIN_US, held);
        let charged_at = question.charged_at(key.stored.as_ref().unwrap());
        let end = period.span(sluicegate_core::Micros::new(BEGIN_US)).end;
        let now_us = if later { end } else { end - 1 };
        key.take(now_us, 1);
        let stored = key.stored.take().unwrap();
        key.stored = Some(question.give_back(stored, GiveBack { charged_at, held, actual }));
        let left = if later { 9 } else if held == 10 { 10 - actual.min(10) } else { 9 - actual.min(held) };
        prop_assert_eq!(key.peek(now_us, 0).remaining, Some(left));
    }
}
