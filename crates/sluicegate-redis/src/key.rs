//! The grammar of keys.
//!
//! ```text
//! key     = "sg1:" tag ":" kind rest
//! tag     = "{" … "}"     the part of the subject that decides the slot on a Redis Cluster
//! kind    = "s"           states; other kinds of keys get other letters
//!         | "i"           ids of requests; and the instances of a fleet, under the tag "{!fleet}", which no domain
//!                         can have
//!         | "a"           attempts at a request with an id that is decided in several slots
//!         | "p"           what such a request counted in one of them
//!         | "t"           what was settled under an id
//!         | "c"           the assignments of a domain, under the tag "{!config:" domain "}"
//!         | "login"       guesses: of an account under the tag "{!login:" mark "}", of a network and its addresses under
//!                         the tag "{!login:" mark of the network "}", the latter with ":" and the address's mark
//! rest    = "" | ":" …    what the subject says beyond its tag, or the id
//! ```
//!
//! `sg1` is the version: another layout of records gets another prefix, so that releases never misread each other.
//! A subject is printable ASCII with one pair of braces (see [`Subject`]), so no value can choose a slot.

use sluicegate::core::{Payload, RequestId, Subject};

/// What every key begins with: the one pattern for an ACL is `~sg1:*`.
pub(crate) const PREFIX: &str = "sg1:";
const STATES: &str = ":s";
const IDS: &str = ":i:";
const ATTEMPTS: &str = ":a:";
const PARTS: &str = ":p:";
const SETTLEMENTS: &str = ":t:";
/// The key of the list of instances.
pub(crate) const FLEET_KEY: &str = "sg1:{!fleet}:i";

/// How the keys of assignments begin.
pub(crate) const CONFIG_PREFIX: &str = "sg1:{!config:";

/// The key of a domain's assignments, and the channel on which their changes are published.
pub(crate) fn config_key(domain: &str) -> String {
    format!("{CONFIG_PREFIX}{domain}}}:c")
}

/// The key of a subject's record.
///
/// ```
/// use sluicegate::core::Subject;
/// use sluicegate_redis::record_key;
/// let by_user = Subject::new("api", &[], &[("user", Some("alice"))]);
/// assert_eq!(record_key(&by_user), "sg1:{api:user=alice}:s");
/// let by_user_in_org = Subject::new("api", &[("org", Some("acme"))], &[("user", Some("alice"))]);
/// assert_eq!(record_key(&by_user_in_org), "sg1:{api:org=acme}:s:user=alice");
/// ```
pub fn record_key(subject: &Subject) -> String {
    let (tag, rest) = subject.split();
    let mut key = String::with_capacity(PREFIX.len() + tag.len() + STATES.len() + rest.len());
    for part in [PREFIX, tag, STATES, rest] {
        key.push_str(part);
    }
    key
}

/// The key of an id within its scope ([`RequestId::scope`]), in the slot of the first ask's record.
///
/// ```
/// use sluicegate_redis::id_key;
/// assert_eq!(id_key("{api:user=alice}", &"order-17".parse()?), "sg1:{api:user=alice}:i:order-17");
/// # Ok::<(), sluicegate::core::RequestIdError>(())
/// ```
pub fn id_key(scope: &str, id: &RequestId) -> String {
    [PREFIX, scope, IDS, id.as_str()].concat()
}

/// The key of what was settled under an id within its scope.
pub(crate) fn settlement_key(scope: &str, id: &RequestId) -> String {
    [PREFIX, scope, SETTLEMENTS, id.as_str()].concat()
}

/// The key of the attempts at a request with an id.
pub(crate) fn attempts_key(scope: &str, id: &RequestId) -> String {
    [PREFIX, scope, ATTEMPTS, id.as_str()].concat()
}

/// The key of what a request with an id counted in the slot of this subject: another request under the id has another.
pub(crate) fn part_key(subject: &Subject, payload: &Payload, id: &RequestId) -> String {
    let payload = format!("{:032x}", u128::from_be_bytes(*payload.as_bytes()));
    [PREFIX, subject.split().0, PARTS, &payload, ":", id.as_str()].concat()
}

/// The key of an account's guesses, or of a network's; marks are 128 bits under the caller's key.
pub(crate) fn login_key(mark: &[u8; 16]) -> String {
    format!("{PREFIX}{{!login:{}}}:login", hex(mark))
}

/// The key of an address's guesses, in the slot of its network's.
pub(crate) fn login_address_key(network: &[u8; 16], address: &[u8; 16]) -> String {
    format!("{}:{}", login_key(network), hex(address))
}

/// The key that says since when a server has known guesses.
pub(crate) const LOGIN_SINCE_KEY: &str = "sg1:{!login}:login";

fn hex(mark: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*mark))
}
