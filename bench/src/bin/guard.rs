//! What a guarded store costs while all is well, and what a decision costs while its store is dead.

use std::{sync::Arc, time::Duration};

use sluicegate::{
    Once, Settled, Store, StoreError, SureStore, Verb,
    core::{Align, Ask, Charge, Decision, LimitId, Micros, RequestId, Rule, Subject},
    embedded::EmbeddedStore,
    guard::{GuardConfig, Guarded, Probe},
    testing::Ill,
};
use sluicegate_bench::{median, thread_nanos};
use tokio::{runtime::Builder, task::yield_now};

const ROUNDS: usize = 9;
const CALLS: usize = 200_000;
const KEYS: usize = 1_000;
const NOW: Micros = Micros::from_secs(1_790_000_000);

/// An embedded store that answers only when it is asked a second time, as one over a network does: the deadline has to
/// be watched over.
struct Later(EmbeddedStore);

impl Store for Later {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        Ok(self.decide(Verb::Take, asks, now).await)
    }

    async fn take_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Result<Once, StoreError> {
        Ok(self.decide_once(id, asks, now).await)
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        Ok(self.decide(Verb::Peek, asks, now).await)
    }

    async fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> Result<Settled, StoreError> {
        self.0.settle(id, charges, now).await
    }

    async fn forget(&self, id: LimitId, subject: &Subject) -> Result<bool, StoreError> {
        self.0.forget(id, subject).await
    }
}

impl SureStore for Later {
    async fn decide(&self, verb: Verb, asks: &[Ask<'_>], now: Micros) -> Decision {
        yield_now().await;
        self.0.decide(verb, asks, now).await
    }

    async fn decide_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Once {
        yield_now().await;
        self.0.decide_once(id, asks, now).await
    }
}

impl Probe for Later {
    async fn probe(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Nanoseconds per decision of one round.
async fn round(store: &impl SureStore, asks: &[Ask<'_>]) -> f64 {
    let begin = thread_nanos();
    for call in 0..CALLS {
        let ask = std::slice::from_ref(&asks[call % KEYS]);
        std::hint::black_box(store.decide(Verb::Take, ask, NOW).await);
    }
    (thread_nanos() - begin) as f64 / CALLS as f64
}

/// Medians of alternating rounds.
async fn both(one: &impl SureStore, other: &impl SureStore, asks: &[Ask<'_>]) -> (f64, f64) {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for _ in 0..=ROUNDS {
        ones.push(round(one, asks).await);
        others.push(round(other, asks).await);
    }
    // The first rounds fill the tables.
    (median(ones.split_off(1)), median(others.split_off(1)))
}

fn guarded<S: Store + Probe + 'static>(store: S) -> Guarded<S> {
    Guarded::new(store, Arc::default(), GuardConfig::default())
}

async fn measure() {
    let rule = Rule::fixed_window(1 << 30, Duration::from_secs(1), Align::Epoch).unwrap();
    let subject = |key: usize| Subject::new("api", &[], &[("user", Some(format!("user-{key}").as_str()))]);
    let ask = |key| Ask::new(&rule, LimitId::of("guarded", &rule), subject(key), 1);
    let asks: Vec<Ask<'_>> = (0..KEYS).map(ask).collect();

    println!("| decision in this process | bare | guarded | difference | ratio |");
    println!("|---|---|---|---|---|");
    let tell = |name: &str, (bare, guarded): (f64, f64)| {
        let (more, ratio) = (guarded - bare, guarded / bare);
        println!("| {name} | {bare:.0} ns | {guarded:.0} ns | {more:.0} ns | {ratio:.2}x |");
    };
    let at_once = both(&EmbeddedStore::default(), &guarded(EmbeddedStore::default()), &asks).await;
    tell("a store that answers at once", at_once);
    let later =
        both(&Later(EmbeddedStore::default()), &guarded(Later(EmbeddedStore::default())), &asks).await;
    tell("a store that answers later: with a timer", later);
    let dead = guarded(Ill::Gone);
    while dead.breaker().open_to_permille() > 0 {
        dead.decide(Verb::Take, &asks[..1], NOW).await;
    }
    tell("breaker open : embedded", both(&EmbeddedStore::default(), &dead, &asks).await);
}

fn main() {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(measure());
}
