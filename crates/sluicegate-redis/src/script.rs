//! The scripts. Each `.lua` file is headed by its contract; the machines' files are branches of one script.

use std::fmt;

/// Decides all asks of one request.
pub const TAKE: &str = concat!(
    include_str!("lua/take_head.lua"),
    include_str!("lua/fixed_window.lua"),
    include_str!("lua/sliding_log.lua"),
    include_str!("lua/sliding_counter.lua"),
    include_str!("lua/bucket.lua"),
    include_str!("lua/take_tail.lua"),
);
/// Moves states that are too far ahead back to now.
pub const REBASE: &str = include_str!("lua/rebase.lua");
/// Drops one state.
pub const FORGET: &str = include_str!("lua/forget.lua");

/// A script and the name by which the server knows it.
pub(crate) struct Script {
    pub(crate) source: &'static str,
    sha: String,
}

impl Script {
    pub(crate) fn new(source: &'static str) -> Self {
        Self { source, sha: redis::Script::new(source).get_hash().to_owned() }
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
