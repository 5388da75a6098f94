//! A policy in the making: names that fit, and its text.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    time::Duration,
};

use sluicegate::core::{
    Algorithm, Align, Rule,
    policy::{MAX_ALTERNATIVES, MAX_ATTRIBUTES, MAX_NAME_LEN, MAX_PATTERN_LEN, Place},
};

use super::{Import, ImportError, Imported, Note, Notes};
use crate::schema;

/// What must be true of one attribute, which a request must have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Test {
    pub(crate) attribute: String,
    /// A pattern that its value matches; `None`: any value.
    pub(crate) is: Option<String>,
    /// Patterns that its value does not match.
    pub(crate) not: Vec<String>,
}

impl Test {
    fn written(&self) -> String {
        let name = scalar(&self.attribute);
        let is = self.is.as_deref().unwrap_or("*");
        if self.not.is_empty() {
            return format!("{name}: {}", quoted(is));
        }
        let not: Vec<_> = self.not.iter().map(|pattern| quoted(pattern)).collect();
        // `not` alone would hold for requests without the attribute as well.
        let own =
            self.is.as_deref().map_or_else(|| "present: true".to_owned(), |is| format!("is: {}", quoted(is)));
        format!("{name}: {{ {own}, not: [{}] }}", not.join(", "))
    }
}

/// A limit to be written.
#[derive(Clone, Debug)]
pub(crate) struct DraftLimit {
    pub(crate) place: Place,
    pub(crate) name: String,
    /// `None` lets everything pass.
    pub(crate) amount: Option<u64>,
    pub(crate) window_s: u64,
    pub(crate) align: Align,
    pub(crate) key: Vec<String>,
    /// What requests it applies to, an attribute each.
    pub(crate) matches: Vec<Test>,
    pub(crate) skip_if_missing: bool,
    /// Whether it is counted and never denies.
    pub(crate) shadow: bool,
}

/// A limit that gives way where another applies.
#[derive(Clone, Debug)]
struct Replaced {
    /// What the limit that gives way is called there.
    name: String,
    /// The requests to which the other applies.
    matches: Vec<Test>,
    /// What is said if there is no such limit.
    unknown: Note,
}

impl DraftLimit {
    /// Why a policy could not hold this limit.
    pub(crate) fn objection(&self) -> Option<String> {
        let window = Duration::from_secs(self.window_s);
        let rule = Rule::fixed_window(self.amount.unwrap_or(1), window, self.align);
        let mut patterns = self.matches.iter().flat_map(|test| test.is.iter().chain(&test.not));
        let long = patterns.any(|pattern| pattern.len() > MAX_PATTERN_LEN);
        let many = self.matches.iter().any(|test| test.not.len() > MAX_ALTERNATIVES);
        if let Err(error) = rule {
            Some(error.to_string())
        } else if self.matches.len() > MAX_ATTRIBUTES || self.key.len() > MAX_ATTRIBUTES {
            Some(format!("a limit looks at no more than {MAX_ATTRIBUTES} attributes"))
        } else if many {
            Some(format!("a condition has no more than {MAX_ALTERNATIVES} patterns"))
        } else {
            long.then(|| format!("a pattern has no more than {MAX_PATTERN_LEN} bytes"))
        }
    }

    fn write(&self, origin: &str, text: &mut String) {
        let amount = self.amount.map_or_else(|| "unlimited".to_owned(), |amount| amount.to_string());
        let _ = write!(
            text,
            "\n  - name: {}    # {}\n    algorithm: {}\n    limit: {amount}\n    per: {}\n",
            scalar(&self.name),
            one_line(origin),
            Algorithm::FixedWindow,
            length(self.window_s),
        );
        if self.align == Align::FirstRequest {
            text.push_str("    align: first_request\n");
        }
        let key: Vec<_> = self.key.iter().map(|name| scalar(name)).collect();
        let _ = writeln!(text, "    key: [{}]", key.join(", "));
        if !self.matches.is_empty() {
            let _ = writeln!(text, "    match: {{ {} }}", written(&self.matches));
        }
        if self.skip_if_missing {
            text.push_str("    if_missing: skip\n");
        }
        if self.shadow {
            text.push_str("    enforcement: shadow\n");
        }
    }
}

fn written(tests: &[Test]) -> String {
    tests.iter().map(Test::written).collect::<Vec<_>>().join(", ")
}

/// The limits of one domain.
#[derive(Debug)]
struct Domain {
    name: String,
    /// Each with the place that it comes from.
    limits: Vec<(String, DraftLimit)>,
    names: HashSet<String>,
    /// The names that limits have here, by those that they have there.
    called: HashMap<String, Vec<String>>,
    replaced: Vec<Replaced>,
}

/// All domains of an import, in the order in which they were met, and what was noted.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    domains: Vec<Domain>,
    notes: Vec<Note>,
}

impl Draft {
    /// Adds a limit under a name of its own, or says why it is left out.
    pub(crate) fn add(&mut self, domain: &str, mut limit: DraftLimit, notes: &mut Notes<'_>) {
        if let Some(objection) = limit.objection() {
            notes.add(limit.place, format!("the limit is left out: {objection}"));
            return;
        }
        let domain = self.domain(domain);
        let theirs = std::mem::take(&mut limit.name);
        limit.name = unique(&theirs, &mut domain.names);
        domain.called.entry(theirs).or_default().push(limit.name.clone());
        domain.limits.push((format!("{}:{}", notes.file, limit.place.line), limit));
    }

    /// Lets the limit of a name, which may come later, give way for requests that another applies to.
    pub(crate) fn replace(
        &mut self,
        domain: &str,
        (name, place): (String, Place),
        matches: Vec<Test>,
        notes: &Notes<'_>,
    ) {
        let what = format!("`replaces` is left out: no limit here is made of one with the name `{name}`");
        let unknown = Note { file: notes.file.to_owned(), line: place.line, what };
        self.domain(domain).replaced.push(Replaced { name, matches, unknown });
    }

    fn domain(&mut self, name: &str) -> &mut Domain {
        let known = self.domains.iter().position(|domain| domain.name == name);
        let index = known.unwrap_or(self.domains.len());
        if known.is_none() {
            let name = name.to_owned();
            self.domains.push(Domain {
                name,
                limits: Vec::new(),
                names: HashSet::new(),
                called: HashMap::new(),
                replaced: Vec::new(),
            });
        }
        #[expect(clippy::indexing_slicing, reason = "the index was found, or is that of the one just pushed")]
        &mut self.domains[index]
    }

    /// Keeps the notes of a file that is done.
    pub(crate) fn note(&mut self, notes: Notes<'_>) {
        self.notes.extend(notes.notes);
    }

    /// Writes the policies. `origin` says in a line what they come from, `reading` how they differ as a whole.
    pub(crate) fn finish(mut self, origin: &str, reading: &[&str]) -> Result<Import, ImportError> {
        self.notes.extend(self.domains.iter().flat_map(Domain::unknown));
        self.notes.sort();
        if self.domains.is_empty() {
            return Err(ImportError::Nothing(self.notes));
        }
        let head = head(origin, reading, &self.notes);
        let policies = self.domains.iter().map(|domain| domain.written(&head)).collect();
        Ok(Import { policies, notes: self.notes })
    }
}

impl Domain {
    fn written(&self, head: &str) -> Imported {
        let mut text = format!("{head}version: 1\ndomain: {}\nlimits:", scalar(&self.name));
        self.limits.iter().for_each(|(origin, limit)| limit.write(origin, &mut text));
        self.write_replaced(&mut text);
        Imported { domain: self.name.clone(), text }
    }

    /// What gives way is unlimited where the other limit applies: an override.
    fn write_replaced(&self, text: &mut String) {
        let known = |one: &&Replaced| self.called.contains_key(&one.name);
        let mut overrides = self.replaced.iter().filter(known).peekable();
        if overrides.peek().is_some() {
            text.push_str("\noverrides:\n");
        }
        for one in overrides {
            let names = self.called.get(&one.name).into_iter().flatten();
            let limits: Vec<_> =
                names.map(|name| format!("{}: {{ limit: unlimited }}", scalar(name))).collect();
            let _ = writeln!(
                text,
                "  - match: {{ {} }}\n    limits: {{ {} }}",
                written(&one.matches),
                limits.join(", ")
            );
        }
    }

    fn unknown(&self) -> impl Iterator<Item = Note> {
        self.replaced.iter().filter(|one| !self.called.contains_key(&one.name)).map(|one| one.unknown.clone())
    }
}

/// The comment at the top: the schema, where the file comes from, and all that it does not say.
fn head(origin: &str, reading: &[&str], notes: &[Note]) -> String {
    let mut lines = vec![format!("Imported from {origin}.")];
    lines.extend(reading.iter().map(|line| (*line).to_owned()));
    if !notes.is_empty() {
        lines.extend([String::new(), "Not expressed here, or not in the same way:".to_owned()]);
        lines.extend(notes.iter().map(|note| format!("  {note}")));
    }
    let comment = |line: &String| format!("{}\n", format!("# {}", one_line(line)).trim_end());
    std::iter::once(schema::editor_line()).chain(lines.iter().map(comment)).collect()
}

/// A comment ends with its line, whatever a file's name holds.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The longest unit that divides the window.
fn length(window_s: u64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "m")];
    let fits = units.iter().find(|(unit_s, _)| window_s > 0 && window_s.is_multiple_of(*unit_s));
    fits.map_or_else(|| format!("{window_s}s"), |(unit_s, unit)| format!("{}{unit}", window_s / unit_s))
}

/// A word as YAML: bare where nothing could take it for something else.
fn scalar(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let bare = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(plain)
        && !["true", "false", "null"].contains(&text.to_ascii_lowercase().as_str());
    if bare { text.to_owned() } else { quoted(text) }
}

/// A text in double quotes: the escapes of JSON are escapes of YAML as well.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A pattern of ours that holds for one value alone.
pub(crate) fn literal(value: &str) -> String {
    let special = |c: char| matches!(c, '*' | '?' | '[' | '{' | '\\');
    let escaped = |c: char| if special(c) { format!("\\{c}") } else { c.to_string() };
    value.chars().map(escaped).collect()
}

/// A name of a limit that nothing else in the domain has.
fn unique(wanted: &str, taken: &mut HashSet<String>) -> String {
    let base = limit_name(wanted);
    let numbered = (2_u64..).map(|number| {
        let ending = format!("-{number}");
        let room = MAX_NAME_LEN.saturating_sub(ending.len());
        format!("{}{ending}", base.chars().take(room).collect::<String>())
    });
    let name = std::iter::once(base.clone()).chain(numbered).find(|name| !taken.contains(name));
    let name = name.unwrap_or(base);
    taken.insert(name.clone());
    name
}

fn limit_name(wanted: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let fitted: String = wanted.chars().map(fit).collect();
    let words: Vec<_> = fitted.split('-').filter(|word| !word.is_empty()).collect();
    let name: String = words.join("-").chars().take(MAX_NAME_LEN).collect();
    if name.is_empty() { "limit".to_owned() } else { name }
}

/// Words of another product, as attributes or domains of ours; two that differ stay different.
#[derive(Debug, Default)]
pub(crate) struct Words(HashMap<String, String>);

impl Words {
    /// The word that stands for theirs; a change is said where it is met first.
    pub(crate) fn fit(&mut self, theirs: &str, place: Place, notes: &mut Notes<'_>) -> String {
        if let Some(known) = self.0.get(theirs) {
            return known.clone();
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let fitted: String =
            theirs.chars().map(|c| if allowed(c) { c } else { '_' }).take(MAX_NAME_LEN).collect();
        let start: String = fitted.chars().take(MAX_NAME_LEN / 2).collect();
        let mut candidates = std::iter::once(fitted.clone()).chain((2_u64..).map(|n| format!("{start}_{n}")));
        let free = candidates.find(|word| !self.0.values().any(|taken| taken == word));
        let ours = free.unwrap_or(fitted);
        if ours != theirs {
            notes.add(
                place,
                format!("`{theirs}` is called `{ours}` here, since names have `A-Z a-z 0-9 _ . -` only"),
            );
        }
        self.0.insert(theirs.to_owned(), ours.clone());
        ours
    }
}
