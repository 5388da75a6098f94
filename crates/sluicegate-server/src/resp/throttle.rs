//! `CL.THROTTLE key max_burst count_per_period period [quantity]`: a limit that is spelt out in the command.
//!
//! Known from the module redis-cell: five integers come back.

use std::{borrow::Cow, time::Duration};

use sluicegate::core::{Ask, AskDecision, LimitId, Retry, Rule, Subject};

use super::command::Refused;

/// The domain of keys that commands name. No policy can have it.
const DOMAIN: &str = "!cl.throttle";
/// The name that the limit's id is made of, with its period.
const NAME: &str = "cl.throttle";

/// A command that makes sense.
#[derive(Clone, Debug)]
pub(super) struct Throttle {
    limit: Limit,
    subject: Subject,
    cost: u64,
}

/// The limit of a command: a bucket of `max_burst + 1`, refilled with `count` per period.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    numbers: [u64; 3],
    rule: Rule,
    id: LimitId,
}

impl Throttle {
    /// Reads what follows the command's name. `last` is the limit of the connection's last such command: nearly
    /// always the same one, whose id need not be made again.
    pub(super) fn read(words: &[Cow<'_, [u8]>], last: &mut Option<Limit>) -> Result<Self, Refused> {
        let (key, numbers, quantity) = match words {
            [key, burst, count, period] => (key, [burst, count, period], None),
            [key, burst, count, period, quantity] => (key, [burst, count, period], Some(quantity)),
            _ => return Err(Refused::Arity("cl.throttle")),
        };
        let [burst, count, period] = numbers;
        let numbers = [number("max_burst", burst)?, number("count", count)?, number("period", period)?];
        let cost = quantity.map_or(Ok(1), |quantity| number("quantity", quantity))?;
        let limit = match last {
            Some(last) if last.numbers == numbers => last.clone(),
            last => last.insert(Limit::new(numbers)?).clone(),
        };
        Ok(Self { limit, subject: subject(key), cost })
    }

    pub(super) fn ask(&self) -> Ask<'_> {
        Ask::new(&self.limit.rule, self.limit.id, self.subject.clone(), self.cost)
    }
}

impl Limit {
    fn new(numbers @ [max_burst, count, period_s]: [u64; 3]) -> Result<Self, Refused> {
        if count == 0 || period_s == 0 {
            let name = if count == 0 { "count" } else { "period" };
            return Err(Refused::Invalid(format!("`{name}` must be at least 1")));
        }
        let burst = max_burst.saturating_add(1);
        let rule = Rule::gcra(count, Duration::from_secs(period_s), burst)
            .map_err(|error| Refused::Invalid(error.to_string()))?;
        let id = LimitId::of(NAME, &rule);
        Ok(Self { numbers, rule, id })
    }
}

fn number(name: &str, word: &[u8]) -> Result<u64, Refused> {
    let digits = std::str::from_utf8(word).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
        let shown = word.get(..word.len().min(32)).unwrap_or_default().escape_ascii();
        Refused::Invalid(format!("`{name}` must be a whole number from 0 on, not `{shown}`"))
    })
}

/// Two different keys are two subjects. A key that is not text counts under its bytes, each as one character.
fn subject(key: &[u8]) -> Subject {
    if let Ok(text) = std::str::from_utf8(key) {
        return Subject::new(DOMAIN, &[], &[("key", Some(text))]);
    }
    let text: String = key.iter().copied().map(char::from).collect();
    Subject::new(DOMAIN, &[], &[("bytes", Some(&text))])
}

/// The five integers: limited, limit, remaining, seconds until another try, seconds until full.
///
/// Seconds are rounded up: who waits for them is admitted. Another try is -1 when the command was not limited, and
/// also when it can never pass, which only a quantity above the limit asks for.
pub(super) fn reply(decision: &AskDecision) -> [i64; 5] {
    let retry_s = match decision.retry {
        Some(Retry::After(wait)) => ceil_s(wait).max(1),
        Some(Retry::Never) | None => -1,
    };
    let whole = |amount: Option<u64>| i64::try_from(amount.unwrap_or(0)).unwrap_or(i64::MAX);
    let limited = i64::from(!decision.allowed);
    [limited, whole(decision.capacity), whole(decision.remaining), retry_s, ceil_s(decision.reset_after)]
}

fn ceil_s(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000_000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test that cannot go on must fail")]
mod tests {
    use super::*;

    fn read(words: &[&[u8]]) -> Result<Throttle, Refused> {
        let words: Vec<Cow<'_, [u8]>> = words.iter().map(|word| Cow::Borrowed(*word)).collect();
        Throttle::read(&words, &mut None)
    }

    #[test]
    fn the_limit_is_one_above_the_burst() {
        let throttle = read(&[b"k", b"15", b"30", b"60", b"1"]).expect("a command");
        assert_eq!(throttle.ask().rule.max_cost(), 16);
        assert_eq!(read(&[b"k", b"0", b"30", b"60"]).expect("a command").ask().rule.max_cost(), 1);
    }

    #[test]
    fn a_number_that_is_none_is_named() {
        let cases: [(&[&[u8]], &str); 6] = [
            (&[b"k", b"x", b"30", b"60"], "`max_burst` must be a whole number"),
            (&[b"k", b"1", b"-30", b"60"], "`count` must be a whole number"),
            (&[b"k", b"1", b"0", b"60"], "`count` must be at least 1"),
            (&[b"k", b"1", b"1", b"0"], "`period` must be at least 1"),
            (&[b"k", b"1", b"1", b"60", b"1.5"], "`quantity` must be a whole number"),
            (&[b"k", b"1", b"18446744073709551615", b"60"], "is too large"),
        ];
        for (words, message) in cases {
            let refused = read(words).expect_err("no command").to_string();
            assert!(refused.contains(message), "{refused}");
        }
        assert!(matches!(read(&[b"k"]), Err(Refused::Arity("cl.throttle"))));
    }

    #[test]
    fn keys_of_other_bytes_are_other_subjects() {
        let keys: [&[u8]; 6] = [b"", b"\xff", b"\xc3\xbf", b"a}b", b"{a}", b"key=a"];
        for (at, first) in keys.iter().enumerate() {
            for second in &keys[at + 1..] {
                assert_ne!(subject(first), subject(second));
            }
        }
    }
}
