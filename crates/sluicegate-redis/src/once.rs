//! `take` under an id: counted once, however often it is made.

use redis::{Cmd, Value};
use sluicegate::{
    Counted, Merged, Once, StoreError,
    core::{Ask, Decision, Micros, Payload, RequestId},
};

use crate::{
    attempt::{Attempts, superseded},
    connection::Call,
    error::unreadable,
    key::id_key,
    number::from_double,
    packed::{ASK_LEN, NOW_LEN, push_now},
    script::Script,
    store::{DENIED, Group, RedisStore, SKEW, Taken, groups, list},
};

/// What the script answers first if the id is known.
pub(crate) const KNOWN: u8 = b'=';
/// What it answers if a later attempt at the request is on its way.
const TAKEN_OVER: u8 = b'>';
/// Bytes of an id's key before the first record: what was asked, and when.
const HEAD_LEN: usize = Payload::LEN + NOW_LEN;

impl RedisStore {
    pub(crate) async fn decide_once(
        &self,
        id: &RequestId,
        asks: &[Ask<'_>],
        now: Micros,
    ) -> Result<Once, StoreError> {
        let (merged, scope) = (Merged::of(asks), RequestId::scope(asks));
        let (payload, groups) = (Payload::of(merged.asks()), groups(merged.asks())?);
        let (key, head) = (id_key(scope, id), Head::Request(payload));
        let request = Request { script: &self.scripts.once, key, head, asks: merged.asks() };
        let decided = if self.is_split(&groups) {
            let attempts = Attempts { id, scope, payload, request: &request };
            Box::pin(self.decide_once_in_turn(&attempts, now)).await?
        } else {
            match self.call_once(&request, groups, now).await? {
                Some(taken) => Some((taken.decision(merged.asks())?, taken.now)),
                None => None,
            }
        };
        Ok(decided.map_or(Once::OtherRequest, |(Decision { allowed, asks }, at)| Once::Decided {
            decision: Decision { allowed, asks: merged.spread(&asks) },
            at,
        }))
    }

    /// What was decided, now or the first time; `None` if the id names another request.
    pub(crate) async fn call_once(
        &self,
        request: &Request<'_>,
        groups: Vec<Group>,
        mut now: Micros,
    ) -> Result<Option<Taken>, StoreError> {
        let script = request.script;
        for retried in [false, true] {
            let call = request.call(&groups, now);
            let reply = self.servers.run(self.slot(&groups), Call::of_script(script, &call)).await?;
            match answered(reply, groups.len())? {
                Answered::Now { admitted, records } => {
                    return Ok(Some(Taken { admitted, now, groups, records }));
                }
                Answered::Before(known) => return request.replay(&known, groups),
                Answered::Superseded => return Err(superseded()),
                Answered::Skew if retried => break,
                Answered::Skew => {
                    let moved = Box::pin(self.rebase(&groups, request.asks, now)).await;
                    now = moved.map_err(StoreError::with_nothing_counted)?;
                }
            }
        }
        Err(StoreError::new("another clock keeps setting the stored state ahead", Counted::Nothing))
    }
}

/// A take that is remembered under a key, so that it counts once.
pub(crate) struct Request<'r> {
    pub(crate) script: &'r Script,
    pub(crate) key: String,
    pub(crate) head: Head,
    pub(crate) asks: &'r [Ask<'r>],
}

/// What stands in the key before the records, and is sent to be written there.
pub(crate) enum Head {
    /// Of a whole request: what is asked, and now.
    Request(Payload),
    /// Of a part of one: now, and the number of the attempt.
    Part([u8; NUMBER_LEN]),
}

/// Bytes of the number of an attempt.
pub(crate) const NUMBER_LEN: usize = 8;

impl Head {
    pub(crate) fn write(&self, now: Micros) -> Vec<u8> {
        let mut head = Vec::with_capacity(HEAD_LEN);
        match self {
            Self::Request(payload) => {
                head.extend_from_slice(payload.as_bytes());
                push_now(&mut head, now);
            }
            Self::Part(number) => {
                push_now(&mut head, now);
                head.extend_from_slice(number);
            }
        }
        head
    }

    /// The time of what is remembered, and its records; `None` if it is of another request.
    fn read<'k>(&self, known: &'k [u8]) -> Result<Option<(Micros, &'k [u8])>, StoreError> {
        let now = |bytes: &[u8; NOW_LEN]| {
            from_double(f64::from_le_bytes(*bytes)).map(Micros::new).ok_or_else(unreadable)
        };
        match self {
            Self::Request(payload) => {
                let (asked, rest) = known.split_at_checked(Payload::LEN).ok_or_else(unreadable)?;
                if asked != payload.as_bytes() {
                    return Ok(None);
                }
                let (at, records) = rest.split_first_chunk().ok_or_else(unreadable)?;
                Ok(Some((now(at)?, records)))
            }
            Self::Part(_) => {
                let (at, rest) = known.split_first_chunk().ok_or_else(unreadable)?;
                let (_number, records) = rest.split_at_checked(NUMBER_LEN).ok_or_else(unreadable)?;
                Ok(Some((now(at)?, records)))
            }
        }
    }
}

enum Answered {
    Now { admitted: bool, records: Vec<Vec<u8>> },
    Before(Vec<u8>),
    Superseded,
    Skew,
}

impl Request<'_> {
    fn call(&self, groups: &[Group], now: Micros) -> Cmd {
        let keys: usize = groups.iter().map(|group| group.key.len()).sum();
        let bytes = keys + self.key.len() + HEAD_LEN + groups.len() * NOW_LEN + self.asks.len() * ASK_LEN;
        let mut call = self.script.call(groups.len() + 1, groups.len() + 1, bytes);
        for group in groups {
            call.arg(group.key.as_str());
        }
        call.arg(self.key.as_str());
        let mut packed = Vec::with_capacity(NOW_LEN + self.asks.len() * ASK_LEN);
        for group in groups {
            group.pack(&mut packed, self.asks, now);
            call.arg(packed.as_slice());
        }
        call.arg(self.head.write(now));
        call
    }

    /// What was decided the first time; `None` if it was given to another request.
    pub(crate) fn replay(&self, known: &[u8], groups: Vec<Group>) -> Result<Option<Taken>, StoreError> {
        let Some((now, mut left)) = self.head.read(known)? else { return Ok(None) };
        let mut records = Vec::with_capacity(groups.len());
        for _group in &groups {
            let (record, rest) = split_record(left).ok_or_else(unreadable)?;
            records.push(record.to_vec());
            left = rest;
        }
        Ok(Some(Taken { admitted: true, now, groups, records }))
    }
}

/// A record with its length before it, and what follows.
fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)
}

fn answered(reply: Value, groups: usize) -> Result<Answered, StoreError> {
    if matches!(&reply, Value::BulkString(reply) if *reply == SKEW) {
        return Ok(Answered::Skew);
    }
    let mut records = list(reply)?;
    if records.is_empty() {
        return Err(unreadable());
    }
    let verdict = records.remove(0).first().copied();
    match (verdict, records.pop()) {
        (Some(TAKEN_OVER), None) => Ok(Answered::Superseded),
        (Some(KNOWN), Some(known)) => Ok(Answered::Before(known)),
        (_, Some(last)) if records.len() + 1 == groups => {
            records.push(last);
            Ok(Answered::Now { admitted: verdict != Some(DENIED), records })
        }
        _ => Err(unreadable()),
    }
}
