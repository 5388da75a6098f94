//! From a requirement to a limit: the algorithm that meets it, why, and a snippet to begin with.

use std::time::Duration;

use super::duration;
use crate::rule::Algorithm;

pub use super::duration::DurationError;

/// What somebody needs, and how it is met.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// One word for it.
    pub name: &'static str,
    /// The need, as whoever has it would say.
    pub wanted: &'static str,
    /// What meets it.
    pub algorithm: Algorithm,
    /// Why that.
    pub why: &'static str,
    /// What it does not do.
    pub beware: &'static str,
    /// Numbers to begin with: the limit and the length of time.
    pub usual: (u64, &'static str),
    /// Limits of a policy, with places for the numbers.
    template: &'static str,
}

/// The numbers of a snippet.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// How many.
    pub limit: u64,
    /// In how long a time, as a policy writes it.
    pub per: &'a str,
    /// By which attributes.
    pub key: &'a [String],
    /// Over how many stores the limit is divided; only the need `regions` asks.
    pub regions: u64,
}

/// All needs, in the order of the page on choosing.
pub const NEEDS: &[Need] = &[
    Need {
        name: "internal",
        wanted: "An internal service, a dashboard: simple, cheap, easy to explain.",
        algorithm: Algorithm::FixedWindow,
        why: "One number per key, and everybody understands \"100 each minute\".",
        beware: "Twice the limit may pass around the edge between two windows.",
        usual: (100, "1m"),
        template: "  - name: internal
    algorithm: fixed_window
    limit: {limit}
    per: {per}
    key: [{key}]
    allow: [double_at_the_edge]  # internal callers may have twice as much for a moment
",
    },
    Need {
        name: "exact",
        wanted: "A number in a contract: never more than this in any such time, to the request.",
        algorithm: Algorithm::SlidingLog,
        why: "It remembers each request, so the bound holds in every window and not only in aligned ones.",
        beware: "An entry per request and key: the limit is at most 1,000.",
        usual: (100, "1h"),
        template: "  - name: contract
    algorithm: sliding_log
    limit: {limit}
    per: {per}
    key: [{key}]
",
    },
    Need {
        name: "api",
        wanted: "A public API: fair to each user, no surprises, cheap.",
        algorithm: Algorithm::SlidingCounter,
        why: "No edge to exploit, two numbers per key, and refused callers recover smoothly.",
        beware: "It assumes that the window before was used evenly: for a moment it may admit up to twice the limit within a \
                 window's length, or refuse slightly early.",
        usual: (600, "1m"),
        template: "  - name: per-caller
    algorithm: sliding_counter
    limit: {limit}
    per: {per}
    key: [{key}]
",
    },
    Need {
        name: "bursts",
        wanted: "Interactive clients: short bursts at once, a steady rate over time.",
        algorithm: Algorithm::TokenBucket,
        why: "The burst is a number of its own, and what was not used is saved up to that number and no further.",
        beware: "In the first window the burst comes on top of the rate.",
        usual: (300, "1m"),
        template: "  - name: per-caller
    algorithm: token_bucket
    limit: {limit}
    per: {per}
    burst: {burst}
    key: [{key}]
",
    },
    Need {
        name: "even",
        wanted: "A backend that must be fed evenly: a printer, a partner with a strict rate, a job queue.",
        algorithm: Algorithm::LeakyBucket,
        why: "Requests are told how long to wait instead of being refused, so that they leave evenly spaced.",
        beware: "Callers must wait as they are told; what would wait longer than `max_delay` is refused.",
        usual: (30, "1m"),
        template: "  - name: queue
    algorithm: leaky_bucket
    limit: {limit}
    per: {per}
    max_delay: {per}
    key: [{key}]
",
    },
    Need {
        name: "billing",
        wanted: "A customer's package: so many in a billing period.",
        algorithm: Algorithm::Quota,
        why: "A bill counts in months of the calendar, which begin and end when the customer's do, and nothing may fade in from \
              the one before.",
        beware: "Put a limit for minutes beside it, or the package is gone in one.",
        usual: (1_000_000, "month"),
        template: "  - name: package
    algorithm: quota
    limit: {limit}
    period: { every: {per} }
    key: [{key}]
",
    },
    Need {
        name: "login",
        wanted: "A login form: guesses at one account, and one address that tries many.",
        algorithm: Algorithm::SlidingLog,
        why: "Small and exact. A refused attempt is not counted, so whoever waits gets in.",
        beware: "Both limits are needed: the first alone lets one address try every account, the second alone lets a botnet \
                 try one.",
        usual: (5, "10m"),
        template: "  - name: per-account
    algorithm: sliding_log
    limit: {limit}
    per: {per}
    key: [account]
    if_missing: refuse
  - name: per-address
    algorithm: sliding_log
    limit: {more}
    per: {per}
    key: [ip]
    if_missing: refuse
",
    },
    Need {
        name: "regions",
        wanted: "Several regions, each with a store of its own, and one number for all of them.",
        algorithm: Algorithm::SlidingCounter,
        why: "A decision across regions costs a round trip around the world. A share for each region costs none, and the sum \
              is never above the limit.",
        beware: "A caller that uses one region gets that region's share.",
        usual: (900, "1m"),
        template: "  - name: per-caller-in-region
    algorithm: sliding_counter
    limit: {share}
    per: {per}
    key: [region, {key}]
    if_missing: refuse
",
    },
];

impl Need {
    /// The need of that name.
    pub fn of_name(name: &str) -> Option<&'static Self> {
        NEEDS.iter().find(|need| need.name == name)
    }

    /// Limits that meet the need, as entries of a policy's `limits`.
    ///
    /// ```
    /// use sluicegate_core::{Policy, policy::choose::{Need, Wish}};
    /// let need = Need::of_name("exact").ok_or("no need")?;
    /// let wish = Wish { limit: 100, per: "1m", key: &["user".to_owned()], regions: 1 };
    /// let policy = Policy::parse(&format!("version: 1\nlimits:\n{}", need.limits(&wish)))?;
    /// assert_eq!(policy.limits()[0].name, "contract");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn limits(&self, wish: &Wish<'_>) -> String {
        let numbers = [
            ("{limit}", wish.limit),
            // A fifth at once, and the rest as it flows in.
            ("{burst}", wish.limit.div_ceil(5).max(1)),
            // Ten people behind one address, within what a log may hold.
            ("{more}", wish.limit.saturating_mul(10).min(1_000)),
            ("{share}", wish.limit / wish.regions.max(1)),
        ];
        let text = self.template.replace("{per}", wish.per).replace("{key}", &wish.key.join(", "));
        numbers.iter().fold(text, |text, (place, number)| text.replace(place, &number.to_string()))
    }
}

/// A length of time as policies write it, such as `90s` or `PT1M`.
///
/// # Errors
/// [`DurationError`] if it is none.
pub fn length(text: &str) -> Result<Duration, DurationError> {
    duration::parse(text)
}
