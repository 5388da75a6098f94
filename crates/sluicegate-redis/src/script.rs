//! The scripts. Each `.lua` file is headed by its contract; the machines' files are branches of one script.

use std::{borrow::Cow, fmt};

pub use crate::straight::{Pair, take_straight};

pub(crate) const TAKE_HEAD: &str = include_str!("lua/take_head.lua");

/// The loop over all asks, whatever they are, up to what becomes of the records.
macro_rules! take_loop {
    () => {
        concat!(
            include_str!("lua/take_loop.lua"),
            "    if machine == 1 then\n",
            include_str!("lua/fixed_window.lua"),
            include_str!("lua/pair.lua"),
            "    elseif machine == 2 then\n",
            include_str!("lua/sliding_log.lua"),
            "    elseif machine == 3 then\n",
            include_str!("lua/sliding_counter.lua"),
            "    elseif machine == 4 then\n",
            include_str!("lua/bucket.lua"),
            include_str!("lua/pair.lua"),
            "    elseif machine == 5 then\n",
            include_str!("lua/quota.lua"),
            include_str!("lua/pair.lua"),
            include_str!("lua/take_keep.lua"),
        )
    };
}

macro_rules! take_body {
    () => {
        concat!(take_loop!(), include_str!("lua/take_tail.lua"))
    };
}

/// Decides all asks of one request.
pub const TAKE: &str = concat!(include_str!("lua/take_head.lua"), take_body!());
pub(crate) const TAKE_BODY: &str = take_body!();
/// Decides independent requests, one after another.
pub const MANY: &str = concat!(
    include_str!("lua/many_head.lua"),
    include_str!("lua/take_head.lua"),
    take_loop!(),
    include_str!("lua/many_tail.lua")
);
/// Decides all asks of one request, once for an id.
pub const ONCE: &str = concat!(
    include_str!("lua/once_head.lua"),
    include_str!("lua/take_head.lua"),
    include_str!("lua/once_check.lua"),
    take_loop!(),
    include_str!("lua/once_tail.lua")
);
/// Moves states that are too far ahead back to now.
pub const REBASE: &str = include_str!("lua/rebase.lua");
/// Decides the asks of one slot, once for all attempts at a request with an id.
pub const PART: &str = concat!(
    include_str!("lua/part_head.lua"),
    include_str!("lua/take_head.lua"),
    include_str!("lua/part_check.lua"),
    take_loop!(),
    include_str!("lua/once_tail.lua")
);
/// Begins an attempt at a request with an id.
pub const BEGIN: &str = include_str!("lua/begin.lua");
/// Ends it.
pub const FINISH: &str = include_str!("lua/finish.lua");
/// Takes back parts of what was counted.
pub const GIVE_BACK: &str =
    concat!(include_str!("lua/give_back_head.lua"), include_str!("lua/give_back.lua"), "return records\n");
/// Takes back what one attempt counted.
pub const RELEASE: &str = concat!(
    include_str!("lua/release_head.lua"),
    include_str!("lua/give_back_head.lua"),
    include_str!("lua/release_check.lua"),
    include_str!("lua/give_back.lua"),
    "call('DEL', KEYS[count + 1])\nreturn records\n"
);
/// Settles charges, once for an id.
pub const SETTLE: &str = concat!(
    include_str!("lua/settle_head.lua"),
    include_str!("lua/give_back_head.lua"),
    include_str!("lua/settle_check.lua"),
    include_str!("lua/give_back.lua"),
    "call('SET', KEYS[count + 1], ARGV[count + 1], 'EX', '86410')\nreturn ''\n"
);
/// Drops one state.
pub const FORGET: &str = include_str!("lua/forget.lua");
/// Reads several records.
pub const LOOK: &str = include_str!("lua/look.lua");
/// Writes an instance into the list of its fleet.
pub const FLEET: &str = include_str!("lua/fleet.lua");

/// Counts a guess at a secret of an account.
pub const LOGIN_BEGIN: &str = concat!(
    include_str!("lua/login_head.lua"),
    include_str!("lua/login_begin.lua"),
    include_str!("lua/login_tail.lua")
);
/// Settles a guess.
pub const LOGIN_REPORT: &str = concat!(
    include_str!("lua/login_head.lua"),
    include_str!("lua/login_report.lua"),
    include_str!("lua/login_tail.lua")
);
/// Counts and weighs guesses from an address.
pub const LOGIN_ADDRESS: &str = include_str!("lua/login_address.lua");

/// A script and the name by which the server knows it.
pub(crate) struct Script {
    pub(crate) source: Cow<'static, str>,
    sha: String,
}

impl Script {
    pub(crate) fn new(source: impl Into<Cow<'static, str>>) -> Self {
        let source = source.into();
        let sha = redis::Script::new(&source).get_hash().to_owned();
        Self { source, sha }
    }

    /// A call by name, with the keys' and arguments' count and size in bytes as a hint.
    pub(crate) fn call(&self, keys: usize, args: usize, bytes: usize) -> redis::Cmd {
        let mut call = redis::Cmd::with_capacity(3 + keys + args, self.sha.len() + 16 + bytes);
        call.arg("EVALSHA").arg(self.sha.as_str()).arg(keys);
        call
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Script").field(&self.sha).finish()
    }
}
