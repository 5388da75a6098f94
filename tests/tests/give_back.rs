//! Giving back on Redis against the arithmetic: after any history, the same part of the same charge comes back.
#![allow(clippy::print_stderr)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::Duration;

use fastrand::Rng;
use sluicegate::{
    Merged, Store,
    core::{
        Align, Ask, Micros, Rule, State,
        algorithm::{GiveBack, fixed_window, sliding_log},
    },
};
use sluicegate_redis::{Record, record_key, script};
use sluicegate_tests::{
    RedisServer,
    fixtures::{HOUR, Limit, subject},
    model::Model,
    sequence::{Jumps, Step, World},
};

const WORLDS: u64 = 60;
const STEPS: usize = 50;
const NOON: Micros = Micros::from_secs(1_790_000_000);

/// A charge that may come back: which limit and subject of the world, and what was charged when.
struct Charge {
    limit: usize,
    subject: usize,
    back: GiveBack,
}

/// What a step that was admitted charged, by the model's own state.
fn charges(world: &World, asks: &[Ask<'_>], model: &Model) -> Vec<Charge> {
    let merged = Merged::of(asks);
    let charged = merged.asks().iter().filter(|ask| ask.cost > 0);
    charged
        .map(|ask| Charge {
            limit: world.limits().position(|(id, _)| id == ask.id).unwrap(),
            subject: world.subjects().iter().position(|subject| *subject == ask.subject).unwrap(),
            back: GiveBack { charged_at: model.charged_at(ask, world.now()), held: ask.cost, actual: 0 },
        })
        .collect()
}

#[tokio::test]
async fn redis_gives_back_what_the_arithmetic_says_and_keeps_the_time_to_live() {
    let server = RedisServer::start();
    let (store, mut admin) = (server.store(), server.admin());
    for seed in 0..WORLDS {
        redis::cmd("FLUSHALL").exec(&mut admin).unwrap();
        let mut rng = Rng::with_seed(seed);
        let clock = if seed.is_multiple_of(2) { Jumps::Forward } else { Jumps::BackAndForth };
        let mut world = World::new(seed, "back", clock);
        let (mut model, mut open) = (Model::default(), Vec::new());
        for number in 0..STEPS {
            let step = world.step();
            if let Step::Take(plans) = &step {
                let asks = world.asks(plans);
                let expected = model.take(&asks, world.now());
                let decided = store.take(&asks, world.now()).await.unwrap();
                assert_eq!(decided, expected, "seed {seed}, step {number}: {step:?}");
                if expected.allowed {
                    open.extend(charges(&world, &asks, &model));
                }
            }
            if open.is_empty() || rng.bool() {
                continue;
            }
            let mut charge = open.swap_remove(rng.usize(..open.len()));
            charge.back.actual = if rng.bool() { 0 } else { rng.u64(..=charge.back.held) };
            let (id, rule) = world.limits().nth(charge.limit).unwrap();
            let subject = world.subjects()[charge.subject].clone();
            let ask = Ask::new(rule, id, subject, 0);
            let mut life = || -> i64 {
                let pttl = redis::cmd("PTTL").arg(record_key(&ask.subject)).query(&mut admin);
                pttl.unwrap()
            };
            let before = life();
            model.give_back(&ask, charge.back);
            store.give_back(&ask, charge.back).await.unwrap();
            let after = life();
            assert!(after != -1 && after <= before, "seed {seed}: {before} ms, then {after} ms");
            let stored = store.state(rule, id, &ask.subject).await.unwrap();
            let kept = model.kept(id, &ask.subject);
            let gone = stored.is_none() && kept.is_none_or(|kept| kept.resets_at_us <= world.now().as_u64());
            assert!(
                gone || stored.as_ref() == kept.map(|kept| &kept.state),
                "seed {seed}, step {number}: {:?} of {rule:?}: {stored:?} is not {kept:?}",
                charge.back
            );
        }
    }
}

/// A log keeps the time of its newest entry when that is given back whole. The next count once stood beside it, so that
/// an entry of cost 0 stayed in the middle for ever.
#[tokio::test]
async fn the_next_count_takes_the_place_of_a_newest_entry_that_was_given_back() {
    let server = RedisServer::start();
    let store = server.store();
    let log = Limit::new("log", Rule::sliding_log(5, HOUR).unwrap());
    let later = |ms| NOON.plus(Duration::from_millis(ms));
    for at in [0, 1_000] {
        assert!(store.take(&[log.ask("alice", 2)], later(at)).await.unwrap().allowed);
    }
    let charged_at = later(1_000).as_u64() / 1_000;
    let back = GiveBack { charged_at, held: 2, actual: 0 };
    store.give_back(&log.ask("alice", 0), back).await.unwrap();
    assert!(store.take(&[log.ask("alice", 3)], later(2_000)).await.unwrap().allowed);
    let entries =
        [(0, 2), (2_000, 3)].map(|(at, cost)| sliding_log::Entry { time: later(at).as_u64() / 1_000, cost });
    let state = sliding_log::State { sum: 5, entries: entries.to_vec() };
    assert_eq!(store.state(&log.rule, log.id, &subject("alice")).await.unwrap(), Some(State::from(state)));
}

#[test]
fn a_record_that_is_none_gives_nothing_back_and_nothing_is_written() {
    let server = RedisServer::start();
    let mut admin = server.admin();
    let keys = ["sound", "odd"].map(|user| record_key(&subject(user)));
    let window = Limit::new("w", Rule::fixed_window(5, HOUR, Align::Epoch).unwrap());
    let tag = [&[1][..], &window.id.as_u32().to_le_bytes()].concat();
    let entry = [&tag[..], &[9, 0, 0, 0, 0], &0_f64.to_le_bytes(), &4_f64.to_le_bytes()].concat();
    let numbers = [0_f64, 9.0, 1.0, 0.0].map(f64::to_le_bytes).concat();
    let part = [&tag[..], &numbers].concat();
    for (key, record) in keys.iter().zip([entry.as_slice(), &[9; 26]]) {
        redis::cmd("SET").arg(key).arg(record).arg("EX").arg(60).exec(&mut admin).unwrap();
    }
    let script = redis::Script::new(script::GIVE_BACK);
    let mut call = script.key(&keys[0]);
    call.key(&keys[1]).arg(&part).arg(&part);
    let refused = call.invoke::<redis::Value>(&mut admin).unwrap_err();
    assert_eq!(refused.code(), Some("MALFORMED"));
    let kept: Vec<u8> = redis::cmd("GET").arg(&keys[0]).query(&mut admin).unwrap();
    assert_eq!(kept, entry);
    redis::cmd("DEL").arg(&keys[1]).exec(&mut admin).unwrap();
    let given: Vec<Vec<u8>> = call.invoke(&mut admin).unwrap();
    let state = Record::new(&given[0]).state(window.id, &window.rule).unwrap().unwrap();
    assert_eq!(state, fixed_window::State { start: 0, used: 3 }.into());
    assert!(given[1].is_empty());
}
