//! Why a policy says what it says: the limits that apply to a request, and the reason why each other does not.

use std::fmt;

use super::{AmountOf, Applied, AskError, Attributes, Costs, Enforcement, Limit, Matched, Policy, TIER};

/// What a policy makes of a request, limit by limit.
#[derive(Clone, Debug)]
pub struct Explanation<'p> {
    /// The tier that the request names, in a domain with tiers.
    pub tier: Option<&'p str>,
    /// Every limit of the domain, in the order of the file.
    pub limits: Vec<Explained<'p>>,
}

/// One limit, and why it applies or not.
#[derive(Clone, Debug)]
pub struct Explained<'p> {
    /// The limit.
    pub limit: &'p Limit,
    /// Why.
    pub why: Why<'p>,
}

/// Why a limit applies to a request, or does not.
#[derive(Clone, Debug)]
pub enum Why<'p> {
    /// It applies, with this ask.
    Applies(Applied<'p>),
    /// An exemption lets the request pass before any limit is looked at.
    Exempt(&'p str),
    /// A condition of its `match` does not hold.
    Unmet {
        /// The attribute.
        attribute: &'p str,
        /// Its value; `None` if the request lacks it.
        value: Option<String>,
        /// What the condition asks, in words.
        condition: String,
    },
    /// The request lacks an attribute of the key, and the limit skips such requests.
    Skips {
        /// The attribute.
        attribute: &'p str,
    },
}

impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applies(applied) if applied.enforcement == Enforcement::On => {
                write!(f, "its amount is that of {}", applied.amount_of)
            }
            Self::Applies(Applied { amount_of, enforcement, .. }) => {
                write!(
                    f,
                    "its amount is that of {amount_of}; it is `{}` and denies nothing",
                    enforcement.name()
                )
            }
            Self::Exempt(name) => write!(f, "the exemption `{name}` lets the request pass"),
            Self::Unmet { attribute, value: Some(value), condition } => {
                write!(f, "`{attribute}` is `{value}`, and {condition}")
            }
            Self::Unmet { attribute, value: None, condition } => {
                write!(f, "`{attribute}` is missing, and {condition}")
            }
            Self::Skips { attribute } => {
                write!(f, "`{attribute}` is missing, and the limit skips such requests")
            }
        }
    }
}

impl fmt::Display for AmountOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit => f.write_str("the limit itself"),
            Self::Tier(name) => write!(f, "tier `{name}`"),
            Self::Override(at) => write!(f, "override {}", at.saturating_add(1)),
        }
    }
}

impl Policy {
    /// What the policy makes of a request, limit by limit: those that [`Policy::apply`] finds, and why not the others.
    ///
    /// ```
    /// use sluicegate_core::{Attributes, Costs, Policy};
    /// let policy = Policy::parse(
    ///     "version: 1
    /// limits:
    ///   - { name: writes, algorithm: gcra, limit: 30, per: 1m, key: [user], match: { method: POST } }",
    /// )?;
    /// let request: Attributes = [("user", "alice"), ("method", "GET")].into_iter().collect();
    /// let explanation = policy.explain(&request, &Costs::default())?;
    /// assert_eq!(explanation.limits[0].why.to_string(), "`method` is `GET`, and must be `POST`");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Policy::apply`].
    pub fn explain(&self, attributes: &Attributes, costs: &Costs) -> Result<Explanation<'_>, AskError> {
        let Matched { exempt, limits } = self.apply(attributes, costs)?;
        let mut applied = limits.into_iter().peekable();
        let explained = self.limits().iter().map(|limit| {
            let why = match applied.next_if(|next| std::ptr::eq(next.limit, limit)) {
                Some(applied) => Why::Applies(applied),
                None => why_not(limit, exempt, attributes),
            };
            Explained { limit, why }
        });
        let limits = explained.collect();
        let tier = self.tiers().find(|tier| attributes.value(TIER) == Some(tier));
        Ok(Explanation { tier, limits })
    }
}

fn why_not<'p>(limit: &'p Limit, exempt: Option<&'p str>, attributes: &Attributes) -> Why<'p> {
    if let Some(name) = exempt {
        return Why::Exempt(name);
    }
    if let Some((attribute, condition)) = limit.matcher.unmet(attributes) {
        let value = attributes.value(attribute).map(str::to_owned);
        return Why::Unmet { attribute, value, condition };
    }
    let missing = limit.key.iter().find(|name| attributes.value(name).is_none());
    Why::Skips { attribute: missing.map_or("", String::as_str) }
}
