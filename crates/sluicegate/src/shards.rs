//! Which shards of counters that are split a request goes to.
//!
//! It goes to one by chance. If it is denied there, and nothing but such counters denies it, it is asked once more with
//! each of these on another shard: a denial changes nothing, so what passes then is counted once. A shard may be full
//! while others are not, so a few are denied that one counter had admitted; nothing passes that it had denied.

use sluicegate_core::{
    Ask, AskDecision, Decision, RequestId, Retry,
    policy::{Applied, Enforcement, Matched, Shards},
};

/// A choice of shards, for counters of any number of them: limits with equally many go to the same one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pick {
    first: usize,
    step: usize,
}

impl Pick {
    /// Another one for each request.
    pub(crate) fn by_chance() -> Self {
        Self { first: fastrand::usize(..), step: fastrand::usize(..) }
    }

    /// Always the same for an id, so that a request that is made again is known where the first one was counted.
    pub(crate) fn of_id(id: &RequestId) -> Self {
        Self { first: usize::try_from(id.number()).unwrap_or_default(), step: 0 }
    }

    /// The ask of a limit on its first shard.
    pub(crate) fn on_first<'p>(self, applied: &Applied<'p>) -> Option<Ask<'p>> {
        applied.ask_on(self.first)
    }

    /// What a store is asked for the limits of this enforcement; unlimited ones ask nothing.
    pub(crate) fn asks<'p>(self, matched: &Matched<'p>, enforcement: Enforcement) -> Vec<Ask<'p>> {
        of(matched, enforcement).filter_map(|applied| self.on_first(applied)).collect()
    }

    /// The same asks with those that denied on another shard; `None` if that cannot make the request pass: it passed, or
    /// a counter that is not split denied it, or no shard could ever admit the cost.
    pub(crate) fn once_more<'p>(self, matched: &Matched<'p>, decision: &Decision) -> Option<Vec<Ask<'p>>> {
        if decision.allowed {
            return None;
        }
        let asked = of(matched, Enforcement::On).zip(&decision.asks);
        asked
            .map(
                |(applied, answer)| {
                    if answer.allowed { self.on_first(applied) } else { self.on_another(applied, answer) }
                },
            )
            .collect()
    }

    /// The ask of a limit that was denied, on another shard.
    pub(crate) fn on_another<'p>(self, applied: &Applied<'p>, answer: &AskDecision) -> Option<Ask<'p>> {
        let shards = applied.shards().filter(|_| answer.retry != Some(Retry::Never))?;
        applied.ask_on(self.another(shards))
    }

    /// Any but the first, each as likely.
    fn another(self, shards: &Shards) -> usize {
        let count = shards.parts().len().max(2);
        self.first % count + 1 + self.step % (count - 1)
    }
}

/// The limits of this enforcement that ask something.
pub(crate) fn of<'m, 'p>(
    matched: &'m Matched<'p>,
    enforcement: Enforcement,
) -> impl Iterator<Item = &'m Applied<'p>> {
    matched.limits.iter().filter(move |applied| applied.enforcement == enforcement && applied.ask.is_some())
}

/// The answer of one shard as that of the limit: the amount is that of all shards, the largest cost is what each of
/// them can admit. What remains, and when to try again, is the shard's.
pub(crate) fn told(shards: &Shards, part: AskDecision) -> AskDecision {
    let capacity = shards.max_cost();
    AskDecision {
        limit: Some(shards.whole().amount()),
        capacity: Some(capacity),
        remaining: part.remaining.map(|left| left.min(capacity)),
        ..part
    }
}
