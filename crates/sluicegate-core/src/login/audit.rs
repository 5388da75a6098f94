//! What a budget is worth to the best attacker: who has as many addresses as he likes, loses no millisecond, and knows
//! the numbers.

use std::time::Duration;

use super::gauge::{Counter, Gauge, Leak, Reading};
use crate::{
    decision::Retry,
    rule::Rule,
    state::{Question, State},
    time::Micros,
};

const DAY_MS: u64 = 86_400_000;
/// An instant at which days, and all windows that fill them, begin.
const START_MS: u64 = 20_000 * DAY_MS;
/// After so many steps the rest of the two days is taken to be like them.
const MAX_STEPS: u64 = 100_000;

/// Guesses at one account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// In the first day.
    pub first_day: u64,
    /// In the day after it.
    pub later_day: u64,
    /// How they are made.
    pub pacing: Pacing,
    /// How long nobody has room after the last of them, at the most.
    pub longest_wait: Duration,
}

/// The best attacker's pacing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// A guess whenever there is room.
    Greedy,
    /// One short of the lockout, again and again.
    OneShort {
        /// Guesses in a row.
        guesses: u32,
        /// From the first of a row to the first of the next.
        every: Duration,
    },
}

/// What a gauge is worth.
///
/// ```
/// use sluicegate_core::login::{AccountRules, exposure};
/// let strong = exposure(&AccountRules::strong().unknown);
/// assert_eq!((strong.first_day, strong.later_day), (51, 12));
/// let basic = exposure(&AccountRules::basic().unknown);
/// assert_eq!(basic.first_day, 864);
/// ```
pub fn exposure(gauge: &Gauge) -> Exposure {
    let greedy = greedy_at(gauge);
    let Gauge::Counter(Counter { limit, ttl_ms, .. }) = *gauge else { return greedy };
    let guesses = limit.saturating_sub(1);
    let rows = DAY_MS.div_ceil(ttl_ms.max(1));
    let a_day = rows.saturating_mul(guesses.into());
    if a_day <= greedy.later_day {
        return greedy;
    }
    let pacing = Pacing::OneShort { guesses, every: Duration::from_millis(ttl_ms) };
    Exposure { first_day: a_day, later_day: a_day, pacing, ..greedy }
}

fn greedy_at(gauge: &Gauge) -> Exposure {
    let mut reading: Reading = [0; 3];
    let longest_ms = match gauge {
        Gauge::Leaks(leaks) => {
            leaks.iter().flatten().map(|Leak { every_ms, .. }| *every_ms).max().unwrap_or(0)
        }
        Gauge::Counter(counter) => {
            counter.lockout_ms.max(if counter.lockout_ms == 0 { counter.ttl_ms } else { 0 })
        }
    };
    let step = |now_ms: u64| {
        if let Some(retry_at) = gauge.retry_at(&reading, now_ms) {
            return (0, Some(retry_at.saturating_sub(now_ms)));
        }
        reading = gauge.charge(reading, now_ms);
        (1, Some(0))
    };
    two_days(1_000, Duration::from_millis(longest_ms), step)
}

/// What a limit is worth that counts guesses at an account.
pub fn exposure_of_rule(rule: &Rule) -> Exposure {
    let mut state: Option<State> = None;
    let mut longest_us = 0;
    let step = |now_us: u64| {
        let ask = |cost| Question { rule, key: b"", cost, now: Micros::new(now_us) };
        let rolled = ask(1).roll(state.clone()).unwrap_or_else(|_skew| ask(1).fresh());
        let room = ask(1).report(&rolled, false).remaining.unwrap_or(0);
        if room > 0 {
            state = Some(ask(room).charge(rolled));
            return (room, Some(0));
        }
        match ask(1).retry(&rolled) {
            Retry::After(wait) => {
                let wait = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX).max(1);
                longest_us = longest_us.max(wait);
                (0, Some(wait))
            }
            Retry::Never => (0, None),
        }
    };
    let made = two_days(1, Duration::ZERO, step);
    Exposure { longest_wait: Duration::from_micros(longest_us), ..made }
}

/// Runs a step again and again for two days, in a unit of so many parts of a second. A step answers how many guesses it
/// made, and how long nothing happens after it; `None` for ever.
fn two_days(
    us_per_unit: u64,
    longest_wait: Duration,
    mut step: impl FnMut(u64) -> (u64, Option<u64>),
) -> Exposure {
    let (day, start) = (DAY_MS * 1_000 / us_per_unit, START_MS * 1_000 / us_per_unit);
    let (mut now, mut days) = (start, [0_u64, 0]);
    for _ in 0..MAX_STEPS {
        let [first, later] = &mut days;
        let elapsed = now.saturating_sub(start);
        let (made, wait) = step(now);
        let of_day = if elapsed < day { first } else { later };
        *of_day = of_day.saturating_add(made);
        now = now.saturating_add(wait.unwrap_or(u64::MAX));
        if now >= start.saturating_add(2 * day) {
            let [first_day, later_day] = days;
            return Exposure { first_day, later_day, pacing: Pacing::Greedy, longest_wait };
        }
    }
    let (made, elapsed) = (days.iter().sum::<u64>(), now.saturating_sub(start).max(1));
    let a_day = u128::from(made) * u128::from(day) / u128::from(elapsed);
    let a_day = u64::try_from(a_day).unwrap_or(u64::MAX);
    Exposure { first_day: a_day, later_day: a_day, pacing: Pacing::Greedy, longest_wait }
}

/// A policy of somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPolicy {
    /// Whose, and what is counted.
    pub name: &'static str,
    /// The defaults that are documented; `None` where nothing bounds guesses at one account from many addresses.
    pub gauge: Option<Gauge>,
    /// Whether a device that logged in before is let in during an attack.
    pub lets_devices_in: bool,
}

const MINUTE_MS: u64 = 60_000;

const fn lockout(limit: u32, ttl_ms: u64, lockout_ms: u64) -> Gauge {
    Gauge::Counter(Counter { limit, ttl_ms, lockout_ms })
}

/// Well-known policies at their documented defaults, as far as a counter with a lockout says what they do. Where
/// failures are remembered until the lockout ends, they are here for as long as the lockout lasts: the greedy attacker, who is
/// the best one there, sees no difference.
pub const KNOWN_POLICIES: [KnownPolicy; 8] = [
    KnownPolicy { name: "django-axes, by address", gauge: None, lets_devices_in: false },
    KnownPolicy { name: "symfony, by name and address", gauge: None, lets_devices_in: false },
    KnownPolicy {
        name: "authelia, 3 in 2 min, 5 min",
        gauge: Some(lockout(3, 2 * MINUTE_MS, 5 * MINUTE_MS)),
        lets_devices_in: false,
    },
    KnownPolicy {
        name: "gitlab, 10, 10 min",
        gauge: Some(lockout(10, 10 * MINUTE_MS, 10 * MINUTE_MS)),
        lets_devices_in: false,
    },
    KnownPolicy {
        name: "django-defender, 4 in 5 min, 5 min",
        gauge: Some(lockout(4, 5 * MINUTE_MS, 5 * MINUTE_MS)),
        lets_devices_in: false,
    },
    KnownPolicy {
        name: "devise, 20, 1 h",
        gauge: Some(lockout(20, 60 * MINUTE_MS, 60 * MINUTE_MS)),
        lets_devices_in: false,
    },
    KnownPolicy {
        name: "vault, 5 in 15 min, 15 min",
        gauge: Some(lockout(5, 15 * MINUTE_MS, 15 * MINUTE_MS)),
        lets_devices_in: false,
    },
    KnownPolicy {
        name: "owasp device cookies, 10 an hour",
        gauge: Some(lockout(10, 60 * MINUTE_MS, 60 * MINUTE_MS)),
        lets_devices_in: true,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Align;

    fn known(name: &str) -> u64 {
        let policy = KNOWN_POLICIES.iter().find(|policy| policy.name.starts_with(name)).unwrap();
        exposure(&policy.gauge.unwrap()).later_day
    }

    /// The numbers of the field, as two independent models found them, within what a burst takes.
    #[test]
    fn known_policies_are_worth_what_their_numbers_say() {
        assert_eq!(known("authelia"), 1_440);
        assert!((1_400..=1_440).contains(&known("gitlab")), "{}", known("gitlab"));
        assert!((1_100..=1_152).contains(&known("django-defender")));
        assert!((460..=480).contains(&known("devise")));
        assert!((460..=480).contains(&known("vault")));
        assert!((230..=240).contains(&known("owasp")));
    }

    #[test]
    fn limits_are_worth_what_their_laws_say() {
        let minutes = |count: u64| Duration::from_secs(60 * count);
        let window = exposure_of_rule(&Rule::fixed_window(5, minutes(10), Align::Epoch).unwrap());
        assert_eq!((window.first_day, window.later_day), (720, 720));
        assert!(window.longest_wait <= minutes(10));
        let log = exposure_of_rule(&Rule::sliding_log(5, minutes(10)).unwrap());
        assert_eq!((log.first_day, log.later_day), (720, 720));
        let bucket = exposure_of_rule(&Rule::token_bucket(1, minutes(30), 10).unwrap());
        assert_eq!((bucket.first_day, bucket.later_day), (57, 48));
        let fast = exposure_of_rule(&Rule::gcra(100, Duration::from_secs(1), 100).unwrap());
        assert!((8_640_000..8_700_000).contains(&fast.later_day), "{}", fast.later_day);
        let none = exposure_of_rule(&Rule::fixed_window(0, minutes(10), Align::Epoch).unwrap());
        assert_eq!(none.first_day, 0);
    }
}
