//! The files, read to policies and trees.

use sluicegate::core::{
    Align, Policy,
    policy::{Place, tree::Node as Yaml, tree::Value},
};

use super::{
    DescriptorDomain, Lines, Unserved,
    tree::{Level, Node, Rate, Tree},
};
use crate::import::{
    ImportError, Notes, Source,
    draft::{Draft, DraftLimit, Test, Words, literal},
    envoy::grant,
    source::{self, Fields},
};

/// Reads configuration files, each of a domain of its own.
///
/// # Errors
/// [`Unserved`] if anything in them cannot be served as it stands there.
pub fn read(sources: &[Source<'_>]) -> Result<Vec<DescriptorDomain>, Unserved> {
    let mut domains: Vec<DescriptorDomain> = Vec::new();
    for source in sources {
        let (place, domain) = domain(*source)?;
        if domains.iter().any(|known| known.policy.domain() == domain.policy.domain()) {
            let mut notes = Notes::new(*source);
            notes.add(place, format!("another file has the domain `{}`", domain.policy.domain()));
            return Err(Unserved::Lines(Lines(notes.notes)));
        }
        domains.push(domain);
    }
    Ok(domains)
}

/// The domain of a file, and where it is named.
fn domain(source: Source<'_>) -> Result<(Place, DescriptorDomain), Unserved> {
    let root = source::read(source)?;
    let (file, line) = (source.name.to_owned(), root.place.line);
    let shape = |what| ImportError::Shape { file, line, what };
    let mut notes = Notes::new(source);
    let Some(mut fields) = Fields::of(root, "the file", &mut notes) else {
        return Err(shape("expected a mapping with `domain` and `descriptors`").into());
    };
    let Some((domain, place)) = fields.text("domain", &mut notes) else {
        return Err(shape("expected a `domain`").into());
    };
    let descriptors = fields.list("descriptors", &mut notes);
    fields.finish(&mut notes);
    if Words::default().fit(&domain, place, &mut Notes::new(source)) != domain {
        notes.add(place, format!("a domain has `A-Z a-z 0-9 _ . -` only, and not `{domain}`"));
    }
    let mut walk = Walk {
        domain: &domain,
        draft: Draft::default(),
        words: Words::default(),
        renames: Notes::new(source),
        notes,
        limits: 0,
    };
    let root = walk.level(descriptors, &[]);
    if !walk.notes.notes.is_empty() {
        return Err(Unserved::Lines(Lines(walk.notes.notes)));
    }
    let import = walk.draft.finish(&format!("Envoy's rate limit service: {}", source.name), &[])?;
    let text = import.policies.into_iter().map(|policy| policy.text).collect::<String>();
    let policy = Policy::parse(&text).map_err(|error| Unserved::Policy { domain, error })?;
    Ok((place, DescriptorDomain { policy, tree: Tree { root } }))
}

/// Reads one file to the end, so that all mistakes are told at once.
struct Walk<'d, 'n> {
    domain: &'d str,
    draft: Draft,
    words: Words,
    /// Attributes that are called otherwise than their keys: nobody sees them.
    renames: Notes<'n>,
    notes: Notes<'n>,
    /// How many limits the draft has.
    limits: usize,
}

/// A descriptor's key and value, and what they come to.
struct Step {
    key: String,
    value: Option<String>,
    attribute: String,
}

impl Step {
    fn test(&self) -> Test {
        let is = match self.value.as_deref().map(|value| (value, value.strip_suffix('*'))) {
            None => None,
            Some((_, Some(prefix))) => Some(format!("{}*", literal(prefix))),
            Some((value, None)) => Some(literal(value)),
        };
        Test { attribute: self.attribute.clone(), is, not: Vec::new() }
    }

    /// The words that a name is made of.
    fn name(&self) -> String {
        self.value.as_ref().map_or_else(|| self.key.clone(), |value| format!("{}-{value}", self.key))
    }
}

impl Walk<'_, '_> {
    fn level(&mut self, items: Vec<Yaml>, path: &[&Step]) -> Level {
        let mut level = Level::default();
        for item in items {
            let place = item.place;
            let Some((step, node)) = self.descriptor(item, path) else { continue };
            let what = step.name();
            if !level.add(step.key, step.value, node) {
                self.notes.add(place, format!("`{what}` stands twice in one list"));
            }
        }
        level
    }

    fn descriptor(&mut self, item: Yaml, path: &[&Step]) -> Option<(Step, Node)> {
        let mut fields = Fields::of(item, "a descriptor", &mut self.notes)?;
        let place = fields.place;
        let (key, value) = (fields.text("key", &mut self.notes), fields.text("value", &mut self.notes));
        let is_shared = fields.flag("share_threshold", &mut self.notes);
        let shadow = fields.flag("shadow_mode", &mut self.notes).is_some();
        // How metrics are labelled: ours have a label for each limit, and none that requests can fill.
        for metric in ["detailed_metric", "value_to_metric"] {
            fields.flag(metric, &mut self.notes);
        }
        if let Some(place) = fields.flag("quota_mode", &mut self.notes) {
            self.notes.add(place, "`quota_mode` cannot be served");
        }
        let rate_limit = fields.take("rate_limit").filter(|node| node.value != Value::Null);
        let children = fields.list("descriptors", &mut self.notes);
        fields.finish(&mut self.notes);
        let Some((key, _)) = key else {
            self.notes.add(place, "a descriptor has no `key`");
            return None;
        };
        let value = value.map(|(value, _)| value);
        if is_shared.is_some() && !value.as_ref().is_some_and(|value| value.ends_with('*')) {
            self.notes.add(place, "`share_threshold` is for values that end with `*`");
        }
        let step = self.step(key, value, place, path);
        let path: Vec<_> = path.iter().copied().chain([&step]).collect();
        let rate = rate_limit.and_then(|node| self.rate(node, &path, shadow));
        let below = self.level(children, &path);
        let shared = is_shared.and(step.value.clone());
        let attribute = step.attribute.clone();
        Some((step, Node { attribute, shared, rate, below }))
    }

    /// A key may stand again further down: then it is another attribute there.
    fn step(&mut self, key: String, value: Option<String>, place: Place, path: &[&Step]) -> Step {
        let earlier = path.iter().filter(|step| step.key == key).count();
        let theirs = if earlier == 0 { key.clone() } else { format!("{key}#{earlier}") };
        let attribute = self.words.fit(&theirs, place, &mut self.renames);
        Step { key, value, attribute }
    }

    fn rate(&mut self, node: Yaml, path: &[&Step], shadow: bool) -> Option<Rate> {
        let mut fields = Fields::of(node, "a rate limit", &mut self.notes)?;
        let place = fields.place;
        let name = fields.text("name", &mut self.notes).map(|(name, _)| name);
        let grant = grant(&mut fields, &mut self.notes);
        let replaces = fields.list("replaces", &mut self.notes);
        fields.finish(&mut self.notes);
        let replaces = replaces.into_iter().filter_map(|node| self.replaced(node, name.as_deref())).collect();
        let (amount, window_s) = grant?;
        let words = || path.iter().map(|step| step.name()).collect::<Vec<_>>().join("-");
        let limit = DraftLimit {
            place,
            name: name.clone().unwrap_or_else(words),
            amount,
            window_s,
            align: Align::Epoch,
            key: path.iter().map(|step| step.attribute.clone()).collect(),
            matches: path.iter().map(|step| step.test()).collect(),
            skip_if_missing: false,
            shadow,
        };
        let place_in_policy = self.limits;
        self.limits += 1;
        self.draft.add(self.domain, limit, &mut self.notes);
        Some(Rate { limit: place_in_policy, name, replaces })
    }

    fn replaced(&mut self, node: Yaml, own: Option<&str>) -> Option<String> {
        let place = node.place;
        let mut fields = Fields::of(node, "an entry of `replaces`", &mut self.notes)?;
        let name = fields.text("name", &mut self.notes);
        fields.finish(&mut self.notes);
        match name {
            Some((name, _)) if Some(name.as_str()) == own => {
                self.notes.add(place, "a limit cannot replace itself");
                None
            }
            Some((name, _)) => Some(name),
            None => {
                self.notes.add(place, "an entry of `replaces` has no `name`");
                None
            }
        }
    }
}
