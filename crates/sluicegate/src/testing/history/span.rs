//! Calls as the laws see them: costs that counted at some tick of an interval.

/// Later than any instant: the end of what may still be counted. Times any amount it is far from overflow.
pub(super) const FOREVER: i128 = 1 << 62;

/// A cost that counted, or was refused, at one tick of `from..=to`; nobody knows at which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: i128,
    pub(super) to: i128,
    pub(super) cost: i128,
}

/// The ticks `from..=to`, what counted in them, and what the law lets count in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tightest {
    pub(super) from: i128,
    pub(super) to: i128,
    pub(super) sum: i128,
    pub(super) bound: i128,
}

impl Tightest {
    /// By how much the law is broken; what is left of the bound, negated, if it is not.
    pub(super) fn over(&self) -> i128 {
        self.sum - self.bound
    }

    /// The one of two that is closer to breaking the law, or breaks it more.
    pub(super) fn of(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        one.into_iter().chain(other).max_by_key(Self::over)
    }
}

/// Running sums of costs, by one side of their spans.
#[derive(Debug)]
pub(super) struct Sums(Vec<(i128, i128)>);

impl Sums {
    fn by(spans: &[Span], side: impl Fn(&Span) -> i128) -> Self {
        let mut sums: Vec<(i128, i128)> = spans.iter().map(|span| (side(span), span.cost)).collect();
        sums.sort_unstable();
        let mut sum = 0;
        for (_, cost) in &mut sums {
            sum += *cost;
            *cost = sum;
        }
        Self(sums)
    }

    /// The costs before a tick.
    pub(super) fn before(&self, tick: i128) -> i128 {
        self.of_first(self.0.partition_point(|(at, _)| *at < tick))
    }

    /// The costs up to a tick and at it.
    pub(super) fn until(&self, tick: i128) -> i128 {
        self.of_first(self.count_until(tick))
    }

    /// How many there are up to a tick and at it.
    pub(super) fn count_until(&self, tick: i128) -> usize {
        self.0.partition_point(|(at, _)| *at <= tick)
    }

    /// The first tick that is not before the given one.
    pub(super) fn next(&self, tick: i128) -> Option<i128> {
        self.0.get(self.0.partition_point(|(at, _)| *at < tick)).map(|(at, _)| *at)
    }

    /// All ticks, rising.
    pub(super) fn ticks(&self) -> impl Iterator<Item = i128> + '_ {
        self.0.iter().map(|(at, _)| *at)
    }

    fn of_first(&self, count: usize) -> i128 {
        count.checked_sub(1).and_then(|last| self.0.get(last)).map_or(0, |(_, sum)| *sum)
    }
}

/// All calls of one key, as far as a law is concerned.
#[derive(Debug)]
pub(super) struct Calls {
    /// What certainly counted, by its first tick.
    pub(super) admitted: Vec<Span>,
    /// The first ticks of all that may have counted.
    pub(super) started: Sums,
    /// The last ticks of all that may have counted.
    pub(super) ended: Sums,
}

impl Calls {
    /// `possible` holds what was admitted too.
    pub(super) fn new(mut admitted: Vec<Span>, possible: &[Span]) -> Self {
        admitted.sort_unstable_by_key(|span| span.from);
        Self {
            admitted,
            started: Sums::by(possible, |span| span.from),
            ended: Sums::by(possible, |span| span.to),
        }
    }

    /// The most that can have counted in `from..=to`: some choice of ticks puts all of it there.
    pub(super) fn at_most_in(&self, from: i128, to: i128) -> i128 {
        self.started.until(to) - self.ended.before(from)
    }

    /// What was admitted, by its last tick.
    pub(super) fn admitted_by_end(&self) -> Vec<Span> {
        let mut spans = self.admitted.clone();
        spans.sort_unstable_by_key(|span| span.to);
        spans
    }
}
