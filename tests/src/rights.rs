//! The least rights of the users that the store needs: what the documentation says, and the tests connect as.

use crate::RedisServer;

/// What every store needs, after `ACL SETUSER name`.
pub const STORE: &str =
    "on >password resetchannels ~sg1:* -@all +evalsha +script|load +get +set +del +time +ping";
/// For a database other than 0.
pub const DATABASE: &str = "+select";
/// For a master that sentinels name.
pub const MASTER: &str = "+role";
/// For the nodes of a cluster.
pub const NODE: &str = "+cluster|slots +asking";
/// For a source of assignments alone.
pub const SOURCE: &str =
    "on >password resetchannels &sg1:{!config:* ~sg1:{!config:* -@all +hget +hmget +hstrlen +subscribe";
/// For the sentinels themselves, as a line of their configuration.
pub const SENTINEL: &str =
    "user watcher on >password resetchannels -@all +auth +hello +sentinel|get-master-addr-by-name";

/// Makes the user `limiter`, whose password is `password`, with these rights and no others.
pub fn give(server: &RedisServer, rights: &[&str]) {
    let words = rights.iter().flat_map(|some| some.split(' '));
    server.command(&["ACL", "SETUSER", "limiter", "reset"].into_iter().chain(words).collect::<Vec<_>>());
}
