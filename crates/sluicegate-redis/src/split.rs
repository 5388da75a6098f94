//! Requests whose subjects are in several slots of a cluster: no script can decide on all of them in one step.
//!
//! The asks of each slot are taken in one step, slot after slot in rising order. If a later slot denies, what the earlier
//! ones counted is given back. So nothing is ever admitted beyond a limit, and for a moment others may be denied for the
//! sake of a request that is denied in the end. The order is the same for all: of two requests that want the last of
//! two limits, one gets both. Only a slot with a queue comes last, since a queue gives nothing back.
//!
//! What was counted for a request that then fails half way is given back too, also if its caller goes away, and as soon
//! as its node has a master again. If it is not known whether it was given back, it is not given back again: the cost of
//! that one request stays until it has drained.

use std::{sync::Arc, time::Duration};

use redis::{Cmd, Value};
use sluicegate::{
    Counted, StoreError,
    core::{Ask, AskDecision, Decision, Micros, Rule, algorithm::bucket::Shape, rule::AnyMachine},
};

use tokio::sync::Semaphore;

use crate::{
    connection::Call,
    key::record_key,
    store::{RedisStore, Scripts, Taken, groups},
    topology::{Slot, Topology},
};

/// Requests whose costs are being given back after their callers have gone. Those beyond drain by themselves.
const MAX_LATER: usize = 1_000;
static LATER: Semaphore = Semaphore::const_new(MAX_LATER);
/// How often, and how long after one another, a node is asked to take a cost back: for as long as failovers take.
const TRIES: usize = 40;
const BETWEEN_TRIES: Duration = Duration::from_millis(250);

/// The asks of one slot, with their places in the request.
struct Part<'a> {
    slot: Slot,
    places: Vec<usize>,
    asks: Vec<Ask<'a>>,
}

/// The answers of a request, put together from those of its parts.
struct Answers(Vec<AskDecision>);

impl Answers {
    fn of(asks: usize) -> Self {
        Self(vec![AskDecision::UNLIMITED; asks])
    }

    fn put(&mut self, part: &Part<'_>, answers: &[AskDecision]) {
        for (place, answer) in part.places.iter().zip(answers) {
            if let Some(own) = self.0.get_mut(*place) {
                *own = *answer;
            }
        }
    }
}

impl RedisStore {
    /// Takes asks of several slots.
    ///
    /// # Errors
    /// [`StoreError`] if a part cannot be decided. It says that nothing was counted if that is true of this part, and
    /// all others were given back.
    pub(crate) async fn take_in_turn(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        let parts = self.parts(asks);
        let mut charged = Charged::none(self);
        let (mut answers, mut taken) = (Answers::of(asks.len()), Vec::with_capacity(parts.len()));
        let mut denied = false;
        for part in &parts {
            let decided =
                if denied { self.look(&part.asks, now).await } else { self.take_part(part, now).await };
            let decided = decided.and_then(|decided| charged.note(part, decided));
            let (decided, decision) = match decided {
                Ok(decided) => decided,
                Err(error) => return Err(charged.fail(error).await),
            };
            answers.put(part, &decision.asks);
            denied = denied || !decision.allowed;
            taken.push((part, decided));
        }
        if !denied {
            charged.stand();
            return Ok(Decision { allowed: true, asks: answers.0 });
        }
        for ((part, taken), reply) in taken.into_iter().zip(charged.give_back().await) {
            // Without a reply the cost stands until it has drained, and the answer of before is true.
            let undone =
                reply.and_then(|reply| taken.undone(reply)).and_then(|undone| undone.decision(&part.asks));
            if let Ok(undone) = undone {
                answers.put(part, &undone.asks);
            }
        }
        Ok(Decision { allowed: false, asks: answers.0 })
    }

    /// Looks at asks of several slots. Each slot is looked at in one step, and not all of them.
    pub(crate) async fn look_in_turn(
        &self,
        asks: &[Ask<'_>],
        now: Micros,
    ) -> Result<Vec<AskDecision>, StoreError> {
        let mut answers = Answers::of(asks.len());
        for part in self.parts(asks) {
            let looked = self.look(&part.asks, now).await?;
            answers.put(&part, &looked.decision(&part.asks)?.asks);
        }
        Ok(answers.0)
    }

    async fn take_part(&self, part: &Part<'_>, now: Micros) -> Result<Taken, StoreError> {
        self.take_together(groups(&part.asks)?, &part.asks, now).await
    }

    /// The asks by slot, in the order in which they are taken.
    fn parts<'a>(&self, asks: &[Ask<'a>]) -> Vec<Part<'a>> {
        let mut parts: Vec<Part<'a>> = Vec::new();
        for (place, ask) in asks.iter().enumerate() {
            let slot = self.servers.slot(&record_key(&ask.subject));
            let at = parts.iter().position(|part| part.slot == slot).unwrap_or(parts.len());
            if at == parts.len() {
                parts.push(Part { slot, places: Vec::new(), asks: Vec::new() });
            }
            if let Some(part) = parts.get_mut(at) {
                part.places.push(place);
                part.asks.push(ask.clone());
            }
        }
        parts.sort_by_key(|part| (part.asks.iter().any(|ask| ask.cost > 0 && is_queue(ask.rule)), part.slot));
        parts
    }
}

fn is_queue(rule: &Rule) -> bool {
    matches!(rule.machine(), AnyMachine::Bucket(bucket) if matches!(bucket.shape(), Shape::Queue { .. }))
}

/// What was counted for a request that is not decided yet. It is given back unless the request passes.
struct Charged {
    servers: Arc<Topology>,
    scripts: Arc<Scripts>,
    undo: Vec<(Slot, Cmd)>,
    /// What a node did not take back: it has no master for the moment, or is full.
    refused: Vec<(Slot, Cmd)>,
}

impl Charged {
    fn none(store: &RedisStore) -> Self {
        Self {
            servers: store.servers.clone(),
            scripts: store.scripts.clone(),
            undo: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Notes what a part counted, and works out its answers.
    fn note(&mut self, part: &Part<'_>, taken: Taken) -> Result<(Taken, Decision), StoreError> {
        if taken.admitted {
            let undo = taken.undo(&part.asks, &self.scripts.give_back)?;
            self.undo.push((part.slot, undo));
        }
        let decision = taken.decision(&part.asks)?;
        Ok((taken, decision))
    }

    /// The request passes: what was counted stands.
    fn stand(&mut self) {
        self.undo.clear();
    }

    /// Gives everything back, and answers what the nodes said to it, in order.
    async fn give_back(&mut self) -> Vec<Result<Value, StoreError>> {
        let mut replies = Vec::with_capacity(self.undo.len());
        self.undo.reverse();
        // Each is forgotten before it is sent: nothing may be given back twice.
        while let Some((slot, call)) = self.undo.pop() {
            let reply = give_back(&self.servers, &self.scripts, slot, &call).await;
            if reply.as_ref().is_err_and(may_be_sent_again) {
                self.refused.push((slot, call));
            }
            replies.push(reply);
        }
        replies
    }

    /// Gives everything back for a request that cannot be decided.
    async fn fail(&mut self, error: StoreError) -> StoreError {
        let replies = self.give_back().await;
        if replies.iter().all(Result::is_ok) {
            return error;
        }
        StoreError::new(
            "a request was counted in one slot of redis, and could not be given back",
            Counted::Unknown,
        )
        .caused_by(error)
    }
}

/// The caller went away, or its deadline came, or a node refused: what is left is given back when the nodes take it.
impl Drop for Charged {
    fn drop(&mut self) {
        let left: Vec<_> = self.undo.drain(..).chain(self.refused.drain(..)).collect();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if left.is_empty() {
            return;
        }
        let Ok(permit) = LATER.try_acquire() else { return };
        let (servers, scripts) = (self.servers.clone(), self.scripts.clone());
        runtime.spawn(async move {
            let _permit = permit;
            for (slot, call) in left {
                give_back_later(&servers, &scripts, slot, &call).await;
            }
        });
    }
}

/// Tries until a node has taken it. Only what was certainly not done is tried again; else the cost of one request stays
/// until it has drained.
async fn give_back_later(servers: &Topology, scripts: &Scripts, slot: Slot, call: &Cmd) {
    for _ in 0..TRIES {
        match give_back(servers, scripts, slot, call).await {
            Err(error) if may_be_sent_again(&error) => tokio::time::sleep(BETWEEN_TRIES).await,
            _ => return,
        }
    }
}

fn may_be_sent_again(error: &StoreError) -> bool {
    error.counted() == Counted::Nothing
}

async fn give_back(
    servers: &Topology,
    scripts: &Scripts,
    slot: Slot,
    call: &Cmd,
) -> Result<Value, StoreError> {
    let answer = servers.run(slot, Call::of_script(&scripts.give_back, call)).await;
    if let Err(error) = &answer {
        tracing::debug!(%error, "the cost of a denied request could not be given back");
    }
    answer
}
