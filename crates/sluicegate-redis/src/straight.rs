//! `take` without its loop, for requests of which much is known before they are sent.
//!
//! Most requests ask for the same few limits of one subject, in the same order, and find a record that the last such
//! request wrote. For each list of machines and their ticks there is a script that reads all asks in one step, all entries in one step,
//! decides on one after another and writes them in one step. It is made of the machines' own files. If the record holds
//! anything else, the loop follows in the same script and decides.

use std::{collections::HashMap, fmt::Write as _, sync::Arc};

use parking_lot::RwLock;
use sluicegate::core::{Rule, Tick, rule::AnyMachine};

use crate::{
    packed::tick_mark,
    script::{Script, TAKE_BODY, TAKE_HEAD},
};

/// The most asks of such a script: a Lua function has at most 200 local variables, and an ask takes nine.
const MAX_STRAIGHT: usize = 12;
/// How many lists of machines and ticks have a script. A server keeps the scripts that it was sent, and a policy needs few.
const MAX_SCRIPTS: usize = 64;
/// Bytes of an entry of two numbers.
const ENTRY_LEN: usize = 26;

/// A machine that keeps two numbers: its entry has a fixed size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pair {
    /// `fixed_window.lua`
    FixedWindow,
    /// `bucket.lua`
    Bucket,
}

impl Pair {
    pub(crate) fn of(rule: &Rule) -> Option<Self> {
        match rule.machine() {
            AnyMachine::FixedWindow(_) => Some(Self::FixedWindow),
            AnyMachine::Bucket(_) => Some(Self::Bucket),
            AnyMachine::SlidingLog(_) | AnyMachine::SlidingCounter(_) | AnyMachine::Quota(_) => None,
        }
    }

    fn source(self) -> &'static str {
        match self {
            Self::FixedWindow => include_str!("lua/fixed_window.lua"),
            Self::Bucket => include_str!("lua/bucket.lua"),
        }
    }
}

/// The scripts that were needed so far, each by the number that its asks make.
#[derive(Debug, Default)]
pub(crate) struct Straight(RwLock<HashMap<u128, Arc<Script>>>);

impl Straight {
    /// The script for asks of these machines in these ticks, made if it is new; `None` if there are too many of either.
    pub(crate) fn script(&self, asks: impl Iterator<Item = (Pair, Tick)> + Clone) -> Option<Arc<Script>> {
        let list = asks.clone().try_fold(1, push)?;
        if let Some(script) = self.0.read().get(&list) {
            return Some(script.clone());
        }
        let asks: Vec<(Pair, Tick)> = asks.collect();
        let mut scripts = self.0.write();
        if asks.len() > MAX_STRAIGHT || scripts.len() >= MAX_SCRIPTS {
            return None;
        }
        let made = || Arc::new(Script::new(take_straight(&asks)));
        Some(scripts.entry(list).or_insert_with(made).clone())
    }
}

/// Appends a digit to base 64; since a list begins with 1, no two make one number.
fn push(list: u128, (pair, tick): (Pair, Tick)) -> Option<u128> {
    list.checked_mul(64)?.checked_add(u128::from(tick_mark(tick)) + u128::from(pair == Pair::Bucket))
}

/// The source of the script for asks of these machines in these ticks, at most twelve, to one key.
pub fn take_straight(asks: &[(Pair, Tick)]) -> String {
    let all = |pattern: &str, between: &str| -> String {
        let each = (1..=asks.len()).map(|number| pattern.replace('#', &number.to_string()));
        each.collect::<Vec<_>>().join(between)
    };
    // The loop refuses what is no number of ours.
    let same = |(number, (_, tick)): (usize, &(Pair, Tick))| {
        let mark = tick_mark(*tick);
        format!("found{number} == tag{number} - {mark} and first{number} >= 0 and second{number} >= 0")
    };
    let same: Vec<String> = (1..).zip(asks).map(same).collect();
    let (mut clocks, mut decided) = (String::new(), String::new());
    let mut ticks: Vec<u64> = asks.iter().map(|(_, tick)| tick.as_micros()).collect();
    ticks.sort_unstable();
    ticks.dedup();
    // Writing to a string cannot fail.
    for tick in ticks {
        let _written = writeln!(clocks, "local now_{tick} = (now_us - now_us % {tick}) / {tick}");
    }
    for (number, (pair, tick)) in (1..).zip(asks) {
        let branch = numbered(pair.source(), number, *tick);
        let _written =
            write!(decided, "do\n{branch}end\nif resets{number} > last then last = resets{number} end\n");
    }
    let straight = format!(
        "read = call('GET', KEYS[1]) or ''
if #read == {len} then
local now_us, {asked} = unpack('<d{asks}', ARGV[1])
local {kept} = unpack('<{entries}', read)
if {same} then
{clocks}local denied, counted, last = false, false, 0
{decided}if denied then return '\\0' .. read end
if not counted then return read end
local written = pack('<{entries}', {entry})
call('SET', KEYS[1], written, 'EX', string.format('%d', last - (now_us - now_us % 1000000) / 1000000 + 8))
return written
end
end
",
        len = ENTRY_LEN * asks.len(),
        asked = all("tag#, p#, q#, r#, s#", ", "),
        asks = "I5dddd".repeat(asks.len()),
        kept = all("found#, resets#, first#, second#", ", "),
        entries = "I5I5dd".repeat(asks.len()),
        same = same.join(" and "),
        entry = all("found#, resets#, first#, second#", ", "),
    );
    [TAKE_HEAD, &straight, TAKE_BODY].concat()
}

/// The names that differ from ask to ask.
const OF_ONE_ASK: [&str; 9] = ["tag", "p", "q", "r", "s", "found", "resets", "first", "second"];
const MICROS_PER_SECOND: u64 = 1_000_000;

/// A machine's branch, without comments, for the ask of this number, whose tick is known and whose entry was found.
fn numbered(source: &str, number: usize, tick: Tick) -> String {
    let tick = tick.as_micros();
    let mut code = source.lines().filter(|line| !line.trim_start().starts_with("--"));
    let own_names = code.next().and_then(|line| line.trim().strip_prefix("local ")?.split_once(" = "));
    let own_names =
        own_names.map_or(Vec::new(), |(own, asked)| own.split(", ").zip(asked.split(", ")).collect());
    let mut renamed = String::with_capacity(2 * source.len());
    for line in code {
        let line = line.replace("found == tag", "true");
        let mut rest = line.as_str();
        while !rest.is_empty() {
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let (name, after) = rest.split_at(rest.find(|letter| !is_name(letter)).unwrap_or(rest.len()));
            let name = own_names.iter().find(|(own, _)| *own == name).map_or(name, |(_, asked)| asked);
            // Writing to a string cannot fail.
            let _written = match name {
                "now" => write!(renamed, "now_{tick}"),
                "per_s" => write!(renamed, "{}", MICROS_PER_SECOND / tick),
                name if OF_ONE_ASK.contains(&name) => write!(renamed, "{name}{number}"),
                name => write!(renamed, "{name}"),
            };
            let (between, after) = after.split_at(after.find(is_name).unwrap_or(after.len()));
            renamed.push_str(between);
            rest = after;
        }
        renamed.push('\n');
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_of_an_ask_are_numbered() {
        let source =
            "  -- p is kept\n  local room, cost = p, q\n  resets = room % 1 + per_s * (start - now)\n";
        let in_ms = Tick::for_window_us(60_000_000);
        assert_eq!(numbered(source, 3, in_ms), "  resets3 = p3 % 1 + 1000 * (start - now_1000)\n");
    }

    #[test]
    fn a_list_of_machines_has_one_script_and_lists_without_end_have_none() {
        let straight = Straight::default();
        let buckets = |count| straight.script(std::iter::repeat_n((Pair::Bucket, Tick::MICROSECOND), count));
        assert!(Arc::ptr_eq(&buckets(1).unwrap(), &buckets(1).unwrap()));
        assert!(buckets(MAX_STRAIGHT).is_some());
        assert!(buckets(MAX_STRAIGHT + 1).is_none() && buckets(100).is_none());
        let list = |bits: u32| -> Vec<(Pair, Tick)> {
            let window_us = |at: u32| if (bits >> at).is_multiple_of(2) { 1_000 } else { 60_000_000 };
            (0..8).map(|at| (Pair::Bucket, Tick::for_window_us(window_us(at)))).collect()
        };
        assert_eq!(
            (0..100).filter_map(|bits| straight.script(list(bits).into_iter())).count(),
            MAX_SCRIPTS - 2
        );
    }
}
