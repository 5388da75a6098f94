//! From what was typed to what is meant: a resolved policy cannot hold a nonsense.

use std::{collections::HashMap, num::NonZeroU32, time::Duration};

use sha2::{Digest, Sha256};

use super::{
    Enforcement, Grant, IfMissing, Limit, MAX_APPLIED, Policy, REQUESTS, Rules, duration,
    exceptions::{self, Known},
    failure,
    fields::owners,
    file::{Field, LimitFile, PolicyFile, describe, list, printable, shown},
    lint::{LINTS, Lint},
    matching::matcher,
    period,
    problem::{Place, PolicyError, Problem, Problems},
    shards,
    suggest::{closest, did_you_mean},
    tree::{self, Node, Value},
    words::{names, own_name, word},
};
use crate::{
    ask::LimitId,
    period::Period,
    rule::{Algorithm, Align, Rule, RuleError},
    time::Tick,
};

/// The longest policy file, in bytes: the most limits with room for long names and comments.
pub const MAX_FILE_LEN: usize = 4 << 20;

/// The version of the format that is read.
const VERSION: u64 = 1;
const DEFAULT_DOMAIN: &str = "default";
/// Algorithms of the format that this version cannot enforce.
const LATER_ALGORITHMS: [&str; 1] = ["concurrency"];

/// Reads a policy from YAML.
pub(super) fn parse(text: &str) -> Result<Policy, PolicyError> {
    let mut problems = Problems::default();
    let policy = read(text, &mut problems);
    problems.into_result(text)?;
    // Without a problem there is a policy; the type system cannot know.
    policy.ok_or_else(|| PolicyError::unknown(text))
}

fn read(text: &str, problems: &mut Problems) -> Option<Policy> {
    if text.len() > MAX_FILE_LEN {
        let what = format!("the file has {} bytes, and a policy at most {MAX_FILE_LEN}", text.len());
        problems.push(Problem::new(Place::START, what).hint("split it into one file per domain"));
        return None;
    }
    let root = problems.note(tree::parse(text))?;
    let file = PolicyFile::read(root, problems)?;
    problems.note(check_version(file.version.as_ref()));
    let domain = problems.note(domain(file.domain.as_ref()));
    let slot_by = problems.note(file.slot_by.map_or_else(|| Ok(Vec::new()), names));
    let enforcement = problems.note(choice(file.enforcement.as_ref(), &ENFORCEMENT));
    let exempt = exceptions::exemptions(file.exempt, problems);
    let files = file.limits?;
    let limits = resolve_limits(&files, problems);
    let known = Known::new(&files, &limits);
    let tiers = exceptions::tiers(file.tiers, &known, problems);
    let overrides = exceptions::overrides(file.overrides, &known, problems);
    let (domain, slot_by, enforcement) = (domain?, slot_by?, enforcement?);
    let fingerprint = fingerprint(text);
    Some(Policy::new(Rules { domain, fingerprint, enforcement, slot_by, exempt, limits, tiers, overrides }))
}

/// The beginning of the text's SHA-256, as 16 hexadecimal digits.
fn fingerprint(text: &str) -> String {
    let append = |number: u64, byte: &u8| (number << 8) | u64::from(*byte);
    format!("{:016x}", Sha256::digest(text).iter().take(8).fold(0, append))
}

fn check_version(field: Option<&Field>) -> Result<(), Problem> {
    let Some(field) = field else {
        let problem = Problem::new(Place::START, "a policy needs the field `version`");
        return Err(problem.hint(format!("begin with `version: {VERSION}`")));
    };
    match &field.node.value {
        Value::Whole(VERSION) => Ok(()),
        Value::Whole(other) => Err(Problem::new(field.node.place, format!("version `{other}` is not known"))
            .hint(format!("this program reads `version: {VERSION}`"))),
        _ => Err(field.must_be("a whole number").hint(format!("write `version: {VERSION}`"))),
    }
}

fn domain(field: Option<&Field>) -> Result<String, Problem> {
    field.map_or_else(|| Ok(DEFAULT_DOMAIN.to_owned()), word)
}

/// All limits; what only several of them together get wrong is noticed here.
fn resolve_limits(files: &[LimitFile], problems: &mut Problems) -> Vec<Limit> {
    let mut limits: Vec<Limit> = Vec::with_capacity(files.len());
    let mut names: HashMap<String, Place> = HashMap::new();
    let mut ids = Ids::default();
    for file in files {
        let Some(limit) = resolve_limit(file, problems) else { continue };
        let place = file.name.as_ref().map_or(file.place, |field| field.node.place);
        if let Some(first) = names.insert(limit.name.clone(), place) {
            let problem = Problem::new(place, format!("two limits have the name `{}`", limit.name));
            problems.push(problem.hint(format!("rename one; the first is in line {}", first.line)));
        } else {
            problems.note(ids.add(file, &limit, place));
        }
        limits.push(limit);
    }
    note_two_delays(files, &limits, problems);
    note_too_many(files, &limits, problems);
    limits
}

/// With too many limits for every request, no request could ever be decided.
fn note_too_many(files: &[LimitFile], limits: &[Limit], problems: &mut Problems) {
    let always =
        |limit: &&Limit| limit.if_missing != IfMissing::Skip && limit.matcher.attributes().next().is_none();
    let Some(first_beyond) = limits.iter().filter(always).nth(MAX_APPLIED) else { return };
    let place = files.iter().find_map(|file| file.place_of_name(&first_beyond.name)).unwrap_or(Place::START);
    let what = format!("more than {MAX_APPLIED} limits apply to every request");
    problems
        .push(Problem::new(place, what).hint("give limits a `match`, so that fewer apply to each request"));
}

/// The ids of a policy's limits: two limits with one id would count each other's requests.
#[derive(Default)]
struct Ids<'f> {
    stable: HashMap<&'f str, String>,
    hashed: HashMap<LimitId, String>,
}

impl<'f> Ids<'f> {
    fn add(&mut self, file: &'f LimitFile, limit: &Limit, place: Place) -> Result<(), Problem> {
        let name = &limit.name;
        let stable = file.stable_id().unwrap_or_default();
        if let Some(other) = self.stable.insert(stable, name.clone()) {
            let what = format!(
                "the limits `{other}` and `{name}` would share their state: both have the id `{stable}`"
            );
            return Err(Problem::new(place, what).hint("give one of them an `id` of its own"));
        }
        match self.hashed.insert(limit.id, name.clone()) {
            None => Ok(()),
            Some(other) => {
                let what = format!(
                    "the limits `{other}` and `{name}` would share their state: their ids are equal by chance"
                );
                Err(Problem::new(place, what).hint("rename one of them, or give it another `id`"))
            }
        }
    }
}

/// A request waits for one queue: with two, the order of its releases would follow neither.
fn note_two_delays(files: &[LimitFile], limits: &[Limit], problems: &mut Problems) {
    let delays = |limit: &&Limit| limit.grant.shape().0 == Algorithm::LeakyBucket;
    let queues: Vec<&Limit> = limits.iter().filter(delays).collect();
    for (index, second) in queues.iter().enumerate() {
        let Some(first) = queues.iter().take(index).find(|first| first.matcher.may_meet(&second.matcher))
        else {
            continue;
        };
        let place = files.iter().find_map(|file| file.place_of_name(&second.name)).unwrap_or(Place::START);
        let (first, second) = (&first.name, &second.name);
        let what = format!("the leaky buckets `{first}` and `{second}` could both apply to one request");
        let hint = "let their `match` differ in the exact value or the beginning of one attribute";
        problems.push(Problem::new(place, what).hint(hint));
    }
}

/// The amount of a limit.
#[derive(Clone, Copy)]
enum Amount {
    Bounded(u64),
    Unlimited,
}

fn resolve_limit(file: &LimitFile, problems: &mut Problems) -> Option<Limit> {
    let name = problems.note(limit_name(file));
    let stable_id = problems.note(file.id.as_ref().map(|field| own_name(field, "id of a limit")).transpose());
    let key = problems.note(key(file));
    let matcher = problems.note(matcher(file.matches.as_ref()));
    let unit = problems.note(file.unit.as_ref().map_or_else(|| Ok(REQUESTS.to_owned()), word));
    let if_missing = problems.note(choice(file.if_missing.as_ref(), &IF_MISSING));
    let enforcement = problems.note(choice(file.enforcement.as_ref(), &ENFORCEMENT));
    let allowed = problems.note(file.allow.clone().map_or_else(|| Ok(Vec::new()), allowed));
    let on_store_failure = problems.note(failure::on_store_failure(file));
    let cache_denials = problems.note(flag(file.cache_denials.as_ref()));
    let (rule, grant, shards) = resolve_grant(file, problems)?;
    let name = name?;
    let id = LimitId::of(stable_id?.as_deref().unwrap_or(&name), &rule);
    let (key, matcher, if_missing) = (key?, matcher?, if_missing?);
    problems.note(shards::check_key(file, &key))?;
    let (unit, enforcement, on_store_failure, allowed) = (unit?, enforcement?, on_store_failure?, allowed?);
    let cache_denials = cache_denials?;
    let shards = shards.map_or(1, NonZeroU32::get);
    Some(Limit {
        name,
        id,
        unit,
        key,
        shards,
        matcher,
        if_missing,
        enforcement,
        on_store_failure,
        cache_denials,
        allowed,
        grant,
    })
}

/// What a limit grants, with the rule that its id is made of and the shards that its counter is split over.
pub(super) fn resolve_grant(
    file: &LimitFile,
    problems: &mut Problems,
) -> Option<(Rule, Grant, Option<NonZeroU32>)> {
    let algorithm = problems.note(algorithm(file));
    let amount = problems.note(amount(file));
    let window = problems.note(window(file, algorithm));
    let extras = algorithm.and_then(|algorithm| extras(file, algorithm, problems));
    let shards = problems.note(algorithm.map_or(Ok(None), |algorithm| shards::shards(file, algorithm)));
    let (algorithm, amount, window, extras) = (algorithm?, amount?, window?, extras?);
    let rule = problems.note(rule(file, algorithm, amount, window, extras))?;
    problems.note(failure::check_headroom(file, &rule))?;
    let shards = shards?;
    let grant = match (amount, shards) {
        (Amount::Unlimited, _) => Grant::Unlimited { algorithm, window: rule.window() },
        // Nothing is nothing in every shard.
        (Amount::Bounded(0), _) | (_, None) => Grant::Bounded(rule.clone()),
        (_, Some(count)) => Grant::Sharded(problems.note(shards::split(file, &rule, count))?),
    };
    Some((rule, grant, shards))
}

/// The lints that are not to be told.
fn allowed(field: Field) -> Result<Vec<&'static str>, Problem> {
    let code = |node: Node| {
        let Value::Text(text) = &node.value else {
            let what = format!("`allow` must hold codes of lints, not {}", describe(&node.value));
            return Err(Problem::new(node.place, what));
        };
        Lint::of_code(text).map(|lint| lint.code).ok_or_else(|| {
            let codes = LINTS.iter().map(|lint| lint.code);
            let known = format!("the codes are {}", list(&codes.clone().collect::<Vec<_>>()));
            let near = closest(text, codes).map(did_you_mean);
            Problem::new(node.place, format!("there is no lint `{}`", shown(text)))
                .hint(known)
                .maybe_hint(near)
        })
    };
    field.into_list()?.into_iter().map(code).collect()
}

fn limit_name(file: &LimitFile) -> Result<String, Problem> {
    let field = file.require(file.name.as_ref(), "name", "give it a name, such as `name: per-user`")?;
    own_name(&field, "name of a limit")
}

fn algorithm(file: &LimitFile) -> Result<Algorithm, Problem> {
    let known = Algorithm::ALL.map(Algorithm::name);
    let hint = format!("choose one of {}", list(&known));
    let field = file.require(file.algorithm.as_ref(), "algorithm", &hint)?;
    let text = field.text("a text").map_err(|problem| problem.hint(hint.clone()))?;
    if LATER_ALGORITHMS.contains(&text) {
        let what = format!("the algorithm `{text}` is not supported in this version");
        return Err(Problem::new(field.node.place, what).hint(hint));
    }
    Algorithm::from_name(text).ok_or_else(|| {
        let problem = Problem::new(field.node.place, format!("there is no algorithm `{}`", shown(text)));
        problem.hint(hint).maybe_hint(closest(text, known).map(did_you_mean))
    })
}

fn amount(file: &LimitFile) -> Result<Amount, Problem> {
    let hint = "write a whole number, or `limit: unlimited`";
    let field = file.require(file.limit.as_ref(), "limit", hint)?;
    match &field.node.value {
        Value::Text(text) if text == "unlimited" => Ok(Amount::Unlimited),
        _ => whole(&field, "a whole number or `unlimited`").map(Amount::Bounded),
    }
}

/// A field that is a whole number, not negative.
pub(super) fn whole(field: &Field, expected: &str) -> Result<u64, Problem> {
    /// 2^64, from where on a whole number of YAML is none of ours.
    const TOO_LARGE: f64 = 18_446_744_073_709_551_616.0;
    let (problem, may_be_unlimited) = (field.must_be(expected), expected.contains("unlimited"));
    match &field.node.value {
        Value::Whole(number) => Ok(*number),
        Value::Negative if may_be_unlimited => {
            Err(problem.hint("write `unlimited` to let everything pass, `0` to deny everything"))
        }
        Value::Float(number) if !number.is_finite() => {
            Err(problem.maybe_hint(may_be_unlimited.then(|| did_you_mean("unlimited"))))
        }
        Value::Float(number) if *number >= TOO_LARGE => Err(Problem::new(
            field.node.place,
            format!("`{}` is too large to be counted exactly", field.name),
        )),
        Value::Float(number) if number.fract() == 0.0 && *number >= 0.0 => {
            Err(problem.hint(format!("write `{number:.0}`")))
        }
        Value::Float(_) => Err(problem.hint("for a fraction per window take a longer `per`")),
        Value::Text(text) => Err(problem.maybe_hint(number_hint(text, may_be_unlimited))),
        _ => Err(problem),
    }
}

/// What to write instead of a text that is nearly a number.
fn number_hint(text: &str, may_be_unlimited: bool) -> Option<String> {
    let digits = text.replace(['_', ',', ' ', '\''], "");
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let trimmed = digits.trim_start_matches('0');
        return Some(format!("write `{}`, without quotes", if trimmed.is_empty() { "0" } else { trimmed }));
    }
    let words = ["infinite", "infinity", "inf", "none", "unbounded", "no", "off"];
    let lower = text.to_ascii_lowercase();
    if may_be_unlimited && words.contains(&lower.as_str()) {
        return Some(did_you_mean("unlimited"));
    }
    let meant = may_be_unlimited.then(|| closest(text, ["unlimited"])).flatten().map(did_you_mean);
    meant.or_else(|| text.starts_with(|c: char| c.is_ascii_digit()).then(|| "write all digits".to_owned()))
}

/// The window; that of a quota is its period's.
fn window(file: &LimitFile, algorithm: Option<Algorithm>) -> Result<Duration, Problem> {
    if let Some(quota @ Algorithm::Quota) = algorithm {
        own(file.per.as_ref(), quota)?;
        return Ok(Duration::ZERO);
    }
    let field = file.require(file.per.as_ref(), "per", "say how long a window is, such as `per: 1m`")?;
    length(&field)
}

/// A field that is a length of time.
fn length(field: &Field) -> Result<Duration, Problem> {
    let text = match &field.node.value {
        Value::Text(text) => text.clone(),
        Value::Whole(number) => number.to_string(),
        _ => return Err(field.must_be("a length of time").hint("write a number and a unit, such as `10s`")),
    };
    duration::parse(&text).map_err(|error| {
        let what = format!("`{}`: {}", field.name, printable(&error.to_string()));
        Problem::new(field.node.place, what).hint(error.hint())
    })
}

fn key(file: &LimitFile) -> Result<Vec<String>, Problem> {
    let hint = "say what it counts by, such as `key: [user]`, or `key: []` for one counter for all";
    names(file.require(file.key.as_ref(), "key", hint)?)
}

/// A word of a fixed set, and what it means; the first is the default.
pub(super) struct Choices<T: 'static>(pub(super) &'static [(&'static str, T)]);

pub(super) const IF_MISSING: Choices<IfMissing> =
    Choices(&[("shared", IfMissing::Shared), ("refuse", IfMissing::Refuse), ("skip", IfMissing::Skip)]);
pub(super) const ENFORCEMENT: Choices<Enforcement> =
    Choices(&[("on", Enforcement::On), ("shadow", Enforcement::Shadow), ("off", Enforcement::Off)]);
pub(super) const ALIGN: Choices<Align> =
    Choices(&[("epoch", Align::Epoch), ("hashed", Align::Hashed), ("first_request", Align::FirstRequest)]);

impl<T> Choices<T> {
    /// The words.
    pub(super) fn words(&self) -> Vec<&'static str> {
        self.0.iter().map(|(word, _)| *word).collect()
    }
}

pub(super) fn choice<T: Copy + Default>(field: Option<&Field>, choices: &Choices<T>) -> Result<T, Problem> {
    let Some(field) = field else { return Ok(T::default()) };
    let words = choices.words();
    let expected = format!("one of {}", list(&words));
    let Value::Text(text) = &field.node.value else { return Err(field.must_be(&expected)) };
    let found = choices.0.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
    found.ok_or_else(|| field.must_be(&expected).maybe_hint(closest(text, words).map(did_you_mean)))
}

/// A yes or no; left out it is no.
fn flag(field: Option<&Field>) -> Result<bool, Problem> {
    let Some(field) = field else { return Ok(false) };
    match field.node.value {
        Value::Bool(yes) => Ok(yes),
        _ => Err(field.must_be("`true` or `false`")),
    }
}

/// The fields that only some algorithms have.
#[derive(Clone)]
struct Extras {
    period: Period,
    burst: Option<u64>,
    align: Align,
    max_delay: Option<Duration>,
}

fn extras(file: &LimitFile, algorithm: Algorithm, problems: &mut Problems) -> Option<Extras> {
    let burst = own(file.burst.as_ref(), algorithm)
        .and_then(|field| field.map(|field| whole(field, "a whole number")).transpose());
    let align = own(file.align.as_ref(), algorithm).and_then(|field| choice(field, &ALIGN));
    let max_delay = own(file.max_delay.as_ref(), algorithm).and_then(|field| field.map(length).transpose());
    let (burst, align, max_delay) = (problems.note(burst), problems.note(align), problems.note(max_delay));
    let period = problems.note(own(file.period.as_ref(), algorithm));
    let period = period.and_then(|field| period::period(file, field, algorithm, problems));
    if algorithm == Algorithm::LeakyBucket && file.max_delay.is_none() {
        let hint = "say how long a request may be told to wait, such as `max_delay: 2s`";
        problems.note(file.require(None, "max_delay", hint))?;
    }
    Some(Extras { period: period?, burst: burst?, align: align?, max_delay: max_delay? })
}

/// The field if it belongs to the algorithm; elsewhere it would silently do nothing.
fn own(field: Option<&Field>, algorithm: Algorithm) -> Result<Option<&Field>, Problem> {
    let not_of = |field: &&Field| !owners(field.name).contains(&algorithm);
    let Some(stray) = field.filter(not_of) else { return Ok(field) };
    let owners: Vec<&str> = owners(stray.name).iter().map(|owner| owner.name()).collect();
    let what = format!("`{}` does not belong to the algorithm `{algorithm}`", stray.name);
    Err(Problem::new(stray.name_place, what).hint(format!("remove it; it is a field of {}", list(&owners))))
}

fn rule(
    file: &LimitFile,
    algorithm: Algorithm,
    amount: Amount,
    window: Duration,
    extras: Extras,
) -> Result<Rule, Problem> {
    // The rule of an unlimited limit is built for its checks and its id, which does not depend on the amount.
    let amount = match amount {
        Amount::Bounded(amount) => amount,
        Amount::Unlimited => 1,
    };
    let burst = extras.burst.unwrap_or(amount);
    let max_delay = extras.max_delay.unwrap_or_default();
    check_delay(file, max_delay, window)?;
    let rule = match algorithm {
        Algorithm::FixedWindow => Rule::fixed_window(amount, window, extras.align),
        Algorithm::SlidingLog => Rule::sliding_log(amount, window),
        Algorithm::SlidingCounter => Rule::sliding_counter(amount, window),
        Algorithm::TokenBucket => Rule::token_bucket(amount, window, burst),
        Algorithm::Gcra => Rule::gcra(amount, window, burst),
        Algorithm::LeakyBucket => Rule::leaky_bucket(amount, window, max_delay),
        Algorithm::Quota => Rule::quota(amount, extras.period),
    };
    rule.map_err(|error| rule_problem(file, &error))
}

/// A delay is counted in the window's ticks; what is cut off would be a promise not kept.
fn check_delay(file: &LimitFile, max_delay: Duration, window: Duration) -> Result<(), Problem> {
    let whole_ticks = max_delay.as_micros().is_multiple_of(u128::from(tick_us(window)));
    match &file.max_delay {
        Some(field) if !whole_ticks => {
            let problem =
                Problem::new(field.node.place, "`max_delay` must be whole seconds if `per` is a day or more");
            Err(problem.hint("round it, or shorten `per`"))
        }
        _ => Ok(()),
    }
}

/// The arithmetic's objection, at the field that it is about and in the words of the file.
fn rule_problem(file: &LimitFile, error: &RuleError) -> Problem {
    let shorter = "use a shorter `per`, or count in a coarser unit";
    let (field, what, hint) = match *error {
        RuleError::Window(_) => (&file.per, "`per` must be from 1ms to 3660d".to_owned(), None),
        RuleError::PartialTick { unit, .. } => {
            let hint = "lengths from 10s on count in whole milliseconds, from a day on in whole seconds";
            (&file.per, format!("`per` must be a whole number of {unit}"), Some(hint))
        }
        RuleError::DelayTooLong { max, .. } => {
            (&file.max_delay, format!("`max_delay` is too long for this limit: at most {max:?}"), None)
        }
        RuleError::TooLarge { field, value, window, max } => {
            let own = if field == "burst" { file.burst.as_ref().map(|_| &file.burst) } else { None };
            let name = if own.is_some() { "burst" } else { "limit" };
            let what =
                format!("`{name}` is too large for a window of {window:?}: `{value}`, at most `{max}`");
            (own.unwrap_or(&file.limit), what, Some(shorter))
        }
        RuleError::LogTooLarge(_) => {
            let hint = "use `sliding_counter`, which keeps two numbers per key";
            (&file.limit, error.to_string(), Some(hint))
        }
        RuleError::QuotaTooLarge(_) => (&file.limit, error.to_string(), Some("count in a coarser unit")),
        RuleError::ZeroBurst => (&file.burst, error.to_string(), Some("to deny everything write `limit: 0`")),
    };
    let place = field.as_ref().map_or(file.place, |field| field.node.place);
    Problem::new(place, what).maybe_hint(hint.map(str::to_owned))
}

fn tick_us(window: Duration) -> u64 {
    Tick::for_window_us(u64::try_from(window.as_micros()).unwrap_or(u64::MAX)).as_micros()
}
