//! The store: atomicity, expiry, memory, rights, speed and clock, and what holds without it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sluicegate::{
    Clock, Store, StoreError, SureStore, SystemClock, Verb,
    core::{Align, Ask, DecidedBy, LimitId, Micros, Rule, Subject},
    guard::{GuardConfig, Guarded},
    testing::Ill,
};
use sluicegate_redis::{Finding, RedisStore, script};

use super::{
    super::{Failure, race, sources, sources::StoreArgs},
    Item,
};
use crate::{
    causes::with_causes,
    store::{AnyClock, AnyStore},
};

/// The keys that are looked at for their expiry.
const SURVEYED: usize = 10_000;
/// Decisions that are timed.
const TIMED: usize = 200;
/// One decision in a hundred may take longer.
const SLOW: Duration = Duration::from_millis(50);
/// Clocks may be so far apart.
const APART: Duration = Duration::from_secs(2);

/// What the store shows. One that does not answer fails an item, and the rest goes on.
pub(super) async fn items(args: &StoreArgs) -> Result<Vec<Item>, Failure> {
    let (store, clock) = sources::open(&args.url()?).await?;
    let mut items = vec![central(&store), atomic(args).await];
    if let AnyStore::Redis(redis) = &store {
        items.push(scripts());
        items.push(expiry(redis).await);
        items.extend(memory_and_rights(redis, &clock).await);
        items.push(persistence(redis).await);
    }
    items.push(speed(&store, &clock).await);
    items.push(clocks(&clock));
    items.push(fallback().await);
    Ok(items)
}

fn central(store: &AnyStore) -> Item {
    let what = "all instances count in one place";
    match store {
        AnyStore::Redis(_) => Item::pass("central", what, "counts are kept on redis"),
        AnyStore::Memory(_) => Item::to_do(
            "central",
            what,
            "counts are kept in this process",
            "with more than one instance, give `--store redis://…`: n instances grant n times the limit",
        ),
    }
}

async fn atomic(args: &StoreArgs) -> Item {
    let what = "the check and the count are one step";
    match race::incident(args).await {
        Ok((seen, true)) => Item::pass("atomic", what, seen),
        Ok((seen, false)) => {
            Item::fail("atomic", what, seen, "look whether something else writes these keys")
        }
        Err(error) => unanswered("atomic", what, &error.message),
    }
}

/// What could not be found out, since the store did not answer.
fn unanswered(id: &'static str, what: &'static str, error: &str) -> Item {
    Item::fail(id, what, error, "see whether the store can be reached with this URL, user and password")
}

/// What the server's user may not ask.
fn forbidden(id: &'static str, what: &'static str, error: &StoreError) -> Item {
    Item::to_do(id, what, with_causes(error), "ask with a user that may, such as an operator's")
}

fn scripts() -> Item {
    let what = "no script asks for the time or looks for keys";
    let all = [
        script::TAKE,
        script::MANY,
        script::ONCE,
        script::REBASE,
        script::GIVE_BACK,
        script::FORGET,
        script::LOOK,
        script::FLEET,
    ];
    let asks = |word: &str| all.iter().any(|source| source.contains(&format!("redis.call('{word}'")));
    match ["TIME", "KEYS", "SCAN"].into_iter().find(|word| asks(word)) {
        None => {
            Item::pass("scripts", what, format!("{} scripts call neither TIME, KEYS nor SCAN", all.len()))
        }
        Some(word) => Item::fail("scripts", what, format!("a script calls {word}"), "report this as a fault"),
    }
}

async fn expiry(redis: &RedisStore) -> Item {
    let what = "every key has an expiry";
    match redis.survey(SURVEYED).await {
        Ok(survey) => match survey.without_expiry.first() {
            None => Item::pass("expiry", what, format!("{} keys, all with one", survey.keys)),
            Some(key) => Item::fail(
                "expiry",
                what,
                format!("{} of {} keys have none, such as `{key}`", survey.without_expiry.len(), survey.keys),
                "they are not written by sluicegate, which sets it with each write: delete them",
            ),
        },
        Err(error) => forbidden("expiry", what, &error),
    }
}

async fn memory_and_rights(redis: &RedisStore, clock: &AnyClock) -> Vec<Item> {
    const MEMORY: (&str, &str) = ("eviction", "redis frees no counts when memory is short");
    const RIGHTS: (&str, &str) = ("rights", "the user may do what decisions need");
    let findings = match redis.inspect(clock.now()).await {
        Ok(findings) => findings,
        Err(error) => return vec![unanswered(RIGHTS.0, RIGHTS.1, &with_causes(&error))],
    };
    let item = |(id, what): (&'static str, &'static str), good: &str, finding: Option<&Finding>| match finding
    {
        None => Item::pass(id, what, good),
        Some(finding @ Finding::EvictionUnknown) => Item::to_do(id, what, finding, finding.hint()),
        Some(finding) => Item::fail(id, what, finding, finding.hint()),
    };
    let right = |finding: &&Finding| matches!(finding, Finding::LacksRight(_));
    vec![
        item(MEMORY, "`maxmemory-policy` is `noeviction`", findings.iter().find(|finding| !right(finding))),
        item(RIGHTS, "every kind of call was made once", findings.iter().find(right)),
    ]
}

async fn persistence(redis: &RedisStore) -> Item {
    let what = "counts outlive a restart of redis";
    match redis.persistence("aof_enabled").await {
        Ok(Some(on)) if on == "1" => Item::pass("persistence", what, "`appendonly` is on"),
        Ok(_) => Item::to_do(
            "persistence",
            what,
            "`appendonly` is off: a restart forgets what was counted since the last snapshot",
            "set `appendonly yes` if a limit must outlive it; windows of a minute hardly need that",
        ),
        Err(error) => forbidden("persistence", what, &error),
    }
}

async fn speed(store: &AnyStore, clock: &AnyClock) -> Item {
    let what = "99 of 100 decisions take less than 50 ms";
    let Some((rule, id, subject)) = scratch() else {
        return Item::fail("latency", what, "no rule", "report this");
    };
    let mut times = Vec::with_capacity(TIMED);
    for _ in 0..TIMED {
        let began = Instant::now();
        if let Err(error) = store.peek(&[Ask::new(&rule, id, subject.clone(), 1)], clock.now()).await {
            return unanswered("latency", what, &with_causes(&error));
        }
        times.push(began.elapsed());
    }
    times.sort_unstable();
    let at = |part: usize| times.get(TIMED * part / 100).copied().unwrap_or_default();
    let seen = format!("p50 {:?}, p99 {:?} of {TIMED}, one after the other", at(50), at(99));
    if at(99) < SLOW {
        Item::pass("latency", what, seen)
    } else {
        Item::fail("latency", what, seen, "see what else redis does: `SLOWLOG GET`, `LATENCY DOCTOR`")
    }
}

/// A limit of a subject that no policy can name.
fn scratch() -> Option<(Rule, LimitId, Subject)> {
    let rule = Rule::fixed_window(10, Duration::from_secs(60), Align::Epoch).ok()?;
    let id = LimitId::of("doctor", &rule);
    Some((rule, id, Subject::new("", &[("doctor", None)], &[("doctor", None)])))
}

fn clocks(clock: &AnyClock) -> Item {
    let what = "this machine's clock and the store's agree";
    let [told, own] = [clock.now(), SystemClock::new().now()];
    let apart = told.since(own).max(own.since(told));
    let seen = format!("{apart:?} apart");
    if apart <= APART {
        Item::pass("clock", what, seen)
    } else {
        Item::to_do("clock", what, seen, "decisions go by the store's; set the one that is wrong")
    }
}

/// What becomes of decisions when the store falls silent, played through here: a limit of 10 is asked 20 times.
async fn fallback() -> Item {
    let what = "a store that does not answer holds nobody up and opens nothing";
    let Some((rule, id, subject)) = scratch() else {
        return Item::fail("fallback", what, "no rule", "report this");
    };
    let guarded = Guarded::new(Ill::Silent, Arc::default(), GuardConfig::default());
    let (mut passed, mut longest) = (0, Duration::ZERO);
    for _ in 0..20 {
        let began = Instant::now();
        let ask = Ask::new(&rule, id, subject.clone(), 1);
        let decision = guarded.decide(Verb::Take, &[ask], Micros::from_secs(1_000_000_000)).await;
        longest = longest.max(began.elapsed());
        passed += u32::from(decision.allowed && decision.decided_by() == DecidedBy::Fallback);
    }
    let seen =
        format!("played through: {passed} of 20 passed a limit of 10, the longest wait was {longest:?}");
    if passed == 10 {
        Item::pass("fallback", what, seen)
    } else {
        Item::fail("fallback", what, seen, "report this as a fault")
    }
}
