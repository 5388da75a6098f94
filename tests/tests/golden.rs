//! Records and keys as releases write them: during a rolling upgrade, and after a rollback, one release goes on with what
//! another has counted. A change of these bytes needs a new prefix of keys, not new bytes in this file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::Duration;

use sluicegate::{
    Store,
    core::{Align, Ask, Micros, Rule, Subject},
};
use sluicegate_redis::record_key;
use sluicegate_tests::{
    RedisServer,
    fixtures::{HOUR, Limit},
};

/// When the records were written. 2026-09-21 14:13:20 UTC and some.
const WRITTEN: Micros = Micros::new(1_790_000_000_123_456);
const DAY: Duration = Duration::from_secs(86_400);

/// The limits whose states stand in the record, in this order, each with what it was charged.
fn limits() -> Vec<(Limit, u64)> {
    let minute = Duration::from_secs(60);
    let second = Duration::from_secs(1);
    vec![
        (Limit::new("window", Rule::fixed_window(100, minute, Align::Epoch).unwrap()), 7),
        (Limit::new("hashed", Rule::fixed_window(100, HOUR, Align::Hashed).unwrap()), 3),
        (Limit::new("first", Rule::fixed_window(100, DAY, Align::FirstRequest).unwrap()), 1),
        (Limit::new("log", Rule::sliding_log(10, minute).unwrap()), 4),
        (Limit::new("counter", Rule::sliding_counter(50, HOUR).unwrap()), 9),
        (Limit::new("bucket", Rule::token_bucket(10, second, 50).unwrap()), 30),
        (Limit::new("gcra", Rule::gcra(7, DAY, 3).unwrap()), 2),
        (Limit::new("queue", Rule::leaky_bucket(60, minute, minute).unwrap()), 5),
    ]
}

fn subject() -> Subject {
    Subject::new("api", &[("org", Some("acme"))], &[("user", Some("al:ice")), ("x", None)])
}

fn asks(limits: &[(Limit, u64)], cost: impl Fn(u64) -> u64) -> Vec<Ask<'_>> {
    let mut asks = Vec::new();
    for (limit, charged) in limits {
        asks.push(Ask::new(&limit.rule, limit.id, subject(), cost(*charged)));
    }
    asks
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// The key of 0.1.
const KEY: &str = "sg1:{api:org=acme}:s:user=al%3Aice:x";
/// The record of 0.1, one line for each limit.
const RECORD: &str = "
    0193ea6e8da93bb16a000000de01450c7a420000000000001c40
    01aabd417f0b3db16a00001026f8410c7a420000000000000840
    016a5ad3a6018db26a00000000e04eacda41000000000000f03f
    022018d4a1bd3bb16a000000000000001040000000000000f03f00b0c706450c7a420400
    0347208e9f8154b16a0000007043440c7a4200000000000022400000000000000000
    04859dce2e843bb16a0000099f68fb6f194300000000389c7c41
    04b8ed6ca4ee9bb16a00000000e04eacda410000000000180541
    045696590e863bb16a0000b0c706450c7a4200000000804f1241
";

/// What each limit has left of its amount, as 0.1 says half a second later.
const REMAINING: [u64; 8] = [93, 97, 99, 6, 41, 25, 1, 60];

fn stored(server: &RedisServer) -> Vec<u8> {
    redis::cmd("GET").arg(KEY).query(&mut server.admin()).unwrap()
}

#[tokio::test]
async fn a_record_is_written_as_the_first_release_wrote_it() {
    let server = RedisServer::start();
    let limits = limits();
    assert!(server.store().take(&asks(&limits, |charged| charged), WRITTEN).await.unwrap().allowed);
    assert_eq!(record_key(&subject()), KEY);
    assert_eq!(hex(&stored(&server)), hex(&bytes(RECORD)));
}

#[tokio::test]
async fn a_record_of_the_first_release_is_read_decided_on_and_kept() {
    let server = RedisServer::start();
    let (store, limits) = (server.store(), limits());
    redis::cmd("SET").arg(KEY).arg(bytes(RECORD)).arg("EX").arg(600).exec(&mut server.admin()).unwrap();
    let later = WRITTEN.plus(Duration::from_millis(500));
    let peeked = store.peek(&asks(&limits, |_| 1), later).await.unwrap();
    let left: Vec<u64> = peeked.asks.iter().map(|ask| ask.remaining.unwrap()).collect();
    assert_eq!(left, REMAINING);
    // A release that knows one of the limits alone leaves the others as they were.
    let one = asks(&limits[..1], |_| 93);
    assert!(store.take(&one, later).await.unwrap().allowed);
    assert!(!store.take(&asks(&limits[..1], |_| 1), later).await.unwrap().allowed);
    let record = bytes(RECORD);
    let (own, others) = record.split_at(26);
    let kept = stored(&server);
    assert_eq!((hex(&kept[26..]), &kept[..10]), (hex(others), &own[..10]));
}
