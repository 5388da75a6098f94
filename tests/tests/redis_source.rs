//! Assignments that stand on a server: what is read, how often, and what wakes whoever waits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::Duration;

use sluicegate_redis::{ConfigSource, RedisConfig, SourceError};
use sluicegate_tests::RedisServer;
use tokio::time::timeout;

const KEY: &str = "sg1:{!config:api}:c";
/// Far longer than a notice takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn source(redis: &RedisServer) -> ConfigSource {
    ConfigSource::new(&RedisConfig::from_url(&redis.url()).unwrap(), "api", 10).unwrap()
}

fn put(redis: &RedisServer, version: &str, text: &str) {
    redis.command(&["HSET", KEY, "version", version, "assignments", text]);
}

#[tokio::test]
async fn a_text_is_read_once_for_each_version_and_never_beyond_its_bound() {
    let redis = RedisServer::start();
    let mut source = source(&redis);
    assert!(matches!(source.read().await, Err(SourceError::Missing { field: "version", .. })));
    put(&redis, "1", "0123456789");
    assert_eq!(source.read().await.unwrap().as_deref(), Some("0123456789"));
    put(&redis, "1", "another");
    assert_eq!(source.read().await.unwrap(), None, "the version is the same");
    put(&redis, "2", "0123456789a");
    for _ in 0..2 {
        assert!(matches!(source.read().await, Err(SourceError::TooLong { len: 11, max_len: 10, .. })));
    }
    redis.command(&["HDEL", KEY, "assignments"]);
    assert!(matches!(source.read().await, Err(SourceError::Missing { field: "assignments", .. })));
    put(&redis, "3", "");
    assert_eq!(source.read().await.unwrap().as_deref(), Some(""));
    redis.command(&["DEL", KEY]);
    assert!(matches!(source.read().await, Err(SourceError::Missing { .. })));
}

#[tokio::test]
async fn what_is_published_wakes_whoever_waits_also_after_the_server_was_away() {
    let mut redis = RedisServer::start();
    let mut source = source(&redis);
    let published = source.published();
    for version in ["1", "2"] {
        put(&redis, version, version);
        while source.read().await.is_err() {
            // The connection to the server that was killed is found to be dead by the first read after.
            tokio::task::yield_now().await;
        }
        assert!(timeout(Duration::ZERO, published.notified()).await.is_err(), "nothing was published yet");
        redis.command(&["PUBLISH", KEY, ""]);
        timeout(PATIENCE, published.notified()).await.unwrap();
        redis.restart();
    }
}
