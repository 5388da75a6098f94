//! A rule: one algorithm with its numbers, checked once, so that every decision stays within exact doubles.

use std::{fmt, time::Duration};

pub use crate::algorithm::fixed_window::Align;
use crate::{
    algorithm::{
        Machine,
        bucket::{Bucket, Shape},
        fixed_window::FixedWindow,
        quota::{self, Quota},
        sliding_counter::SlidingCounter,
        sliding_log::{self, SlidingLog},
    },
    period::Period,
    share::Headroom,
    time::{At, Micros, Tick},
};

/// The bound on `max(amount, burst) × window` (in ticks): twice it is still an exact double.
pub const MAX_PRODUCT: u64 = 1 << 51;
/// The shortest window.
pub const MIN_WINDOW: Duration = Duration::from_millis(1);
/// The longest window: ten years of 366 days.
pub const MAX_WINDOW: Duration = Duration::from_secs(3_660 * 86_400);

/// The algorithms by the names that policies and answers use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// `fixed_window`
    FixedWindow,
    /// `sliding_log`
    SlidingLog,
    /// `sliding_counter`
    SlidingCounter,
    /// `token_bucket`
    TokenBucket,
    /// `gcra`
    Gcra,
    /// `leaky_bucket`
    LeakyBucket,
    /// `quota`
    Quota,
}

impl Algorithm {
    /// All algorithms, in the order of the docs.
    pub const ALL: [Self; 7] = [
        Self::FixedWindow,
        Self::SlidingLog,
        Self::SlidingCounter,
        Self::TokenBucket,
        Self::Gcra,
        Self::LeakyBucket,
        Self::Quota,
    ];

    /// The name in policies and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FixedWindow => "fixed_window",
            Self::SlidingLog => "sliding_log",
            Self::SlidingCounter => "sliding_counter",
            Self::TokenBucket => "token_bucket",
            Self::Gcra => "gcra",
            Self::LeakyBucket => "leaky_bucket",
            Self::Quota => "quota",
        }
    }

    /// The algorithm of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Numbers that cannot make a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The window is outside [`MIN_WINDOW`]..=[`MAX_WINDOW`].
    #[error("the window is {0:?}, but must be from 1 ms to 10 years")]
    Window(Duration),
    /// The window is not a whole number of ticks.
    #[error("the window {window:?} must be a whole number of {unit}")]
    PartialTick {
        /// The window given.
        window: Duration,
        /// The unit that windows of this length count in.
        unit: &'static str,
    },
    /// Amount times window would leave exact arithmetic, or a burst would take longer than [`MAX_WINDOW`] to refill.
    #[error("{field} {value} is too large for a window of {window:?}: at most {max}")]
    TooLarge {
        /// `limit` or `burst`.
        field: &'static str,
        /// The value given.
        value: u64,
        /// The window given.
        window: Duration,
        /// The largest value that fits.
        max: u64,
    },
    /// A leaky bucket's queue would leave exact arithmetic, or be longer than [`MAX_WINDOW`].
    #[error("max_delay {max_delay:?} is too long for {amount} per {window:?}: at most {max:?}")]
    DelayTooLong {
        /// The delay given.
        max_delay: Duration,
        /// The amount given.
        amount: u64,
        /// The window given.
        window: Duration,
        /// The longest delay that fits.
        max: Duration,
    },
    /// A sliding log above [`sliding_log::MAX_AMOUNT`].
    #[error("a sliding_log keeps every request, so its limit is at most 1000, not {0}")]
    LogTooLarge(u64),
    /// A quota above [`quota::MAX_AMOUNT`].
    #[error("a quota is at most {max}, not {0}", max = quota::MAX_AMOUNT)]
    QuotaTooLarge(u64),
    /// A burst of zero would deny everything.
    #[error("burst must be at least 1")]
    ZeroBurst,
}

/// One algorithm with checked numbers: what a store needs to decide.
///
/// ```
/// use std::time::Duration;
/// use sluicegate_core::{Algorithm, Rule};
/// let rule = Rule::token_bucket(10, Duration::from_secs(1), 50)?;
/// assert_eq!(rule.algorithm(), Algorithm::TokenBucket);
/// assert_eq!((rule.amount(), rule.max_cost()), (10, 50));
/// # Ok::<(), sluicegate_core::RuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    algorithm: Algorithm,
    amount: u64,
    window: Duration,
    tick: Tick,
    machine: AnyMachine,
}

/// The machines behind the algorithms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyMachine {
    /// `fixed_window`
    FixedWindow(FixedWindow),
    /// `sliding_log`
    SlidingLog(SlidingLog),
    /// `sliding_counter`
    SlidingCounter(SlidingCounter),
    /// `token_bucket`, `gcra`, `leaky_bucket`
    Bucket(Bucket),
    /// `quota`
    Quota(Quota),
}

impl Rule {
    /// At most `amount` in each aligned window.
    pub fn fixed_window(amount: u64, window: Duration, align: Align) -> Result<Self, RuleError> {
        Self::build(Algorithm::FixedWindow, amount, window, |window| {
            AnyMachine::FixedWindow(FixedWindow { amount, window, align })
        })
    }

    /// At most `amount` in every window, exactly; `amount` at most 1,000.
    pub fn sliding_log(amount: u64, window: Duration) -> Result<Self, RuleError> {
        if amount > sliding_log::MAX_AMOUNT {
            return Err(RuleError::LogTooLarge(amount));
        }
        Self::build(Algorithm::SlidingLog, amount, window, |window| {
            AnyMachine::SlidingLog(SlidingLog { amount, window })
        })
    }

    /// At most `amount`·(1 + d/window) in every interval of length d, with two numbers per key.
    pub fn sliding_counter(amount: u64, window: Duration) -> Result<Self, RuleError> {
        Self::build(Algorithm::SlidingCounter, amount, window, |window| {
            AnyMachine::SlidingCounter(SlidingCounter { amount, window })
        })
    }

    /// `amount` tokens a window, of which up to `burst` are saved up.
    pub fn token_bucket(amount: u64, window: Duration, burst: u64) -> Result<Self, RuleError> {
        Self::bucket(Algorithm::TokenBucket, amount, window, burst)
    }

    /// The same law as [`Rule::token_bucket`], by its telecom name.
    pub fn gcra(amount: u64, window: Duration, burst: u64) -> Result<Self, RuleError> {
        Self::bucket(Algorithm::Gcra, amount, window, burst)
    }

    /// An even output of `amount` a window: admitted asks are told to wait, up to `max_delay`.
    pub fn leaky_bucket(amount: u64, window: Duration, max_delay: Duration) -> Result<Self, RuleError> {
        let tick = Tick::for_window_us(checked_window(window)?);
        let ticks = micros(max_delay) / tick.as_micros();
        check_delay(max_delay, amount, window, tick)?;
        Self::build(Algorithm::LeakyBucket, amount, window, |window| {
            AnyMachine::Bucket(Bucket { amount, window, shape: Shape::Queue { max_delay: ticks } })
        })
    }

    /// At most `amount` in each calendar period.
    pub fn quota(amount: u64, period: Period) -> Result<Self, RuleError> {
        if amount > quota::MAX_AMOUNT {
            return Err(RuleError::QuotaTooLarge(amount));
        }
        let (window, tick) = (period.longest(), Tick::MICROSECOND);
        let machine = AnyMachine::Quota(Quota { amount, period });
        Ok(Self { algorithm: Algorithm::Quota, amount, window, tick, machine })
    }

    fn bucket(algorithm: Algorithm, amount: u64, window: Duration, burst: u64) -> Result<Self, RuleError> {
        let burst = if amount == 0 { 0 } else { burst };
        if burst == 0 && amount > 0 {
            return Err(RuleError::ZeroBurst);
        }
        let ticks = window_ticks(window)?;
        // Refilling takes burst·window/amount: the instants that follow from it must stay exact as well.
        let refillable = amount.saturating_mul(longest(Tick::for_window_us(micros(window))));
        check_product("burst", burst, ticks, refillable.min(MAX_PRODUCT), window)?;
        Self::build(algorithm, amount, window, |window| {
            AnyMachine::Bucket(Bucket { amount, window, shape: Shape::Burst { burst } })
        })
    }

    fn build(
        algorithm: Algorithm,
        amount: u64,
        window: Duration,
        machine: impl FnOnce(u64) -> AnyMachine,
    ) -> Result<Self, RuleError> {
        let ticks = window_ticks(window)?;
        check_product("limit", amount, ticks, MAX_PRODUCT, window)?;
        let tick = Tick::for_window_us(micros(window));
        Ok(Self { algorithm, amount, window, tick, machine: machine(ticks) })
    }

    /// The rule with other numbers: `part` of its amount and of its burst. `None` if either is nothing.
    #[inline]
    pub(crate) fn scaled(&self, part: impl Fn(u64) -> u64) -> Option<Self> {
        let amount = part(self.amount);
        let machine = match self.machine {
            AnyMachine::FixedWindow(machine) => AnyMachine::FixedWindow(FixedWindow { amount, ..machine }),
            AnyMachine::SlidingLog(machine) => AnyMachine::SlidingLog(SlidingLog { amount, ..machine }),
            AnyMachine::SlidingCounter(machine) => {
                AnyMachine::SlidingCounter(SlidingCounter { amount, ..machine })
            }
            AnyMachine::Bucket(machine) => {
                AnyMachine::Bucket(Bucket { amount, ..machine }.scaled(part, self.tick)?)
            }
            AnyMachine::Quota(ref machine) => AnyMachine::Quota(Quota { amount, ..machine.clone() }),
        };
        (amount > 0).then_some(Self { amount, machine, ..*self })
    }

    /// Whether the rule stays exact when a fleet without its store grants this much more of it.
    ///
    /// # Errors
    /// [`RuleError`] if it does not.
    pub fn check_headroom(&self, headroom: Headroom) -> Result<(), RuleError> {
        let (amount, window, ticks) = (headroom.of(self.amount), self.window, self.window_ticks());
        if let AnyMachine::Quota(_) = &self.machine {
            return if amount > quota::MAX_AMOUNT { Err(RuleError::QuotaTooLarge(amount)) } else { Ok(()) };
        }
        check_product("limit", amount, ticks, MAX_PRODUCT, window)?;
        match &self.machine {
            AnyMachine::SlidingLog(_) if amount > sliding_log::MAX_AMOUNT => {
                Err(RuleError::LogTooLarge(amount))
            }
            AnyMachine::Bucket(Bucket { shape: Shape::Burst { burst }, .. }) => {
                check_product("burst", headroom.of(*burst), ticks, MAX_PRODUCT, window)
            }
            AnyMachine::Bucket(Bucket { shape: Shape::Queue { max_delay }, .. }) => {
                let max_delay = Duration::from_micros(self.tick.start_us(*max_delay));
                check_delay(max_delay, amount, window, self.tick)
            }
            _ => Ok(()),
        }
    }

    /// The algorithm by name.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// What is granted per window.
    #[inline]
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// The window; of a quota no period is longer.
    pub fn window(&self) -> Duration {
        self.window
    }

    /// The window in ticks.
    pub fn window_ticks(&self) -> u64 {
        match &self.machine {
            AnyMachine::FixedWindow(machine) => machine.window,
            AnyMachine::SlidingLog(machine) => machine.window,
            AnyMachine::SlidingCounter(machine) => machine.window,
            AnyMachine::Bucket(machine) => machine.window,
            AnyMachine::Quota(_) => micros(self.window),
        }
    }

    /// The calendar of a quota.
    pub fn period(&self) -> Option<&Period> {
        match &self.machine {
            AnyMachine::Quota(machine) => Some(machine.period()),
            _ => None,
        }
    }

    /// Where the windows begin, if the algorithm lets one choose.
    pub fn align(&self) -> Option<Align> {
        match &self.machine {
            AnyMachine::FixedWindow(machine) => Some(machine.align),
            _ => None,
        }
    }

    /// The unit in which this rule counts time.
    #[inline]
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// The machine, for stores that compute elsewhere.
    #[inline]
    pub fn machine(&self) -> &AnyMachine {
        &self.machine
    }

    /// The largest cost that can ever be admitted.
    #[inline]
    pub fn max_cost(&self) -> u64 {
        match &self.machine {
            AnyMachine::FixedWindow(machine) => machine.max_cost(),
            AnyMachine::SlidingLog(machine) => machine.max_cost(),
            AnyMachine::SlidingCounter(machine) => machine.max_cost(),
            AnyMachine::Bucket(machine) => machine.max_cost(),
            AnyMachine::Quota(machine) => machine.max_cost(),
        }
    }

    /// The most that passes within any half-open interval of this length: the algorithm's law as a number. Of a queue it is
    /// what is released.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate_core::{Align, Rule};
    /// let minute = Duration::from_secs(60);
    /// let fixed = Rule::fixed_window(100, minute, Align::Epoch)?;
    /// assert_eq!(fixed.most_within(Duration::from_secs(1)), 200);
    /// assert_eq!(Rule::sliding_log(100, minute)?.most_within(minute), 100);
    /// # Ok::<(), sluicegate_core::RuleError>(())
    /// ```
    pub fn most_within(&self, length: Duration) -> u128 {
        let (amount, window_us) = (u128::from(self.amount), self.window.as_micros());
        let length_us = length.as_micros();
        let inflow = |length_us: u128| amount * length_us / window_us;
        let windows = length_us.div_ceil(window_us);
        match self.algorithm {
            Algorithm::FixedWindow => amount * (windows + 1),
            Algorithm::Quota => amount * (length_us.div_ceil(self.shortest_period_us()) + 1),
            Algorithm::SlidingLog => amount * windows,
            Algorithm::SlidingCounter => amount + inflow(length_us),
            Algorithm::TokenBucket | Algorithm::Gcra => u128::from(self.max_cost()) + inflow(length_us),
            Algorithm::LeakyBucket => {
                u128::from(amount > 0) + inflow(length_us + u128::from(self.tick.as_micros()))
            }
        }
    }

    fn shortest_period_us(&self) -> u128 {
        self.period().map_or(self.window, Period::shortest).as_micros().max(1)
    }

    /// The longest time from a charge to a key that is as if never used.
    pub fn horizon(&self) -> Duration {
        let ticks = match &self.machine {
            AnyMachine::FixedWindow(machine) => machine.window,
            AnyMachine::SlidingLog(machine) => machine.window,
            AnyMachine::SlidingCounter(machine) => machine.window.saturating_mul(2),
            AnyMachine::Quota(_) => micros(self.window),
            AnyMachine::Bucket(machine) if machine.amount == 0 => 0,
            AnyMachine::Bucket(machine) => machine.capacity().div_ceil(machine.amount),
        };
        Duration::from_micros(self.tick.start_us(ticks))
    }

    /// The clock of one decision. `key` matters to windows that are shifted per key alone.
    #[inline]
    pub fn at(&self, now: Micros, key: &[u8]) -> At {
        let phase = match &self.machine {
            AnyMachine::FixedWindow(FixedWindow { align: Align::Hashed, window, .. }) => {
                stable_hash(key) % window
            }
            _ => 0,
        };
        At { now: self.tick.floor(now), phase, max_skew: self.tick.max_skew() }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn checked_window(window: Duration) -> Result<u64, RuleError> {
    if (MIN_WINDOW..=MAX_WINDOW).contains(&window) {
        Ok(micros(window))
    } else {
        Err(RuleError::Window(window))
    }
}

fn window_ticks(window: Duration) -> Result<u64, RuleError> {
    let window_us = checked_window(window)?;
    let tick = Tick::for_window_us(window_us).as_micros();
    if window_us % tick != 0 || !window.subsec_nanos().is_multiple_of(1_000) {
        let unit = match tick {
            1 => "microseconds",
            1_000 => "milliseconds",
            _ => "seconds",
        };
        return Err(RuleError::PartialTick { window, unit });
    }
    Ok(window_us / tick)
}

/// A queue of `amount` per window must drain within [`MAX_WINDOW`], and its length in exact numbers.
fn check_delay(max_delay: Duration, amount: u64, window: Duration, tick: Tick) -> Result<(), RuleError> {
    let most = longest(tick).min(MAX_PRODUCT / amount.max(1));
    if micros(max_delay) / tick.as_micros() > most {
        let max = Duration::from_micros(tick.start_us(most));
        return Err(RuleError::DelayTooLong { max_delay, amount, window, max });
    }
    Ok(())
}

/// [`MAX_WINDOW`] in ticks.
pub(crate) fn longest(tick: Tick) -> u64 {
    micros(MAX_WINDOW) / tick.as_micros()
}

fn check_product(
    field: &'static str,
    value: u64,
    ticks: u64,
    most: u64,
    window: Duration,
) -> Result<(), RuleError> {
    let max = most / ticks;
    if value > max { Err(RuleError::TooLarge { field, value, window, max }) } else { Ok(()) }
}

/// FNV-1a with a final mix: the same on every machine and in every release, since window starts depend on it.
fn stable_hash(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let folded = bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    let mixed = (folded ^ (folded >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}
