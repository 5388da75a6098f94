//! The fields of a policy file, in one table: the reader knows them by it, and the reference page and the JSON Schema are
//! made of it. A field that is added here is a field everywhere; what it means is read in `resolve`.

use super::{
    MAX_ATTRIBUTES, MAX_EXEMPTIONS, MAX_LIMITS, MAX_OVERRIDES, MAX_SHARDS, MIN_SHARDS, failure, period,
    resolve, shards,
};
use crate::rule::Algorithm;

/// One field, as people and programs are told of it.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    /// Its name in the file.
    pub name: &'static str,
    /// What it holds, as Markdown.
    pub value: &'static str,
    /// What holds without it, as Markdown.
    pub default: &'static str,
    /// What its value looks like.
    pub shape: Shape,
    /// The algorithms that it belongs to, where it is not a field of every limit.
    pub owners: Option<&'static [Algorithm]>,
    /// Whether whatever it belongs to cannot do without it.
    pub is_needed: bool,
}

/// What a value looks like.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// The version of the format.
    Version,
    /// 1 to 64 of `A-Z a-z 0-9 _ . -`.
    Word,
    /// 1 to 64 of `a-z 0-9 -`.
    Name,
    /// A list of different attributes.
    Attributes {
        /// The most of them.
        most: usize,
    },
    /// The name of an algorithm.
    Algorithm,
    /// A whole number, or `unlimited`.
    Amount,
    /// A whole number.
    Whole {
        /// The least.
        least: u32,
        /// The most, where it does not depend on other fields.
        most: Option<u32>,
    },
    /// A number from 0.01 to 100.
    Headroom,
    /// A length of time.
    Length,
    /// A text.
    Text,
    /// `true` or `false`.
    Flag,
    /// One of some words.
    Choice(fn() -> Vec<&'static str>),
    /// Attributes with their conditions.
    Conditions {
        /// Whether there must be one.
        is_narrow: bool,
    },
    /// Codes of lints.
    Lints,
    /// A list of mappings with these fields.
    Entries {
        /// The fields of each.
        fields: &'static [Described],
        /// The fewest of them.
        least: usize,
        /// The most of them.
        most: usize,
    },
    /// A mapping with these fields.
    Fields(&'static [Described]),
    /// Names of limits, each with amounts.
    Amounts,
    /// Names of tiers, each with names of limits, each with amounts.
    Tiers,
}

impl Described {
    const fn new(name: &'static str, shape: Shape, default: &'static str, value: &'static str) -> Self {
        Self { name, value, default, shape, owners: None, is_needed: false }
    }

    const fn needed(name: &'static str, shape: Shape, value: &'static str) -> Self {
        Self { is_needed: true, ..Self::new(name, shape, "required", value) }
    }

    const fn of(self, owners: &'static [Algorithm]) -> Self {
        Self { owners: Some(owners), ..self }
    }
}

/// The fields of a policy.
pub const POLICY: &[Described] = &POLICY_TABLE;
/// The fields of a limit.
pub const LIMIT: &[Described] = &LIMIT_TABLE;
/// The names of the fields of a policy.
pub const POLICY_FIELDS: &[&str] = &names(&POLICY_TABLE);
/// The names of the fields of a limit.
pub const LIMIT_FIELDS: &[&str] = &names(&LIMIT_TABLE);
/// The fields of a limit that tiers and overrides may replace.
pub const AMOUNT_FIELDS: &[&str] = &["limit", "burst", "max_delay"];

const POLICY_TABLE: [Described; 8] = [
    Described::needed("version", Shape::Version, "`1`"),
    Described::new(
        "domain",
        Shape::Word,
        "`default`",
        "1 to 64 of `A-Z a-z 0-9 _ . -`; requests name the domain that they belong to",
    ),
    Described::new(
        "slot_by",
        Shape::Attributes { most: MAX_ATTRIBUTES },
        "none: each counter's own key decides",
        "up to 8 attributes. On a Redis Cluster all counters with the same values of these share a slot, and are decided in \
         one step. They become part of every counter of the domain",
    ),
    Described::new(
        "enforcement",
        Shape::Choice(|| resolve::ENFORCEMENT.words()),
        "`on`",
        "`on`, `shadow` or `off`, for all limits of the domain; see [Enforcement](#enforcement)",
    ),
    Described::new(
        "exempt",
        Shape::Entries { fields: &EXEMPTION, least: 0, most: MAX_EXEMPTIONS },
        "none",
        "up to 1,000 exemptions: requests that pass uncounted; see [Exemptions](#exemptions)",
    ),
    Described::needed(
        "limits",
        Shape::Entries { fields: LIMIT, least: 1, most: MAX_LIMITS },
        "1 to 10,000 limits, in the order in which answers list them",
    ),
    Described::new(
        "tiers",
        Shape::Tiers,
        "none",
        "up to 256 tiers: other amounts for the requests that name them; see [Tiers and overrides](#tiers-and-overrides)",
    ),
    Described::new(
        "overrides",
        Shape::Entries { fields: &OVERRIDE, least: 0, most: MAX_OVERRIDES },
        "none",
        "up to 10,000 overrides: other amounts for the requests that match",
    ),
];

const EXEMPTION: [Described; 2] = [
    Described::needed("name", Shape::Name, "what answers call it"),
    Described::needed("match", Shape::Conditions { is_narrow: true }, "the requests that pass uncounted"),
];

const OVERRIDE: [Described; 2] = [
    Described::needed("match", Shape::Conditions { is_narrow: true }, "the requests that it is for"),
    Described::needed(
        "limits",
        Shape::Amounts,
        "the limits, each with the amounts that take the place of its own",
    ),
];

/// The fields of a period.
pub const PERIOD: &[Described] = &PERIOD_TABLE;
/// The names of the fields of a period.
pub(super) const PERIOD_FIELDS: &[&str] = &names(&PERIOD_TABLE);

const PERIOD_TABLE: [Described; 5] = [
    Described::needed(
        "every",
        Shape::Choice(|| period::LENGTHS.words()),
        "`hour`, `day`, `week`, `month`, `quarter` or `year`",
    ),
    Described::new("timezone", Shape::Text, "`UTC`", "a name of the IANA database, such as `Europe/Berlin`"),
    Described::new(
        "first_day",
        Shape::Choice(|| period::DAYS.words()),
        "`monday`",
        "of weeks: the day on which they begin, `monday` to `sunday`",
    ),
    Described::new(
        "anchor_day",
        Shape::Whole { least: 1, most: Some(31) },
        "`1`",
        "of months, quarters and years: the day of the month on which they begin, 1 to 31; in a shorter month its last day, and \
         the 31st again in the next",
    ),
    Described::new(
        "first_month",
        Shape::Whole { least: 1, most: Some(12) },
        "`1`",
        "of quarters and years: a month in which one begins, 1 to 12",
    ),
];

const LIMIT_TABLE: [Described; 19] = [
    Described::needed("name", Shape::Name, "1 to 64 of `a-z 0-9 -`, unique in the file"),
    Described::new(
        "id",
        Shape::Name,
        "`name`",
        "what its counters are kept under, 1 to 64 of `a-z 0-9 -`, unique in the file. Give a limit that you rename its old \
         name here, and its counters are kept",
    ),
    Described::needed(
        "algorithm",
        Shape::Algorithm,
        "`fixed_window`, `sliding_log`, `sliding_counter`, `token_bucket`, `gcra`, `leaky_bucket` or \
         `quota`; see [Which algorithm?](../concepts/algorithms.md)",
    ),
    Described::needed(
        "limit",
        Shape::Amount,
        "a whole number of units per `per`: `0` denies everything, `unlimited` lets everything pass and is still reported. \
         In `sliding_log` at most 1,000, in `quota` 2^51. Elsewhere `limit` times `per`, in ticks, is at most 2^51, so that \
         every decision stays exact",
    ),
    Described::needed(
        "per",
        Shape::Length,
        "all but `quota`: a length of time from 1ms to 3660d; from 10s on in whole milliseconds, from 1d on in whole seconds",
    )
    .of(&WINDOWED),
    Described {
        default: "required there",
        ..Described::needed(
            "period",
            Shape::Fields(PERIOD),
            "`quota` only: the calendar by which it begins anew; see [Calendar periods](#calendar-periods)",
        )
    }
    .of(&[Algorithm::Quota]),
    Described::needed(
        "key",
        Shape::Attributes { most: MAX_ATTRIBUTES },
        "up to 8 attributes, names of 1 to 64 of `A-Z a-z 0-9 _ . -`; each combination of values has a counter of its own. \
         `[]` is one counter for all",
    ),
    Described::new(
        "match",
        Shape::Conditions { is_narrow: false },
        "applies to every request",
        "a mapping of up to 8 attributes to conditions; all must hold. See [Conditions](#conditions)",
    ),
    Described::new(
        "unit",
        Shape::Word,
        "`requests`",
        "what is counted, 1 to 64 of `A-Z a-z 0-9 _ . -`. A request says its cost per unit",
    ),
    Described::new(
        "burst",
        Shape::Whole { least: 0, most: None },
        "`limit`",
        "`token_bucket` and `gcra` only: the most that passes at once, at least 1. It refills within 3660d",
    )
    .of(&[Algorithm::TokenBucket, Algorithm::Gcra]),
    Described::new(
        "align",
        Shape::Choice(|| resolve::ALIGN.words()),
        "`epoch`",
        "`fixed_window` only: `epoch`, `hashed` or `first_request`",
    )
    .of(&[Algorithm::FixedWindow]),
    Described {
        default: "required there",
        ..Described::needed(
            "max_delay",
            Shape::Length,
            "`leaky_bucket` only: the longest wait that is answered, a length of time",
        )
    }
    .of(&[Algorithm::LeakyBucket]),
    Described::new(
        "shards",
        Shape::Whole { least: MIN_SHARDS, most: Some(MAX_SHARDS) },
        "one key",
        "with `key: []`, in `fixed_window`, `sliding_counter`, `token_bucket` and `gcra` only: over how many keys the \
         counter is split, from 2 to 64; see [Shards](#shards)",
    )
    .of(&shards::OWNERS),
    Described::new(
        "if_missing",
        Shape::Choice(|| resolve::IF_MISSING.words()),
        "`shared`",
        "what to do when a request lacks an attribute of `key`: `shared`, `refuse` or `skip`",
    ),
    Described::new(
        "on_store_failure",
        Shape::Choice(|| failure::WORDS.words()),
        "`local`",
        "what to do when the store cannot decide: `local`, `allow` or `deny`; see \
         [When the store does not answer](../concepts/store-failure.md)",
    ),
    Described::new(
        "headroom",
        Shape::Headroom,
        "`1`",
        "with `local` only: how much the whole fleet may then grant, as a multiple of the limit, from 0.01 to 100 with at \
         most three decimals",
    ),
    Described::new(
        "cache_denials",
        Shape::Flag,
        "`false`",
        "`true`: over a store on a network, what was denied is denied from memory for up to 100 ms; see \
         [Denials that are remembered](../concepts/hot-keys.md#denials-that-are-remembered)",
    ),
    Described::new(
        "enforcement",
        Shape::Choice(|| resolve::ENFORCEMENT.words()),
        "`on`",
        "`on`, `shadow` or `off`; see [Enforcement](#enforcement)",
    ),
    Described::new(
        "allow",
        Shape::Lints,
        "none",
        "codes of [lints](lints.md) that `policy check` shall not tell of this limit",
    ),
];

/// The algorithms whose windows have a length.
const WINDOWED: [Algorithm; 6] = [
    Algorithm::FixedWindow,
    Algorithm::SlidingLog,
    Algorithm::SlidingCounter,
    Algorithm::TokenBucket,
    Algorithm::Gcra,
    Algorithm::LeakyBucket,
];

/// The algorithms that a field of a limit belongs to; all, if it is not said.
pub(super) fn owners(name: &str) -> &'static [Algorithm] {
    let field = LIMIT.iter().find(|field| field.name == name);
    field.and_then(|field| field.owners).unwrap_or(&Algorithm::ALL)
}

#[allow(clippy::indexing_slicing, reason = "by the compiler, to which a false index is an error")]
const fn names<const N: usize>(fields: &[Described; N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut at = 0;
    while at < N {
        names[at] = fields[at].name;
        at += 1;
    }
    names
}
