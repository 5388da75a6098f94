//! Requests over time, in a bounded number of moments that grow as the log does.

use sluicegate::core::Micros;

/// Moments of one timeline; with one more, each two become one.
const MAX_MOMENTS: usize = 480;

/// What happened in one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Requests that passed.
    pub passed: u64,
    /// Requests that were denied.
    pub denied: u64,
    /// How full the fullest key was, in percent; 100 is the limit.
    pub fullest: u64,
}

/// Moments of one length, without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The length of a moment in seconds: a power of two.
    pub width_s: u64,
    /// The number of the first moment, counted from the epoch.
    pub first: u64,
    /// The moments, at most 480.
    pub moments: Vec<Moment>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { width_s: 1, first: 0, moments: Vec::new() }
    }
}

impl Timeline {
    /// Adds a request; times never go back.
    pub(super) fn add(&mut self, at: Micros, request: Moment) {
        let at_s = at.as_u64() / 1_000_000;
        if self.moments.is_empty() {
            self.first = at_s / self.width_s;
        }
        while !self.reaches(at_s) {
            self.halve();
        }
        let index = self.index(at_s);
        if self.moments.len() <= index {
            self.moments.resize(index + 1, Moment::default());
        }
        if let Some(moment) = self.moments.get_mut(index) {
            *moment = moment.with(request);
        }
    }

    fn index(&self, at_s: u64) -> usize {
        usize::try_from((at_s / self.width_s).saturating_sub(self.first)).unwrap_or(usize::MAX)
    }

    fn reaches(&self, at_s: u64) -> bool {
        self.index(at_s) < MAX_MOMENTS
    }

    /// Each two moments become one of twice the length.
    fn halve(&mut self) {
        let odd = usize::from(!self.first.is_multiple_of(2));
        self.width_s = self.width_s.saturating_mul(2);
        self.first /= 2;
        let mut halved: Vec<Moment> = Vec::with_capacity(self.moments.len() / 2 + 1);
        for (index, moment) in self.moments.iter().enumerate() {
            let second = (index + odd) % 2 == 1;
            match halved.last_mut().filter(|_| second) {
                Some(first) => *first = first.with(*moment),
                None => halved.push(*moment),
            }
        }
        self.moments = halved;
    }
}

impl Moment {
    fn with(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            denied: self.denied + other.denied,
            fullest: self.fullest.max(other.fullest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every request stays in the moment that its time lies in, however often moments grew.
    #[test]
    fn no_request_is_lost_or_moved_when_moments_grow() {
        for start_s in [0, 1, 1_796_040_001] {
            let mut timeline = Timeline::default();
            let times: Vec<u64> = (0..5_000).map(|step| start_s + step * step / 7).collect();
            for at_s in &times {
                timeline.add(Micros::from_secs(*at_s), Moment { passed: 1, denied: 2, fullest: at_s % 100 });
            }
            assert!(timeline.moments.len() <= MAX_MOMENTS);
            for (index, moment) in (0..).zip(&timeline.moments) {
                let number = timeline.first + index;
                let here = |at_s: &&u64| **at_s / timeline.width_s == number;
                let count: u64 = times.iter().filter(here).map(|_| 1).sum();
                assert_eq!((moment.passed, moment.denied), (count, 2 * count), "moment {number}");
            }
        }
    }

    #[test]
    fn a_time_far_away_makes_moments_longer_and_no_more_of_them() {
        let mut timeline = Timeline::default();
        timeline.add(Micros::from_secs(0), Moment { passed: 1, ..Moment::default() });
        timeline.add(Micros::new(u64::MAX), Moment { passed: 1, ..Moment::default() });
        assert!(timeline.moments.len() <= MAX_MOMENTS);
        assert_eq!(timeline.moments.iter().map(|moment| moment.passed).sum::<u64>(), 2);
    }
}
