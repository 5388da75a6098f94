//! `SG.TAKE domain attribute=value… [COST n|unit=n]…` and `SG.PEEK`: a request against a policy.

use std::borrow::Cow;

use sluicegate::core::{Attributes, Costs};

use super::command::Refused;
use crate::costs::read_cost;

/// A request of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Take {
    pub(super) domain: String,
    pub(super) attributes: Attributes,
    pub(super) costs: Costs,
}

impl Take {
    /// Reads what follows the command's name. A word with `=` is an attribute; any other is an option with its value.
    pub(super) fn read(name: &'static str, words: &[Cow<'_, [u8]>]) -> Result<Self, Refused> {
        let mut words = words.iter().map(|word| text(word));
        let domain = words.next().ok_or(Refused::Arity(name))??.to_owned();
        let (mut attributes, mut costs) = (Attributes::default(), Vec::new());
        while let Some(word) = words.next().transpose()? {
            if let Some((attribute, value)) = word.split_once('=') {
                insert(&mut attributes, attribute, value)?;
            } else if word.eq_ignore_ascii_case("cost") {
                let cost = words.next().ok_or(Refused::Arity(name))??;
                push(&mut costs, read_cost(cost).map_err(|error| Refused::Invalid(error.to_string()))?)?;
            } else {
                let shown = word.get(..32).unwrap_or(word);
                return Err(Refused::Invalid(format!("`{shown}` is neither `attribute=value` nor `COST`")));
            }
        }
        Ok(Self { domain, attributes, costs: Costs::of_units(costs) })
    }
}

fn insert(attributes: &mut Attributes, name: &str, value: &str) -> Result<(), Refused> {
    if name.is_empty() || attributes.insert(name, value).is_some() {
        let shown = name.get(..32).unwrap_or(name);
        return Err(Refused::Invalid(format!("the attribute `{shown}` is given twice or has no name")));
    }
    Ok(())
}

fn push(costs: &mut Vec<(String, u64)>, (unit, cost): (String, u64)) -> Result<(), Refused> {
    if costs.iter().any(|(earlier, _)| *earlier == unit) {
        return Err(Refused::Invalid(format!("the cost in `{unit}` is given twice")));
    }
    costs.push((unit, cost));
    Ok(())
}

fn text(word: &[u8]) -> Result<&str, Refused> {
    std::str::from_utf8(word).map_err(|_| Refused::Invalid("a word is not UTF-8".to_owned()))
}
