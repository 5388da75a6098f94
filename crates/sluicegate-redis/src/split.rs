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
    attempt::Attempt,
    connection::Call,
    key::record_key,
    script::Script,
    store::{Group, RedisStore, Scripts, Taken, groups},
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
    /// As [`RedisStore::charge_in_turn`].
    pub(crate) async fn take_in_turn(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        let turn = Box::pin(self.charge_in_turn(asks, now, None)).await?;
        Ok(if turn.denied { turn.give_back().await } else { turn.stand() })
    }

    /// Counts asks of several slots, up to the first that denies; the others are looked at. `attempt` is that of a request
    /// with an id.
    ///
    /// # Errors
    /// [`StoreError`] if a part cannot be decided. It says that nothing was counted if that is true of this part, and
    /// all others were given back.
    pub(crate) async fn charge_in_turn<'a>(
        &self,
        asks: &[Ask<'a>],
        now: Micros,
        attempt: Option<&Attempt<'_>>,
    ) -> Result<Turn<'a>, StoreError> {
        let (answers, charged) = (Answers::of(asks.len()), Charged::none(self, attempt.is_some()));
        let mut turn = Turn { taken: Vec::new(), answers, charged, denied: false };
        for part in self.parts(asks) {
            let decided = match attempt {
                _ if turn.denied => self.look(&part.asks, now).await,
                Some(attempt) => self.take_part(&part.asks, now, attempt).await,
                None => self.take_together(groups(&part.asks)?, &part.asks, now).await,
            };
            if let Err(error) = decided.and_then(|decided| turn.note(part, decided, attempt)) {
                return Err(turn.charged.fail(error).await);
            }
        }
        Ok(turn)
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

/// A request of several slots, as far as it is decided.
pub(crate) struct Turn<'a> {
    taken: Vec<(Part<'a>, Taken)>,
    answers: Answers,
    charged: Charged,
    pub(crate) denied: bool,
}

impl<'a> Turn<'a> {
    /// Notes what a part counted, and its answers.
    fn note(
        &mut self,
        part: Part<'a>,
        taken: Taken,
        attempt: Option<&Attempt<'_>>,
    ) -> Result<(), StoreError> {
        if taken.admitted {
            let undo = match attempt {
                Some(attempt) => attempt.undo(&taken, &part.asks, &self.charged.scripts)?,
                None => taken.undo(&part.asks, &self.charged.scripts.give_back, None)?,
            };
            self.charged.undo.push((part.slot, undo));
        }
        let decision = taken.decision(&part.asks)?;
        self.answers.put(&part, &decision.asks);
        self.denied = self.denied || !decision.allowed;
        self.taken.push((part, taken));
        Ok(())
    }

    /// The request passes: what was counted stands.
    pub(crate) fn stand(mut self) -> Decision {
        self.charged.undo.clear();
        Decision { allowed: true, asks: std::mem::take(&mut self.answers.0) }
    }

    /// The request is denied: what was counted is given back.
    pub(crate) async fn give_back(mut self) -> Decision {
        let replies = self.charged.give_back().await;
        for ((part, taken), reply) in self.taken.into_iter().zip(replies) {
            // Without a reply the cost stands until it has drained, and the answer of before is true.
            let undone =
                reply.and_then(|reply| taken.undone(reply)).and_then(|undone| undone.decision(&part.asks));
            if let Ok(undone) = undone {
                self.answers.put(&part, &undone.asks);
            }
        }
        Decision { allowed: false, asks: self.answers.0 }
    }

    /// What gives everything back, for when nothing may be given back for a while.
    pub(crate) fn hold(&mut self) -> Vec<(Slot, Cmd)> {
        std::mem::take(&mut self.charged.undo)
    }

    /// Gives back what was held, for a request that cannot be decided.
    pub(crate) async fn fail(mut self, held: Vec<(Slot, Cmd)>, error: StoreError) -> StoreError {
        self.charged.undo = held;
        self.charged.fail(error).await
    }

    /// The latest time at which a part was decided.
    pub(crate) fn now(&self) -> Micros {
        self.taken.iter().map(|(_, taken)| taken.now).max().unwrap_or_default()
    }

    /// The record of a group.
    pub(crate) fn record(&self, group: &Group) -> Option<&[u8]> {
        self.taken.iter().find_map(|(_, taken)| {
            let at = taken.groups.iter().position(|other| other.key == group.key)?;
            taken.records.get(at).map(Vec::as_slice)
        })
    }
}

/// What was counted for a request that is not decided yet. It is given back unless the request passes.
struct Charged {
    servers: Arc<Topology>,
    scripts: Arc<Scripts>,
    /// The script that gives back.
    script: fn(&Scripts) -> &Script,
    undo: Vec<(Slot, Cmd)>,
    /// What a node did not take back: it has no master for the moment, or is full.
    refused: Vec<(Slot, Cmd)>,
}

impl Charged {
    fn none(store: &RedisStore, by_attempt: bool) -> Self {
        Self {
            servers: store.servers.clone(),
            scripts: store.scripts.clone(),
            script: if by_attempt { |scripts| &scripts.release } else { |scripts| &scripts.give_back },
            undo: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Gives everything back, and answers what the nodes said to it, in order.
    async fn give_back(&mut self) -> Vec<Result<Value, StoreError>> {
        let mut replies = Vec::with_capacity(self.undo.len());
        self.undo.reverse();
        // Each is forgotten before it is sent: nothing may be given back twice.
        while let Some((slot, call)) = self.undo.pop() {
            let reply = give_back(&self.servers, (self.script)(&self.scripts), slot, &call).await;
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
        let (servers, scripts, script) = (self.servers.clone(), self.scripts.clone(), self.script);
        runtime.spawn(async move {
            let _permit = permit;
            for (slot, call) in left {
                give_back_later(&servers, script(&scripts), slot, &call).await;
            }
        });
    }
}

/// Tries until a node has taken it. Only what was certainly not done is tried again; else the cost of one request stays
/// until it has drained.
async fn give_back_later(servers: &Topology, script: &Script, slot: Slot, call: &Cmd) {
    for _ in 0..TRIES {
        match give_back(servers, script, slot, call).await {
            Err(error) if may_be_sent_again(&error) => tokio::time::sleep(BETWEEN_TRIES).await,
            _ => return,
        }
    }
}

fn may_be_sent_again(error: &StoreError) -> bool {
    error.counted() == Counted::Nothing
}

async fn give_back(servers: &Topology, script: &Script, slot: Slot, call: &Cmd) -> Result<Value, StoreError> {
    let answer = servers.run(slot, Call::of_script(script, call)).await;
    if let Err(error) = &answer {
        tracing::debug!(%error, "the cost of a denied request could not be given back");
    }
    answer
}
