//! What a failed call means: whether it may have counted, and what to do about it.

use std::{fmt, sync::Arc};

use redis::{ErrorKind, RedisError};
use sluicegate::{Counted, Reason, StoreError};

use crate::config::ConfigError;

/// What the server answers before it runs anything of a call; the last is our scripts' own word, before they write.
const REFUSALS: [&str; 18] = [
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
    "CLUSTERDOWN",
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "CROSSSLOT",
    "MALFORMED",
];

/// Refusals that the server would repeat for as long as the connection stands: it is no master any more, or it wants a
/// password by now. A new connection asks anew where the master is, and says who it is.
const OF_THE_CONNECTION: [&str; 3] = ["READONLY", "MASTERDOWN", "NOAUTH"];

/// What a script ends with that reads a record of fewer bytes than any has.
const ENDS_TOO_EARLY: &str = "data string too short";

/// What Redis, or the way to it, said: the cause of an error of this store.
#[derive(Clone, Debug)]
pub struct RedisCause(Said);

#[derive(Clone, Debug)]
enum Said {
    Redis(RedisError),
    Config(Arc<ConfigError>),
    Here(&'static str),
}

impl RedisCause {
    /// Whether the server was reached and refused the user, the password or the database: no later call will do better.
    pub fn refuses_user(&self) -> bool {
        match &self.0 {
            Said::Redis(error) => is_of_user(error) || is_of_database(error),
            Said::Config(_) => true,
            Said::Here(_) => false,
        }
    }

    /// Whether the user may not do what was asked.
    pub(crate) fn lacks_right(&self) -> bool {
        matches!(&self.0, Said::Redis(error) if error.code() == Some("NOPERM") || is_of_a_script_without_right(error))
    }

    /// What someone who runs the server can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        let Said::Redis(error) = &self.0 else { return None };
        if is_of_user(error) {
            return Some("check the user and the password in the url of the store");
        }
        if is_of_database(error) {
            return Some("check the database number in the url; a cluster has database 0 alone");
        }
        if self.lacks_right() {
            return Some("docs/operating/redis.md lists the rights that the user needs");
        }
        Some(match error.code()? {
            "OOM" => "the server is full: give it more `maxmemory`, or keep other data elsewhere",
            "READONLY" => "the server is a replica: name its master, or use `redis+sentinel://`",
            "TRYAGAIN" => {
                "the slot is half moved: it can be counted on when the rest of its keys has followed"
            }
            "MOVED" | "ASK" | "CROSSSLOT" => "the server belongs to a cluster: use `redis+cluster://`",
            "MISCONF" => "the server cannot write to its disk, and so refuses to count",
            "NOREPLICAS" => "the server has fewer replicas than `min-replicas-to-write` asks for",
            "WRONGTYPE" | "MALFORMED" => "another program writes to keys that begin with `sg1:`",
            _ => return None,
        })
    }
}

impl RedisCause {
    /// Whether the server was not heard at all.
    fn is_of_the_way(&self) -> bool {
        matches!(&self.0, Said::Redis(error) if error.is_io_error())
    }
}

/// Inside a script Redis says in words that the user may not run a command.
fn is_of_a_script_without_right(error: &RedisError) -> bool {
    let words = ["ACL failure in script", "The user executing the script can't run this command"];
    error.detail().is_some_and(|detail| words.iter().any(|known| detail.contains(known)))
}

fn is_of_user(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || error.code().is_some_and(|code| ["WRONGPASS", "NOAUTH"].contains(&code))
}

fn is_of_database(error: &RedisError) -> bool {
    error.detail().is_some_and(|detail| {
        ["DB index is out of range", "SELECT is not allowed in cluster mode"]
            .iter()
            .any(|known| detail.contains(known))
    })
}

impl fmt::Display for RedisCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Said::Config(error) => error.fmt(f),
            Said::Here(text) => f.write_str(text),
            Said::Redis(error) if error.is_timeout() => f.write_str("no answer in time"),
            Said::Redis(error) => match (error.code(), error.detail()) {
                (Some("ERR"), Some(detail)) => f.write_str(detail),
                (Some(code), Some(detail)) => write!(f, "{code} {detail}"),
                _ => error.fmt(f),
            },
        }
    }
}

/// Its text says everything: a cause of its own would only say it again.
impl std::error::Error for RedisCause {}

/// A server that no connection could be made to: nothing was sent.
#[derive(Clone, Debug)]
pub(crate) struct Unreachable {
    what: Arc<str>,
    cause: RedisCause,
}

impl Unreachable {
    /// The way to the server ended in this.
    pub(crate) fn new(server: &str, cause: RedisError) -> Self {
        Self::because(server, Said::Redis(cause))
    }

    pub(crate) fn misconfigured(server: &str, cause: ConfigError) -> Self {
        Self::because(server, Said::Config(Arc::new(cause)))
    }

    /// A server that was reached and is not the one that is meant.
    pub(crate) fn for_reason(server: &str, reason: &'static str) -> Self {
        Self::because(server, Said::Here(reason))
    }

    fn because(server: &str, said: Said) -> Self {
        let cause = RedisCause(said);
        let verb = if cause.is_of_the_way() { "reached" } else { "used" };
        Self { what: format!("redis at `{server}` cannot be {verb}").into(), cause }
    }

    /// Whether there is a server, though it cannot be used.
    pub(crate) fn was_reached(&self) -> bool {
        !self.cause.is_of_the_way()
    }
}

impl From<Unreachable> for StoreError {
    fn from(unreachable: Unreachable) -> Self {
        Self::new(unreachable.what.to_string(), Counted::Nothing).caused_by(unreachable.cause)
    }
}

/// The call was sent to this server and failed.
pub(crate) fn failed(server: &str, cause: RedisError) -> StoreError {
    let refused = cause.code().is_some_and(|code| REFUSALS.contains(&code)) || is_of_a_script(&cause);
    let (what, counted) = if cause.is_timeout() {
        ("did not answer in time", Counted::Unknown)
    } else if refused {
        ("refused the call", Counted::Nothing)
    } else {
        ("was sent the call, and the answer is lost", Counted::Unknown)
    };
    let of_a_key = is_of_a_key(&cause);
    let error = StoreError::new(format!("redis at `{server}` {what}"), counted);
    let error = error.caused_by(RedisCause(Said::Redis(cause)));
    if of_a_key { error.for_reason(Reason::Request) } else { error }
}

/// Whether one of the keys holds what no script of ours wrote: calls for other keys do better.
fn is_of_a_key(error: &RedisError) -> bool {
    error.code().is_some_and(|code| ["WRONGTYPE", "MALFORMED"].contains(&code))
        || is_of_a_script(error) && error.detail().is_some_and(|detail| detail.contains(ENDS_TOO_EARLY))
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

/// Whether the connection must be made again before it can be used: it is closed, nobody knows what state it is in, or
/// the server at its other end is the wrong one.
pub(crate) fn ends_connection(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse)
        || error.code().is_some_and(|code| OF_THE_CONNECTION.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: &str, detail: &str) -> RedisError {
        redis::make_extension_error(code.to_owned(), Some(detail.to_owned()))
    }

    #[test]
    fn what_a_server_refuses_was_not_counted_and_what_nobody_knows_was_perhaps() {
        for code in REFUSALS {
            assert_eq!(failed("a:1", said(code, "x")).counted(), Counted::Nothing, "{code}");
        }
        let broke_off = said("ERR", "x script: 1, on @user_script:7.");
        assert_eq!(failed("a:1", broke_off).counted(), Counted::Nothing);
        for code in ["ERR", "EXECABORT", "SOMETHINGNEW"] {
            assert_eq!(failed("a:1", said(code, "x")).counted(), Counted::Unknown, "{code}");
        }
        for kind in [std::io::ErrorKind::TimedOut, std::io::ErrorKind::BrokenPipe] {
            assert_eq!(
                failed("a:1", std::io::Error::from(kind).into()).counted(),
                Counted::Unknown,
                "{kind}"
            );
        }
    }

    #[test]
    fn only_what_would_be_said_again_ends_a_connection() {
        let ended: Vec<&str> =
            REFUSALS.into_iter().filter(|code| ends_connection(&said(code, "x"))).collect();
        assert_eq!(ended, ["MASTERDOWN", "READONLY", "NOAUTH"]);
        assert!(ends_connection(&std::io::Error::from(std::io::ErrorKind::TimedOut).into()));
    }

    #[test]
    fn a_cause_is_said_once_and_in_words() {
        let text = |error| RedisCause(Said::Redis(error)).to_string();
        assert_eq!(text(said("OOM", "command not allowed")), "OOM command not allowed");
        assert_eq!(text(said("ERR", "DB index is out of range")), "DB index is out of range");
        assert_eq!(text(std::io::Error::from(std::io::ErrorKind::TimedOut).into()), "no answer in time");
        let error = failed("a:1", said("OOM", "x"));
        let cause = std::error::Error::source(&error).unwrap();
        assert!(cause.source().is_none());
        assert_eq!(error.to_string(), "redis at `a:1` refused the call");
    }
}
