//! Asks: one limit, one key, one cost; and the canonical text of a key, which every store counts by.

use std::{fmt, sync::Arc};

use sha2::{Digest, Sha256};

use crate::{algorithm::GiveBack, rule::Rule, share::OnStoreFailure};

/// One limit, one key, one cost. A request becomes a list of asks, decided together.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// The limit's numbers.
    pub rule: &'a Rule,
    /// The limit's stable id inside a record.
    pub id: LimitId,
    /// What the limit counts by.
    pub subject: Subject,
    /// The cost; 0 checks without counting.
    pub cost: u64,
    /// What to do when the store cannot decide.
    pub on_store_failure: OnStoreFailure,
    /// Whether a denial may be remembered for as long as it cannot change.
    pub cache_denials: bool,
}

impl<'a> Ask<'a> {
    /// An ask of a limit that decides locally when the store cannot.
    pub fn new(rule: &'a Rule, id: LimitId, subject: Subject, cost: u64) -> Self {
        Self { rule, id, subject, cost, on_store_failure: OnStoreFailure::default(), cache_denials: false }
    }
}

/// What an admitted ask turned out to cost.
#[derive(Clone, Debug)]
pub struct Charge<'a> {
    /// The ask; its cost is what was charged then, 0 for what was never asked.
    pub ask: Ask<'a>,
    /// The tick of the charge, as [`Question::charged_now`](crate::Question::charged_now) told it then.
    pub charged_at: u64,
    /// What it cost.
    pub actual: u64,
}

impl Charge<'_> {
    /// The charge as the arithmetic sees it.
    pub fn as_give_back(&self) -> GiveBack {
        GiveBack { charged_at: self.charged_at, held: self.ask.cost, actual: self.actual }
    }
}

/// The stable id of a limit's state: a new name, algorithm, window or alignment makes a new one, an amount does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitId(u32);

impl LimitId {
    /// The id of a limit by name and rule. Within a policy two limits with one id are refused at load.
    pub fn of(name: &str, rule: &Rule) -> Self {
        let text = match rule.period() {
            Some(period) => format!("{name}\n{}\n{period}", rule.algorithm()),
            None => {
                format!("{name}\n{}\n{}\n{:?}", rule.algorithm(), rule.window().as_micros(), rule.align())
            }
        };
        let digest: [u8; 32] = Sha256::digest(text).into();
        let [a, b, c, d, ..] = digest;
        Self(u32::from_le_bytes([a, b, c, d]))
    }

    /// The id as stored.
    #[inline]
    pub const fn as_u32(self) -> u32 {
        self.0
    }
}

/// The subject of counting, as canonical text: `{domain:tag}` or `{domain:tag}:rest`, of `name=value` pairs.
///
/// Two different lists of attributes never have the same text: values are percent-escaped, long ones replaced by
/// `%h` and a SHA-256 prefix, and an absent attribute is its bare name. The braces hold the part that decides the
/// slot on a Redis Cluster, and no value can close them.
///
/// ```
/// use sluicegate_core::Subject;
/// let subject = Subject::new("api", &[], &[("user", Some("al:ice"))]);
/// assert_eq!(subject.as_str(), "{api:user=al%3Aice}");
/// let in_org = Subject::new("api", &[("org", Some("acme"))], &[("user", None)]);
/// assert_eq!(in_org.as_str(), "{api:org=acme}:user");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Subject(Arc<str>);

/// Escaped values longer than this are replaced by a hash, so that keys stay short whatever strangers send.
const MAX_VALUE_LEN: usize = 96;
/// Bytes of SHA-256 that stand for a long value: 192 bits, far beyond any search for a collision.
const HASH_LEN: usize = 24;

impl Subject {
    /// The subject of a domain's limit: `slot_by` attributes choose the slot; without them the key itself does.
    pub fn new(domain: &str, slot_by: &[(&str, Option<&str>)], key: &[(&str, Option<&str>)]) -> Self {
        let mut text = String::with_capacity(64);
        text.push('{');
        push_escaped(&mut text, domain);
        push_pairs(&mut text, if slot_by.is_empty() { key } else { slot_by });
        text.push('}');
        if !slot_by.is_empty() {
            push_pairs(&mut text, key);
        }
        Self(text.into())
    }

    /// The subject of one shard of this counter. Its number stands in the tag, so that shards are in different slots;
    /// `!` is escaped everywhere else, so no other subject has this text.
    ///
    /// ```
    /// use sluicegate_core::Subject;
    /// assert_eq!(Subject::new("api", &[], &[]).shard(3).as_str(), "{api:!3}");
    /// ```
    #[must_use]
    pub fn shard(&self, number: usize) -> Self {
        let (tag, rest) = self.split();
        let open = tag.strip_suffix('}').unwrap_or(tag);
        Self(format!("{open}:!{number}}}{rest}").into())
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The tag with its braces, and what follows it.
    pub fn split(&self) -> (&str, &str) {
        let end = self.0.find('}').map_or(self.0.len(), |brace| brace + 1);
        self.0.split_at(end)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn push_pairs(text: &mut String, pairs: &[(&str, Option<&str>)]) {
    for (name, value) in pairs {
        text.push(':');
        push_escaped(text, name);
        if let Some(value) = value {
            text.push('=');
            push_escaped(text, value);
        }
    }
}

fn push_escaped(text: &mut String, value: &str) {
    let start = text.len();
    for byte in value.bytes().take(MAX_VALUE_LEN + 1) {
        if byte.is_ascii_alphanumeric() || b"-_.@/+~,".contains(&byte) {
            text.push(char::from(byte));
        } else {
            push_hex(text, byte);
        }
    }
    if text.len() - start > MAX_VALUE_LEN {
        text.truncate(start);
        text.push_str("%h");
        Sha256::digest(value).iter().take(HASH_LEN).for_each(|byte| push_bare_hex(text, *byte));
    }
}

fn push_hex(text: &mut String, byte: u8) {
    text.push('%');
    push_bare_hex(text, byte);
}

fn push_bare_hex(text: &mut String, byte: u8) {
    for digit in [byte >> 4, byte & 15] {
        text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0').to_ascii_uppercase());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Pairs = Vec<(String, Option<String>)>;

    fn pairs() -> impl Strategy<Value = Pairs> {
        let value = prop_oneof![
            "[ab:{}%=]{0,3}",
            "\\PC{0,6}",
            "[a]{95,98}",
            Just("%h".to_owned()),
            Just("\0".to_owned())
        ];
        proptest::collection::vec(("[a-c]{1,2}", proptest::option::of(value)), 0..3)
    }

    fn subject(slot_by: &Pairs, key: &Pairs) -> Subject {
        let borrow = |pairs: &Pairs| -> Vec<(String, Option<String>)> { pairs.clone() };
        let (slot_by, key) = (borrow(slot_by), borrow(key));
        let slot_by: Vec<_> = slot_by.iter().map(|(n, v)| (n.as_str(), v.as_deref())).collect();
        let key: Vec<_> = key.iter().map(|(n, v)| (n.as_str(), v.as_deref())).collect();
        Subject::new("api", &slot_by, &key)
    }

    proptest! {
        /// Concatenated, unescaped keys let a user named after an address share its counter (axes), or choose a slot.
        #[test]
        fn two_different_keys_never_share_a_subject(
            a in pairs(), b in pairs(), slot_a in pairs(), slot_b in pairs(), with_slot in any::<bool>()
        ) {
            let none = Pairs::new();
            let (slot_a, slot_b) = if with_slot && !slot_a.is_empty() && slot_a.len() == slot_b.len() {
                (&slot_a, &slot_b)
            } else {
                (&none, &none)
            };
            let same = a == b && slot_a == slot_b;
            prop_assert_eq!(subject(slot_a, &a) == subject(slot_b, &b), same);
        }

        #[test]
        fn a_subject_holds_only_harmless_characters_and_one_pair_of_braces(a in pairs(), slot in pairs()) {
            let subject = subject(&slot, &a);
            let text = subject.as_str();
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(text.matches('{').count(), 1);
            prop_assert_eq!(text.matches('}').count(), 1);
            prop_assert_eq!(text.find('{'), Some(0));
        }
    }

    proptest! {
        /// Whatever the attributes are called: a shard is nobody else's counter.
        #[test]
        fn a_shard_has_the_subject_of_no_other_counter(a in pairs(), b in pairs(), name in "!?[0-9]{1,2}", shard in 0..64usize) {
            let mut close = b.clone();
            close.push((name, None));
            let (none, split) = (Pairs::new(), subject(&Pairs::new(), &a).shard(shard));
            prop_assert_ne!(&split, &subject(&none, &b));
            prop_assert_ne!(&split, &subject(&none, &close));
            prop_assert_eq!(split == subject(&none, &b).shard(shard), a == b);
            prop_assert_ne!(split, subject(&none, &a).shard(shard + 1));
        }
    }

    #[test]
    fn a_value_of_ten_kilobytes_makes_a_short_key() {
        let long = "x".repeat(10_000);
        let subject = Subject::new("api", &[], &[("user", Some(&long))]);
        assert!(subject.as_str().len() < 80, "{subject}");
    }

    #[test]
    fn absent_is_not_empty() {
        let absent = Subject::new("api", &[], &[("user", None)]);
        let empty = Subject::new("api", &[], &[("user", Some(""))]);
        assert_ne!(absent, empty);
    }
}
