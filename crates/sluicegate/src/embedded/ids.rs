//! Requests that were admitted under an id, for as long as the id is known.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
};

use parking_lot::Mutex;
use sluicegate_core::{Decision, Micros, Payload, RequestId};

use crate::store::Once;

/// Parts with a lock each, so that requests with different ids seldom wait for each other.
const PARTS: usize = 16;

/// The youngest ids, up to a named number.
#[derive(Debug)]
pub(super) struct Ids {
    parts: [Mutex<Part>; PARTS],
    max_of_part: usize,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Part {
    kept: HashMap<Name, Kept>,
    /// In the order in which they were admitted, which is that of their end.
    order: VecDeque<(Name, Micros)>,
}

/// A scope and an id, with a character between them that is in neither.
type Name = Box<str>;

#[derive(Debug)]
struct Kept {
    payload: Payload,
    at: Micros,
    decision: Decision,
}

impl Ids {
    pub(super) fn new(max_ids: usize) -> Self {
        let max_of_part = max_ids.div_ceil(PARTS).max(1);
        Self { parts: Default::default(), max_of_part, hasher: RandomState::new() }
    }

    /// The decision that is known under an id, else what `decide` answers, which is kept if it `counts`. Others with the
    /// same id wait meanwhile.
    pub(super) fn once(
        &self,
        scope: &str,
        id: &RequestId,
        payload: Payload,
        now: Micros,
        decide: impl FnOnce() -> (Decision, bool),
    ) -> Once {
        let name: Name = format!("{scope} {id}").into();
        let Some(part) = self.part(&name) else { return Once::Decided { decision: decide().0, at: now } };
        let mut part = part.lock();
        part.drop_old(now);
        if let Some(kept) = part.kept.get(&name).filter(|kept| kept.until() > now) {
            let Kept { at, decision, .. } = kept;
            let same = kept.payload == payload;
            return if same {
                Once::Decided { decision: decision.clone(), at: *at }
            } else {
                Once::OtherRequest
            };
        }
        let (decision, counts) = decide();
        if counts {
            part.keep(name, Kept { payload, at: now, decision: decision.clone() });
            part.drop_above(self.max_of_part);
        }
        Once::Decided { decision, at: now }
    }

    fn part(&self, name: &str) -> Option<&Mutex<Part>> {
        let parts = u64::try_from(PARTS).ok()?;
        self.parts.get(usize::try_from(self.hasher.hash_one(name) % parts).ok()?)
    }
}

impl Kept {
    fn until(&self) -> Micros {
        self.at.plus(RequestId::LIFETIME)
    }
}

impl Part {
    fn keep(&mut self, name: Name, kept: Kept) {
        self.order.push_back((name.clone(), kept.until()));
        self.kept.insert(name, kept);
    }

    fn drop_old(&mut self, now: Micros) {
        while self.order.front().is_some_and(|(_, until)| *until <= now) {
            self.drop_first();
        }
    }

    fn drop_above(&mut self, max: usize) {
        while self.order.len() > max {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        let Some((name, until)) = self.order.pop_front() else { return };
        // The name may have been kept anew since.
        if self.kept.get(&name).is_some_and(|kept| kept.until() == until) {
            self.kept.remove(&name);
        }
    }
}
