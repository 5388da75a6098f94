//! The scripts that count guesses against the arithmetic: the same events at the same times, the same answers and the same
//! stored states, and every key with an expiry.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use fastrand::Rng;
use sluicegate::{
    core::{
        Micros,
        login::{
            Account, AccountRules, Address, AddressRules, Attempt, HeldName, Network, Origin, Outcome,
            Report, Weight,
        },
    },
    login::{AccountKey, LoginStore, PlaceKey},
};
use sluicegate_redis::{RedisConfig, RedisLogin};
use sluicegate_tests::RedisServer;

const WORLDS: u64 = 60;
const STEPS: usize = 120;
const START_MS: u64 = 1_790_000_000_000;

fn store(server: &RedisServer) -> RedisLogin {
    // A server that has known guesses for long.
    server.command(&["SET", "sg1:{!login}:login", "1", "EX", "100000"]);
    let patience = std::time::Duration::from_secs(20);
    let config = RedisConfig::from_url(&server.url()).unwrap().response_timeout(patience);
    RedisLogin::open(&config.connect_timeout(patience)).unwrap()
}

fn at(ms: u64) -> Micros {
    Micros::new(ms * 1_000)
}

fn rules(random: &mut Rng) -> AccountRules {
    let rules = match random.u8(0..4) {
        0 => AccountRules::basic(),
        1 => AccountRules::codes(),
        2 => AccountRules::issue(),
        _ => AccountRules::strong(),
    };
    // Few failures in a row and few tries, so that short histories meet them.
    AccountRules { step_up_after: rules.step_up_after.map(|_| random.u32(3..30)), ..rules }
}

/// Mostly on, sometimes for long, sometimes back, by little and by much.
fn turned(now: u64, random: &mut Rng) -> u64 {
    match random.u8(0..20) {
        0 => now + random.u64(0..4 * 86_400_000),
        1 => now - random.u64(0..4_000),
        2 => now - random.u64(0..10 * 86_400_000),
        3..6 => now + random.u64(0..3_600_000),
        6..10 => now,
        _ => now + random.u64(0..20_000),
    }
}

fn attempt(random: &mut Rng, id: u64) -> Attempt {
    let mut maybe = |most: u64| random.bool().then(|| random.u64(1..=most));
    Attempt {
        id,
        device: maybe(20),
        code: maybe(12),
        proof: maybe(400),
        address_full_until: maybe(8).filter(|full| *full == 1).map(|_| START_MS),
        client: random.u64(1..40),
        stepped_up: random.bool(),
        always_challenged: random.u8(0..6) == 0,
    }
}

fn outcome(random: &mut Rng) -> Outcome {
    match random.u8(0..6) {
        0 => Outcome::Success,
        1 => Outcome::Aborted,
        _ => Outcome::Failure { tag: random.bool().then(|| random.u16(0..30)) },
    }
}

/// Every key has an expiry, which leaves the state at least as long as it counts.
fn lives(server: &RedisServer, least_ms: u64) {
    let redis::Value::Array(keys) = server.command(&["KEYS", "*"]) else { panic!("no keys") };
    for key in keys {
        let redis::Value::BulkString(key) = key else { panic!("no key") };
        let key = String::from_utf8(key).unwrap();
        let redis::Value::Int(left) = server.command(&["PTTL", &key]) else { panic!("no time") };
        assert!(left > 0, "{key} has no expiry");
        assert!(
            key == "sg1:{!login}:login" || u64::try_from(left).unwrap() + 5_000 >= least_ms,
            "{key}: {left}"
        );
    }
}

#[tokio::test]
async fn the_scripts_of_an_account_answer_and_store_as_the_arithmetic_does() {
    let server = RedisServer::start();
    let redis = store(&server);
    let (mut allowed, mut done) = (0, 0);
    for seed in 0..WORLDS {
        let mut random = Rng::with_seed(seed);
        let (rules, key) = (rules(&mut random), AccountKey(u128::from(seed).to_be_bytes()));
        let (mut account, mut now, mut ids) = (Account::default(), START_MS, 0);
        for step in 0..STEPS {
            let seen = format!("seed {seed}, step {step}");
            now = turned(now, &mut random);
            let before = account.clone();
            if random.bool() {
                ids += 1;
                let attempt = attempt(&mut random, ids);
                let ours = rules.begin(&mut account, now, &attempt);
                assert_eq!(redis.begin(&key, &rules, at(now), &attempt).await.unwrap(), ours, "{seen}");
                allowed += u32::from(account.open.last() != before.open.last());
                // A refusal writes nothing, not even what it dropped on its way.
                if !matches!(ours, sluicegate::core::login::Verdict::Allow { .. }) {
                    account = before;
                }
            } else {
                let id = ids.saturating_sub(random.u64(0..4));
                let report = Report { id, outcome: outcome(&mut random) };
                let ours = rules.report(&mut account, now, &report);
                assert_eq!(redis.report(&key, &rules, at(now), &report).await.unwrap(), ours, "{seen}");
                if let sluicegate::core::login::Reported::Done { .. } = ours {
                    done += 1;
                } else {
                    account = before;
                }
            }
            let stored = redis.read(&key).await.unwrap().unwrap_or_default();
            assert_eq!(stored, account, "{seen}");
        }
        if account != Account::default() {
            lives(&server, rules.reset_at(&account).saturating_sub(now.max(account.time)));
        }
        redis.unlock(&key).await.unwrap();
    }
    assert!(allowed > 1_000 && done > 500, "{allowed} guesses were counted and {done} settled");
}

#[tokio::test]
async fn the_script_of_an_address_answers_and_stores_as_the_arithmetic_does() {
    let server = RedisServer::start();
    let redis = store(&server);
    let mut held = 0;
    for seed in 0..WORLDS {
        let mut random = Rng::with_seed(seed);
        let rules = if seed % 3 == 0 { AddressRules::basic() } else { AddressRules::strong() };
        let place = PlaceKey { network: u128::from(seed).to_be_bytes(), address: [7; 16] };
        let (mut address, mut network) = (Address::default(), Network::default());
        let (mut now, mut last) = (START_MS, HeldName { charged_at: START_MS, name: 1 });
        for step in 0..STEPS {
            let seen = format!("seed {seed}, step {step}");
            now = turned(now, &mut random);
            if random.u8(0..3) < 2 {
                let name = random.u32(0..40);
                let (mut tried, mut tried_too) = (address.clone(), network);
                let ours = rules.hold(&mut tried, &mut tried_too, now, name);
                assert_eq!(redis.hold(&place, &rules, at(now), name).await.unwrap(), ours, "{seen}");
                if let Origin::Held { at, .. } = ours {
                    (address, network, held) = (tried, tried_too, held + 1);
                    last = HeldName { charged_at: at, name };
                }
            } else {
                let weight = if random.bool() { Weight::Nothing } else { Weight::More(random.u8(0..5)) };
                rules.settle(&mut address, &mut network, now, last, weight);
                redis.settle(&place, &rules, at(now), (last, weight)).await.unwrap();
            }
        }
        lives(&server, 0);
    }
    assert!(held > 1_000, "{held}");
}
