//! The law of buckets: Σcost ≤ burst + d·amount/window in every interval of length d.

use super::{
    law::Law,
    span::{Calls, Span, Tightest},
};

/// A line that no interval exceeds: Σcost·window ≤ capacity + d·amount.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) amount: i128,
    pub(super) window: i128,
    pub(super) capacity: i128,
    /// The level up to which a queue admits any cost up to the amount; `None` if it is no queue.
    pub(super) queue: Option<i128>,
}

impl Line {
    fn tightest(&self, from: i128, to: i128, excess: i128) -> Tightest {
        let allowed = self.capacity + (to - from) * self.amount;
        let sum = (excess + allowed).div_euclid(self.window);
        Tightest { from, to, sum, bound: allowed.div_euclid(self.window) }
    }

    /// The highest level at which a cost is admitted, if it ever is.
    fn room(&self, cost: i128) -> Option<i128> {
        match self.queue {
            Some(level) => (cost <= self.amount).then_some(level),
            None => Some(self.capacity - cost * self.window),
        }
    }
}

impl Law for Line {
    /// Of the calls that lie wholly in `[a, b]`, in n·log n: `b` runs over the ends, and a tree knows for every `a` what
    /// began at or after it and has ended.
    fn certain(&self, calls: &Calls) -> Option<Tightest> {
        let mut order: Vec<(usize, &Span)> = calls.admitted.iter().enumerate().collect();
        order.sort_unstable_by_key(|(_, span)| span.to);
        let mut tree = Tree::of(order.len());
        let mut worst: Option<(i128, i128, i128)> = None;
        for (leaf, span) in order {
            tree.add(leaf, span.cost * self.window, span.from * self.amount);
            let (value, begins) = tree.best()?;
            let excess = value - span.to * self.amount - self.capacity;
            worst = worst.max(Some((excess, calls.admitted.get(begins)?.from, span.to)));
        }
        worst.map(|(excess, from, to)| self.tightest(from, to, excess))
    }

    fn possible(&self, calls: &Calls) -> Option<Tightest> {
        let levels = Levels::of(self, calls);
        let level_at = |to| {
            let (level, from) = levels.highest(to, to);
            (level - self.capacity, from, to)
        };
        let (excess, from, to) = calls.started.ticks().map(level_at).max()?;
        Some(self.tightest(from, to, excess))
    }

    fn breaking_cost(&self) -> i128 {
        self.capacity.div_euclid(self.window) + 1
    }

    fn false_denials(&self, calls: &Calls, denied: &[Span]) -> Vec<Span> {
        let levels = Levels::of(self, calls);
        let had_room = |denial: &&Span| {
            let (level, _) = levels.highest(denial.from, denial.to);
            self.room(denial.cost).is_some_and(|room| level <= room)
        };
        denied.iter().filter(had_room).copied().collect()
    }
}

/// The highest levels that a bucket can have been at.
struct Levels<'c> {
    line: &'c Line,
    calls: &'c Calls,
    /// For each end, in order: the least of `costs that ended before a · window − a·amount` over the ends `a` up to it.
    least: Vec<(i128, i128)>,
}

impl<'c> Levels<'c> {
    fn of(line: &'c Line, calls: &'c Calls) -> Self {
        let mut levels = Self { line, calls, least: Vec::new() };
        let mut least = None;
        for end in calls.ended.ticks() {
            let here = levels.gone(end);
            let lower = least.map_or(here, |least: (i128, i128)| least.min(here));
            levels.least.push(lower);
            least = Some(lower);
        }
        levels
    }

    fn gone(&self, tick: i128) -> (i128, i128) {
        (self.calls.ended.before(tick) * self.line.window - tick * self.line.amount, tick)
    }

    /// The highest level at `tick` if all that may have counted up to `until` had, and the tick since which the bucket
    /// was never empty.
    fn highest(&self, tick: i128, until: i128) -> (i128, i128) {
        let ends = self.calls.ended.count_until(tick);
        let earlier = ends.checked_sub(1).and_then(|last| self.least.get(last)).copied();
        let here = self.gone(tick);
        let (gone, since) = earlier.map_or(here, |earlier| earlier.min(here));
        (self.calls.started.until(until) * self.line.window - tick * self.line.amount - gone, since)
    }
}

/// For every leaf the weight that was added to it and to the leaves after it, plus an offset of its own; and the leaf
/// where that is most. Leaves that nothing was added to are no candidates.
struct Tree {
    leaves: usize,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Default)]
struct Node {
    weight: i128,
    /// The most of its leaves, counting its own weights alone, and the leaf.
    best: Option<(i128, usize)>,
}

impl Tree {
    fn of(count: usize) -> Self {
        let leaves = count.next_power_of_two();
        Self { leaves, nodes: vec![Node::default(); leaves * 2] }
    }

    fn add(&mut self, leaf: usize, weight: i128, offset: i128) {
        let mut at = self.leaves + leaf;
        self.set(at, Node { weight, best: Some((weight + offset, leaf)) });
        while at > 1 {
            at /= 2;
            let (left, right) = (self.node(at * 2), self.node(at * 2 + 1));
            let with_right = left.best.map(|(most, leaf)| (most + right.weight, leaf));
            self.set(at, Node { weight: left.weight + right.weight, best: with_right.max(right.best) });
        }
    }

    fn best(&self) -> Option<(i128, usize)> {
        self.node(1).best
    }

    fn node(&self, at: usize) -> Node {
        self.nodes.get(at).copied().unwrap_or_default()
    }

    fn set(&mut self, at: usize, node: Node) {
        if let Some(place) = self.nodes.get_mut(at) {
            *place = node;
        }
    }
}
