//! What a limit does when its store cannot decide, and what one instance of a fleet may then grant by itself.
//!
//! **Law.** The shares of all instances add up to exactly `floor(headroom × whole)`, whatever the whole. So the laws of
//! all algorithms, which are sums, hold for the fleet with `headroom × amount` and `headroom × burst`.

use std::{fmt, num::NonZeroU32};

use crate::rule::Rule;

/// What a limit does when the store cannot decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStoreFailure {
    /// This process decides by the same algorithm, with its [`Share`] of the limit.
    Local {
        /// How much the whole fleet may then grant.
        headroom: Headroom,
    },
    /// Everything passes that could pass at all, and is not counted.
    Allow,
    /// Nothing passes.
    Deny,
}

impl Default for OnStoreFailure {
    fn default() -> Self {
        Self::Local { headroom: Headroom::ONE }
    }
}

/// What a fleet without its store may grant, as a multiple of what it grants with it: 0.01 to 100, in thousandths.
///
/// ```
/// use sluicegate_core::Headroom;
/// let half_more = Headroom::from_permille(1_500).expect("a headroom");
/// assert_eq!((half_more.of(3), Headroom::ONE.of(3)), (4, 3));
/// assert_eq!(Headroom::from_permille(9), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Headroom(u32);

impl fmt::Display for Headroom {
    /// As a policy has it: `1`, `1.5`, `0.333`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.0 / WHOLE, self.0 % WHOLE);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl Headroom {
    /// As much as with the store.
    pub const ONE: Self = Self(WHOLE);
    /// The least.
    pub const MIN: Self = Self(10);
    /// The most.
    pub const MAX: Self = Self(100_000);

    /// That many thousandths; `None` below [`Headroom::MIN`] or above [`Headroom::MAX`].
    pub const fn from_permille(permille: u32) -> Option<Self> {
        if permille < Self::MIN.0 || permille > Self::MAX.0 { None } else { Some(Self(permille)) }
    }

    /// The thousandths.
    pub const fn permille(self) -> u32 {
        self.0
    }

    /// That much of a whole, rounded down; it saturates.
    #[inline]
    pub fn of(self, whole: u64) -> u64 {
        if self == Self::ONE {
            return whole;
        }
        let scaled = u128::from(whole) * u128::from(self.0) / u128::from(WHOLE);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

/// Thousandths of a whole.
const WHOLE: u32 = 1_000;

/// Which part of a limit is one instance's: the fleet's size, and this instance's rank among its instances.
///
/// ```
/// use std::num::NonZeroU32;
/// use sluicegate_core::Share;
/// let three = NonZeroU32::new(3).expect("not zero");
/// let parts = [0, 1, 2].map(|rank| Share::new(three, rank).expect("a rank below three").of(100));
/// assert_eq!(parts, [34, 33, 33]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    instances: NonZeroU32,
    rank: u32,
}

impl Share {
    /// Of an instance that is alone: everything.
    pub const ALONE: Self = Self { instances: NonZeroU32::MIN, rank: 0 };

    /// Of the instance with that rank, counted from 0; `None` if there are not so many.
    pub const fn new(instances: NonZeroU32, rank: u32) -> Option<Self> {
        if rank < instances.get() { Some(Self { instances, rank }) } else { None }
    }

    /// The instances of the fleet.
    pub const fn instances(self) -> NonZeroU32 {
        self.instances
    }

    /// This instance's rank, from 0 on.
    pub const fn rank(self) -> u32 {
        self.rank
    }

    /// This instance's part: the remainder goes to the lowest ranks, one each.
    #[inline]
    pub fn of(self, whole: u64) -> u64 {
        let instances = u64::from(self.instances.get());
        whole / instances + u64::from(u64::from(self.rank) < whole % instances)
    }
}

impl Rule {
    /// The same rule with this instance's part of the amount, and of the burst; `None` if there is none left for it,
    /// as for a limit that is smaller than the fleet.
    ///
    /// A leaky bucket keeps its longest delay: its queue is shorter because it drains more slowly.
    ///
    /// ```
    /// use std::{num::NonZeroU32, time::Duration};
    /// use sluicegate_core::{Headroom, Rule, Share};
    /// let rule = Rule::token_bucket(5, Duration::from_secs(1), 50)?;
    /// let second_of_four = Share::new(NonZeroU32::new(4).expect("not zero"), 1).expect("a rank below four");
    /// let part = rule.share(Headroom::ONE, second_of_four).expect("a part");
    /// assert_eq!((part.amount(), part.max_cost()), (1, 13));
    /// # Ok::<(), sluicegate_core::RuleError>(())
    /// ```
    #[inline]
    pub fn share(&self, headroom: Headroom, share: Share) -> Option<Self> {
        self.scaled(|whole| share.of(headroom.of(whole)))
    }
}
