//! Attackers who see every answer, meet every challenge, and lose no millisecond.

use sluicegate_core::login::{Scope, Verdict};

use crate::world::{SECOND, World, stranger};

/// Where an attacker's guesses come from and how many are made at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Army {
    pub(crate) addresses: u64,
    pub(crate) parallel: u64,
    /// Whether outcomes are reported; a caller that crashes, or is made to, reports none.
    pub(crate) reports: bool,
}

/// Addresses of attackers begin here: one per network as long as there are networks.
const FIRST_ADDRESS: u64 = 1 << 32;

impl Army {
    /// Makes guesses at one instant; answers how many were verified, and when the next has a chance.
    pub(crate) fn volley(&self, world: &mut World, most: u64) -> (u64, u64) {
        let (mut verified, mut next) = (Vec::new(), u64::MAX);
        for _ in 0..self.parallel.min(most) {
            let number = world.fresh();
            let address = FIRST_ADDRESS + 256 * (number % self.addresses);
            match world.begin(stranger(address, number)) {
                (id, Verdict::Allow { .. }) => verified.push(id),
                // Another address may have room earlier: look again soon.
                (_, Verdict::Deny { scope: Scope::Address, retry_at }) => {
                    let soon = if self.addresses > 1 { world.now + 20 * SECOND } else { retry_at };
                    next = next.min(soon);
                }
                (_, Verdict::Deny { retry_at, .. } | Verdict::Busy { retry_at }) => next = next.min(retry_at),
                (_, Verdict::Delay { not_before }) => next = next.min(not_before),
                (_, Verdict::Challenge(_) | Verdict::StepUp) => panic!("an attacker meets every challenge"),
            }
        }
        for id in &verified {
            world.evaluated.push(world.now);
            if self.reports {
                world.report(*id, crate::world::WRONG);
            }
        }
        let count = u64::try_from(verified.len()).unwrap();
        (count, if count > 0 { world.now } else { next })
    }

    /// Guesses whenever there is room, until then.
    pub(crate) fn greedy(&self, world: &mut World, until: u64) {
        while world.now < until {
            let (_, next) = self.volley(world, u64::MAX);
            world.now = next.max(world.now).min(until);
        }
    }

    /// Guesses `k` times as fast as it can, then keeps quiet for `wait`.
    pub(crate) fn paced(&self, world: &mut World, k: u64, wait: u64, until: u64) {
        while world.now < until {
            let (begun, mut made) = (world.now, 0);
            while made < k && world.now < (begun + wait).min(until) {
                let (count, next) = self.volley(world, k - made);
                made += count;
                world.now = if count > 0 { world.now } else { next.max(world.now + 1) };
            }
            world.now = world.now.max(begun) + wait;
        }
    }
}
