//! The calls on one limit and key.

use std::{
    collections::{BTreeMap, HashSet},
    mem,
};

use sluicegate_core::{Micros, Rule};

use super::{
    Limit, Outcome, Path, Record, Settings,
    law::{Grant, law_of},
    report::{Finding, Interval, Scope, Tight, Verdict},
    span::{Calls, FOREVER, Span, Tightest},
};

/// A call, as short as it can be kept.
#[derive(Clone, Copy, Debug)]
struct Call {
    start_us: u64,
    end_us: u64,
    cost: u64,
    outcome: Outcome,
}

/// The calls on one limit and key.
#[derive(Debug, Default)]
pub(super) struct Group {
    store: Vec<Call>,
    /// By instance.
    fallback: BTreeMap<Box<str>, Vec<Call>>,
    charged_ids: HashSet<Box<str>>,
    twice: Vec<Box<str>>,
}

impl Group {
    pub(super) fn add(&mut self, record: &Record) {
        let charged = record.outcome == Outcome::Allowed && !record.replayed;
        if charged && !record.id.is_empty() && !self.charged_ids.insert(record.id.as_str().into()) {
            self.twice.push(record.id.as_str().into());
        }
        let call = Call {
            start_us: record.start.as_u64(),
            end_us: record.end.as_u64(),
            cost: if record.replayed { 0 } else { record.cost },
            outcome: record.outcome,
        };
        match record.path {
            Path::Store | Path::Cache => self.store.push(call),
            Path::Fallback => self.fallback.entry(record.instance.as_str().into()).or_default().push(call),
        }
    }

    /// Tells what it finds of each scope that has calls.
    pub(super) fn check(
        &self,
        limit: &Limit,
        key: &str,
        settings: &Settings,
        mut tell: impl FnMut(Scope, Finding),
    ) {
        let judge = |calls: &[&Call], grant: &dyn Fn(&Rule) -> Option<Grant>| match &limit.rule {
            Some(rule) => {
                grant(rule).map_or_else(|| counted(calls), |grant| judged(rule, key, grant, settings, calls))
            }
            None => counted(calls),
        };
        let mut twice = self.twice.iter().map(ToString::to_string).collect();
        if !self.store.is_empty() {
            let finding = judge(&self.store.iter().collect::<Vec<_>>(), &|rule| Some(Grant::whole(rule)));
            tell(Scope::Store, Finding { charged_twice: mem::take(&mut twice), ..finding });
        }
        if self.fallback.is_empty() {
            return;
        }
        // A share may be used up while the fleet has room, and nobody knows here who has the larger shares.
        let not_judged = Vec::new;
        let fleet: Vec<&Call> = self.fallback.values().flatten().collect();
        let finding = judge(&fleet, &|rule| Some(Grant::fleet(rule, limit.headroom?)));
        tell(Scope::Fallback, Finding { charged_twice: twice, false_denials: not_judged(), ..finding });
        let Some(instances) = settings.instances else { return };
        let share = |rule: &Rule| Some(Grant::share(rule, limit.headroom?, instances));
        for (instance, calls) in &self.fallback {
            let finding = judge(&calls.iter().collect::<Vec<_>>(), &share);
            tell(Scope::Instance(instance.to_string()), Finding { false_denials: not_judged(), ..finding });
        }
    }
}

/// What there is to say of calls without a law.
fn counted(calls: &[&Call]) -> Finding {
    let of = |outcome| calls.iter().filter(move |call| call.outcome == outcome);
    let count = |outcome| of(outcome).count().try_into().unwrap_or(u64::MAX);
    let admitted = of(Outcome::Allowed).fold(0, |sum: u64, call| sum.saturating_add(call.cost));
    Finding {
        admitted,
        allowed: count(Outcome::Allowed),
        denied: count(Outcome::Denied),
        unknown: count(Outcome::Unknown),
        // A cost of 0 passes even where nothing is left.
        false_denials: of(Outcome::Denied).filter(|call| call.cost == 0).map(|call| call.during()).collect(),
        ..Finding::default()
    }
}

fn judged(rule: &Rule, key: &str, grant: Grant, settings: &Settings, calls: &[&Call]) -> Finding {
    let law = law_of(rule, key, grant);
    let (mut admitted, mut possible, mut denied) = (Vec::new(), Vec::new(), Vec::new());
    for call in calls.iter().filter(|call| call.cost > 0) {
        let mut span = call.span(rule, settings);
        match call.outcome {
            Outcome::Denied => {
                denied.push(span);
                continue;
            }
            // What was sent may be counted long after its caller gave up.
            Outcome::Unknown => span.to = FOREVER,
            Outcome::Allowed => {}
        }
        if span.cost > grant.most {
            // No interval, however long, lets a single cost above the largest pass: it breaks the law at one tick too.
            span = Span { cost: law.breaking_cost(), to: span.from, ..span };
        }
        possible.push(span);
        if call.outcome == Outcome::Allowed {
            admitted.push(span);
        }
    }
    let spans = Calls::new(admitted, &possible);
    let (certain, at_most) = (law.certain(&spans), law.possible(&spans));
    let mut finding = counted(calls);
    let false_denials = law.false_denials(&spans, &denied);
    finding.false_denials.extend(false_denials.iter().map(|span| interval(rule, span.from, span.to)));
    finding.verdict = verdict(certain, at_most);
    finding.certain = certain.map(|tightest| in_micros(rule, tightest));
    finding.possible = at_most.map(|tightest| in_micros(rule, tightest));
    finding
}

fn verdict(certain: Option<Tightest>, possible: Option<Tightest>) -> Verdict {
    let broken = |tightest: Option<Tightest>| tightest.is_some_and(|tightest| tightest.over() > 0);
    match (broken(certain), broken(possible)) {
        (true, _) => Verdict::Refuted,
        (false, true) => Verdict::NotRefuted,
        (false, false) => Verdict::Proven,
    }
}

impl Call {
    fn during(&self) -> Interval {
        Interval { from: Micros::new(self.start_us), to: Micros::new(self.end_us) }
    }

    fn span(&self, rule: &Rule, settings: &Settings) -> Span {
        let tick_us = i128::from(rule.tick().as_micros());
        let error_us = i128::try_from(settings.clock_error.as_micros()).unwrap_or(FOREVER).min(FOREVER);
        Span {
            from: (i128::from(self.start_us) - error_us).div_euclid(tick_us),
            to: (i128::from(self.end_us) + error_us).div_euclid(tick_us),
            cost: self.cost.into(),
        }
    }
}

fn in_micros(rule: &Rule, tightest: Tightest) -> Tight {
    let number = |number: i128| u64::try_from(number.max(0)).unwrap_or(u64::MAX);
    Tight {
        during: interval(rule, tightest.from, tightest.to),
        admitted: number(tightest.sum),
        bound: number(tightest.bound),
    }
}

/// Ticks as instants: from the begin of the first to the end of the last.
fn interval(rule: &Rule, from: i128, to: i128) -> Interval {
    let tick_us = i128::from(rule.tick().as_micros());
    let instant = |us: i128| Micros::new(u64::try_from(us.max(0)).unwrap_or(u64::MAX));
    Interval { from: instant(from * tick_us), to: instant((to + 1) * tick_us - 1) }
}
