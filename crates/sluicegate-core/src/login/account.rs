//! Guesses at the secrets of one account. Lua twin: `login_account.lua`.

use super::{
    gauge::{Gauge, LEAKS, Leak, Reading},
    rules::{ATTEMPT_MS, AccountRules, CODE_MS, FIRST_DELAY_MS, MAX_DELAY_MS, REMEMBERED_MS},
};

/// The most clients whose share of the unknown lane is known; of the others a success forgives nothing.
pub const MAX_CLIENTS: usize = 32;
/// The most devices with a lane; another one waits in the unknown lane until one of these has drained.
pub const MAX_DEVICES: usize = 16;
/// The most familiar addresses; the one with the oldest success makes room.
pub const MAX_FAMILIAR: usize = 8;
/// The most attempts that are remembered. The oldest makes room: it stays counted, and can no longer be reported.
pub const MAX_OPEN: usize = 64;
/// The most codes whose tries are known; the oldest makes room, and its tries still count for the account.
pub const MAX_CODES: usize = 8;
/// The most wrong secrets that are recognised when they are repeated.
pub const MAX_TAGS: usize = 3;

/// What is stored of an account. Instants are milliseconds since the epoch; the default is an account never seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The latest instant at which it was written.
    pub time: u64,
    /// What the unknown lane owes.
    pub unknown: Reading,
    /// The next instant at which the unknown lane takes a guess.
    pub not_before: u64,
    /// Failures in a row in the unknown lane.
    pub consecutive: u32,
    /// When what was forgiven has drained.
    pub forgiven: u64,
    /// When what was aborted has drained.
    pub aborted: u64,
    /// Marks of wrong secrets, oldest first.
    pub tags: Vec<u16>,
    /// The lanes of devices that owe something.
    pub devices: Vec<Device>,
    /// Addresses with a recent success, oldest first.
    pub familiar: Vec<Familiar>,
    /// Shares of the unknown lane.
    pub clients: Vec<Client>,
    /// Codes that were tried.
    pub codes: Vec<Code>,
    /// Attempts that are under way or were lately, oldest first.
    pub open: Vec<Open>,
}

/// The lane of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// The device.
    pub key: u64,
    /// When it has drained.
    pub drained_at: u64,
}

/// The lane of a familiar address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Familiar {
    /// The address.
    pub key: u64,
    /// When it has drained.
    pub drained_at: u64,
    /// When it is no longer familiar.
    pub until: u64,
}

/// What one client owes of the unknown lane, measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// The client: its address.
    pub key: u64,
    /// Its share.
    pub reading: Reading,
}

/// Tries at one code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// The code's id.
    pub key: u64,
    /// How often it was tried.
    pub tries: u32,
    /// When the tries are forgotten; a code must not live longer.
    pub until: u64,
}

/// An attempt that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Its id.
    pub id: u64,
    /// When it was admitted.
    pub at: u64,
    /// The lane that it was counted in.
    pub lane: Lane,
    /// The device, if it has one, else 0.
    pub device: u64,
    /// The client.
    pub client: u64,
    /// The code that it tries, else 0.
    pub code: u64,
    /// The proof that it came with, else 0.
    pub proof: u64,
    /// Whether it was reported.
    pub done: bool,
}

/// Whose budget a guess is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// That of a device that proved itself.
    Device,
    /// That of an address with a recent success.
    Familiar,
    /// The one that all others share.
    Unknown,
}

/// What `begin` is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// A number that no other attempt at this account has; not 0.
    pub id: u64,
    /// The address, as a number that tells addresses apart.
    pub client: u64,
    /// The device, if its cookie is genuine.
    pub device: Option<u64>,
    /// The code that is tried, if one is.
    pub code: Option<u64>,
    /// A proof that a challenge was met, as a number that is never given out again.
    pub proof: Option<u64>,
    /// Whether another factor was shown.
    pub stepped_up: bool,
    /// When the address has room again, if it has none.
    pub address_full_until: Option<u64>,
    /// Whether every guess of the unknown lane is challenged: in an alarm, or without the store.
    pub always_challenged: bool,
}

/// What `begin` answers. Only [`Verdict::Allow`] changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The guess is counted and may be verified.
    Allow {
        /// Where it is counted.
        lane: Lane,
    },
    /// Nothing is verified until a challenge is met.
    Challenge(Challenge),
    /// Nothing is verified before this instant.
    Delay {
        /// The instant, in milliseconds.
        not_before: u64,
    },
    /// There is no room.
    Deny {
        /// Where there is none.
        scope: Scope,
        /// When there is some, in milliseconds.
        retry_at: u64,
    },
    /// There is no room while other guesses are under way; what they turn out to be may make some.
    Busy {
        /// When there is room for certain, in milliseconds.
        retry_at: u64,
    },
    /// Too many failures in a row: another factor must be shown first.
    StepUp,
}

/// How much a challenge asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Guesses beyond the free ones: what makes a proof of work harder.
    pub level: u8,
}

/// Where there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In the account's unknown lane.
    Account,
    /// At the address.
    Address,
    /// The code was tried too often.
    Code,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The secret was right.
    Success,
    /// The secret was wrong; its mark, by which it is known again.
    Failure {
        /// 16 bits of the secret under the account's own key.
        tag: Option<u16>,
    },
    /// Nothing was verified.
    Aborted,
}

/// What `report` is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The attempt.
    pub id: u64,
    /// What became of it.
    pub outcome: Outcome,
}

/// What `report` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// The attempt is settled.
    Done {
        /// Whether its charge came back.
        returned: bool,
        /// The lane that it was counted in.
        lane: Lane,
    },
    /// It was reported before; nothing changed.
    Already,
    /// It took too long, or is not known: it stays counted, and must not be taken for a success.
    Expired,
}

impl AccountRules {
    /// Counts a guess before it is verified, if there is room for it. Every other answer leaves the account as it was.
    pub fn begin(&self, account: &mut Account, now: u64, attempt: &Attempt) -> Verdict {
        self.come_to_now(account, now);
        let now = now.max(account.time);
        if let Some(refused) = self.code_refuses(account, attempt) {
            return refused;
        }
        let lane = self.lane_of(account, now, attempt);
        if lane == Lane::Unknown
            && let Some(refused) = self.unknown_refuses(account, now, attempt)
        {
            return refused;
        }
        self.charge(account, now, attempt, lane);
        Verdict::Allow { lane }
    }

    /// Settles an attempt, once.
    pub fn report(&self, account: &mut Account, now: u64, report: &Report) -> Reported {
        self.come_to_now(account, now);
        let now = now.max(account.time);
        let Some(open) = account.open.iter_mut().find(|open| open.id == report.id) else {
            return Reported::Expired;
        };
        if open.done {
            return Reported::Already;
        }
        if open.at.saturating_add(ATTEMPT_MS) <= now {
            return Reported::Expired;
        }
        open.done = true;
        let open = *open;
        account.time = now;
        let returned = match report.outcome {
            Outcome::Success => self.succeed(account, now, &open),
            Outcome::Failure { tag } => self.fail(account, now, &open, tag),
            Outcome::Aborted => self.abort(account, now, &open),
        };
        Reported::Done { returned, lane: open.lane }
    }

    /// When the state may be dropped: nothing in it counts any more.
    pub fn reset_at(&self, account: &Account) -> u64 {
        let lanes = account.devices.iter().map(|device| device.drained_at);
        let familiar = account.familiar.iter().map(|familiar| familiar.until.max(familiar.drained_at));
        let codes = account.codes.iter().map(|code| code.until);
        let open = account.open.iter().map(|open| open.at.saturating_add(REMEMBERED_MS));
        // What was forgiven or aborted, and failures in a row, are kept for as long as the lane or this long.
        let last =
            [self.unknown.reset_at(&account.unknown), account.not_before, account.forgiven, account.aborted];
        let counted = if account.consecutive > 0 { account.time.saturating_add(self.familiar_ms) } else { 0 };
        lanes.chain(familiar).chain(codes).chain(open).chain(last).chain([counted]).max().unwrap_or(0)
    }

    /// Drops what no longer counts, and moves everything back if the clock stepped back.
    fn come_to_now(&self, account: &mut Account, now: u64) {
        if let Some(by) = super::stepped_back(account.time, now) {
            self.move_back(account, by);
        }
        let now = now.max(account.time);
        account.devices.retain(|device| device.drained_at > now);
        account.familiar.retain(|familiar| familiar.until > now);
        account.clients.retain(|client| self.unknown.reset_at(&client.reading) > now);
        account.codes.retain(|code| code.until > now);
        account.open.retain(|open| open.at.saturating_add(REMEMBERED_MS) > now);
    }

    fn move_back(&self, account: &mut Account, by: u64) {
        let back = |instant: &mut u64| *instant = instant.saturating_sub(by);
        account.unknown = self.unknown.moved_back(account.unknown, by);
        for client in &mut account.clients {
            client.reading = self.unknown.moved_back(client.reading, by);
        }
        [&mut account.time, &mut account.not_before, &mut account.forgiven, &mut account.aborted]
            .into_iter()
            .for_each(back);
        account.devices.iter_mut().for_each(|device| back(&mut device.drained_at));
        account.codes.iter_mut().for_each(|code| back(&mut code.until));
        account.open.iter_mut().for_each(|open| back(&mut open.at));
        for familiar in &mut account.familiar {
            back(&mut familiar.drained_at);
            back(&mut familiar.until);
        }
    }

    fn code_refuses(&self, account: &Account, attempt: &Attempt) -> Option<Verdict> {
        let code = account.codes.iter().find(|code| Some(code.key) == attempt.code)?;
        let refused = Verdict::Deny { scope: Scope::Code, retry_at: code.until };
        (code.tries >= self.tries_per_code).then_some(refused)
    }

    /// The lane with room that is the client's own, else the unknown one.
    fn lane_of(&self, account: &Account, now: u64, attempt: &Attempt) -> Lane {
        if let (Some(leak), Some(key)) = (self.device, attempt.device) {
            let owed = account.devices.iter().find(|device| device.key == key);
            let has_place = owed.is_some() || account.devices.len() < MAX_DEVICES;
            if has_place && has_room(leak, owed.map_or(0, |device| device.drained_at), now) {
                return Lane::Device;
            }
        }
        let familiar = account.familiar.iter().find(|familiar| familiar.key == attempt.client);
        if let (Some(leak), Some(familiar)) = (self.familiar, familiar)
            && has_room(leak, familiar.drained_at, now)
        {
            return Lane::Familiar;
        }
        Lane::Unknown
    }

    fn unknown_refuses(&self, account: &Account, now: u64, attempt: &Attempt) -> Option<Verdict> {
        if let Some(retry_at) = attempt.address_full_until {
            return Some(Verdict::Deny { scope: Scope::Address, retry_at });
        }
        if let Some(retry_at) = self.unknown.retry_at(&account.unknown, now) {
            let under_way = account.open.iter().any(|open| {
                open.lane == Lane::Unknown && !open.done && open.at.saturating_add(ATTEMPT_MS) > now
            });
            let full = Verdict::Deny { scope: Scope::Account, retry_at };
            return Some(if under_way { Verdict::Busy { retry_at } } else { full });
        }
        if account.not_before > now {
            return Some(Verdict::Delay { not_before: account.not_before });
        }
        let too_many = self.step_up_after.is_some_and(|most| account.consecutive >= most);
        if too_many && !attempt.stepped_up {
            return Some(Verdict::StepUp);
        }
        let used = self.unknown.used(&account.unknown, now);
        let asked = attempt.always_challenged || used >= u64::from(self.free);
        let spent = |proof| account.open.iter().any(|open| open.proof == proof);
        let met = attempt.proof.is_some_and(|proof| !spent(proof));
        let level = u8::try_from(used.saturating_sub(u64::from(self.free))).unwrap_or(u8::MAX);
        (asked && !met).then_some(Verdict::Challenge(Challenge { level }))
    }

    fn charge(&self, account: &mut Account, now: u64, attempt: &Attempt, lane: Lane) {
        match lane {
            Lane::Unknown => self.charge_unknown(account, now, attempt.client),
            Lane::Device => {
                if let (Some(leak), Some(key)) = (self.device, attempt.device) {
                    let place = account.devices.iter_mut().find(|device| device.key == key);
                    let owed = place.as_ref().map_or(0, |device| device.drained_at);
                    let drained_at = owed.max(now).saturating_add(leak.every_ms);
                    match place {
                        Some(device) => device.drained_at = drained_at,
                        None => account.devices.push(Device { key, drained_at }),
                    }
                }
            }
            Lane::Familiar => {
                let place = account.familiar.iter_mut().find(|familiar| familiar.key == attempt.client);
                if let (Some(leak), Some(familiar)) = (self.familiar, place) {
                    familiar.drained_at = familiar.drained_at.max(now).saturating_add(leak.every_ms);
                }
            }
        }
        if let Some(code) = attempt.code {
            count_try(account, now, code);
        }
        if account.open.len() >= MAX_OPEN {
            account.open.remove(0);
        }
        account.open.push(Open {
            id: attempt.id,
            at: now,
            lane,
            device: attempt.device.unwrap_or(0),
            client: attempt.client,
            code: attempt.code.unwrap_or(0),
            proof: attempt.proof.unwrap_or(0),
            done: false,
        });
        account.time = now;
    }

    /// The delay is set with the charge, not with the failure: guesses made at once are as many failures.
    fn charge_unknown(&self, account: &mut Account, now: u64, client: u64) {
        account.unknown = self.unknown.charge(account.unknown, now);
        let used = self.unknown.used(&account.unknown, now);
        if let Some(delayed) = used.checked_sub(u64::from(self.undelayed).saturating_add(1)) {
            let doubled = u32::try_from(delayed).ok().and_then(|times| FIRST_DELAY_MS.checked_shl(times));
            account.not_before = now.saturating_add(doubled.unwrap_or(MAX_DELAY_MS).min(MAX_DELAY_MS));
        }
        let at = account.clients.iter().position(|known| known.key == client);
        let own = at.map_or([0; LEAKS], |at| account.clients.remove(at).reading);
        if account.clients.len() >= MAX_CLIENTS {
            account.clients.remove(0);
        }
        account.clients.push(Client { key: client, reading: self.unknown.charge(own, now) });
    }

    fn succeed(&self, account: &mut Account, now: u64, open: &Open) -> bool {
        if self.keeps_success {
            return false;
        }
        self.give_back(account, now, open);
        account.consecutive = 0;
        account.codes.retain(|code| code.key != open.code);
        self.forgive(account, now, open.client);
        if self.familiar.is_some() {
            let at = account.familiar.iter().position(|familiar| familiar.key == open.client);
            let drained_at = at.map_or(0, |at| account.familiar.remove(at).drained_at);
            if account.familiar.len() >= MAX_FAMILIAR {
                account.familiar.remove(0);
            }
            let until = now.saturating_add(self.familiar_ms);
            account.familiar.push(Familiar { key: open.client, drained_at, until });
        }
        true
    }

    /// A success resets a counter, as is required of it. Of leaks it forgives what the same client owes of the unknown
    /// lane, up to a number a day: behind one address may also stand someone else.
    fn forgive(&self, account: &mut Account, now: u64, client: u64) {
        if let Gauge::Counter(_) = self.unknown {
            account.unknown = [0; LEAKS];
            account.clients.clear();
        }
        let Some(at) = account.clients.iter().position(|known| known.key == client) else {
            return;
        };
        let Some(own) = account.clients.get(at).map(|known| known.reading) else { return };
        let units = self.unknown.most_used(&own, now);
        let after = account.forgiven.max(now).saturating_add(units.saturating_mul(self.forgiven.every_ms));
        let most = u64::from(self.forgiven.burst).saturating_mul(self.forgiven.every_ms);
        if units > 0 && after.saturating_sub(now) <= most {
            account.forgiven = after;
            account.unknown = self.unknown.without(account.unknown, &own, now);
            account.clients.remove(at);
        }
    }

    fn fail(&self, account: &mut Account, now: u64, open: &Open, tag: Option<u16>) -> bool {
        if let Some(tag) = tag {
            if account.tags.contains(&tag) {
                self.give_back(account, now, open);
                return true;
            }
            if account.tags.len() >= MAX_TAGS {
                account.tags.remove(0);
            }
            account.tags.push(tag);
        }
        if open.lane == Lane::Unknown {
            account.consecutive = account.consecutive.saturating_add(1);
        }
        false
    }

    fn abort(&self, account: &mut Account, now: u64, open: &Open) -> bool {
        let room = has_room(self.aborted, account.aborted, now);
        if room {
            account.aborted = account.aborted.max(now).saturating_add(self.aborted.every_ms);
            self.give_back(account, now, open);
            if let Some(code) = account.codes.iter_mut().find(|code| code.key == open.code) {
                code.tries = code.tries.saturating_sub(1);
            }
        }
        room
    }

    /// Takes the charge of an attempt back from its lane, and from its client's share.
    fn give_back(&self, account: &mut Account, now: u64, open: &Open) {
        let left = |leak: Leak, drained_at: u64| {
            let drained = now.saturating_sub(open.at);
            drained_at.saturating_sub(leak.every_ms.saturating_sub(drained))
        };
        match open.lane {
            Lane::Unknown => {
                account.unknown = self.unknown.give_back(account.unknown, now, open.at);
                if let Some(client) = account.clients.iter_mut().find(|client| client.key == open.client) {
                    client.reading = self.unknown.give_back(client.reading, now, open.at);
                }
            }
            Lane::Device => {
                let place = account.devices.iter_mut().find(|device| device.key == open.device);
                if let (Some(leak), Some(device)) = (self.device, place) {
                    device.drained_at = left(leak, device.drained_at);
                }
            }
            Lane::Familiar => {
                let place = account.familiar.iter_mut().find(|familiar| familiar.key == open.client);
                if let (Some(leak), Some(familiar)) = (self.familiar, place) {
                    familiar.drained_at = left(leak, familiar.drained_at);
                }
            }
        }
    }
}

fn has_room(leak: Leak, drained_at: u64, now: u64) -> bool {
    let room = u64::from(leak.burst).saturating_sub(1).saturating_mul(leak.every_ms);
    leak.burst > 0 && drained_at.saturating_sub(now) <= room
}

fn count_try(account: &mut Account, now: u64, key: u64) {
    if let Some(code) = account.codes.iter_mut().find(|code| code.key == key) {
        code.tries = code.tries.saturating_add(1);
        return;
    }
    if account.codes.len() >= MAX_CODES {
        account.codes.remove(0);
    }
    account.codes.push(Code { key, tries: 1, until: now.saturating_add(CODE_MS) });
}
