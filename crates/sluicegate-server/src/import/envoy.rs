//! The configuration of Envoy's rate limit service: trees of descriptors.
//!
//! There, a request sends lists of entries, and a limit counts the lists that lead to it exactly. Here, a request has
//! attributes: an entry's key is an attribute, its value a pattern, and an entry without a value is part of the key.

use sluicegate::core::{
    Align,
    policy::{Place, tree::Node, tree::Value},
};

use super::{
    Import, ImportError, Notes, Source,
    draft::{Draft, DraftLimit, Test, Words, literal},
    source::{self, Fields},
};

/// What a reader of the policy should know of all of its limits.
const READING: [&str; 3] = [
    "There, a limit counts the descriptors that lead to it; here, the requests that have its attributes: an entry's key is",
    "the attribute, its value the pattern. All limits that match a request apply to it.",
    "Windows are the service's own: aligned to the epoch, a month being 30 days and a year 365.",
];

/// The units, in seconds.
const UNITS: [(&str, u64); 7] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 3_600),
    ("day", 86_400),
    ("week", 7 * 86_400),
    ("month", 30 * 86_400),
    ("year", 365 * 86_400),
];
/// What an unlimited limit, which has no unit, is reported with.
const UNLIMITED_WINDOW_S: u64 = 60;

/// Makes policies of configuration files, one per domain.
///
/// # Errors
/// [`ImportError`] if a file is of another kind, or nothing of them could be carried over.
pub fn import(sources: &[Source<'_>]) -> Result<Import, ImportError> {
    let (mut draft, mut words) = (Draft::default(), Words::default());
    for source in sources {
        let mut notes = Notes::new(*source);
        let root = source::read(*source)?;
        let place = root.place;
        let shape = |what| ImportError::Shape { file: source.name.to_owned(), line: place.line, what };
        let fields = Fields::of(root, "the file", &mut notes);
        let mut fields = fields.ok_or_else(|| shape("expected a mapping with `domain` and `descriptors`"))?;
        let domain = fields.text("domain", &mut notes).ok_or_else(|| shape("expected a `domain`"))?;
        let domain = Words::default().fit(&domain.0, domain.1, &mut notes);
        let descriptors = fields.list("descriptors", &mut notes);
        fields.finish(&mut notes);
        let mut walk = Walk { domain, draft: &mut draft, words: &mut words, notes: &mut notes };
        walk.descriptors(descriptors, &[]);
        draft.note(notes);
    }
    let names: Vec<_> = sources.iter().map(|source| source.name).collect();
    draft.finish(&format!("Envoy's rate limit service: {}", names.join(", ")), &READING)
}

/// One entry on the way to a limit.
#[derive(Clone, Debug)]
struct Entry {
    key: String,
    attribute: String,
    values: Values,
    /// Patterns of the more special siblings, whose requests go their own way.
    except: Vec<String>,
}

/// Which values of its key an entry stands for.
#[derive(Clone, Debug)]
enum Values {
    /// One.
    Exact(String),
    /// All that begin so; `shared` counts them together, otherwise each for itself.
    Prefix { prefix: String, shared: bool },
    /// All that no sibling names, each counted for itself.
    Any,
}

impl Entry {
    fn test(&self) -> Test {
        let is = Some(self.pattern()).filter(|_| !matches!(self.values, Values::Any));
        Test { attribute: self.attribute.clone(), is, not: self.except.clone() }
    }

    fn pattern(&self) -> String {
        match &self.values {
            Values::Exact(value) => literal(value),
            Values::Prefix { prefix, .. } => format!("{}*", literal(prefix)),
            Values::Any => "*".to_owned(),
        }
    }

    fn is_counted_by(&self) -> bool {
        matches!(self.values, Values::Any | Values::Prefix { shared: false, .. })
    }

    /// The words that a name is made of.
    fn name(&self) -> String {
        match &self.values {
            Values::Exact(value) | Values::Prefix { prefix: value, .. } => format!("{}-{value}", self.key),
            Values::Any => self.key.clone(),
        }
    }

    /// Whether requests of the other, more special entry would otherwise be counted here too.
    fn yields_to(&self, other: &Self) -> bool {
        if self.attribute != other.attribute {
            return false;
        }
        match (&self.values, &other.values) {
            (Values::Any, Values::Exact(_) | Values::Prefix { .. }) => true,
            (Values::Prefix { prefix, .. }, Values::Exact(value)) => value.starts_with(prefix),
            _ => false,
        }
    }
}

/// A descriptor as it was typed, its rate limit and children unread.
struct Descriptor {
    place: Place,
    entry: Entry,
    rate_limit: Option<Node>,
    children: Vec<Node>,
    shadow: bool,
}

/// There, the most special of several siblings is taken, even if it has no limit; here, all that match apply.
fn except_special_ones(siblings: &mut [Descriptor]) {
    let all: Vec<Entry> = siblings.iter().map(|sibling| sibling.entry.clone()).collect();
    for sibling in siblings {
        let special = all.iter().filter(|other| sibling.entry.yields_to(other));
        sibling.entry.except = special.map(Entry::pattern).collect();
    }
}

struct Walk<'a, 'n> {
    domain: String,
    draft: &'a mut Draft,
    words: &'a mut Words,
    notes: &'a mut Notes<'n>,
}

impl Walk<'_, '_> {
    /// One list of descriptors, below the entries that lead to it.
    fn descriptors(&mut self, items: Vec<Node>, path: &[Entry]) {
        let mut siblings: Vec<_> = items.into_iter().filter_map(|item| self.descriptor(item)).collect();
        except_special_ones(&mut siblings);
        for descriptor in siblings {
            let Descriptor { place, entry, rate_limit, children, shadow } = descriptor;
            if path.iter().any(|earlier| earlier.attribute == entry.attribute) {
                let what = format!(
                    "an entry of `{}` below another of the same key is left out with all below it: a request has one value per attribute",
                    entry.key
                );
                self.notes.add(place, what);
                continue;
            }
            let path = [path, &[entry]].concat();
            if let Some(node) = rate_limit {
                self.limit(node, &path, &children, shadow);
            }
            self.descriptors(children, &path);
        }
    }

    fn descriptor(&mut self, node: Node) -> Option<Descriptor> {
        let mut fields = Fields::of(node, "a descriptor", self.notes)?;
        let place = fields.place;
        let key = fields.text("key", self.notes);
        let value = fields.text("value", self.notes);
        let shared = fields.flag("share_threshold", self.notes);
        let shadow = fields.flag("shadow_mode", self.notes).is_some();
        for metric in ["detailed_metric", "value_to_metric"] {
            if let Some(place) = fields.flag(metric, self.notes) {
                self.notes.add(
                    place,
                    format!("`{metric}` is left out: metrics have no label that requests can fill"),
                );
            }
        }
        if let Some(place) = fields.flag("quota_mode", self.notes) {
            self.notes.add(place, "`quota_mode` is left out: the limit denies as any other");
        }
        let rate_limit = fields.take("rate_limit").filter(|node| node.value != Value::Null);
        let children = fields.list("descriptors", self.notes);
        fields.finish(self.notes);
        let Some((key, key_place)) = key else {
            self.notes.add(place, "a descriptor without a `key` is left out");
            return None;
        };
        let values = match value.as_ref().map(|(value, _)| (value, value.strip_suffix('*'))) {
            None => Values::Any,
            Some((_, Some(prefix))) => Values::Prefix { prefix: prefix.to_owned(), shared: shared.is_some() },
            Some((value, None)) => Values::Exact(value.clone()),
        };
        if let (Some(place), Values::Any | Values::Exact(_)) = (shared, &values) {
            self.notes.add(place, "`share_threshold` does nothing here: the value has no `*` at its end");
        }
        let attribute = self.words.fit(&key, key_place, self.notes);
        Some(Descriptor {
            place,
            entry: Entry { key, attribute, values, except: Vec::new() },
            rate_limit,
            children,
            shadow,
        })
    }

    fn limit(&mut self, node: Node, path: &[Entry], children: &[Node], shadow: bool) {
        let Some(mut fields) = Fields::of(node, "a rate limit", self.notes) else { return };
        let place = fields.place;
        let name = fields.text("name", self.notes).map(|(name, _)| name);
        let grant = grant(&mut fields, self.notes);
        let replaced = fields.list("replaces", self.notes);
        let replaced: Vec<_> = replaced.into_iter().filter_map(|node| self.replaced(node)).collect();
        fields.finish(self.notes);
        let Some((amount, window_s)) = grant else { return };
        for replaced in replaced {
            let matches = path.iter().map(Entry::test).collect();
            self.draft.replace(&self.domain, replaced, matches, self.notes);
        }
        if !children.is_empty() {
            self.notes.add(
                place,
                "this limit also counts requests that have the attributes of the descriptors below it",
            );
        }
        let name = name.unwrap_or_else(|| path.iter().map(Entry::name).collect::<Vec<_>>().join("-"));
        let counted = path.iter().filter(|entry| entry.is_counted_by());
        let limit = DraftLimit {
            place,
            name,
            amount,
            window_s,
            align: Align::Epoch,
            key: counted.map(|entry| entry.attribute.clone()).collect(),
            matches: path.iter().map(Entry::test).collect(),
            skip_if_missing: false,
            shadow,
        };
        self.draft.add(&self.domain, limit, self.notes);
    }

    /// The name of a limit that gives way, and where it stands.
    fn replaced(&mut self, node: Node) -> Option<(String, Place)> {
        let mut fields = Fields::of(node, "an entry of `replaces`", self.notes)?;
        let name = fields.text("name", self.notes);
        fields.finish(self.notes);
        name
    }
}

/// The amount, `None` if unlimited, and the window in seconds.
pub(crate) fn grant(fields: &mut Fields, notes: &mut Notes<'_>) -> Option<(Option<u64>, u64)> {
    let unlimited = fields.flag("unlimited", notes).is_some();
    let amount = fields.whole("requests_per_unit", notes);
    let multiplier = fields.whole("unit_multiplier", notes).unwrap_or(1);
    let unit = fields.text("unit", notes);
    if unlimited {
        return Some((None, UNLIMITED_WINDOW_S));
    }
    let (unit, place) = unit.unwrap_or_else(|| (String::new(), fields.place));
    let known = UNITS.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name));
    match (known, amount) {
        (Some((_, unit_s)), Some(amount)) => Some((Some(amount), unit_s.saturating_mul(multiplier))),
        (None, _) => {
            notes.add(place, format!("the limit is left out: there is no unit `{unit}`"));
            None
        }
        (_, None) => {
            notes.add(fields.place, "the limit is left out: it has no `requests_per_unit`");
            None
        }
    }
}
