//! What `docs/operating` says about Redis and what the tests run as are the same.
#![allow(clippy::print_stderr)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::{fs, path::Path, time::Duration};

use sluicegate::{
    Store,
    core::{Align, Micros, Rule},
};
use sluicegate_redis::record_key;
use sluicegate_tests::{
    RedisServer,
    fixtures::{Limit, subject},
    rights,
};

fn page() -> String {
    page_of("redis.md")
}

fn page_of(name: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/operating").join(name);
    fs::read_to_string(page).unwrap().replace("\\|", "|")
}

#[test]
fn the_rights_on_the_page_are_those_that_the_tests_connect_with() {
    let page = page();
    for rights in [rights::STORE, rights::DATABASE, rights::MASTER, rights::NODE, rights::SENTINEL] {
        assert!(page.contains(rights), "the page lacks `{rights}`");
    }
    assert!(page_of("policies.md").contains(rights::SOURCE));
}

/// The numbers for sizing, held against what a server says it uses.
#[tokio::test]
async fn a_key_takes_the_memory_that_the_page_says() {
    let server = RedisServer::start();
    let store = server.store();
    let minute = Duration::from_secs(60);
    let limits: Vec<Limit> = (0..10)
        .map(|number| {
            Limit::new(&format!("l{number}"), Rule::fixed_window(10, minute, Align::Epoch).unwrap())
        })
        .collect();
    for (number, user) in [(1, "user-000001"), (3, "user-000003"), (10, "user-000010")] {
        let asks: Vec<_> = limits[..number].iter().map(|limit| limit.ask(user, 1)).collect();
        assert!(store.take(&asks, Micros::from_secs(1_790_000_000)).await.unwrap().allowed);
        let key = record_key(&subject(user));
        let used: usize = redis::cmd("MEMORY").arg("USAGE").arg(key).query(&mut server.admin()).unwrap();
        // Beside what it counts to the key, the server keeps the time to live in a table of its own.
        let (used, said) = (used + EXPIRY, 200 + 30 * (number - 1));
        eprintln!("{number} limits: {used} bytes, the page says {said}");
        assert!(used <= said && used * 3 >= said * 2, "{number} limits: {used} bytes, the page says {said}");
    }
    assert!(page().contains("keys in use at a time × (200 + 30 × (limits per key − 1)) bytes"));
}

/// An entry of a hash table and its share of the table's slots.
const EXPIRY: usize = 40;
