//! The numbers of a guard, and the profiles that are known by name.

use super::gauge::{Counter, Gauge, Leak};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// How guesses at the secrets of one account are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountRules {
    /// What all clients that are not known share.
    pub unknown: Gauge,
    /// The lane of each device that proved itself before; `None` gives devices no lane of their own.
    pub device: Option<Leak>,
    /// The lane of each address that an owner came from before; `None` gives addresses none.
    pub familiar: Option<Leak>,
    /// How long an address is familiar after a success, in milliseconds.
    pub familiar_ms: u64,
    /// Guesses of the unknown lane that are asked no challenge.
    pub free: u32,
    /// Guesses of the unknown lane that are not delayed; each further one waits twice as long as the one before.
    pub undelayed: u32,
    /// The failures in a row in the unknown lane after which another factor is asked for; `None` never asks.
    pub step_up_after: Option<u32>,
    /// Tries at one code.
    pub tries_per_code: u32,
    /// How many earlier failures of a client its own success forgives.
    pub forgiven: Leak,
    /// How many attempts that could not be verified come back.
    pub aborted: Leak,
    /// Whether a success stays counted: where what is limited is the deed, not its failure.
    pub keeps_success: bool,
}

/// How guesses from one address, and from the network around it, are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRules {
    /// Of one address: an IPv4 address, or the /64 of an IPv6 one.
    pub address: Gauge,
    /// Of its network: a /24, or a /48.
    pub network: Gauge,
    /// Different names that failed within an hour from which every guess is challenged.
    pub names_challenged: u8,
    /// Different names that failed within an hour from which further names are refused; at most [`MAX_NAMES`].
    pub names_refused: u8,
}

/// The most different names that are remembered of an address.
pub const MAX_NAMES: u8 = 20;
/// How long the names that failed from an address are remembered, from the first of them.
pub const NAMES_MS: u64 = HOUR_MS;
/// How long an attempt may take from `begin` to `report`.
pub const ATTEMPT_MS: u64 = 120_000;
/// How long an attempt is remembered: as long as a proof of work is good for, so that each serves once.
pub const REMEMBERED_MS: u64 = 300_000;
/// The delay of the first delayed guess; later ones double it.
pub const FIRST_DELAY_MS: u64 = 2_000;
/// The longest delay between two guesses.
pub const MAX_DELAY_MS: u64 = 16_000;
/// How long the tries at a code are remembered.
pub const CODE_MS: u64 = HOUR_MS;

const NEVER: Leak = Leak { burst: 0, every_ms: 1 };

impl AccountRules {
    /// The default for passwords: 52 guesses on the first day, 12 on each later one, whoever guesses. Devices and
    /// addresses that proved themselves have lanes of their own.
    pub const fn strong() -> Self {
        let fast = Leak { burst: 10, every_ms: 30 * MINUTE_MS };
        let slow = Leak { burst: 40, every_ms: 2 * HOUR_MS };
        Self {
            unknown: Gauge::Leaks([Some(fast), Some(slow), None]),
            device: Some(Leak { burst: 8, every_ms: 15 * MINUTE_MS }),
            familiar: Some(Leak { burst: 20, every_ms: 10 * MINUTE_MS }),
            familiar_ms: 30 * DAY_MS,
            free: 3,
            undelayed: 6,
            step_up_after: Some(100),
            tries_per_code: 5,
            forgiven: Leak { burst: 10, every_ms: DAY_MS / 10 },
            aborted: Leak { burst: 10, every_ms: MINUTE_MS / 10 },
            keeps_success: false,
        }
    }

    /// The literal requirement: failures remembered for 15 minutes, the tenth locks for 30. Anyone can lock an owner
    /// out for that long, and an attacker who stops one short of the lockout has about 860 guesses a day.
    pub const fn basic() -> Self {
        let counter = Counter { limit: 10, ttl_ms: 15 * MINUTE_MS, lockout_ms: 30 * MINUTE_MS };
        Self {
            unknown: Gauge::Counter(counter),
            device: None,
            familiar: None,
            step_up_after: None,
            ..Self::strong()
        }
    }

    /// For codes that are sent: the account's budget outlives each code, so that a new code brings no new tries.
    pub const fn codes() -> Self {
        let leak = Leak { burst: 10, every_ms: 30 * MINUTE_MS };
        Self {
            unknown: Gauge::Leaks([Some(leak), None, None]),
            device: None,
            familiar: None,
            free: 10,
            undelayed: 10,
            step_up_after: None,
            forgiven: NEVER,
            ..Self::strong()
        }
    }

    /// For what sends a code or a mail: a minute apart, five an hour, ten a day.
    pub const fn issue() -> Self {
        let minute = Leak { burst: 1, every_ms: MINUTE_MS };
        let hour = Leak { burst: 5, every_ms: HOUR_MS / 5 };
        let day = Leak { burst: 10, every_ms: DAY_MS / 10 };
        Self {
            unknown: Gauge::Leaks([Some(day), Some(hour), Some(minute)]),
            keeps_success: true,
            ..Self::codes()
        }
    }
}

impl AddressRules {
    /// The default: 20 guesses and one more each three minutes for an address, 100 and one each 36 s for its network.
    pub const fn strong() -> Self {
        let address = Leak { burst: 20, every_ms: 3 * MINUTE_MS };
        let network = Leak { burst: 100, every_ms: HOUR_MS / 100 };
        Self {
            address: Gauge::Leaks([Some(address), None, None]),
            network: Gauge::Leaks([Some(network), None, None]),
            names_challenged: 5,
            names_refused: MAX_NAMES,
        }
    }

    /// The literal requirement: 20 failures of an address are remembered for an hour.
    pub const fn basic() -> Self {
        let address = Counter { limit: 20, ttl_ms: HOUR_MS, lockout_ms: 0 };
        let network = Counter { limit: u32::MAX, ..address };
        Self {
            address: Gauge::Counter(address),
            network: Gauge::Counter(network),
            names_challenged: MAX_NAMES,
            names_refused: MAX_NAMES,
        }
    }
}
