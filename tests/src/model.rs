//! The arithmetic alone, with a map for a store: what every store must answer and keep.

use std::collections::HashMap;

use sluicegate::{
    Merged,
    core::{Ask, AskDecision, Decision, LimitId, Micros, Question, State, Subject, algorithm::GiveBack},
};

/// A state with the instant by which it has reset, as known when it was written.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The state.
    pub state: State,
    /// In microseconds since the epoch.
    pub resets_at_us: u64,
}

/// A store without anything that makes a store hard.
#[derive(Debug, Default)]
pub struct Model {
    kept: HashMap<(LimitId, Subject), Kept>,
}

impl Model {
    /// As [`sluicegate::Store::take`].
    pub fn take(&mut self, asks: &[Ask<'_>], now: Micros) -> Decision {
        let merged = Merged::of(asks);
        self.rebase(merged.asks(), now);
        let states: Vec<State> = merged.asks().iter().map(|ask| self.rolled(ask, now)).collect();
        let mut pairs = merged.asks().iter().zip(&states);
        let allowed = pairs.all(|(ask, state)| question(ask, now).admits(state));
        let answers = merged.asks().iter().zip(states).map(|(ask, state)| {
            if !allowed || ask.cost == 0 {
                return question(ask, now).report(&state, false);
            }
            let charged = question(ask, now).charge(state);
            let answer = question(ask, now).report(&charged, true);
            self.keep(ask, now, charged);
            answer
        });
        let answers: Vec<AskDecision> = answers.collect();
        Decision { allowed, asks: merged.spread(&answers) }
    }

    /// As [`sluicegate::Store::peek`].
    pub fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Decision {
        let merged = Merged::of(asks);
        let answer = |ask: &Ask<'_>| question(ask, now).report(&self.rolled(ask, now), false);
        let answers: Vec<AskDecision> = merged.asks().iter().map(answer).collect();
        Decision::of(merged.spread(&answers))
    }

    /// As [`sluicegate::Store::forget`].
    pub fn forget(&mut self, id: LimitId, subject: &Subject) -> bool {
        self.kept.remove(&(id, subject.clone())).is_some()
    }

    /// As `RedisStore::give_back`.
    pub fn give_back(&mut self, ask: &Ask<'_>, back: GiveBack) {
        if let Some(kept) = self.kept.get_mut(&(ask.id, ask.subject.clone())) {
            kept.state = question(ask, Micros::default()).give_back(kept.state.clone(), back);
        }
    }

    /// The tick under which the cost that an ask was just charged is counted.
    pub fn charged_at(&self, ask: &Ask<'_>, now: Micros) -> u64 {
        question(ask, now).charged_at(&self.state(ask).expect("a charged state"))
    }

    /// What is stored for one limit and subject.
    pub fn kept(&self, id: LimitId, subject: &Subject) -> Option<&Kept> {
        self.kept.get(&(id, subject.clone()))
    }

    /// The instant by which all states of a subject have reset; `None` if there is none.
    pub fn resets_at_us(&self, subject: &Subject) -> Option<u64> {
        let own = self.kept.iter().filter(|((_, other), _)| other == subject);
        own.map(|(_, kept)| kept.resets_at_us).max()
    }

    /// State from a clock far ahead is moved back to now for good, by an ask that would count on it.
    fn rebase(&mut self, asks: &[Ask<'_>], now: Micros) {
        for ask in asks.iter().filter(|ask| ask.cost > 0) {
            let Some(stored) = self.state(ask) else { continue };
            let moved = question(ask, now).rebase(stored.clone());
            if moved != stored {
                self.keep(ask, now, moved);
            }
        }
    }

    fn rolled(&self, ask: &Ask<'_>, now: Micros) -> State {
        let moved = self.state(ask).map(|stored| question(ask, now).rebase(stored));
        question(ask, now).roll(moved).expect("a rebased state is not ahead")
    }

    fn state(&self, ask: &Ask<'_>) -> Option<State> {
        self.kept(ask.id, &ask.subject).map(|kept| kept.state.clone())
    }

    fn keep(&mut self, ask: &Ask<'_>, now: Micros, state: State) {
        let resets_at_us = question(ask, now).reset_at_us(&state).unwrap_or(0);
        self.kept.insert((ask.id, ask.subject.clone()), Kept { state, resets_at_us });
    }
}

fn question<'a>(ask: &'a Ask<'_>, now: Micros) -> Question<'a> {
    Question { rule: ask.rule, key: ask.subject.as_str().as_bytes(), cost: ask.cost, now }
}
