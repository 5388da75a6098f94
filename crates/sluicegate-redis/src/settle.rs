//! Settling what charges turned out to cost, once for an id.

use redis::Value;
use sluicegate::{
    Counted, Settled, StoreError,
    core::{Ask, Charge, Micros, Payload, RequestId},
};

use crate::{
    connection::Call,
    error::unreadable,
    key::settlement_key,
    packed::{push_charge, push_now},
    store::{RedisStore, give_back_call, groups},
};

/// No script can settle in several slots and remember it in one step.
const SPLIT: &str =
    "what is held must count in one slot of the cluster to be settled: give its limits a common `slot_by`";

impl RedisStore {
    pub(crate) async fn settle_once(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> Result<Settled, StoreError> {
        let asks: Vec<Ask<'_>> = charges.iter().map(|charge| charge.ask.clone()).collect();
        let groups = groups(&asks)?;
        if self.is_split(&groups) {
            return Err(StoreError::new(SPLIT, Counted::Nothing));
        }
        let mut parts = vec![Vec::new(); charges.len()];
        for (part, charge) in parts.iter_mut().zip(charges) {
            push_charge(part, charge);
        }
        let (payload, key) = (Payload::of_charges(charges), settlement_key(RequestId::scope(&asks), id));
        let mut last = payload.as_bytes().to_vec();
        push_now(&mut last, now);
        let script = &self.scripts.settle;
        let call = give_back_call(script, &groups, &parts, Some((key.as_str(), last.as_slice())));
        match self.servers.run(self.slot(&groups), Call::of_script(script, &call)).await? {
            Value::BulkString(known) if known.is_empty() || known.starts_with(payload.as_bytes()) => {
                Ok(Settled::Done)
            }
            Value::BulkString(_) => Ok(Settled::OtherCosts),
            _ => Err(unreadable()),
        }
    }
}
