//! `take` without its loop, for requests of which much is known before they are sent.
//!
//! Most requests ask for the same few limits of one subject, in the same order, and find a record that the last such
//! request wrote. For each list of machines there is a script that reads all asks in one step, all entries in one step,
//! decides on one after another and writes them in one step. It is made of the machines' own files. If the record holds
//! anything else, the loop follows in the same script and decides.

use std::{collections::HashMap, fmt::Write as _, sync::Arc};

use parking_lot::RwLock;
use sluicegate::core::{Rule, rule::AnyMachine};

use crate::script::{Script, TAKE_BODY, TAKE_HEAD};

/// The most asks of such a script: a Lua function has at most 200 local variables, and an ask takes eleven.
const MAX_STRAIGHT: usize = 12;
/// How many lists of machines have a script. A server keeps the scripts that it was sent, and a policy needs few.
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
            AnyMachine::SlidingLog(_) | AnyMachine::SlidingCounter(_) => None,
        }
    }

    fn source(self) -> &'static str {
        match self {
            Self::FixedWindow => include_str!("lua/fixed_window.lua"),
            Self::Bucket => include_str!("lua/bucket.lua"),
        }
    }
}

/// The scripts that were needed so far.
#[derive(Debug, Default)]
pub(crate) struct Straight(RwLock<HashMap<u32, Arc<Script>>>);

impl Straight {
    /// The script for asks of these machines, made if it is new; `None` if there are too many of either.
    pub(crate) fn script(&self, machines: impl Iterator<Item = Pair> + Clone) -> Option<Arc<Script>> {
        // One bit for each machine and one before them all.
        let push = |list: u32, machine| list.checked_mul(2)?.checked_add(u32::from(machine == Pair::Bucket));
        let list = machines.clone().try_fold(1, push)?;
        if let Some(script) = self.0.read().get(&list) {
            return Some(script.clone());
        }
        let machines: Vec<Pair> = machines.collect();
        let mut scripts = self.0.write();
        if machines.len() > MAX_STRAIGHT || scripts.len() >= MAX_SCRIPTS {
            return None;
        }
        let made = || Arc::new(Script::new(take_straight(&machines)));
        Some(scripts.entry(list).or_insert_with(made).clone())
    }
}

/// The source of the script for asks of these machines, at most twelve, to one key.
pub fn take_straight(machines: &[Pair]) -> String {
    let all = |pattern: &str, between: &str| -> String {
        let each = (1..=machines.len()).map(|number| pattern.replace('#', &number.to_string()));
        each.collect::<Vec<_>>().join(between)
    };
    let mut decided = String::new();
    for (number, machine) in (1..).zip(machines) {
        let branch = numbered(machine.source(), number);
        // Writing to a string cannot fail.
        let _written =
            write!(decided, "do\n{branch}end\nif resets{number} > last then last = resets{number} end\n");
    }
    let straight = format!(
        "read = call('GET', KEYS[1]) or ''
if #read == {len} then
local {asked} = unpack('<{asks}', ARGV[1])
local {kept} = unpack('<{entries}', read)
if {same} then
local denied, counted, last = false, false, 0
{decided}if denied then return '\\0' .. read end
if not counted then return read end
local second = now1 / per_s1
second = second - second % 1
local written = pack('<{entries}', {entry})
call('SET', KEYS[1], written, 'EX', string.format('%d', last - second + 8))
return written
end
end
",
        len = ENTRY_LEN * machines.len(),
        asked = all("tag#, now#, per_s#, p#, q#, r#, s#", ", "),
        asks = "I5dddddd".repeat(machines.len()),
        kept = all("found#, resets#, first#, second#", ", "),
        entries = "I5I5dd".repeat(machines.len()),
        // The loop refuses what is no number of ours.
        same = all("found# == tag# and first# >= 0 and second# >= 0", " and "),
        entry = all("tag#, resets#, first#, second#", ", "),
    );
    [TAKE_HEAD, &straight, TAKE_BODY].concat()
}

/// The names that differ from ask to ask.
const OF_ONE_ASK: [&str; 11] =
    ["tag", "now", "per_s", "p", "q", "r", "s", "found", "resets", "first", "second"];

/// A machine's branch, without comments, for the ask of this number.
fn numbered(source: &str, number: usize) -> String {
    let mut renamed = String::with_capacity(2 * source.len());
    for line in source.lines().filter(|line| !line.trim_start().starts_with("--")) {
        let mut rest = line;
        while !rest.is_empty() {
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let (name, after) = rest.split_at(rest.find(|letter| !is_name(letter)).unwrap_or(rest.len()));
            renamed.push_str(name);
            if OF_ONE_ASK.contains(&name) {
                renamed.push_str(&number.to_string());
            }
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
        let source = "  -- p is kept\n  resets = resets - p % 1 + per_s * window\n";
        assert_eq!(numbered(source, 3), "  resets3 = resets3 - p3 % 1 + per_s3 * window\n");
    }

    #[test]
    fn a_list_of_machines_has_one_script_and_lists_without_end_have_none() {
        let straight = Straight::default();
        let buckets = |count| straight.script(std::iter::repeat_n(Pair::Bucket, count));
        assert!(Arc::ptr_eq(&buckets(1).unwrap(), &buckets(1).unwrap()));
        assert!(buckets(MAX_STRAIGHT).is_some());
        assert!(buckets(MAX_STRAIGHT + 1).is_none() && buckets(100).is_none());
        let list = |bits: u32| -> Vec<Pair> {
            let machine =
                |at: u32| if (bits >> at).is_multiple_of(2) { Pair::Bucket } else { Pair::FixedWindow };
            (0..8).map(machine).collect()
        };
        assert_eq!(
            (0..100).filter_map(|bits| straight.script(list(bits).into_iter())).count(),
            MAX_SCRIPTS - 2
        );
    }
}
