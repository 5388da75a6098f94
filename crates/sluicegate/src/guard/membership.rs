//! This instance's place in its fleet, as last heard.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU64, Ordering},
};

use sluicegate_core::Share;

/// The fleet's size and this instance's rank, read by every local decision and written by whoever learns them.
#[derive(Debug)]
pub struct Membership {
    /// The instances in the upper half, the rank in the lower: both change at once.
    packed: AtomicU64,
}

impl Membership {
    /// A membership that is known from the start.
    pub fn new(share: Share) -> Self {
        Self { packed: AtomicU64::new(packed(share)) }
    }

    /// This instance's share of every limit.
    #[inline]
    pub fn share(&self) -> Share {
        let [i0, i1, i2, i3, r0, r1, r2, r3] = self.packed.load(Ordering::Relaxed).to_be_bytes();
        let (instances, rank) = (u32::from_be_bytes([i0, i1, i2, i3]), u32::from_be_bytes([r0, r1, r2, r3]));
        NonZeroU32::new(instances).and_then(|instances| Share::new(instances, rank)).unwrap_or(Share::ALONE)
    }

    /// What holds from now on.
    pub fn set(&self, share: Share) {
        self.packed.store(packed(share), Ordering::Relaxed);
    }
}

/// Alone.
impl Default for Membership {
    fn default() -> Self {
        Self::new(Share::ALONE)
    }
}

fn packed(share: Share) -> u64 {
    u64::from(share.instances().get()) << 32 | u64::from(share.rank())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_read() {
        let membership = Membership::default();
        assert_eq!(membership.share(), Share::ALONE);
        for (instances, rank) in [(1, 0), (7, 6), (u32::MAX, u32::MAX - 1)] {
            let share = NonZeroU32::new(instances).and_then(|instances| Share::new(instances, rank)).unwrap();
            membership.set(share);
            assert_eq!(membership.share(), share);
        }
    }
}
