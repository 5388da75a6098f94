//! Guesses at secrets, kept on Redis.

mod account;
mod events;
mod since;

use std::sync::Arc;

use redis::Value;
use sluicegate::{
    StoreError,
    core::{
        Micros,
        login::{
            Account, AccountRules, AddressRules, Attempt, HeldName, Origin, Report, Reported, Verdict, Weight,
        },
    },
    login::{AccountKey, LoginStore, PlaceKey},
};

pub use account::login_record;
use events::{pack_address, pack_attempt, pack_place, pack_report, pack_rules};
use since::Since;

use crate::{
    config::{ConfigError, RedisConfig},
    connection::Call,
    error::unreadable,
    key::{login_address_key, login_key},
    script::{LOGIN_ADDRESS, LOGIN_BEGIN, LOGIN_REPORT, Script},
    topology::Topology,
};

/// Keeps guesses on Redis: exact for any number of processes. Cheap to clone; clones share the connections.
///
/// While a server is found to know of no guesses, as after a flush or a failover to an empty one, strangers are challenged
/// from their first guess on for a quarter of an hour.
#[derive(Clone, Debug)]
pub struct RedisLogin {
    servers: Arc<Topology>,
    scripts: Arc<Scripts>,
    since: Arc<Since>,
}

#[derive(Debug)]
struct Scripts {
    begin: Script,
    report: Script,
    address: Script,
}

impl RedisLogin {
    /// A store that connects with its first call.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration names no server.
    pub fn open(config: &RedisConfig) -> Result<Self, ConfigError> {
        let scripts = Scripts {
            begin: Script::new(LOGIN_BEGIN),
            report: Script::new(LOGIN_REPORT),
            address: Script::new(LOGIN_ADDRESS),
        };
        let servers = Arc::new(Topology::of(config)?);
        Ok(Self { servers, scripts: Arc::new(scripts), since: Arc::default() })
    }

    async fn of_account(
        &self,
        script: &Script,
        account: &AccountKey,
        rules: &[u8],
        event: &[u8],
    ) -> Result<Answer, StoreError> {
        let key = login_key(&account.0);
        let mut call = script.call(1, 2, key.len() + rules.len() + event.len());
        call.arg(key.as_str()).arg(rules).arg(event);
        answer(self.servers.run(self.servers.slot(&key), Call::of_script(script, &call)).await?)
    }

    async fn of_place(&self, place: &PlaceKey, rules: &[u8], event: &[u8]) -> Result<Answer, StoreError> {
        let (address, network) =
            (login_address_key(&place.network, &place.address), login_key(&place.network));
        let mut call = self.scripts.address.call(2, 2, 256 + rules.len());
        call.arg(address.as_str()).arg(network.as_str()).arg(rules).arg(event);
        let slot = self.servers.slot(&network);
        answer(self.servers.run(slot, Call::of_script(&self.scripts.address, &call)).await?)
    }
}

/// What the scripts reply: which answer it is, a number that belongs to it, and an instant.
struct Answer {
    kind: u8,
    more: u8,
    at: u64,
}

fn answer(value: Value) -> Result<Answer, StoreError> {
    let Value::BulkString(bytes) = value else { return Err(unreadable()) };
    let read = || {
        let (kind, rest) = bytes.split_first()?;
        let (more, at) = rest.split_first()?;
        let at = crate::number::from_double(f64::from_le_bytes(at.try_into().ok()?))?;
        Some(Answer { kind: *kind, more: *more, at })
    };
    read().ok_or_else(unreadable)
}

impl LoginStore for RedisLogin {
    async fn hold(
        &self,
        place: &PlaceKey,
        rules: &AddressRules,
        now: Micros,
        name: u32,
    ) -> Result<Origin, StoreError> {
        let told = self.of_place(place, &pack_address(rules, now), &pack_place(name, 0, 0)).await?;
        match told.kind {
            0 => Ok(Origin::Held { at: told.at, challenged: told.more == 1 }),
            1 => Ok(Origin::Refused { retry_at: told.at }),
            _ => Err(unreadable()),
        }
    }

    async fn settle(
        &self,
        place: &PlaceKey,
        rules: &AddressRules,
        now: Micros,
        (held, weight): (HeldName, Weight),
    ) -> Result<(), StoreError> {
        let done = match weight {
            Weight::Nothing => 1,
            Weight::More(units) => units.saturating_add(2),
        };
        let event = pack_place(held.name, done, held.charged_at);
        self.of_place(place, &pack_address(rules, now), &event).await.map(|_told| ())
    }

    async fn begin(
        &self,
        account: &AccountKey,
        rules: &AccountRules,
        now: Micros,
        attempt: &Attempt,
    ) -> Result<Verdict, StoreError> {
        let cautious = self.since.is_new(&self.servers, now).await?;
        let always_challenged = attempt.always_challenged || cautious;
        let event = pack_attempt(&Attempt { always_challenged, ..*attempt });
        let told = self.of_account(&self.scripts.begin, account, &pack_rules(rules, now), &event).await?;
        events::verdict(told.kind, told.more, told.at).ok_or_else(unreadable)
    }

    async fn report(
        &self,
        account: &AccountKey,
        rules: &AccountRules,
        now: Micros,
        report: &Report,
    ) -> Result<Reported, StoreError> {
        let event = pack_report(report);
        let told = self.of_account(&self.scripts.report, account, &pack_rules(rules, now), &event).await?;
        events::reported(told.kind, told.more, told.at).ok_or_else(unreadable)
    }

    async fn read(&self, account: &AccountKey) -> Result<Option<Account>, StoreError> {
        let key = login_key(&account.0);
        let mut get = redis::cmd("GET");
        get.arg(key.as_str());
        let read = self.servers.run(self.servers.slot(&key), Call::of(&get)).await;
        match read.map_err(StoreError::with_nothing_counted)? {
            Value::Nil => Ok(None),
            Value::BulkString(record) => login_record(&record).map(Some).ok_or_else(unreadable),
            _ => Err(unreadable()),
        }
    }

    async fn unlock(&self, account: &AccountKey) -> Result<bool, StoreError> {
        let key = login_key(&account.0);
        let mut del = redis::cmd("DEL");
        del.arg(key.as_str());
        let dropped = self.servers.run(self.servers.slot(&key), Call::of(&del)).await?;
        Ok(dropped == Value::Int(1))
    }
}
