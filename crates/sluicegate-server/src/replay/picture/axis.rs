//! Round numbers along the axes of a picture.

use jiff::Timestamp;

use crate::{numbers::grouped, replay::Timeline};

/// The most lines across a plot.
const MAX_LINES: u128 = 4;
/// The most labels below it.
const MAX_LABELS: u64 = 9;

/// A line across a plot.
pub(super) struct Tick {
    /// Its height, in requests of a moment.
    pub(super) count: u128,
    /// The same per second.
    pub(super) words: String,
}

/// Lines at round numbers of requests per second.
pub(super) struct Ticks {
    step_milli: u128,
    width_s: u128,
    scale: u128,
    next: u128,
}

impl Ticks {
    /// For a plot that reaches to `scale` requests in a moment of that many seconds.
    pub(super) fn of(scale: u128, width_s: u64) -> Self {
        let width_s = u128::from(width_s);
        let top_milli = scale * 1_000 / width_s.max(1);
        let steps = (0..).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u128.saturating_pow(power)));
        let step_milli = steps.take(100).find(|step| top_milli / step <= MAX_LINES).unwrap_or(u128::MAX);
        Self { step_milli, width_s, scale, next: 0 }
    }
}

impl Iterator for Ticks {
    type Item = Tick;

    fn next(&mut self) -> Option<Tick> {
        let milli = self.step_milli.checked_mul(self.next)?;
        let count = milli.checked_mul(self.width_s)? / 1_000;
        self.next += 1;
        (count <= self.scale).then(|| Tick { count, words: thousandths(milli) })
    }
}

/// A number of thousandths, without zeros at its end.
fn thousandths(milli: u128) -> String {
    let decimals = format!("{:03}", milli % 1_000);
    let decimals = decimals.trim_end_matches('0');
    let whole = u64::try_from(milli / 1_000).unwrap_or(u64::MAX);
    let whole = grouped(whole);
    if decimals.is_empty() { whole } else { format!("{whole}.{decimals}") }
}

/// Steps of labels in seconds.
const STEPS_S: [u64; 19] = [
    1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600,
    2_592_000, 7_776_000, 31_536_000,
];

/// Labels of a timeline: seconds from its beginning, and the time of day there (UTC), or the date.
pub(super) fn hours(timeline: &Timeline) -> Vec<(u64, String)> {
    let start_s = timeline.first.saturating_mul(timeline.width_s);
    let moments = u64::try_from(timeline.moments.len()).unwrap_or(u64::MAX);
    let span_s = moments.saturating_mul(timeline.width_s);
    let step_s = STEPS_S.into_iter().find(|step| span_s / step <= MAX_LABELS).unwrap_or(span_s.max(1));
    let first_s = start_s.div_ceil(step_s).saturating_mul(step_s);
    let within = (0..).map(|index| first_s.saturating_add(step_s.saturating_mul(index)));
    let within = within.take_while(|at_s| *at_s < start_s.saturating_add(span_s)).take(32);
    within.map(|at_s| (at_s - start_s, label(at_s, step_s))).collect()
}

fn label(at_s: u64, step_s: u64) -> String {
    let midnight = at_s.is_multiple_of(86_400);
    let format = match step_s {
        86_400.. => "%-d %b",
        _ if midnight => "%-d %b",
        60.. => "%H:%M",
        _ => "%H:%M:%S",
    };
    let timestamp = i64::try_from(at_s).ok().and_then(|at_s| Timestamp::from_second(at_s).ok());
    timestamp.map(|timestamp| timestamp.strftime(format).to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lie_at_round_numbers_per_second() {
        let words = |scale, width_s| Ticks::of(scale, width_s).map(|tick| tick.words).collect::<Vec<_>>();
        assert_eq!(words(100, 1), ["0", "50", "100"]);
        assert_eq!(words(7_000, 1), ["0", "2,000", "4,000", "6,000"]);
        assert_eq!(words(10, 16), ["0", "0.2", "0.4", "0.6"]);
        assert_eq!(words(1, 1_024), ["0", "0.001"]);
    }
}
