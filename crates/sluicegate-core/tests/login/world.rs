//! One account, as many addresses as somebody has, and a clock that is turned.

use std::collections::HashMap;

use sluicegate_core::login::{
    Account, AccountRules, Address, AddressRules, Attempt, HeldName, Network, Origin, Outcome, Report,
    Reported, Verdict, Weight,
};

pub(crate) const SECOND: u64 = 1_000;
pub(crate) const MINUTE: u64 = 60 * SECOND;
pub(crate) const HOUR: u64 = 60 * MINUTE;
pub(crate) const DAY: u64 = 24 * HOUR;
pub(crate) const START: u64 = 1_790_000_000 * SECOND;
/// The name of the account, as addresses know it.
const NAME: u32 = 7;

/// What both sides see.
pub(crate) struct World {
    pub(crate) rules: AccountRules,
    pub(crate) origins: AddressRules,
    pub(crate) account: Account,
    pub(crate) now: u64,
    /// When secrets were verified that were wrong.
    pub(crate) evaluated: Vec<u64>,
    addresses: HashMap<u64, Address>,
    networks: HashMap<u64, Network>,
    held: HashMap<u64, (u64, u64)>,
    next: u64,
}

impl World {
    pub(crate) fn new(rules: AccountRules) -> Self {
        Self {
            rules,
            origins: AddressRules::strong(),
            account: Account::default(),
            now: START,
            evaluated: Vec::new(),
            addresses: HashMap::new(),
            networks: HashMap::new(),
            held: HashMap::new(),
            next: 0,
        }
    }

    /// A number that was never given out.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Begins as the library does: the address first, then the account; what the address held comes back when nobody
    /// may verify.
    pub(crate) fn begin(&mut self, mut attempt: Attempt) -> (u64, Verdict) {
        let id = self.fresh();
        attempt.id = id;
        let client = attempt.client;
        let (address, network) = self.origin(client);
        let mut places = (address, network);
        let origin = self.origins.hold(&mut places.0, &mut places.1, self.now, NAME);
        match origin {
            Origin::Refused { retry_at } => attempt.address_full_until = Some(retry_at),
            Origin::Held { challenged, .. } => attempt.always_challenged |= challenged,
        }
        let verdict = self.rules.begin(&mut self.account, self.now, &attempt);
        if let Origin::Held { at, .. } = origin {
            if matches!(verdict, Verdict::Allow { .. }) {
                self.held.insert(id, (client, at));
            } else if !matches!(verdict, Verdict::Deny { .. }) {
                let held = HeldName { charged_at: at, name: NAME };
                self.origins.settle(&mut places.0, &mut places.1, self.now, held, Weight::Nothing);
            }
        }
        self.put(client, places);
        (id, verdict)
    }

    pub(crate) fn report(&mut self, id: u64, outcome: Outcome) -> Reported {
        let reported = self.rules.report(&mut self.account, self.now, &Report { id, outcome });
        if let (Reported::Done { returned: true, .. }, Some((client, at))) = (reported, self.held.remove(&id))
        {
            let mut places = self.origin(client);
            let held = HeldName { charged_at: at, name: NAME };
            self.origins.settle(&mut places.0, &mut places.1, self.now, held, Weight::Nothing);
            self.put(client, places);
        }
        reported
    }

    fn origin(&self, client: u64) -> (Address, Network) {
        let address = self.addresses.get(&client).cloned().unwrap_or_default();
        (address, self.networks.get(&network_of(client)).copied().unwrap_or_default())
    }

    fn put(&mut self, client: u64, (address, network): (Address, Network)) {
        self.addresses.insert(client, address);
        self.networks.insert(network_of(client), network);
    }

    /// Wrong guesses in `[from, from + d)` after the first.
    pub(crate) fn evaluated_in(&self, from: u64, length: u64) -> usize {
        let first = self.evaluated.first().copied().unwrap_or(START);
        let range = first + from..first + from + length;
        self.evaluated.iter().filter(|at| range.contains(at)).count()
    }

    /// The most wrong guesses in any interval of this length, both ends included.
    pub(crate) fn most_in_any(&self, length: u64) -> usize {
        let ends = |from: usize| self.evaluated.partition_point(|at| *at <= self.evaluated[from] + length);
        (0..self.evaluated.len()).map(|from| ends(from) - from).max().unwrap_or(0)
    }
}

/// 256 addresses to a network.
fn network_of(client: u64) -> u64 {
    client / 256
}

/// An attempt of someone whom nobody knows and who meets every challenge.
pub(crate) fn stranger(client: u64, proof: u64) -> Attempt {
    Attempt {
        id: 0,
        client,
        device: None,
        code: None,
        proof: Some(proof),
        stepped_up: false,
        address_full_until: None,
        always_challenged: false,
    }
}

/// An attempt with a device's cookie.
pub(crate) fn with_device(client: u64, device: u64) -> Attempt {
    Attempt { device: Some(device), proof: None, ..stranger(client, 0) }
}

/// A failure that is no repetition.
pub(crate) const WRONG: Outcome = Outcome::Failure { tag: None };
