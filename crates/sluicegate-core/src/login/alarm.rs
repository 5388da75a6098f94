//! Whether far more guesses fail than usual, over all accounts: then strangers are challenged from their first guess.

const MINUTE_MS: u64 = 60_000;
/// Failures of a minute that are never alarming.
const QUIET: u64 = 30;
/// How many times as many failures as usual are alarming.
const TIMES: u64 = 3;
/// How long an alarm lasts after the last alarming minute.
const HOLD_MS: u64 = 10 * MINUTE_MS;
/// The unit of the average, so that it moves in whole numbers.
const UNIT: u64 = 16;
/// A minute moves the average by one part in so many.
const MEMORY: u64 = 8;

/// Failures of the minute and of the minutes before it. Times are milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alarm {
    minute: u64,
    failures: u64,
    usual: u64,
    until: u64,
}

impl Alarm {
    /// Counts a guess that failed. What was refused or challenged is none: asking must not raise an alarm, and an alarm
    /// must not keep itself up by the challenges that it brings.
    pub fn failed(&mut self, now: u64) {
        self.turn_to(now / MINUTE_MS);
        self.failures = self.failures.saturating_add(1);
        if self.failures > QUIET.max(TIMES.saturating_mul(self.usual) / UNIT) {
            self.until = now.saturating_add(HOLD_MS);
        }
    }

    /// Whether the alarm is raised.
    pub fn is_raised(&self, now: u64) -> bool {
        self.until > now
    }

    /// Minutes of an alarm do not become usual: else an attack would teach its own size.
    fn turn_to(&mut self, minute: u64) {
        let passed = minute.saturating_sub(self.minute).min(8 * MEMORY);
        for turn in 0..passed {
            let failures = if turn == 0 { self.failures } else { 0 };
            if self.until <= minute.saturating_mul(MINUTE_MS) {
                let part = self.usual.div_ceil(MEMORY);
                self.usual =
                    self.usual.saturating_sub(part).saturating_add(failures.saturating_mul(UNIT) / MEMORY);
            }
        }
        if passed > 0 {
            (self.minute, self.failures) = (minute, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_one_failures_in_a_minute_raise_it_for_ten_minutes() {
        let mut alarm = Alarm::default();
        for second in 0..30 {
            alarm.failed(second * 1_000);
        }
        assert!(!alarm.is_raised(30_000));
        alarm.failed(31_000);
        assert!(alarm.is_raised(31_000 + HOLD_MS - 1) && !alarm.is_raised(31_000 + HOLD_MS));
    }

    #[test]
    fn what_is_usual_is_learned_and_an_attack_is_not() {
        let mut alarm = Alarm::default();
        let minute = |alarm: &mut Alarm, at: u64, failures: u64| {
            for number in 0..failures {
                alarm.failed(at * MINUTE_MS + number * 100);
            }
            alarm.is_raised(at * MINUTE_MS + 59_999)
        };
        for at in 0..60 {
            assert!(!minute(&mut alarm, at, 25));
        }
        assert!(!minute(&mut alarm, 60, 60), "less than three times as many");
        for at in 61..200 {
            assert!(minute(&mut alarm, at, 200), "an attack of hours stays one: minute {at}");
        }
    }
}
