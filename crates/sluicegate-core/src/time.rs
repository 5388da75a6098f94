//! Instants, ticks and the rule for clocks that step back.

use std::{fmt, time::Duration};

/// An instant: microseconds since 1970-01-01T00:00:00Z, at most [`Micros::MAX`].
///
/// ```
/// use sluicegate_core::Micros;
/// assert_eq!(Micros::from_secs(2).as_u64(), 2_000_000);
/// assert_eq!(Micros::new(u64::MAX), Micros::MAX);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(u64);

impl Micros {
    /// The last instant that is counted with (in the year 2219). It leaves room for the longest window
    /// below 2^53, so that every instant that a script computes is an exact double.
    pub const MAX: Self = Self((1 << 53) - (1 << 50));

    /// An instant from microseconds since the epoch; later than [`Micros::MAX`] saturates.
    #[inline]
    pub const fn new(micros: u64) -> Self {
        Self(if micros > Self::MAX.0 { Self::MAX.0 } else { micros })
    }

    /// An instant from whole seconds since the epoch.
    pub const fn from_secs(secs: u64) -> Self {
        Self::new(secs.saturating_mul(1_000_000))
    }

    /// Microseconds since the epoch.
    #[inline]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// The instant `by` later; saturates at [`Micros::MAX`].
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self::new(self.0.saturating_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.0)
    }
}

/// How far a stored instant may lie ahead of the caller's clock before the caller's clock is doubted, in
/// microseconds. Clocks of one fleet differ by milliseconds; five seconds apart, one of them is wrong.
pub const MAX_SKEW_US: u64 = 5_000_000;

/// The unit in which a limit counts time, in microseconds: 1, 1,000 or 1,000,000.
///
/// It depends on the window alone, so that a new amount never reinterprets stored state, and it keeps
/// `amount × window` below 2^51 for amounts that people use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(u64);

impl Tick {
    /// One microsecond.
    pub const MICROSECOND: Self = Self(1);

    /// The tick for a window: µs below 10 s, ms below a day, seconds from a day on. Stored state counts in it, so
    /// that these edges must never move.
    pub const fn for_window_us(window_us: u64) -> Self {
        const SECOND_US: u64 = 1_000_000;
        match window_us {
            0..10_000_000 => Self(1),
            10_000_000..86_400_000_000 => Self(1_000),
            _ => Self(SECOND_US),
        }
    }

    /// Microseconds in one tick.
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The tick that contains `at`.
    #[inline]
    pub const fn floor(self, at: Micros) -> u64 {
        self.ticks_in(at.0)
    }

    /// Whole ticks in that many microseconds.
    #[inline]
    pub const fn ticks_in(self, micros: u64) -> u64 {
        // A literal divisor in each arm lets the compiler multiply instead of divide.
        match self.0 {
            1 => micros,
            1_000 => micros / 1_000,
            _ => micros / 1_000_000,
        }
    }

    /// The instant at which `tick` begins, in microseconds.
    #[inline]
    pub const fn start_us(self, tick: u64) -> u64 {
        tick.saturating_mul(self.0)
    }

    /// [`MAX_SKEW_US`] in ticks.
    #[inline]
    pub const fn max_skew(self) -> u64 {
        self.ticks_in(MAX_SKEW_US)
    }
}

/// The stored state lies more than [`MAX_SKEW_US`] ahead of the given time: nothing was decided.
///
/// A caller asks its clock again; if the answer stands, it moves the state to now with `rebase`, which keeps
/// what was used, so that a clock that stepped back neither locks a window nor re-opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored state is more than 5 s ahead of the given time")]
pub struct Skew;

/// What the clock says to one decision, in the limit's own ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The caller's time.
    pub now: u64,
    /// By how much this key's windows are shifted against the epoch (`align: hashed`), below the window.
    pub phase: u64,
    /// The furthest that stored state may lie ahead of `now`.
    pub max_skew: u64,
}

impl At {
    /// The time to decide with: never before what is stored.
    ///
    /// # Errors
    /// [`Skew`] if `stored` is too far ahead of `now` to be believed.
    #[inline]
    pub fn not_before(self, stored: u64) -> Result<u64, Skew> {
        if stored.saturating_sub(self.now) > self.max_skew {
            return Err(Skew);
        }
        Ok(self.now.max(stored))
    }

    /// The start of the window of `length` that contains `now`, with this key's phase. There is no instant before
    /// the epoch: a window that would begin there begins at 0.
    #[inline]
    pub fn window_start(self, length: u64) -> u64 {
        let into = (self.now.saturating_add(length).saturating_sub(self.phase)) % length;
        self.now.saturating_sub(into)
    }
}
