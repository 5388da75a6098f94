//! Limits in shadow: asked after the request was decided, and never heard.
//!
//! A limit that must never deny cannot stand in the one step that counts all or nothing: it would stop the others, or be
//! counted where it refuses. So the limits that are enforced decide first, by themselves. If the request passes, each
//! limit in shadow then takes on its own, as if it were the only one: it counts what its law admits and nothing else. If
//! the request does not pass, nothing may count, and they are peeked.

use std::slice;

use sluicegate_core::{
    Ask, AskDecision, Micros,
    policy::{Enforcement, Matched},
};

use crate::{
    limiter::Verb,
    shards::{self, Pick},
    store::Store,
};

/// What each limit in shadow would have said; `None` where the store could not say.
pub(crate) async fn watch<S: Store>(
    store: &S,
    verb: Verb,
    matched: &Matched<'_>,
    pick: Pick,
    now: Micros,
) -> Vec<Option<AskDecision>> {
    let mut answers = Vec::new();
    for applied in shards::of(matched, Enforcement::Shadow) {
        let mut answer = alone(store, verb, pick.on_first(applied), now).await;
        let denied = answer.filter(|answer| verb == Verb::Take && !answer.allowed);
        if let Some(another) = denied.and_then(|denied| pick.on_another(applied, &denied)) {
            answer = alone(store, verb, Some(another), now).await;
        }
        answers.push(answer);
    }
    answers
}

/// What one ask would have been told if it were the only one.
async fn alone<S: Store>(store: &S, verb: Verb, ask: Option<Ask<'_>>, now: Micros) -> Option<AskDecision> {
    let ask = ask?;
    let asks = slice::from_ref(&ask);
    let decided = match verb {
        Verb::Take => store.take(asks, now).await,
        Verb::Peek => store.peek(asks, now).await,
    };
    decided.ok()?.asks.first().copied()
}
