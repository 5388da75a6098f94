//! Costs as words: what the command line and the Redis protocol write.

use sluicegate::core::policy::REQUESTS;

use crate::http::MAX_COST;

/// A word that is no cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cost is a whole number from 0 to {MAX_COST}, or `unit=number`")]
pub(crate) struct NoCost;

/// Reads `5` or `tokens=700`.
pub(crate) fn read_cost(text: &str) -> Result<(String, u64), NoCost> {
    let (unit, number) = text.split_once('=').unwrap_or((REQUESTS, text));
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let cost = number.parse().ok().filter(|cost| digits && *cost <= MAX_COST).ok_or(NoCost)?;
    if unit.is_empty() { Err(NoCost) } else { Ok((unit.to_owned(), cost)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_a_whole_number_that_every_door_takes() {
        assert_eq!(read_cost("3"), Ok(("requests".to_owned(), 3)));
        assert_eq!(read_cost("tokens=0"), Ok(("tokens".to_owned(), 0)));
        assert_eq!(read_cost("9007199254740991").map(|(_, cost)| cost), Ok(MAX_COST));
        for wrong in
            ["", "-1", "+1", "1.5", "1e3", "9007199254740992", "18446744073709551616", "tokens=", "=1"]
        {
            assert_eq!(read_cost(wrong), Err(NoCost), "{wrong}");
        }
    }
}
