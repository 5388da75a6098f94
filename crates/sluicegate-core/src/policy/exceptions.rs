//! From `exempt`, `tiers` and `overrides` as they were typed to what they mean.

use std::collections::{BTreeMap, HashMap};

use super::{
    Exemption, Grant, Grants, Limit, Override,
    file::{Field, Fields, LimitFile, Schema, amounts_of, repeated, shown},
    matching::matcher,
    problem::{Place, Problem, Problems},
    resolve::resolve_grant,
    suggest::{closest, did_you_mean},
    tree::{Node, Value},
    words::{check_word, own_name},
};

/// Exemptions of one policy: each is looked at before any limit.
pub const MAX_EXEMPTIONS: usize = 1_000;
/// Tiers of one policy: a tier is for many, an override for few.
pub const MAX_TIERS: usize = 256;
/// Overrides of one policy: they are found by their values, as limits are.
pub const MAX_OVERRIDES: usize = 10_000;

const EXEMPTION: Schema = Schema {
    owner: "an exemption",
    known: &["name", "match"],
    later: &[],
    synonyms: &[("when", "match"), ("id", "name")],
};

const OVERRIDE: Schema = Schema {
    owner: "an override",
    known: &["match", "limits"],
    later: &[],
    synonyms: &[("when", "match"), ("rules", "limits"), ("limit", "limits")],
};

/// The limits that exceptions speak of, as typed and as resolved.
pub(super) struct Known<'f> {
    files: HashMap<&'f str, &'f LimitFile>,
    at: HashMap<&'f str, usize>,
    /// Whether every limit was understood. Otherwise one that is missing here may be there, with a mistake of its own.
    is_whole: bool,
}

impl<'f> Known<'f> {
    pub(super) fn new(files: &'f [LimitFile], limits: &'f [Limit]) -> Self {
        let named = files.iter().filter_map(|file| Some((file.typed_name()?, file)));
        let at = limits.iter().enumerate().map(|(at, limit)| (limit.name.as_str(), at)).collect();
        Self { files: named.collect(), at, is_whole: files.len() == limits.len() }
    }
}

/// The exemptions of a field `exempt`.
pub(super) fn exemptions(field: Option<Field>, problems: &mut Problems) -> Vec<Exemption> {
    let mut names: HashMap<String, Place> = HashMap::new();
    let mut exemptions = Vec::new();
    for node in entries(field, MAX_EXEMPTIONS, problems) {
        let Some((exemption, place)) = exemption(node, problems) else { continue };
        if let Some(first) = names.insert(exemption.name.clone(), place) {
            let what = format!("two exemptions have the name `{}`", exemption.name);
            problems.push(
                Problem::new(place, what).hint(format!("rename one; the first is in line {}", first.line)),
            );
        }
        exemptions.push(exemption);
    }
    exemptions
}

fn exemption(node: Node, problems: &mut Problems) -> Option<(Exemption, Place)> {
    let mut fields = Fields::read(node, &EXEMPTION, problems)?;
    let hint =
        "give it a name, such as `name: health-checks`: answers say which exemption let a request pass";
    let name = problems.note(fields.require("name", &EXEMPTION, hint));
    let hint = "say which requests pass uncounted, such as `match: { endpoint: /healthz }`";
    let condition = problems.note(fields.require("match", &EXEMPTION, hint));
    let place = name.as_ref()?.node.place;
    let name = problems.note(own_name(&name?, "name of an exemption"));
    let matcher = problems.note(narrow(&condition?))?;
    Some((Exemption { name: name?, matcher }, place))
}

/// A matcher that asks for something: an exception for every request is none.
fn narrow(field: &Field) -> Result<super::Matcher, Problem> {
    let matcher = matcher(Some(field))?;
    if matcher.is_empty() {
        let problem =
            Problem::new(field.node.place, "`match` is empty, so this would hold for every request");
        return Err(problem.hint("name at least one attribute; what holds for all belongs to the limits"));
    }
    Ok(matcher)
}

/// The entries of a list that may be left out.
fn entries(field: Option<Field>, most: usize, problems: &mut Problems) -> Vec<Node> {
    let Some(field) = field else { return Vec::new() };
    let name = field.name;
    let Value::List(nodes) = field.node.value else {
        let first = if name == "exempt" { "- name:" } else { "- match:" };
        problems.push(field.must_be("a list").hint(format!("begin each entry with `{first}`")));
        return Vec::new();
    };
    if let Some(excess) = nodes.get(most) {
        let what = format!("`{name}` has {} entries, and at most {most} are allowed", nodes.len());
        problems.push(Problem::new(excess.place, what));
        return Vec::new();
    }
    nodes
}

/// The overrides of a field `overrides`.
pub(super) fn overrides(field: Option<Field>, known: &Known<'_>, problems: &mut Problems) -> Vec<Override> {
    let nodes = entries(field, MAX_OVERRIDES, problems);
    nodes.into_iter().filter_map(|node| entry(node, known, problems)).collect()
}

fn entry(node: Node, known: &Known<'_>, problems: &mut Problems) -> Option<Override> {
    let mut fields = Fields::read(node, &OVERRIDE, problems)?;
    let hint = "say which requests it is for, such as `match: { user: alice }`";
    let condition = problems.note(fields.require("match", &OVERRIDE, hint));
    let hint = "say what holds for them instead, such as `limits: { per-user: { limit: 500 } }`";
    let limits = problems.note(fields.require("limits", &OVERRIDE, hint));
    let matcher = condition.and_then(|field| problems.note(narrow(&field)));
    let limits = limits?;
    if limits.node.value == Value::Map(Vec::new()) {
        let problem = Problem::new(limits.node.place, "`limits` is empty, so the override changes nothing");
        problems.push(problem.hint("name the limits that it changes, or remove it"));
    }
    let grants = grants(&limits.node, "limits", known, problems)?;
    Some(Override { matcher: matcher?, grants })
}

/// The tiers of a field `tiers`.
pub(super) fn tiers(
    field: Option<Field>,
    known: &Known<'_>,
    problems: &mut Problems,
) -> BTreeMap<String, Grants> {
    let Some(field) = field else { return BTreeMap::new() };
    let Value::Map(entries) = &field.node.value else {
        let problem = field.must_be("a mapping of tiers to what they grant");
        problems.push(problem.hint("write `tiers: { pro: { per-user: { limit: 1000 } } }`"));
        return BTreeMap::new();
    };
    if let Some((excess, _)) = entries.get(MAX_TIERS) {
        let what = format!("`tiers` has {} entries, and at most {MAX_TIERS} are allowed", entries.len());
        problems
            .push(Problem::new(excess.place, what).hint("give single users and organisations `overrides`"));
        return BTreeMap::new();
    }
    let mut places: HashMap<&str, Place> = HashMap::new();
    let mut tiers = BTreeMap::new();
    for (name, node) in entries {
        let Some(tier) = problems.note(tier_name(name)) else { continue };
        if let Some(first) = places.insert(tier, name.place) {
            problems.push(repeated(tier, name.place, first));
        }
        tiers.extend(grants(node, "tiers", known, problems).map(|grants| (tier.to_owned(), grants)));
    }
    tiers
}

fn tier_name(node: &Node) -> Result<&str, Problem> {
    let Value::Text(text) = &node.value else {
        return Err(Problem::new(node.place, "a tier's name must be a text").hint("put it in quotes"));
    };
    check_word(text, "tier", node.place)?;
    Ok(text)
}

/// What a tier or an override grants instead, limit by limit.
fn grants(node: &Node, owner: &str, known: &Known<'_>, problems: &mut Problems) -> Option<Grants> {
    let Value::Map(entries) = &node.value else {
        let problem = Problem::new(node.place, format!("an entry of `{owner}` must map limits to amounts"));
        problems
            .push(problem.hint("write `{ per-user: { limit: 1000 } }`; one that changes nothing is `{}`"));
        return None;
    };
    let mut places: HashMap<&str, Place> = HashMap::new();
    let mut grants = Grants::new();
    for (name, amounts) in entries {
        let Some((text, at)) = problems.note(limit_of(name, known)).flatten() else { continue };
        if let Some(first) = places.insert(text, name.place) {
            problems.push(repeated(text, name.place, first));
        }
        grants.extend(grant(text, amounts, known, problems).map(|grant| (at, grant)));
    }
    Some(grants)
}

/// The limit that a name means. One that exists and was not understood is passed over: its own problem is told.
fn limit_of<'n>(name: &'n Node, known: &Known<'_>) -> Result<Option<(&'n str, usize)>, Problem> {
    let Value::Text(text) = &name.value else {
        return Err(Problem::new(name.place, "the name of a limit must be a text").hint("put it in quotes"));
    };
    if let Some(at) = known.at.get(text.as_str()) {
        return Ok(Some((text, *at)));
    }
    if !known.is_whole {
        return Ok(None);
    }
    let problem = Problem::new(name.place, format!("there is no limit `{}`", shown(text)));
    Err(problem.maybe_hint(closest(text, known.at.keys().copied()).map(did_you_mean)))
}

/// The limit again, with other amounts: so it is checked as the limit itself is.
fn grant(name: &str, node: &Node, known: &Known<'_>, problems: &mut Problems) -> Option<Grant> {
    let amounts = amounts_of(known.files.get(name)?, node, problems)?;
    resolve_grant(&amounts, problems).map(|(_, grant, _)| grant)
}
