//! Requests with an id whose limits are in several slots of a cluster: counted once, however often and by however many
//! processes they are tried.
//!
//! Each try is an attempt with a number of its own, given out in the slot of the id. It takes the parts of the request slot
//! after slot, as a request without an id does, and beside what a part counts stands the number of the attempt that
//! answers for it. A later attempt that finds a part counted does not count it again but takes it over, and an earlier one
//! gives back only what nobody has taken over. When all parts have passed, one write in the slot of the id admits the request,
//! and only if no later attempt has begun: so at that moment every part is counted, and stays so. What was written is
//! what every further try is answered with.
//!
//! Of tries at the same time one goes first for a tenth of a second, and the others wait for its answer.

use std::time::Duration;

use redis::{Cmd, Value};
use sluicegate::{
    Counted, Reason, StoreError,
    core::{Ask, Decision, Micros, Payload, RequestId},
};
use tokio::time::{Instant, sleep};

use crate::{
    connection::Call,
    error::unreadable,
    key::{attempts_key, part_key},
    once::{Head, KNOWN, NUMBER_LEN, Request},
    packed::push_now,
    split::Turn,
    store::{RedisStore, Scripts, Taken, groups, list},
};

/// How often a request looks whether the attempt before it has ended, and how many times: for twice as long as one goes
/// first.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const LOOKS: usize = 40;
/// How often an attempt that was overtaken begins anew.
const TRIES: usize = 3;
/// What the script answers first if another attempt goes first.
const UNDER_WAY: u8 = b'~';

/// The tries of one request.
pub(crate) struct Attempts<'r> {
    pub(crate) id: &'r RequestId,
    pub(crate) scope: &'r str,
    pub(crate) payload: Payload,
    pub(crate) request: &'r Request<'r>,
}

/// One of them.
pub(crate) struct Attempt<'r> {
    of: &'r Attempts<'r>,
    number: [u8; NUMBER_LEN],
}

enum Begun<'r> {
    Attempt(Attempt<'r>),
    /// What the id's key holds: the request was admitted.
    Known(Vec<u8>),
    UnderWay,
}

type Decided = Option<(Decision, Micros)>;

impl RedisStore {
    /// What was decided, now or the first time, and when; `None` if the id names another request.
    pub(crate) async fn decide_once_in_turn(
        &self,
        attempts: &Attempts<'_>,
        now: Micros,
    ) -> Result<Decided, StoreError> {
        let asked_at = Instant::now();
        for _ in 0..TRIES {
            for _ in 0..LOOKS {
                let now = now.plus(asked_at.elapsed());
                match self.begin(attempts, now).await.map_err(StoreError::with_nothing_counted)? {
                    Begun::Known(known) => return attempts.replay(&known),
                    Begun::UnderWay => sleep(LOOK_EVERY).await,
                    Begun::Attempt(attempt) => match self.attempt(&attempt, now).await {
                        Err(error) if is_superseded(&error) => break,
                        ended => return ended,
                    },
                }
            }
        }
        Err(superseded())
    }

    async fn attempt(&self, attempt: &Attempt<'_>, now: Micros) -> Result<Decided, StoreError> {
        let asks = attempt.of.request.asks;
        let mut turn = match Box::pin(self.charge_in_turn(asks, now, Some(attempt))).await {
            Ok(turn) if turn.denied => {
                let denied = turn.give_back().await;
                self.end(attempt).await;
                return Ok(Some((denied, now)));
            }
            // What counts nothing is not remembered.
            Ok(turn) if asks.iter().all(|ask| ask.cost == 0) => {
                self.end(attempt).await;
                return Ok(Some((turn.stand(), now)));
            }
            Ok(turn) => turn,
            Err(error) => {
                self.end(attempt).await;
                return Err(error);
            }
        };
        let answer = attempt.of.entry(&turn)?;
        // While nobody knows whether the request is admitted, nothing of it may be given back.
        let held = turn.hold();
        match self.finish(attempt, &answer).await {
            Ok(true) => attempt.of.replay(&answer),
            Ok(false) => Err(turn.fail(held, superseded()).await),
            Err(error) if error.counted() == Counted::Nothing => Err(turn.fail(held, error).await),
            Err(error) => Err(error),
        }
    }

    /// Takes one slot's part of a request, for an attempt at it.
    pub(crate) async fn take_part(
        &self,
        asks: &[Ask<'_>],
        now: Micros,
        attempt: &Attempt<'_>,
    ) -> Result<Taken, StoreError> {
        let (script, head) = (&self.scripts.part, Head::Part(attempt.number));
        let part = Request { script, key: attempt.part_key(asks), head, asks };
        self.call_once(&part, groups(asks)?, now).await?.ok_or_else(unreadable)
    }

    async fn begin<'r>(&self, attempts: &'r Attempts<'r>, now: Micros) -> Result<Begun<'r>, StoreError> {
        let mut call = self.scripts.begin.call(2, 1, 128);
        let mut packed = Vec::with_capacity(NUMBER_LEN);
        push_now(&mut packed, now);
        attempts.push_keys(&mut call).arg(packed);
        let slot = self.servers.slot(&attempts.request.key);
        let mut begun = list(self.servers.run(slot, Call::of_script(&self.scripts.begin, &call)).await?)?;
        let last = begun.pop().ok_or_else(unreadable)?;
        match begun.pop().as_deref() {
            Some([KNOWN]) => Ok(Begun::Known(last)),
            Some([]) => {
                let number = last.first_chunk().copied().ok_or_else(unreadable)?;
                Ok(Begun::Attempt(Attempt { of: attempts, number }))
            }
            None if last == [UNDER_WAY] => Ok(Begun::UnderWay),
            _ => Err(unreadable()),
        }
    }

    /// Admits the request with this answer, or ends the attempt if it is empty. Answers whether it was the last.
    async fn finish(&self, attempt: &Attempt<'_>, answer: &[u8]) -> Result<bool, StoreError> {
        let mut finish = self.scripts.finish.call(2, 2, 128 + answer.len());
        attempt.of.push_keys(&mut finish).arg(&attempt.number).arg(answer);
        let slot = self.servers.slot(&attempt.of.request.key);
        let reply = self.servers.run(slot, Call::of_script(&self.scripts.finish, &finish)).await?;
        Ok(reply == Value::Int(1))
    }

    /// Lets the next attempt begin at once; without a word from here it begins a little later.
    async fn end(&self, attempt: &Attempt<'_>) {
        if let Err(error) = self.finish(attempt, &[]).await {
            tracing::debug!(%error, "an attempt at a request could not be ended");
        }
    }
}

impl Attempts<'_> {
    fn push_keys<'c>(&self, call: &'c mut Cmd) -> &'c mut Cmd {
        call.arg(self.request.key.as_str()).arg(attempts_key(self.scope, self.id))
    }

    fn replay(&self, known: &[u8]) -> Result<Decided, StoreError> {
        let Some(taken) = self.request.replay(known, groups(self.request.asks)?)? else { return Ok(None) };
        Ok(Some((taken.decision(self.request.asks)?, taken.now)))
    }

    /// What the id's key shall hold: the same as if all had been counted in one slot.
    fn entry(&self, turn: &Turn<'_>) -> Result<Vec<u8>, StoreError> {
        let mut entry = self.request.head.write(turn.now());
        for group in groups(self.request.asks)? {
            let record = turn.record(&group).unwrap_or_default();
            let len = u32::try_from(record.len()).map_err(|_too_long| unreadable())?;
            entry.extend_from_slice(&len.to_le_bytes());
            entry.extend_from_slice(record);
        }
        Ok(entry)
    }
}

impl Attempt<'_> {
    fn part_key(&self, asks: &[Ask<'_>]) -> String {
        let subject = asks.first().map(|ask| &ask.subject);
        subject.map_or_else(String::new, |subject| part_key(subject, &self.of.payload, self.of.id))
    }

    /// The call that gives back what a part counted, unless another attempt has taken it over.
    pub(crate) fn undo(&self, taken: &Taken, asks: &[Ask<'_>], scripts: &Scripts) -> Result<Cmd, StoreError> {
        taken.undo(asks, &scripts.release, Some((&self.part_key(asks), &self.number)))
    }
}

/// Another try of the same request goes first.
#[derive(Debug, thiserror::Error)]
#[error("a later one has begun")]
struct Superseded;

/// A later attempt has begun. What this one counted is given back, or is the later one's.
pub(crate) fn superseded() -> StoreError {
    let error = StoreError::new("another try of the same request goes first", Counted::Nothing);
    error.for_reason(Reason::Request).caused_by(Superseded)
}

fn is_superseded(error: &StoreError) -> bool {
    std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<Superseded>)
}
