//! Guesses from one address and its network. Lua twin: `login_address.lua`.

use super::{
    gauge::Reading,
    rules::{AddressRules, NAMES_MS},
};

/// What is stored of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// The latest instant at which it was written, in milliseconds.
    pub time: u64,
    /// What it owes.
    pub reading: Reading,
    /// When its names are forgotten, in milliseconds.
    pub names_until: u64,
    /// The names that were guessed at without success, at most [`super::rules::MAX_NAMES`].
    pub names: Vec<u32>,
}

/// What is stored of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// The latest instant at which it was written, in milliseconds.
    pub time: u64,
    /// What it owes.
    pub reading: Reading,
}

/// What an address says to a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The guess is counted, at that instant in milliseconds.
    Held {
        /// When it was counted.
        at: u64,
        /// Whether so many names failed that every guess is challenged.
        challenged: bool,
    },
    /// There is no room. Only a client that the account knows may go on.
    Refused {
        /// When there is room, in milliseconds.
        retry_at: u64,
    },
}

/// What becomes of a guess's charge once its outcome is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// It was none: the charge comes back, and the name is forgotten.
    Nothing,
    /// It stays counted, and this many more with it.
    More(u8),
}

impl AddressRules {
    /// Counts a guess at a name if the address, its network and its number of names have room. A refusal changes
    /// nothing.
    pub fn hold(&self, address: &mut Address, network: &mut Network, now: u64, name: u32) -> Origin {
        self.come_to_now(address, network, now);
        let now = now.max(address.time).max(network.time);
        let full = self.address.retry_at(&address.reading, now);
        let network_full = self.network.retry_at(&network.reading, now);
        let known = address.names.contains(&name);
        let names = u8::try_from(address.names.len()).unwrap_or(u8::MAX);
        let too_many = (!known && names >= self.names_refused).then_some(address.names_until);
        if let Some(retry_at) = full.max(network_full).max(too_many) {
            return Origin::Refused { retry_at };
        }
        address.reading = self.address.charge(address.reading, now);
        network.reading = self.network.charge(network.reading, now);
        if address.names.is_empty() {
            address.names_until = now.saturating_add(NAMES_MS);
        }
        if !known {
            address.names.push(name);
        }
        (address.time, network.time) = (now, now);
        Origin::Held { at: now, challenged: names >= self.names_challenged }
    }

    /// Weighs a guess that was held at `charged_at`.
    pub fn settle(
        &self,
        address: &mut Address,
        network: &mut Network,
        now: u64,
        held: HeldName,
        weight: Weight,
    ) {
        self.come_to_now(address, network, now);
        let now = now.max(address.time).max(network.time);
        match weight {
            Weight::Nothing => {
                address.reading = self.address.give_back(address.reading, now, held.charged_at);
                network.reading = self.network.give_back(network.reading, now, held.charged_at);
                address.names.retain(|other| *other != held.name);
            }
            Weight::More(units) => {
                for _ in 0..units {
                    address.reading = self.address.charge(address.reading, now);
                    network.reading = self.network.charge(network.reading, now);
                }
            }
        }
        (address.time, network.time) = (now, now);
    }

    /// Forgets names in time, and moves both back if the clock stepped back.
    fn come_to_now(&self, address: &mut Address, network: &mut Network, now: u64) {
        if let Some(by) = super::stepped_back(address.time, now) {
            address.time = now;
            address.reading = self.address.moved_back(address.reading, by);
            address.names_until = address.names_until.saturating_sub(by);
        }
        if let Some(by) = super::stepped_back(network.time, now) {
            network.time = now;
            network.reading = self.network.moved_back(network.reading, by);
        }
        if address.names_until <= now {
            address.names.clear();
        }
    }
}

/// A held guess as its address knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldName {
    /// When it was counted, in milliseconds.
    pub charged_at: u64,
    /// The name.
    pub name: u32,
}
