//! Requests of one subject and the same limits, decided by one `take` of all that they cost.
//!
//! If the sum fits, every request fits in the order in which they came, and each one's answer follows from the final
//! state by giving back what came after it, at the same instant. If it does not fit, the record tells which of them
//! would: their sum is asked for, and a denial stands only if the state that counts all those admitted before it, in
//! the same atomic step, denies it too. So the requests are decided as if one after another, in the order in which they
//! came.

use sluicegate::{
    StoreError,
    core::{Algorithm, Ask, AskDecision, Decision, Micros, State, algorithm::GiveBack},
};

use super::queue::{Group, Owned, Request};
use crate::{
    error::unreadable,
    record::Record,
    store::{Taken, malformed, rolled},
};

/// Whether requests of these asks can be decided together: of one subject, and without a queue, in which the costs that
/// fit one after another are not those that fit at once.
pub(super) fn fits_together(asks: &[Ask<'_>]) -> bool {
    let subject = asks.first().map(|ask| &ask.subject);
    asks.iter().all(|ask| Some(&ask.subject) == subject && ask.rule.algorithm() != Algorithm::LeakyBucket)
}

impl Group {
    /// What all requests that pass ask for, as one.
    pub(super) fn asks(&self) -> Vec<Ask<'_>> {
        let mut passing = self.requests.iter().filter(|request| request.passes);
        let Some(first) = passing.next() else { return Vec::new() };
        let mut asks: Vec<Ask<'_>> = first.asks.iter().map(Owned::ask).collect();
        for request in passing {
            for (sum, own) in asks.iter_mut().zip(&request.asks) {
                sum.cost = sum.cost.saturating_add(own.cost);
            }
        }
        asks
    }

    /// The time of the last of them: all are decided as if they had been made then.
    pub(super) fn now(&self) -> Micros {
        self.requests.iter().map(|request| request.now).max().unwrap_or_default()
    }

    /// Answers what the call has decided. What it has not is left for the next.
    pub(super) fn settle(mut self, taken: &Taken) -> Option<Self> {
        let moved = taken.now != self.now();
        let states = match self.states(taken) {
            Ok(states) => states,
            Err(error) => {
                self.fail(&error);
                return None;
            }
        };
        if moved {
            // The clock was set anew.
            self.requests.iter_mut().for_each(|request| request.now = taken.now);
        }
        if taken.admitted {
            return self.settle_admitted(states, taken.now);
        }
        if self.requests.len() > 1 && self.look_ahead(states.clone(), taken.now) {
            return Some(self);
        }
        self.requests.into_iter().for_each(|request| request.deny(&states));
        None
    }

    /// All requests get the same error.
    pub(super) fn fail(self, error: &StoreError) {
        self.requests.into_iter().for_each(|request| request.answer(Err(error.clone())));
    }

    /// Each request by itself.
    pub(super) fn split(self) -> impl Iterator<Item = Self> {
        self.requests.into_iter().map(|request| Self { requests: vec![request.passing()] })
    }

    /// The states of all limits as the call left them.
    fn states(&self, taken: &Taken) -> Result<Vec<State>, StoreError> {
        let (Some(record), Some(first)) = (taken.records.first(), self.requests.first()) else {
            return Err(unreadable());
        };
        let state = |own: &Owned| {
            let stored = Record::new(record).state(own.id, &own.rule).map_err(malformed)?;
            Ok(rolled(&own.question(taken.now), stored))
        };
        first.asks.iter().map(state).collect()
    }

    /// From the last to the first: each answer from the state as its request left it.
    fn settle_admitted(self, mut states: Vec<State>, now: Micros) -> Option<Self> {
        let mut undecided = Vec::new();
        for request in self.requests.into_iter().rev() {
            if request.passes {
                let before = request.take_back(states.clone(), now);
                request.admit(&std::mem::replace(&mut states, before));
            } else if request.is_admitted(&states, now) {
                undecided.push(request.passing());
            } else {
                request.deny(&states);
            }
        }
        undecided.reverse();
        (!undecided.is_empty()).then_some(Self { requests: undecided })
    }

    /// Notes which requests pass if they are made one after another. Answers whether any does.
    fn look_ahead(&mut self, mut states: Vec<State>, now: Micros) -> bool {
        for request in &mut self.requests {
            request.passes = request.is_admitted(&states, now);
            if request.passes {
                states = request.charge(states, now);
            }
        }
        self.requests.iter().any(|request| request.passes)
    }
}

impl Request {
    fn is_admitted(&self, states: &[State], now: Micros) -> bool {
        self.asks.iter().zip(states).all(|(own, state)| own.question(now).admits(state))
    }

    fn charge(&self, states: Vec<State>, now: Micros) -> Vec<State> {
        self.asks.iter().zip(states).map(|(own, state)| own.question(now).charge(state)).collect()
    }

    /// The states before this request was counted, from those after it, at the same instant.
    fn take_back(&self, states: Vec<State>, now: Micros) -> Vec<State> {
        let before = self.asks.iter().zip(states).map(|(own, state)| {
            let charged_at = own.question(now).charged_at(&state);
            own.question(now).give_back(state, GiveBack { charged_at, held: own.cost, actual: 0 })
        });
        before.collect()
    }

    fn admit(self, states: &[State]) {
        let asks = self.answers(states, true);
        self.answer(Ok(Decision { allowed: true, asks }));
    }

    fn deny(self, states: &[State]) {
        let asks = self.answers(states, false);
        self.answer(Ok(Decision { allowed: false, asks }));
    }

    /// The numbers, in durations from this request's own time on.
    fn answers(&self, states: &[State], admitted: bool) -> Vec<AskDecision> {
        let answer =
            |(own, state): (&Owned, &State)| own.question(self.now).report(state, admitted && own.cost > 0);
        self.asks.iter().zip(states).map(answer).collect()
    }
}
