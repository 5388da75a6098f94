//! `take` under an id: counted once, however often it is made.

use redis::{Cmd, Value};
use sluicegate::{
    Counted, Merged, Once, Reason, StoreError,
    core::{Ask, Decision, Micros, Payload, RequestId},
};

use crate::{
    connection::Call,
    error::unreadable,
    key::id_key,
    number::from_double,
    packed::{ASK_LEN, NOW_LEN, push_now},
    store::{DENIED, Group, RedisStore, SKEW, Taken, groups, list},
};

/// What the script answers first if the id is known.
const KNOWN: u8 = b'=';
/// Bytes of an id's key before the first record: what was asked, and when.
const HEAD_LEN: usize = Payload::LEN + NOW_LEN;

impl RedisStore {
    pub(crate) async fn decide_once(
        &self,
        id: &RequestId,
        asks: &[Ask<'_>],
        now: Micros,
    ) -> Result<Once, StoreError> {
        let merged = Merged::of(asks);
        let payload = Payload::of(merged.asks());
        let groups = groups(merged.asks())?;
        if self.is_split(&groups) {
            return Err(StoreError::new(SPLIT, Counted::Nothing).for_reason(Reason::Request));
        }
        let call = Request { key: id_key(RequestId::scope(asks), id), payload, asks: merged.asks() };
        let Some(taken) = self.call_once(&call, groups, now).await? else { return Ok(Once::OtherRequest) };
        let Decision { allowed, asks } = taken.decision(merged.asks())?;
        Ok(Once::Decided { decision: Decision { allowed, asks: merged.spread(&asks) }, at: taken.now })
    }

    /// What was decided, now or the first time; `None` if the id names another request.
    async fn call_once(
        &self,
        request: &Request<'_>,
        groups: Vec<Group>,
        mut now: Micros,
    ) -> Result<Option<Taken>, StoreError> {
        let script = &self.scripts.once;
        for retried in [false, true] {
            let call = request.call(self, &groups, now);
            let reply = self.servers.run(self.slot(&groups), Call::of_script(script, &call)).await?;
            match answered(reply, groups.len())? {
                Answered::Now { admitted, records } => {
                    return Ok(Some(Taken { admitted, now, groups, records }));
                }
                Answered::Before(known) => return request.replay(&known, groups),
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

/// No script can decide on several slots and remember it in one step.
const SPLIT: &str =
    "a request with an id must count in one slot of the cluster: give its limits a common `slot_by`";

/// A request with an id.
struct Request<'r> {
    key: String,
    payload: Payload,
    asks: &'r [Ask<'r>],
}

enum Answered {
    Now { admitted: bool, records: Vec<Vec<u8>> },
    Before(Vec<u8>),
    Skew,
}

impl Request<'_> {
    fn call(&self, store: &RedisStore, groups: &[Group], now: Micros) -> Cmd {
        let keys: usize = groups.iter().map(|group| group.key.len()).sum();
        let bytes = keys + self.key.len() + HEAD_LEN + groups.len() * NOW_LEN + self.asks.len() * ASK_LEN;
        let mut call = store.scripts.once.call(groups.len() + 1, groups.len() + 1, bytes);
        for group in groups {
            call.arg(group.key.as_str());
        }
        call.arg(self.key.as_str());
        let mut packed = Vec::with_capacity(NOW_LEN + self.asks.len() * ASK_LEN);
        for group in groups {
            group.pack(&mut packed, self.asks, now);
            call.arg(packed.as_slice());
        }
        packed.clear();
        packed.extend_from_slice(self.payload.as_bytes());
        push_now(&mut packed, now);
        call.arg(packed);
        call
    }

    /// What was decided the first time; `None` if it was given to another request.
    fn replay(&self, known: &[u8], groups: Vec<Group>) -> Result<Option<Taken>, StoreError> {
        let known = known.split_at_checked(Payload::LEN).ok_or_else(unreadable)?;
        if known.0 != self.payload.as_bytes() {
            return Ok(None);
        }
        let (now, mut left) = known.1.split_first_chunk().ok_or_else(unreadable)?;
        let now = from_double(f64::from_le_bytes(*now)).map(Micros::new).ok_or_else(unreadable)?;
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
        (Some(KNOWN), Some(known)) => Ok(Answered::Before(known)),
        (_, Some(last)) if records.len() + 1 == groups => {
            records.push(last);
            Ok(Answered::Now { admitted: verdict != Some(DENIED), records })
        }
        _ => Err(unreadable()),
    }
}
