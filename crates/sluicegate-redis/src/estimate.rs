//! What a server's answers to TIME say about its clock, and what is told of it meanwhile.
//!
//! All times are microseconds: local ones by this machine's monotonic clock, the server's since the epoch.

/// How fast the server's clock and this machine's may drift apart, in parts per million: quartz by some 50, and what
/// leads them to the right time by as much again.
const DRIFT_PPM: i64 = 200;
/// How fast the told time is led to the server's, in parts per million, as `adjtime` does. More than the drift, so that
/// it gets there.
const SLEW_PPM: i64 = 500;
/// A clock that is farther off than this, beyond all doubt, has been set or is another server's: the told time steps
/// to it. Nearer ones are slewed to. It is where ntpd steps a clock.
pub(crate) const STEP_US: i64 = 128_000;

/// One question for the server's time.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_field_names, reason = "the unit is in each name")]
pub(crate) struct Sample {
    /// When it was asked, local.
    pub(crate) asked_us: i64,
    /// When the answer was there, local.
    pub(crate) answered_us: i64,
    /// The server's time.
    pub(crate) server_us: i64,
}

/// The least and the most that the server's clock can be ahead of the local one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the unit is in each name")]
pub(crate) struct Bounds {
    pub(crate) least_us: i64,
    pub(crate) most_us: i64,
    /// When they held, local; later they are wider by the drift.
    as_of_us: i64,
}

impl Bounds {
    /// The server looked at its clock between the question and the answer, and has drifted since: it may have been right
    /// after the question.
    fn of(sample: Sample) -> Self {
        Self {
            least_us: sample.server_us.saturating_sub(sample.answered_us),
            most_us: sample.server_us.saturating_sub(sample.asked_us),
            as_of_us: sample.asked_us,
        }
    }

    pub(crate) fn at(self, local_us: i64) -> Self {
        let passed_us = local_us.saturating_sub(self.as_of_us).max(0);
        let drift_us =
            if passed_us == 0 { 0 } else { parts_per_million(passed_us, DRIFT_PPM).saturating_add(1) };
        let (least_us, most_us) =
            (self.least_us.saturating_sub(drift_us), self.most_us.saturating_add(drift_us));
        Self { least_us, most_us, as_of_us: local_us }
    }

    /// What both say. If they contradict each other, the server's clock was set, or another server answered: then the
    /// newer ones alone hold.
    fn and(self, newer: Self) -> Self {
        let least_us = self.least_us.max(newer.least_us);
        let most_us = self.most_us.min(newer.most_us);
        if least_us > most_us { newer } else { Self { least_us, most_us, ..newer } }
    }

    fn middle_us(self) -> i64 {
        self.least_us.saturating_add(self.most_us.saturating_sub(self.least_us) / 2)
    }

    /// How far an offset lies outside.
    fn distance_us(self, offset_us: i64) -> i64 {
        let nearest_us = offset_us.clamp(self.least_us, self.most_us);
        offset_us.saturating_sub(nearest_us).saturating_abs()
    }
}

/// The server's clock as it is told: local time and an offset, which moves slowly to the middle of what is possible.
///
/// While the server's clock goes on without being set and drifts by at most 200 ppm, it lies within the bounds, and they
/// are no wider than the least round trip that was ever seen and the drift since. Whatever happens, they are no wider
/// than the last round trip. The told time never goes backwards unless it steps.
#[derive(Debug)]
pub(crate) struct Estimate {
    bounds: Option<Bounds>,
    /// From when on the offset moves, local.
    from_us: i64,
    offset_us: i64,
    /// How far it has to move.
    gap_us: i64,
    stepped_us: i64,
}

impl Estimate {
    /// A first guess that any sample replaces.
    pub(crate) fn guess(offset_us: i64) -> Self {
        Self { bounds: None, from_us: 0, offset_us, gap_us: 0, stepped_us: 0 }
    }

    /// The told time.
    pub(crate) fn told_us(&self, local_us: i64) -> i64 {
        local_us.saturating_add(self.told_offset_us(local_us))
    }

    /// The local time of the last step; the first sample is one.
    pub(crate) fn stepped_us(&self) -> i64 {
        self.stepped_us
    }

    /// Whether a server ever told its time.
    pub(crate) fn is_guess(&self) -> bool {
        self.bounds.is_none()
    }

    fn told_offset_us(&self, local_us: i64) -> i64 {
        let passed_us = local_us.saturating_sub(self.from_us).max(0);
        let moved_us = parts_per_million(passed_us, SLEW_PPM);
        self.offset_us.saturating_add(self.gap_us.clamp(-moved_us, moved_us))
    }

    /// Learns from a sample; `local_us` is now. Answers by how much the told time steps, if it does.
    pub(crate) fn learn(&mut self, sample: Sample, local_us: i64) -> Option<i64> {
        let newer = Bounds::of(sample).at(local_us);
        let bounds = self.bounds.map_or(newer, |known| known.at(local_us).and(newer));
        let told_us = self.told_offset_us(local_us);
        let gap_us = bounds.middle_us().saturating_sub(told_us);
        let steps = self.is_guess() || bounds.distance_us(told_us) > STEP_US;
        self.bounds = Some(bounds);
        self.from_us = local_us;
        if steps {
            (self.offset_us, self.gap_us, self.stepped_us) = (bounds.middle_us(), 0, local_us);
            return Some(gap_us);
        }
        (self.offset_us, self.gap_us) = (told_us, gap_us);
        None
    }
}

fn parts_per_million(of: i64, parts: i64) -> i64 {
    of.saturating_mul(parts) / 1_000_000
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A server whose clock is ahead by an offset and goes wrong by some parts per million.
    #[derive(Clone, Copy, Debug)]
    struct Server {
        offset_us: i64,
        drift_ppm: i64,
    }

    impl Server {
        fn time_us(self, local_us: i64) -> i64 {
            local_us + self.offset_us + parts_per_million(local_us, self.drift_ppm)
        }

        /// The answer to a question: on the way for some time there, and for some back.
        fn sample(self, asked_us: i64, there_us: i64, back_us: i64) -> Sample {
            let server_us = self.time_us(asked_us + there_us);
            Sample { asked_us, answered_us: asked_us + there_us + back_us, server_us }
        }
    }

    /// The time between two questions, and how long the first of them is on its ways.
    type Ways = (i64, i64, i64);

    fn ways() -> impl Strategy<Value = Vec<Ways>> {
        let way = prop_oneof![8 => 20..600i64, 1 => 600..200_000i64];
        prop::collection::vec((1_000..5_000_000i64, way.clone(), way), 2..60)
    }

    fn server() -> impl Strategy<Value = Server> {
        (-4_000_000_000..4_000_000_000i64, -DRIFT_PPM + 1..DRIFT_PPM)
            .prop_map(|(offset_us, drift_ppm)| Server { offset_us, drift_ppm })
    }

    /// Learns from a sample as soon as it is there.
    fn learn(estimate: &mut Estimate, sample: Sample) -> Option<i64> {
        estimate.learn(sample, sample.answered_us)
    }

    fn bounds_at(estimate: &Estimate, local_us: i64) -> Bounds {
        estimate.bounds.unwrap().at(local_us)
    }

    proptest! {
        /// The error is at most half the least round trip, and the drift since.
        #[test]
        fn the_bounds_hold_the_offset_and_are_no_wider_than_the_best_round_trip_and_the_drift(
            server in server(), ways in ways()
        ) {
            let mut estimate = Estimate::guess(0);
            let mut best: Option<Bounds> = None;
            let mut local_us = 0;
            for (pause_us, there_us, back_us) in ways {
                let sample = server.sample(local_us, there_us, back_us);
                learn(&mut estimate, sample);
                local_us = sample.answered_us;
                for at_us in [local_us, local_us + pause_us] {
                    let truth_us = server.time_us(at_us) - at_us;
                    let bounds = bounds_at(&estimate, at_us);
                    prop_assert!(bounds.distance_us(truth_us) <= 1, "{truth_us} {bounds:?}");
                }
                let own = Bounds::of(sample).at(local_us);
                let width = |bounds: Bounds| bounds.most_us - bounds.least_us;
                let narrower = best.is_none_or(|best| width(own) <= width(best.at(local_us)));
                best = if narrower { Some(own) } else { best };
                // Rounding widens by a microsecond or two on each side and sample.
                let rounded = 4 * 60;
                let widest = width(best.unwrap().at(local_us)) + rounded;
                prop_assert!(width(bounds_at(&estimate, local_us)) <= widest);
                local_us += pause_us;
            }
        }

        /// Slewing never makes the told time worse than half the longest round trip and the drift between samples.
        #[test]
        fn the_told_time_is_right_to_half_a_round_trip_and_the_drift(server in server(), ways in ways()) {
            let longest = ways.iter().map(|(_, there_us, back_us)| there_us + back_us).max().unwrap();
            let pause = ways.iter().map(|(pause_us, ..)| *pause_us).max().unwrap() + longest;
            let mut estimate = Estimate::guess(0);
            let mut local_us = 0;
            for (pause_us, there_us, back_us) in ways {
                let sample = server.sample(local_us, there_us, back_us);
                learn(&mut estimate, sample);
                local_us = sample.answered_us + pause_us;
                let error_us = (estimate.told_us(local_us) - server.time_us(local_us)).abs();
                prop_assert!(error_us <= longest / 2 + parts_per_million(pause, DRIFT_PPM) + 130, "{error_us}");
            }
        }

        /// Whatever servers say: without a step the told time goes on, as fast as the local one to 500 ppm.
        #[test]
        fn the_told_time_never_goes_back_and_never_jumps_unless_it_steps(
            offsets in prop::collection::vec(-200_000..200_000i64, 2..60), ways in ways()
        ) {
            let mut estimate = Estimate::guess(0);
            let (mut local_us, mut last) = (0, None);
            for (offset_us, (pause_us, there_us, back_us)) in offsets.into_iter().zip(ways) {
                let sample = Server { offset_us, drift_ppm: 0 }.sample(local_us, there_us, back_us);
                let stepped = learn(&mut estimate, sample).is_some();
                for at_us in [sample.answered_us, sample.answered_us + pause_us / 2, sample.answered_us + pause_us] {
                    let told_us = estimate.told_us(at_us);
                    if let Some((last_us, last_told_us)) = last.filter(|_| !stepped) {
                        let passed_us: i64 = at_us - last_us;
                        let slewed_us = parts_per_million(passed_us, SLEW_PPM) + 1;
                        prop_assert!(told_us >= last_told_us);
                        prop_assert!((told_us - last_told_us - passed_us).abs() <= slewed_us + 1);
                    }
                    last = Some((at_us, told_us));
                }
                local_us = sample.answered_us + pause_us;
            }
        }

        /// A server that was set, or another one in its place, is believed at once if it is far off, and else slowly.
        #[test]
        fn a_clock_that_was_set_is_stepped_to_if_far_off_and_slewed_to_if_near(
            server in server(), ways in ways(), by_us in prop_oneof![1..100_000i64, 400_000..4_000_000_000i64],
            back in any::<bool>()
        ) {
            let mut estimate = Estimate::guess(0);
            let mut local_us = 0;
            for (pause_us, there_us, back_us) in ways {
                let (there_us, back_us) = (there_us % 1_000 + 1, back_us % 1_000 + 1);
                local_us = server.sample(local_us, there_us, back_us).answered_us;
                learn(&mut estimate, server.sample(local_us - there_us - back_us, there_us, back_us));
                local_us += pause_us;
            }
            let by_us = if back { -by_us } else { by_us };
            let set = Server { offset_us: server.offset_us + by_us, drift_ppm: server.drift_ppm };
            let stepped = learn(&mut estimate, set.sample(local_us, 200, 300));
            local_us += 500;
            prop_assert_eq!(stepped.is_some(), by_us.abs() > 200_000);
            if stepped.is_none() {
                // 300 ppm are left for the way after the drift; it is asked again meanwhile.
                for _ in 0..by_us.abs() / 300 + 10 {
                    local_us += 1_000_000;
                    prop_assert_eq!(learn(&mut estimate, set.sample(local_us, 200, 300)), None);
                    local_us += 500;
                }
            }
            let error_us = (estimate.told_us(local_us) - set.time_us(local_us)).abs();
            prop_assert!(error_us <= 250 + 600, "{error_us}");
        }
    }

    /// A tenth of a second on the way back is drift of 20 µs, more than the way there took.
    #[test]
    fn the_drift_on_the_way_back_counts() {
        let server = Server { offset_us: 0, drift_ppm: DRIFT_PPM };
        let (mut estimate, asked_us) = (Estimate::guess(0), 60_000_000);
        learn(&mut estimate, server.sample(asked_us, 10, 100_000));
        let local_us = asked_us + 100_010;
        let truth_us = server.time_us(local_us) - local_us;
        assert_eq!(bounds_at(&estimate, local_us).distance_us(truth_us), 0);
    }

    #[test]
    fn one_slow_answer_does_not_move_a_clock_that_is_known_well() {
        let server = Server { offset_us: 7_000_000, drift_ppm: 0 };
        let mut estimate = Estimate::guess(0);
        assert_eq!(learn(&mut estimate, server.sample(0, 50, 50)), Some(7_000_000));
        // Half a second on the way there, none back: half the round trip would be a quarter of a second off.
        assert_eq!(learn(&mut estimate, server.sample(1_000_000, 500_000, 10)), None);
        let local_us = 60_000_000;
        assert!((estimate.told_us(local_us) - server.time_us(local_us)).abs() <= 50 + 300);
    }
}
