//! Limits in shadow: asked after the request was decided, and never heard.
//!
//! A limit that must never deny cannot stand in the one step that counts all or nothing: it would stop the others, or be
//! counted where it refuses. So the limits that are enforced decide first, by themselves. If the request passes, each
//! limit in shadow then takes on its own, as if it were the only one: it counts what its law admits and nothing else. If
//! the request does not pass, nothing may count, and they are peeked.

use std::slice;

use sluicegate_core::{Ask, AskDecision, Micros};

use crate::{limiter::Verb, store::Store};

/// What each of these asks would have said; `None` where the store could not say.
pub(crate) async fn watch<S: Store>(
    store: &S,
    verb: Verb,
    asks: &[Ask<'_>],
    now: Micros,
) -> Vec<Option<AskDecision>> {
    let mut answers = Vec::with_capacity(asks.len());
    for ask in asks {
        let alone = slice::from_ref(ask);
        let decided = match verb {
            Verb::Take => store.take(alone, now).await,
            Verb::Peek => store.peek(alone, now).await,
        };
        answers.push(decided.ok().and_then(|decision| decision.asks.first().copied()));
    }
    answers
}
