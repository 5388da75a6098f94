//! What a failed call means: whether it may have counted.

use redis::{ErrorKind, RedisError};
use sluicegate::{Counted, StoreError};

/// What the server answers before it runs anything of a call; the last is our scripts' own word, before they write.
const REFUSALS: [&str; 13] = [
    "NOSCRIPT",
    "LOADING",
    "BUSY",
    "MASTERDOWN",
    "READONLY",
    "MISCONF",
    "NOREPLICAS",
    "OOM",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "WRONGTYPE",
    "MALFORMED",
];

/// No connection: nothing was sent.
pub(crate) fn not_connected(cause: RedisError) -> StoreError {
    StoreError::new("redis cannot be reached", Counted::Nothing).caused_by(cause)
}

/// The call was sent and failed.
pub(crate) fn failed(cause: RedisError) -> StoreError {
    let refused = cause.code().is_some_and(|code| REFUSALS.contains(&code)) || is_of_a_script(&cause);
    if cause.is_timeout() {
        StoreError::new("redis did not answer in time", Counted::Unknown).caused_by(cause)
    } else if refused {
        StoreError::new("redis refused the call", Counted::Nothing).caused_by(cause)
    } else {
        StoreError::new("the call to redis failed", Counted::Unknown).caused_by(cause)
    }
}

/// Whether a script broke off. Ours read and check first and write last, so that then nothing was written.
fn is_of_a_script(error: &RedisError) -> bool {
    error.detail().is_some_and(|detail| detail.contains("user_script"))
}

/// The server answered something that no script of ours answers.
pub(crate) fn unreadable() -> StoreError {
    StoreError::new("redis answered what cannot be read", Counted::Unknown)
}

pub(crate) fn is_no_script(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}

/// Whether the connection must be made again before it can be used: it is closed, or nobody knows what state it is in.
pub(crate) fn ends_connection(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse)
}
