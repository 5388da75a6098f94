//! Asks that would wait anyway are decided together.
//!
//! A request goes out at once, in a call of its own, while its subject is not being decided on and fewer than sixteen
//! calls of its slot are in flight. Beyond that it waits, and the next call that lands takes with it whatever waits: for
//! requests of one subject and the same limits one `take` of the sum (see [`together`]), and up to 32 such groups in
//! one call. Whoever stops waiting leaves the others as they are: calls that others wait for run by themselves.

use std::{
    borrow::Borrow,
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use parking_lot::Mutex;
use redis::{Cmd, Value};
use sluicegate::{
    Counted, Reason, StoreError,
    core::{Ask, Micros},
};
use tokio::runtime::Handle;

use crate::{
    connection::Call,
    error::unreadable,
    packed::{ASK_LEN, NOW_LEN},
    store::{self, DENIED, RedisStore, SKEW, Taken, groups, list},
    topology::Slot,
};

mod queue;
mod together;

use queue::{Answer, Entered, GROUPS, Gate, Group, Load, Place, Queue, Request};
use together::fits_together;

/// Calls for the sum of what passes, before those still undecided are asked one after another. Each answers somebody.
const ROUNDS: usize = 3;

/// The requests of one store that are in flight or wait.
#[derive(Debug)]
pub(crate) struct Gather {
    queue: Mutex<Queue>,
    hasher: RandomState,
}

impl Gather {
    /// Nobody waits longer than this for a call to begin.
    pub(crate) fn with_patience(patience: Duration) -> Self {
        Self { queue: Mutex::new(Queue::new(patience)), hasher: RandomState::new() }
    }

    fn enter(&self, slot: Slot, asks: &[Ask<'_>], now: Micros) -> Entered {
        let gate = fits_together(asks).then(|| self.gate(asks));
        let request = || Request::new(asks, now, Handle::current());
        self.queue.lock().enter(slot, gate, asks, request)
    }

    /// The number of a subject and its limits. Two with the same number wait for each other, and no more.
    fn gate(&self, asks: &[Ask<'_>]) -> Gate {
        let ids: Vec<u32> = asks.iter().map(|ask| ask.id.as_u32()).collect();
        self.hasher.hash_one((asks.first().map(|ask| ask.subject.as_str()), ids))
    }
}

/// A call on its way. When it lands, or is given up, its place goes to those who wait.
struct Flight<S: Borrow<RedisStore>> {
    store: S,
    place: Place,
}

impl<S: Borrow<RedisStore>> Drop for Flight<S> {
    fn drop(&mut self) {
        let store = self.store.borrow();
        let next = store.gather.queue.lock().land(&self.place);
        if let Some(load) = next {
            fly(store.clone(), load);
        }
    }
}

/// Makes the call of a load on a task of its own, so that it ends whoever goes away.
fn fly(store: RedisStore, mut load: Load) {
    load.answer_expired();
    let runtime = load.runtime();
    let Load { flight: place, groups, .. } = load;
    let slot = place.slot;
    let flight = Flight { store, place };
    // A load of nothing but those that waited too long: its place goes on at once.
    let Some(runtime) = runtime else { return };
    runtime.spawn(async move {
        flight.store.decide_groups(slot, groups).await;
        // Who was just answered may ask again: better in the next call than in the one after it.
        tokio::task::yield_now().await;
    });
}

impl RedisStore {
    /// Decides a request, together with others if it would have to wait.
    pub(crate) async fn gathered(&self, asks: &[Ask<'_>], now: Micros) -> Answer {
        let Some(slot) = self.one_slot(asks) else { return self.decide(asks, now).await };
        let entered = self.gather.enter(slot, asks, now);
        match entered {
            Entered::Goes(place) => {
                let _flight = Flight { store: self, place };
                self.decide(asks, now).await
            }
            Entered::Waits(answer) => answer.await.unwrap_or_else(|_dropped| Err(given_up())),
            Entered::Refused => {
                let error = StoreError::new("too many requests wait for redis", Counted::Nothing);
                Err(error.for_reason(Reason::Overload))
            }
        }
    }

    /// The slot of all asks, if they have just one.
    fn one_slot(&self, asks: &[Ask<'_>]) -> Option<Slot> {
        let mut slots = asks.iter().map(|ask| self.servers.slot(ask.subject.as_str()));
        let first = slots.next()?;
        slots.all(|slot| slot == first).then_some(first)
    }

    async fn decide_groups(&self, slot: Slot, mut groups: Vec<Group>) {
        for _round in 0..ROUNDS {
            if groups.is_empty() {
                return;
            }
            groups = self.decide_some(slot, groups).await;
        }
        let mut singles = groups.into_iter().flat_map(Group::split);
        loop {
            let some: Vec<Group> = singles.by_ref().take(GROUPS).collect();
            if some.is_empty() {
                return;
            }
            // A request by itself is decided by its call.
            let _none = self.decide_some(slot, some).await;
        }
    }

    /// One call for all these groups, if they are several. Answers what it has not decided.
    async fn decide_some(&self, slot: Slot, groups: Vec<Group>) -> Vec<Group> {
        if groups.len() > 1 {
            match self.many(slot, &groups).await {
                Ok(Some(taken)) => {
                    let decided = groups.into_iter().zip(taken);
                    return decided.filter_map(|(group, taken)| settle(group, &taken)).collect();
                }
                Err(error) if error.reason() != Reason::Request => {
                    for group in groups {
                        group.fail(&error);
                    }
                    return Vec::new();
                }
                // One of them stands in the way of all: each by itself.
                Ok(None) | Err(_) => {}
            }
        }
        let mut undecided = Vec::new();
        for group in groups {
            undecided.extend(self.decide_group(group).await);
        }
        undecided
    }

    /// One call for one group.
    async fn decide_group(&self, group: Group) -> Option<Group> {
        let taken = async {
            let asks = group.asks();
            self.take_together(groups(&asks)?, &asks, group.now()).await
        };
        match taken.await {
            Ok(taken) => settle(group, &taken),
            Err(error) => {
                group.fail(&error);
                None
            }
        }
    }

    /// One call for several groups; `None` if it decided nothing because a state is too far ahead.
    async fn many(&self, slot: Slot, groups: &[Group]) -> Result<Option<Vec<Taken>>, StoreError> {
        let asked: Vec<Asked<'_>> = groups.iter().map(Asked::of).collect::<Result<_, _>>()?;
        let call = many_call(self, &asked);
        let reply = self.servers.run(slot, Call::of_script(&self.scripts.many, &call)).await?;
        many_taken(reply, asked)
    }
}

/// What a group asks, by subject.
struct Asked<'g> {
    asks: Vec<Ask<'g>>,
    records: Vec<store::Group>,
    now: Micros,
}

impl<'g> Asked<'g> {
    fn of(group: &'g Group) -> Result<Self, StoreError> {
        let asks = group.asks();
        Ok(Self { records: groups(&asks)?, asks, now: group.now() })
    }
}

fn many_call(store: &RedisStore, asked: &[Asked<'_>]) -> Cmd {
    let records = || asked.iter().flat_map(|asked| &asked.records);
    let (keys, asks) = (records().count(), asked.iter().map(|asked| asked.asks.len()).sum::<usize>());
    let bytes: usize = records().map(|record| record.key.len() + NOW_LEN + 1).sum();
    let mut call = store.scripts.many.call(keys, keys + 1, bytes + asks * ASK_LEN);
    for record in records() {
        call.arg(record.key.as_str());
    }
    let (mut packed, mut lasts) = (Vec::new(), vec![0_u8; keys]);
    let mut end = 0;
    for asked in asked {
        for record in &asked.records {
            record.pack(&mut packed, &asked.asks, asked.now);
            call.arg(packed.as_slice());
        }
        end += asked.records.len();
        if let Some(last) = end.checked_sub(1).and_then(|last| lasts.get_mut(last)) {
            *last = 1;
        }
    }
    call.arg(lasts);
    call
}

fn many_taken(reply: Value, asked: Vec<Asked<'_>>) -> Result<Option<Vec<Taken>>, StoreError> {
    if matches!(&reply, Value::BulkString(reply) if *reply == SKEW) {
        return Ok(None);
    }
    let mut left = list(reply)?.into_iter().skip(1);
    let mut taken = Vec::with_capacity(asked.len());
    for Asked { records: groups, now, .. } in asked {
        let mut records: Vec<Vec<u8>> = left.by_ref().take(groups.len()).collect();
        if records.len() != groups.len() {
            return Err(unreadable());
        }
        let denied = records.first_mut().filter(|record| record.first() == Some(&DENIED));
        let admitted = denied.map(|record| record.remove(0)).is_none();
        taken.push(Taken { admitted, now, groups, records });
    }
    Ok(Some(taken))
}

/// Answers what was decided about a group; what was not is left for the next call.
fn settle(mut group: Group, taken: &Taken) -> Option<Group> {
    if group.requests.len() > 1 {
        return group.settle(taken);
    }
    let request = group.requests.pop()?;
    let asks: Vec<Ask<'_>> = request.asks.iter().map(queue::Owned::ask).collect();
    let answer = taken.decision(&asks);
    drop(asks);
    request.answer(answer);
    None
}

/// The call ended without an answer: its runtime was shut down.
fn given_up() -> StoreError {
    StoreError::new("the call to redis was given up", Counted::Unknown)
}
