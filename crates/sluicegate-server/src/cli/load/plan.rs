//! When requests are due, and whose they are: the same for the same seed.

use std::{num::NonZeroU32, time::Duration};

/// Who asks, and in what steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) users: u32,
    pub(super) skew: f64,
    pub(super) seed: u64,
    pub(super) burst: NonZeroU32,
}

/// All requests of a run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The user of each request, in the order in which they are due.
    users: Vec<u32>,
    burst: u64,
    /// The time between two bursts.
    step: Duration,
}

impl Plan {
    /// So many requests a second for a while.
    pub(super) fn new(rate: NonZeroU32, length: Duration, shape: Shape) -> Self {
        let burst = u64::from(shape.burst.get());
        let step = Duration::from_secs(1).saturating_mul(shape.burst.get()) / rate.get();
        let total = u64::from(rate.get()).saturating_mul(length.as_secs());
        let reach = reaches(shape.users, shape.skew);
        let whole = reach.last().copied().unwrap_or(1.0);
        let mut random = fastrand::Rng::with_seed(shape.seed);
        let mut user = || {
            let drawn = random.f64() * whole;
            let at = reach.partition_point(|reach| *reach <= drawn);
            u32::try_from(at).unwrap_or(0).min(shape.users.saturating_sub(1))
        };
        Self { users: (0..total).map(|_| user()).collect(), burst, step }
    }

    /// How many requests there are.
    pub(super) fn total(&self) -> usize {
        self.users.len()
    }

    /// When the last request is due.
    pub(super) fn length(&self) -> Duration {
        self.get(self.total().saturating_sub(1)).map_or(Duration::ZERO, |(after, _)| after)
    }

    /// When a request is due, from the start, and whose it is; `None` after the last.
    pub(super) fn get(&self, at: usize) -> Option<(Duration, u32)> {
        let user = self.users.get(at)?;
        let bursts_before = u64::try_from(at).unwrap_or(u64::MAX) / self.burst;
        let steps = u32::try_from(bursts_before).unwrap_or(u32::MAX);
        Some((self.step.saturating_mul(steps), *user))
    }
}

/// Up to where each user's part reaches, of the weights `1 / rank^skew` added up (Zipf's law at a skew of 1).
fn reaches(users: u32, skew: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let weight = |rank: u32| f64::from(rank).powf(-skew);
    (1..=users)
        .map(|rank| {
            sum += weight(rank);
            sum
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn plan(users: u32, skew: f64, burst: u32) -> Plan {
        let shape = Shape { users, skew, seed: 7, burst: NonZeroU32::new(burst).unwrap() };
        Plan::new(NonZeroU32::new(200).unwrap(), Duration::from_secs(30), shape)
    }

    #[test]
    fn requests_are_due_evenly_or_in_bursts_and_each_has_a_user() {
        let (even, bursts) = (plan(50, 0.0, 1), plan(50, 0.0, 20));
        assert_eq!((even.total(), bursts.total()), (6_000, 6_000));
        assert_eq!(even.get(201).unwrap().0, Duration::from_millis(1_005));
        assert_eq!(
            (bursts.get(19).unwrap().0, bursts.get(20).unwrap().0),
            (Duration::ZERO, Duration::from_millis(100))
        );
        assert!(even.get(6_000).is_none());
        let mut seen = [0; 50];
        (0..6_000).for_each(|at| seen[usize::try_from(even.get(at).unwrap().1).unwrap()] += 1);
        // 120 each; five standard deviations are 54.
        assert!(seen.iter().all(|seen| (66..174).contains(seen)), "{seen:?}");
    }

    #[test]
    fn with_a_skew_of_one_the_second_asks_half_as_often_as_the_first() {
        let plan = plan(1_000, 1.0, 1);
        let of = |user: u32| (0..6_000).filter(|at| plan.get(*at).unwrap().1 == user).count();
        // The first has 6,000 / H(1000) = 801.
        assert!((660..942).contains(&of(0)) && (300..501).contains(&of(1)), "{} {}", of(0), of(1));
    }
}
