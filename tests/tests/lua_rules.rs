//! Rules that every script of the Redis store keeps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use sluicegate::core::Tick;
use sluicegate_redis::script::{self, Pair};

/// A broken rule: the line, and what is wrong with it.
type Broken = (String, &'static str);

/// A script without comments and without the contents of its strings.
fn code(source: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in source.lines() {
        let (mut bare, mut quoted) = (String::new(), None);
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            match (quoted, letter) {
                (None, '-') if letters.peek() == Some(&'-') => break,
                (None, '\'' | '"') => quoted = Some(letter),
                (Some(quote), letter) if quote == letter => quoted = None,
                (Some(_), '\\') => drop(letters.next()),
                (Some(_), _) => continue,
                (None, _) => {}
            }
            bare.push(letter);
        }
        lines.push(bare);
    }
    lines
}

/// What no script may say, wherever it says it.
const FORBIDDEN: [(&str, &str); 13] = [
    ("'TIME'", "a script that asks for the time decides by another clock than its caller"),
    ("'KEYS'", "a script that looks for keys touches undeclared ones"),
    ("'SCAN'", "a script that looks for keys touches undeclared ones"),
    ("'EXPIRE'", "a time to live in a second command can be missed"),
    ("'PEXPIRE'", "a time to live in a second command can be missed"),
    ("'FLUSH", "only the asked record is dropped"),
    ("redis.pcall", "an error that is swallowed is a decision by accident"),
    ("tostring", "numbers beyond 14 digits lose their end"),
    ("function", "making a closure costs a call as much as a limit does"),
    ("loadstring", "code is not data"),
    ("math.random", "the same asks must have the same answer"),
    ("%.14g", "numbers beyond 14 digits lose their end"),
    ("while true", "a loop must end"),
];

/// What may stand beside `..`: strings, as their names say.
const STRINGS: [&str; 12] = [
    "entry",
    "more",
    "written",
    "record",
    "read",
    "before",
    "same",
    "'\\0'",
    "sub(",
    "string.sub(",
    "pack(",
    "table.concat(",
];

fn broken_rules(source: &str) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (line, bare) in source.lines().zip(code(source)) {
        let said = line.split("--").next().unwrap();
        for (word, why) in FORBIDDEN {
            if said.contains(word) {
                broken.push((line.to_owned(), why));
            }
        }
        if said.contains("'SET'")
            && !said.contains("'EX', ")
            && !said.contains("'PX', ")
            && !said.contains("'KEEPTTL'")
        {
            broken.push((line.to_owned(), "a write without a time to live"));
        }
        for command in called(said) {
            if !["GET", "SET", "DEL"].contains(&command) {
                broken.push((line.to_owned(), "a command beyond those of the access list"));
            }
        }
        if said.contains("call(") && !said.contains("KEYS[") {
            broken.push((line.to_owned(), "a key that was not declared"));
        }
        if bare.contains("..") && !only_strings_beside_concatenation(said) {
            broken.push((line.to_owned(), "`..` on what may be a number"));
        }
    }
    broken
}

fn called(line: &str) -> impl Iterator<Item = &str> {
    line.split("call('").skip(1).filter_map(|rest| rest.split('\'').next())
}

fn only_strings_beside_concatenation(line: &str) -> bool {
    let parts: Vec<&str> = line.split("..").map(str::trim).collect();
    let begins = |part: &str| STRINGS.iter().any(|name| part.starts_with(name));
    let ends = |part: &str| {
        part.is_empty() || part.ends_with(')') || STRINGS.iter().any(|name| part.ends_with(name))
    };
    parts.windows(2).all(|pair| ends(pair[0]) && begins(pair[1]))
}

#[test]
fn every_script_keeps_the_rules() {
    let day = Tick::for_window_us(86_400_000_000);
    let straight = script::take_straight(&[(Pair::FixedWindow, day), (Pair::Bucket, Tick::MICROSECOND)]);
    let others = [
        script::MANY,
        script::ONCE,
        script::REBASE,
        script::GIVE_BACK,
        script::FORGET,
        script::LOOK,
        script::FLEET,
        script::PART,
        script::BEGIN,
        script::FINISH,
        script::RELEASE,
    ];
    let login = [script::LOGIN_BEGIN, script::LOGIN_REPORT, script::LOGIN_ADDRESS];
    for source in [script::TAKE, straight.as_str()].into_iter().chain(others).chain(login) {
        assert_eq!(broken_rules(source), Vec::<Broken>::new());
        assert!(
            source.starts_with("-- ") && source.contains("-- Reply"),
            "a script is headed by its contract"
        );
    }
    // Each machine's file says what it keeps and which Rust file it is the twin of.
    for machine in ["fixed_window", "sliding_log", "sliding_counter", "bucket"] {
        assert!(script::TAKE.contains(&format!("Twin of {machine}.rs")), "{machine}");
    }
    assert!(!script::TAKE.contains("KEEPTTL"), "a count sets the time to live anew");
}

#[test]
fn a_script_that_breaks_a_rule_is_caught() {
    let wrong = [
        "local now = redis.call('TIME')",
        "for _, key in ipairs(redis.call('KEYS', KEYS[1])) do",
        "call('SET', KEYS[1], written)",
        "call('SET', 'sg1:other', written, 'EX', life)",
        "call('INCR', KEYS[1])",
        "return record .. level",
        "return level .. record",
        "local text = tostring(level)",
        "local drain = function(level) return level - 1 end",
        "redis.call('PEXPIRE', KEYS[1], 1000)",
    ];
    for line in wrong {
        assert!(!broken_rules(line).is_empty(), "{line}");
    }
    assert!(broken_rules("-- tostring(level) is not for numbers").is_empty());
}
