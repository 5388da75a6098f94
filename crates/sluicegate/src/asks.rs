//! One request may ask one limit about one key twice. A store decides it once, about the sum.

use sluicegate_core::{Ask, AskDecision};

/// The asks of a request with equal limit and subject put together, and which of them each ask became.
///
/// A store decides [`Merged::asks`], so that it never holds two versions of one state, and answers each ask of the
/// request with [`Merged::spread`].
#[derive(Debug)]
pub struct Merged<'r, 'a> {
    asks: std::borrow::Cow<'r, [Ask<'a>]>,
    became: Vec<usize>,
}

impl<'r, 'a> Merged<'r, 'a> {
    /// Puts equal asks together; a request without any is not copied.
    pub fn of(asks: &'r [Ask<'a>]) -> Self {
        let first_like = |ask: &Ask<'_>| asks.iter().position(|other| is_same(ask, other)).unwrap_or(0);
        let firsts: Vec<usize> = asks.iter().map(first_like).collect();
        if firsts.iter().copied().eq(0..asks.len()) {
            return Self { asks: asks.into(), became: firsts };
        }
        let mut merged: Vec<Ask<'a>> = Vec::with_capacity(asks.len());
        let mut became = Vec::with_capacity(asks.len());
        for ask in asks {
            let at = merged.iter().position(|other| is_same(ask, other)).unwrap_or(merged.len());
            match merged.get_mut(at) {
                Some(other) => other.cost = other.cost.saturating_add(ask.cost),
                None => merged.push(ask.clone()),
            }
            became.push(at);
        }
        Self { asks: merged.into(), became }
    }

    /// The asks to decide: no two of the same limit and subject.
    pub fn asks(&self) -> &[Ask<'a>] {
        &self.asks
    }

    /// The answers to the request's own asks.
    pub fn spread(&self, answers: &[AskDecision]) -> Vec<AskDecision> {
        self.became.iter().filter_map(|at| answers.get(*at).copied()).collect()
    }
}

pub(crate) fn is_same(a: &Ask<'_>, b: &Ask<'_>) -> bool {
    a.id == b.id && a.subject == b.subject
}
