//! Commands by name.

use std::borrow::Cow;

use super::{
    parse::Words,
    take::Take,
    throttle::{Limit, Throttle},
};

/// What a client asks for.
#[derive(Debug)]
pub(super) enum Command<'w, 'b> {
    /// A decision.
    Decide(Decide),
    /// Anything else: its name in lower case, and what follows it.
    Plain(&'static str, &'w [Cow<'b, [u8]>]),
}

/// A decision that a client asks for.
#[derive(Clone, Debug)]
pub(super) enum Decide {
    Throttle(Throttle),
    Take(Take),
    Peek(Take),
}

/// A command that is not carried out. It counts nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("ERR unknown command `{0}`")]
    Unknown(String),
    #[error("ERR wrong number of arguments for `{0}`")]
    Arity(&'static str),
    #[error("ERR {0}")]
    Invalid(String),
    #[error("NOAUTH authentication required: send AUTH or HELLO with AUTH first")]
    NoAuth,
    #[error("WRONGPASS wrong password, or a user other than `default`")]
    WrongPass,
    #[error("NOPROTO the protocol versions are 2 and 3")]
    NoProto,
}

/// The commands that decide nothing.
const PLAIN: [&str; 10] =
    ["ping", "echo", "hello", "auth", "client", "select", "command", "info", "quit", "reset"];

impl<'w, 'b> Command<'w, 'b> {
    /// Reads the words of a command, of which there is at least one.
    pub(super) fn read(words: &'w Words<'b>, last: &mut Option<Limit>) -> Result<Self, Refused> {
        let (name, rest) = words.split_first().ok_or_else(|| Refused::Unknown(String::new()))?;
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is("cl.throttle") {
            return Throttle::read(rest, last).map(|throttle| Self::Decide(Decide::Throttle(throttle)));
        }
        if is("sg.take") {
            return Take::read("sg.take", rest).map(|take| Self::Decide(Decide::Take(take)));
        }
        if is("sg.peek") {
            return Take::read("sg.peek", rest).map(|take| Self::Decide(Decide::Peek(take)));
        }
        let known = PLAIN.into_iter().find(|known| is(known));
        known.map(|known| Self::Plain(known, rest)).ok_or_else(|| {
            let shown = name.get(..name.len().min(64)).unwrap_or_default();
            Refused::Unknown(shown.escape_ascii().to_string())
        })
    }
}
