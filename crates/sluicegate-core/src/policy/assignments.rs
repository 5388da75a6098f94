//! Assignments: which user or organisation has which tier, kept apart from the policy since it changes all day.

use std::{borrow::Cow, collections::HashMap};

use super::{
    Attributes, Policy, TIER,
    file::{Field, Fields, Schema, shown},
    problem::{Place, PolicyError, Problem, Problems},
    suggest::{closest, did_you_mean},
    tree::{self, Value},
    words::{check_word, word},
};
use crate::time::Micros;

/// Assignments of one source: all of them are in memory.
pub const MAX_ASSIGNMENTS: usize = 100_000;
/// The attributes that a tier can be assigned to, the stronger first: a user's own tier beats that of its organisation.
pub const ASSIGNEES: [&str; 2] = ["user", "org"];
/// The longest user or organisation, in bytes.
const MAX_ASSIGNEE_LEN: usize = 512;
/// The version of the format that is read.
const VERSION: u64 = 1;

const FILE: Schema = Schema {
    owner: "a file of assignments",
    known: &["version", "domain", "assignments"],
    later: &[],
    synonyms: &[("namespace", "domain"), ("tiers", "assignments")],
};

const ENTRY: Schema = Schema {
    owner: "an assignment",
    known: &["user", "org", "tier", "until"],
    later: &[],
    synonyms: &[("plan", "tier"), ("expires", "until"), ("organisation", "org"), ("organization", "org")],
};

/// Who has which tier of a domain. Immutable; a change makes a new one.
///
/// ```
/// use sluicegate_core::{Attributes, Micros, policy::Assignments};
/// let assignments = Assignments::parse(
///     "version: 1
/// assignments:
///   - { org: acme, tier: pro }
///   - { user: alice, tier: free }
///   - { user: alice, tier: big, until: 2030-01-01T00:00:00Z }",
/// )?;
/// let alice: Attributes = [("user", "alice"), ("org", "acme")].into_iter().collect();
/// assert_eq!(assignments.tier(&alice, Micros::from_secs(1_893_455_999)), Some("big"));
/// assert_eq!(assignments.tier(&alice, Micros::from_secs(1_893_456_000)), Some("free"));
/// # Ok::<(), sluicegate_core::policy::PolicyError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignments {
    domain: String,
    users: HashMap<String, Assigned>,
    orgs: HashMap<String, Assigned>,
}

/// What one user or organisation has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Assigned {
    /// For good.
    lasting: Option<String>,
    /// Until an instant; before it, this holds instead.
    temporary: Option<(String, Micros)>,
}

/// One entry as it was read.
struct Entry {
    place: Place,
    attribute: &'static str,
    assignee: String,
    tier: String,
    until: Option<Micros>,
}

impl Assignments {
    /// Reads a file of assignments.
    ///
    /// # Errors
    /// [`PolicyError`] with every problem of the file that can be told apart, each with its place.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let mut problems = Problems::default();
        let assignments = read(text, &mut problems);
        problems.into_result(text)?;
        assignments.ok_or_else(|| PolicyError::unknown(text))
    }

    /// The domain whose tiers are assigned.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// How many users and organisations have a tier.
    pub fn len(&self) -> usize {
        self.users.len() + self.orgs.len()
    }

    /// Whether nobody has one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tier of a request at an instant: the user's, else its organisation's. What is temporary beats what lasts, and
    /// has ended at its very `until`.
    pub fn tier(&self, attributes: &Attributes, now: Micros) -> Option<&str> {
        let [user, org] = ASSIGNEES.map(|name| attributes.value(name));
        let of_user = user.and_then(|user| self.users.get(user)).and_then(|assigned| assigned.at(now));
        of_user.or_else(|| org.and_then(|org| self.orgs.get(org)).and_then(|assigned| assigned.at(now)))
    }

    /// The attributes that a request is decided with: an assigned tier stands in the place of the one that was sent.
    pub fn over<'a>(&self, attributes: &'a Attributes, now: Micros) -> Cow<'a, Attributes> {
        let Some(tier) = self.tier(attributes, now) else { return Cow::Borrowed(attributes) };
        let mut assigned = attributes.clone();
        assigned.insert(TIER, tier);
        Cow::Owned(assigned)
    }

    /// A tier that is assigned and that the policy does not have, if there is one.
    pub fn unknown_tier(&self, policy: &Policy) -> Option<&str> {
        let all = self.users.values().chain(self.orgs.values());
        let mut tiers = all.flat_map(Assigned::tiers);
        tiers.find(|tier| !policy.has_tier(tier))
    }

    fn add(&mut self, entry: Entry) -> Result<(), Problem> {
        let all = if entry.attribute == "user" { &mut self.users } else { &mut self.orgs };
        let Entry { place, attribute, assignee, tier, until } = entry;
        let assigned = all.entry(assignee.clone()).or_default();
        let twice = match until {
            None => assigned.lasting.replace(tier).is_some(),
            Some(until) => assigned.temporary.replace((tier, until)).is_some(),
        };
        if twice {
            let what = format!("the {attribute} `{}` has two tiers at the same time", shown(&assignee));
            let hint = "give one of them an end by `until`, or remove it; one that lasts and one that ends are allowed";
            return Err(Problem::new(place, what).hint(hint));
        }
        Ok(())
    }
}

impl Assigned {
    fn at(&self, now: Micros) -> Option<&str> {
        let temporary = self.temporary.as_ref().filter(|(_, until)| now < *until).map(|(tier, _)| tier);
        temporary.or(self.lasting.as_ref()).map(String::as_str)
    }

    fn tiers(&self) -> impl Iterator<Item = &str> {
        let temporary = self.temporary.as_ref().map(|(tier, _)| tier.as_str());
        temporary.into_iter().chain(self.lasting.as_deref())
    }
}

fn read(text: &str, problems: &mut Problems) -> Option<Assignments> {
    if text.len() > super::MAX_FILE_LEN {
        let what = format!("the file has {} bytes, and at most {} are read", text.len(), super::MAX_FILE_LEN);
        problems.push(Problem::new(Place::START, what));
        return None;
    }
    let root = problems.note(tree::parse(text))?;
    let mut fields = Fields::read(root, &FILE, problems)?;
    let version = problems.note(fields.require("version", &FILE, "begin with `version: 1`"));
    if let Some(field) = version.filter(|field| field.node.value != Value::Whole(VERSION)) {
        problems.push(field.must_be(&format!("`{VERSION}`")));
    }
    let domain =
        problems.note(fields.take("domain").map_or_else(|| Ok("default".to_owned()), |field| word(&field)));
    let hint = "add `assignments:`, a list; an empty one is `[]`";
    let list = problems.note(fields.require("assignments", &FILE, hint))?;
    let nodes = problems.note(list.into_list())?;
    if let Some(excess) = nodes.get(MAX_ASSIGNMENTS) {
        let what =
            format!("there are {} assignments, and at most {MAX_ASSIGNMENTS} are allowed", nodes.len());
        problems.push(Problem::new(excess.place, what));
        return None;
    }
    let mut assignments = Assignments { domain: domain?, ..Assignments::default() };
    for node in nodes {
        if let Some(entry) = entry(node, problems) {
            problems.note(assignments.add(entry));
        }
    }
    Some(assignments)
}

fn entry(node: tree::Node, problems: &mut Problems) -> Option<Entry> {
    let place = node.place;
    let mut fields = Fields::read(node, &ENTRY, problems)?;
    let [user, org] = ASSIGNEES.map(|name| fields.take(name));
    let tier = problems.note(fields.require("tier", &ENTRY, "say which tier, such as `tier: pro`"));
    let until = problems.note(fields.take("until").as_ref().map(until).transpose());
    let (attribute, field) = match (user, org) {
        (Some(user), None) => ("user", user),
        (None, Some(org)) => ("org", org),
        _ => {
            let problem = Problem::new(place, "an assignment is to one user or one organisation");
            problems.push(problem.hint("give either `user` or `org`"));
            return None;
        }
    };
    let assignee = problems.note(assignee(&field))?;
    let tier = problems.note(tier_name(&tier?))?;
    Some(Entry { place: field.node.place, attribute, assignee, tier, until: until? })
}

fn assignee(field: &Field) -> Result<String, Problem> {
    let text = field.text("a text")?;
    if text.len() > MAX_ASSIGNEE_LEN {
        let what =
            format!("`{}` has {} bytes, and at most {MAX_ASSIGNEE_LEN} are allowed", field.name, text.len());
        return Err(Problem::new(field.node.place, what));
    }
    Ok(text.to_owned())
}

fn tier_name(field: &Field) -> Result<String, Problem> {
    let text = field.text("a text")?;
    check_word(text, "tier", field.node.place)?;
    Ok(text.to_owned())
}

fn until(field: &Field) -> Result<Micros, Problem> {
    let text = field.text("an instant")?;
    let instant: Option<jiff::Timestamp> = text.parse().ok();
    let micros = instant.and_then(|instant| u64::try_from(instant.as_microsecond()).ok());
    micros.map(Micros::new).ok_or_else(|| {
        let problem = Problem::new(field.node.place, format!("`{}` is not an instant", shown(text)));
        problem.hint("write it with its offset, such as `2030-01-01T00:00:00Z`")
    })
}

impl Policy {
    /// Whether the domain has a tier of this name.
    pub fn has_tier(&self, name: &str) -> bool {
        self.rules.tiers.contains_key(name)
    }

    /// The tier that was probably meant, as a hint.
    pub fn tier_hint(&self, name: &str) -> Option<String> {
        closest(name, self.tiers()).map(did_you_mean)
    }
}
