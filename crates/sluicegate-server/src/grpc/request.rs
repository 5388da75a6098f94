//! Requests: descriptors to attributes and costs. Nothing is guessed: what is not understood is refused.

use std::borrow::Cow;

use sluicegate::{
    Part, Verb,
    core::{Align, Attributes, Costs, Limit, Policy, Rule, RuleError, policy::AskError},
};

use super::{
    proto::envoy::extensions::common::ratelimit::v3::{
        RateLimitDescriptor,
        rate_limit_descriptor::{Entry, RateLimitOverride},
    },
    units,
};
use crate::{
    descriptors::{Found, Tree},
    domains::RequestError,
    http::{MAX_COST, MAX_NAME_LEN, MAX_PAIRS},
};

/// The most descriptors of one request: each is a status in the answer.
const MAX_DESCRIPTORS: usize = 128;
/// The name of a limit that came with its descriptor.
const OVERRIDE: &str = "override";

/// A request that cannot be decided.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Mistake {
    /// No domain is named.
    #[error("`domain` is missing")]
    NoDomain,
    /// Nothing is asked.
    #[error("`descriptors` is empty")]
    NoDescriptors,
    /// Too much is asked.
    #[error("the request has {0} descriptors, and at most {MAX_DESCRIPTORS} are decided at once")]
    TooManyDescriptors(usize),
    /// One descriptor makes no sense.
    #[error("descriptor {index}: {what}")]
    Descriptor {
        /// Which one, from 0.
        index: usize,
        /// What is wrong with it.
        what: DescriptorMistake,
    },
    /// The policy cannot decide it.
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl Mistake {
    /// A mistake in the descriptor of that index.
    fn at<E: Into<DescriptorMistake>>(index: usize) -> impl FnOnce(E) -> Self {
        move |what| Self::Descriptor { index, what: what.into() }
    }
}

/// What is wrong with a descriptor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorMistake {
    /// It says nothing.
    #[error("`entries` is empty")]
    NoEntries,
    /// It says too much.
    #[error("more than {MAX_PAIRS} entries")]
    TooManyEntries,
    /// A key that no attribute can have.
    #[error("a key has 1 to {MAX_NAME_LEN} bytes, this one has {0}")]
    KeyLength(usize),
    /// One attribute with two values.
    #[error(
        "the key `{0}` is given twice, and an attribute has one value; in Envoy, give the action a `descriptor_key`"
    )]
    KeyTwice(String),
    /// Hits beyond exact numbers.
    #[error("`hits_addend` is at most {MAX_COST}")]
    TooManyHits,
    /// Hits to give back.
    #[error("`is_negative_hits`: hits cannot be given back in this version")]
    NegativeHits,
    /// A limit without a unit of time.
    #[error("`limit` has no known `unit`")]
    UnknownUnit,
    /// A limit that cannot be counted exactly.
    #[error("`limit`: {0}")]
    Rule(#[from] RuleError),
    /// The policy cannot decide it.
    #[error(transparent)]
    Ask(#[from] AskError),
}

/// The descriptors of one request.
#[derive(Debug)]
pub(super) struct Asked(Vec<Descriptor>);

impl Asked {
    /// Reads descriptors; one that states no hits has those of the request, of which 0 means 1. In a domain with a tree,
    /// each counts on the one limit that it leads to, unless that of another one replaces it.
    pub(super) fn read(
        descriptors: Vec<RateLimitDescriptor>,
        hits: u32,
        tree: Option<&Tree>,
    ) -> Result<Self, Mistake> {
        match descriptors.len() {
            0 => return Err(Mistake::NoDescriptors),
            1..=MAX_DESCRIPTORS => {}
            many => return Err(Mistake::TooManyDescriptors(many)),
        }
        let found: Vec<_> = descriptors
            .iter()
            .map(|descriptor| tree.filter(|_| descriptor.limit.is_none())?.find(pairs(descriptor)))
            .collect();
        let applies = |own: &Found<'_>| !found.iter().flatten().any(|other| own.is_replaced_by(other));
        let read = |(index, descriptor): (usize, RateLimitDescriptor)| {
            let own = found.get(index).and_then(Option::as_ref).filter(|own| applies(own));
            let read = match tree {
                Some(_) if descriptor.limit.is_none() => Descriptor::configured(&descriptor, hits, own),
                _ => Descriptor::read(descriptor, hits),
            };
            read.map_err(Mistake::at(index))
        };
        descriptors.into_iter().enumerate().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// The limits that apply, as one part for each descriptor.
    /// They are decided with what `assigned` makes of their attributes.
    pub(super) fn parts<'p>(
        &'p self,
        policy: &'p Policy,
        assigned: impl Fn(&'p Attributes) -> Cow<'p, Attributes>,
    ) -> Result<Vec<Part<'p>>, Mistake> {
        let part = |(index, descriptor): (usize, &'p Descriptor)| {
            descriptor.part(policy, assigned(&descriptor.attributes)).map_err(Mistake::at(index))
        };
        self.0.iter().enumerate().map(part).collect()
    }
}

/// One descriptor.
#[derive(Debug)]
struct Descriptor {
    attributes: Attributes,
    verb: Verb,
    cost: u64,
    limits: Limits,
}

/// The limits that apply to a descriptor.
#[derive(Debug)]
enum Limits {
    /// All of the policy that match its attributes.
    Matching,
    /// The one that it brought, which counts by all of its entries.
    Own(Box<Limit>),
    /// The one at that place of the policy, if any.
    Configured(Option<usize>),
}

impl Descriptor {
    fn read(descriptor: RateLimitDescriptor, hits: u32) -> Result<Self, DescriptorMistake> {
        let (verb, cost) = hits_of(&descriptor, hits)?;
        let attributes = attributes(descriptor.entries)?;
        let limits = match descriptor.limit {
            None => Limits::Matching,
            Some(limit) => Limits::Own(Box::new(own_limit(limit, &attributes)?)),
        };
        Ok(Self { attributes, verb, cost, limits })
    }

    /// A descriptor that a tree has found a limit for, or none.
    fn configured(
        descriptor: &RateLimitDescriptor,
        hits: u32,
        found: Option<&Found<'_>>,
    ) -> Result<Self, DescriptorMistake> {
        let (verb, cost) = hits_of(descriptor, hits)?;
        check_length(&descriptor.entries)?;
        let attributes = found.map(|found| found.attributes.clone()).unwrap_or_default();
        Ok(Self { attributes, verb, cost, limits: Limits::Configured(found.map(Found::limit)) })
    }

    fn part<'p>(&'p self, policy: &'p Policy, attributes: Cow<'p, Attributes>) -> Result<Part<'p>, AskError> {
        let costs = Costs::requests(self.cost);
        let matched = match &self.limits {
            Limits::Matching => policy.apply(&attributes, &costs)?,
            Limits::Own(limit) => policy.apply_own(limit, &attributes, &costs),
            Limits::Configured(at) => {
                let limit = at.and_then(|at| policy.limits().get(at));
                limit.map(|limit| policy.apply_own(limit, &attributes, &costs)).unwrap_or_default()
            }
        };
        Ok(Part { verb: self.verb, attributes, matched })
    }
}

/// Whether the hits of a descriptor count, and how many they are. Its own 0 checks whether one more would pass.
fn hits_of(descriptor: &RateLimitDescriptor, hits: u32) -> Result<(Verb, u64), DescriptorMistake> {
    match descriptor.hits_addend {
        Some(0) => Ok((Verb::Peek, 1)),
        _ if descriptor.is_negative_hits => Err(DescriptorMistake::NegativeHits),
        Some(own) if own > MAX_COST => Err(DescriptorMistake::TooManyHits),
        Some(own) => Ok((Verb::Take, own)),
        None => Ok((Verb::Take, u64::from(hits.max(1)))),
    }
}

fn pairs(descriptor: &RateLimitDescriptor) -> impl Iterator<Item = (&str, &str)> {
    descriptor.entries.iter().map(|Entry { key, value }| (key.as_str(), value.as_str()))
}

fn check_length(entries: &[Entry]) -> Result<(), DescriptorMistake> {
    match entries.len() {
        0 => Err(DescriptorMistake::NoEntries),
        1..=MAX_PAIRS => Ok(()),
        _ => Err(DescriptorMistake::TooManyEntries),
    }
}

fn attributes(entries: Vec<Entry>) -> Result<Attributes, DescriptorMistake> {
    check_length(&entries)?;
    let mut attributes = Attributes::default();
    for Entry { key, value } in entries {
        if key.is_empty() || key.len() > MAX_NAME_LEN {
            return Err(DescriptorMistake::KeyLength(key.len()));
        }
        if attributes.value(&key).is_some() {
            return Err(DescriptorMistake::KeyTwice(key));
        }
        attributes.insert(key, value);
    }
    Ok(attributes)
}

/// A limit that came with a descriptor: that many in each window of its unit, counted by all of the entries.
fn own_limit(limit: RateLimitOverride, attributes: &Attributes) -> Result<Limit, DescriptorMistake> {
    let window = units::length(limit.unit()).ok_or(DescriptorMistake::UnknownUnit)?;
    let rule = Rule::fixed_window(limit.requests_per_unit.into(), window, Align::Epoch)?;
    Ok(Limit::of_rule(OVERRIDE, rule, attributes.names().map(str::to_owned).collect()))
}
