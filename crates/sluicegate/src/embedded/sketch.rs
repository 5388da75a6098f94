//! Where keys are counted that find no place in the table: together, and never too little.
//!
//! Each key falls on one cell in each of [`ROWS`] rows. A cell holds the share of a limit that was admitted through
//! it, and the instant until which it keeps that: a whole horizon after the last admission, so that by then every
//! cost in it has drained whatever the algorithm. A key has used at most the least share of its cells (the count-min
//! argument of Cormode and Muthukrishnan, "An improved data stream summary", 2005), so it is never admitted beyond
//! its law. It may be refused too early, on account of others.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use sluicegate_core::{Algorithm, AskDecision, Micros, Retry, Rule};

use super::fingerprint::Fingerprint;

const ROWS: usize = 2;
/// The whole of a limit, in the unit of a cell's share.
const WHOLE: u64 = 1 << 40;

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    share: u64,
    until_us: u64,
}

#[derive(Debug)]
pub(super) struct Sketch {
    rows: Mutex<[Vec<Cell>; ROWS]>,
    /// The latest instant until which any cell counts: while it is past, nobody needs to look.
    busy_until_us: AtomicU64,
}

/// What a key may have used, as far as its cells tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    share: u64,
    until_us: u64,
}

impl Estimate {
    pub(super) fn is_empty(self) -> bool {
        self.share == 0
    }

    pub(super) fn admits(self, rule: &Rule, cost: u64) -> bool {
        cost == 0 || cost <= rule.max_cost() && self.share + share_of(rule, cost) <= WHOLE
    }

    /// The answer; `self` is the estimate after the cost, if it was counted.
    pub(super) fn report(self, rule: &Rule, cost: u64, now: Micros, allowed: bool) -> AskDecision {
        let left = u128::from(WHOLE - self.share.min(WHOLE)) * u128::from(rule.max_cost());
        let until = Duration::from_micros(self.until_us.saturating_sub(now.as_u64()));
        let retry = if cost > rule.max_cost() { Retry::Never } else { Retry::After(until) };
        AskDecision {
            allowed,
            limit: Some(rule.amount()),
            capacity: Some(rule.max_cost()),
            remaining: Some(u64::try_from(left / u128::from(WHOLE)).unwrap_or(0)),
            reset_after: until,
            retry: (!allowed).then_some(retry),
            ..AskDecision::UNLIMITED
        }
    }
}

impl Sketch {
    pub(super) fn new(width: usize) -> Self {
        let rows = std::array::from_fn(|_| vec![Cell::default(); width]);
        Self { rows: Mutex::new(rows), busy_until_us: AtomicU64::new(0) }
    }

    /// What a key may have used. The caller holds the lock of the key's buckets, so that nobody else charges the key
    /// meanwhile; others may raise its cells, which only makes them count more.
    pub(super) fn estimate(&self, fingerprint: Fingerprint, now: Micros) -> Estimate {
        if self.busy_until_us.load(Ordering::Relaxed) <= now.as_u64() {
            return Estimate { share: 0, until_us: 0 };
        }
        estimate(&self.rows.lock(), fingerprint, now)
    }

    /// Counts an admitted cost in all cells of the key, and answers with the estimate that follows.
    pub(super) fn charge(&self, fingerprint: Fingerprint, rule: &Rule, cost: u64, now: Micros) -> Estimate {
        let mut rows = self.rows.lock();
        let share = estimate(&rows, fingerprint, now).share.saturating_add(share_of(rule, cost));
        let until_us = now.plus(rule.horizon()).as_u64();
        for (row, place) in rows.iter_mut().zip(fingerprints(fingerprint)) {
            let index = place.first_of(row.len());
            if let Some(cell) = row.get_mut(index) {
                let old = current(*cell, now);
                *cell = Cell { share: old.share.max(share), until_us: old.until_us.max(until_us) };
            }
        }
        self.busy_until_us.fetch_max(until_us, Ordering::Relaxed);
        estimate(&rows, fingerprint, now)
    }
}

fn estimate(rows: &[Vec<Cell>; ROWS], fingerprint: Fingerprint, now: Micros) -> Estimate {
    let unknown = Estimate { share: WHOLE, until_us: u64::MAX };
    let cells = rows
        .iter()
        .zip(fingerprints(fingerprint))
        .filter_map(|(row, place)| row.get(place.first_of(row.len())).map(|cell| current(*cell, now)));
    cells.fold(unknown, |least, cell| Estimate {
        share: least.share.min(cell.share),
        until_us: least.until_us.min(cell.until_us),
    })
}

/// The share of a limit that a cost takes, rounded up; the cost fits the limit. A leaky bucket's cost takes the whole:
/// without a queue of the key's own, the next may pass only when the one before has drained.
fn share_of(rule: &Rule, cost: u64) -> u64 {
    if rule.algorithm() == Algorithm::LeakyBucket {
        return WHOLE;
    }
    let share = (u128::from(cost) * u128::from(WHOLE)).div_ceil(u128::from(rule.max_cost().max(1)));
    u64::try_from(share).unwrap_or(WHOLE)
}

fn current(cell: Cell, now: Micros) -> Cell {
    if cell.until_us <= now.as_u64() { Cell::default() } else { cell }
}

/// One independent fingerprint per row.
fn fingerprints(of: Fingerprint) -> [Fingerprint; ROWS] {
    [of, Fingerprint { low: of.high, high: of.low }]
}
