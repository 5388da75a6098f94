//! Random sequences of steps: mixed limits, subjects, costs, and clocks that jump.

use std::time::Duration;

use fastrand::Rng;
use sluicegate::core::{Align, Ask, Every, LimitId, Micros, Period, Rule, Subject, Weekday};

/// Limits of one kind of key, subjects, and a clock.
#[derive(Debug)]
pub struct World {
    rng: Rng,
    /// Each limit with the amounts that tiers give it: one id, several rules.
    limits: Vec<(LimitId, Vec<Rule>)>,
    subjects: Vec<Subject>,
    now_us: u64,
    clock: Jumps,
    shuffled: bool,
}

/// How the clock moves between steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jumps {
    /// Forward alone.
    Forward,
    /// Back and forth, by up to hours.
    BackAndForth,
}

/// One call to a store.
#[derive(Clone, Debug)]
pub enum Step {
    /// A `take` of what [`Plan`]s say.
    Take(Vec<Plan>),
    /// A `peek`.
    Peek(Vec<Plan>),
    /// A `forget` of one limit and subject.
    Forget(Plan),
}

/// An ask, by indices into the world.
#[derive(Clone, Debug)]
pub struct Plan {
    limit: usize,
    tier: usize,
    subject: usize,
    cost: u64,
}

impl World {
    /// The world of a seed; `name` keeps its subjects apart from those of other worlds.
    pub fn new(seed: u64, name: &str, clock: Jumps) -> Self {
        Self::of_kinds(seed, name, clock, &[0, 1, 2, 3, 4, 5, 6, 7, 8], 6)
    }

    /// A world without leaky buckets, and with a clock that only goes forward.
    pub fn without_queues(seed: u64, name: &str) -> Self {
        Self::of_kinds(seed, name, Jumps::Forward, &[0, 1, 2, 3, 4, 5, 6, 8], 6)
    }

    /// A world of up to 15 fixed windows and buckets, for which each request asks in the same order.
    pub fn of_pairs_in_order(seed: u64, name: &str, clock: Jumps) -> Self {
        Self { shuffled: false, ..Self::of_kinds(seed, name, clock, &[0, 1, 2, 5, 6, 7], 15) }
    }

    fn of_kinds(seed: u64, name: &str, clock: Jumps, kinds: &[u8], most: usize) -> Self {
        let mut rng = Rng::with_seed(seed);
        // A state that has reset under one amount may be dropped though another amount would still count it.
        let tiers = if clock == Jumps::Forward { 1 } else { 3 };
        let limits = (0..rng.usize(1..=most))
            .map(|index| {
                let kind = kinds[rng.usize(..kinds.len())];
                limit(&mut rng, kind, &format!("limit-{index}"), tiers)
            })
            .collect();
        let subject = |index: usize| {
            let user = format!("{name}-{seed}-{index}");
            Subject::new("test", &[], &[("user", Some(user.as_str()))])
        };
        let subjects = (0..rng.usize(1..4)).map(subject).collect();
        let now_us = epoch_us(&mut rng);
        Self { rng, limits, subjects, now_us, clock, shuffled: true }
    }

    /// The time of the current step.
    pub fn now(&self) -> Micros {
        Micros::new(self.now_us)
    }

    /// All subjects.
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    /// All limits, with their first rule.
    pub fn limits(&self) -> impl Iterator<Item = (LimitId, &Rule)> {
        self.limits.iter().map(|(id, rules)| (*id, &rules[0]))
    }

    /// The next step, asking each subject of a request for all limits, in any order.
    pub fn step(&mut self) -> Step {
        self.move_clock();
        let plans = self.plans(None);
        self.verb(plans)
    }

    /// The next step, asking for some of the limits.
    pub fn step_of_some_limits(&mut self) -> Step {
        self.move_clock();
        let share = self.rng.f64();
        let plans = self.plans(Some(share));
        self.verb(plans)
    }

    /// The asks of plans.
    pub fn asks(&self, plans: &[Plan]) -> Vec<Ask<'_>> {
        plans.iter().map(|plan| self.ask(plan)).collect()
    }

    /// The ask of a plan.
    pub fn ask(&self, plan: &Plan) -> Ask<'_> {
        let (id, rules) = &self.limits[plan.limit];
        Ask::new(&rules[plan.tier], *id, self.subjects[plan.subject].clone(), plan.cost)
    }

    fn verb(&mut self, plans: Vec<Plan>) -> Step {
        match self.rng.u8(0..20) {
            0 => Step::Forget(plans[0].clone()),
            1..4 => Step::Peek(plans),
            _ => Step::Take(plans),
        }
    }

    fn plans(&mut self, share: Option<f64>) -> Vec<Plan> {
        let first = self.rng.usize(..self.subjects.len());
        // Most requests count by one key, some by several.
        let asked = if self.rng.u8(0..4) == 0 { self.subjects.len() } else { 1 };
        let large = self.rng.u8(0..6) == 0;
        let mut plans = Vec::new();
        for index in first..first + asked {
            let subject = index % self.subjects.len();
            for limit in 0..self.limits.len() {
                if share.is_none_or(|share| self.rng.f64() < share) {
                    let tier = self.rng.usize(..self.limits[limit].1.len());
                    let cost = self.cost(limit, tier, large);
                    plans.push(Plan { limit, tier, subject, cost });
                }
            }
        }
        if plans.is_empty() {
            plans.push(Plan { limit: 0, tier: 0, subject: first, cost: 1 });
        }
        if self.rng.u8(0..8) == 0 {
            // The same limit and key twice in one request.
            plans.push(plans[0].clone());
        }
        if self.shuffled {
            self.rng.shuffle(&mut plans);
        }
        plans
    }

    fn cost(&mut self, limit: usize, tier: usize, large: bool) -> u64 {
        let most = self.limits[limit].1[tier].max_cost();
        match (self.rng.u8(0..12), large) {
            (0 | 1, _) => 0,
            (2, true) => most.saturating_add(1),
            (3, true) => u64::MAX,
            (4, true) => most,
            (_, true) => self.rng.u64(..=most.min(1 << 53)),
            (2..6, false) => 1,
            (_, false) => self.rng.u64(..=(most / 8).max(1)),
        }
    }

    fn move_clock(&mut self) {
        let windows = self.rng.usize(..self.limits.len());
        let window_us = micros(self.limits[windows].1[0].window());
        let reach = match self.rng.u8(0..12) {
            0 | 1 => 0,
            2 => 10,
            3 | 4 => window_us / 50,
            5 | 6 => window_us / 3,
            7 => window_us,
            8 => window_us.saturating_mul(3),
            9 => 5_000_000,
            10 => 10_000_000,
            _ => 3 * 3_600_000_000,
        };
        let by = self.rng.u64(..=reach);
        let back = self.clock == Jumps::BackAndForth && self.rng.u8(0..4) == 0;
        let moved = if back { self.now_us.saturating_sub(by) } else { self.now_us.saturating_add(by) };
        self.now_us = moved.min(Micros::MAX.as_u64());
    }
}

/// Around 2^k seconds, where representations break.
fn epoch_us(rng: &mut Rng) -> u64 {
    let second = 1_u64 << rng.u32(0..33);
    let around = (second * 1_000_000).saturating_sub(2_000_000) + rng.u64(..4_000_000);
    if rng.bool() { 1_790_000_000_000_000 + rng.u64(..10_000_000_000) } else { around }
}

/// One limit: an id, and up to so many amounts for it.
fn limit(rng: &mut Rng, kind: u8, name: &str, tiers: usize) -> (LimitId, Vec<Rule>) {
    let window = window(rng);
    let first = rule(rng, kind, window);
    let id = LimitId::of(name, &first);
    let mut rules = vec![first];
    while rng.u8(0..3) == 0 && rules.len() < tiers {
        rules.push(rule(rng, kind, window));
    }
    (id, rules)
}

/// 1 ms to 10 years, in whole ticks.
fn window(rng: &mut Rng) -> Duration {
    let longest_ms: u64 = 3_660 * 86_400_000;
    let ms = match rng.u8(0..6) {
        0 => rng.u64(1..=100),
        1 => 1_000,
        2 => 60_000,
        3 => 3_600_000,
        4 => longest_ms,
        _ => (1_u64 << rng.u32(0..38)) + rng.u64(..1_000),
    };
    let ms = ms.min(longest_ms);
    if ms >= 86_400_000 { Duration::from_secs(ms / 1_000) } else { Duration::from_millis(ms) }
}

fn rule(rng: &mut Rng, kind: u8, window: Duration) -> Rule {
    loop {
        let amount = match rng.u8(0..10) {
            0 => 0,
            1..6 => rng.u64(1..20),
            6 | 7 => rng.u64(1..1_001),
            _ => (1_u64 << rng.u32(0..52)) + rng.u64(..3) - 1,
        };
        let burst = if rng.bool() { amount } else { rng.u64(1..=amount.max(1).saturating_mul(3)) };
        let delay = Duration::from_micros(rng.u64(..=micros(window).saturating_mul(2)));
        let made = match kind {
            0 => Rule::fixed_window(amount, window, Align::Epoch),
            1 => Rule::fixed_window(amount, window, Align::Hashed),
            2 => Rule::fixed_window(amount, window, Align::FirstRequest),
            3 => Rule::sliding_log(amount, window),
            4 => Rule::sliding_counter(amount, window),
            5 => Rule::token_bucket(amount, window, burst),
            6 => Rule::gcra(amount, window, burst),
            7 => Rule::leaky_bucket(amount, window, delay),
            _ => Rule::quota(amount, period(window)),
        };
        // Above the bound a rule is refused; the next amount will do.
        if let Ok(rule) = made {
            return rule;
        }
    }
}

/// A calendar for each window, so that one limit keeps its own.
fn period(window: Duration) -> Period {
    let months = |count| Every::Months { count, first_month: 4, anchor_day: 31 };
    let everys = [Every::Hour, Every::Day, Every::Week(Weekday::Sunday), months(1), months(3), months(12)];
    let zones = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu"];
    let chosen = usize::try_from(micros(window) / 1_000).unwrap_or(0);
    Period::new(everys[chosen % everys.len()], zones[chosen % zones.len()]).expect("a period")
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
