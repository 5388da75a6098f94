//! Rules and events as the scripts read them, and their replies: `login_head.lua` and the files after it say the layout.

use sluicegate::core::{
    Micros,
    login::{
        AccountRules, AddressRules, Attempt, Challenge, Gauge, Lane, Leak, Outcome, Report, Reported, Scope,
        Verdict,
    },
};

use crate::number::to_double;

/// Never, where a number of failures is asked for.
const NEVER: f64 = -1.0;

pub(super) fn pack_rules(rules: &AccountRules, now: Micros) -> Vec<u8> {
    let mut packed = Packed::default();
    packed.gauge(&rules.unknown);
    packed.leak(rules.device);
    packed.leak(rules.familiar);
    packed.number(rules.familiar_ms);
    packed.number(rules.free.into());
    packed.number(rules.undelayed.into());
    packed.double(rules.step_up_after.map_or(NEVER, f64::from));
    packed.number(rules.tries_per_code.into());
    packed.leak(Some(rules.forgiven));
    packed.leak(Some(rules.aborted));
    packed.number(rules.keeps_success.into());
    packed.number(now.as_u64() / 1_000);
    packed.0
}

pub(super) fn pack_address(rules: &AddressRules, now: Micros) -> Vec<u8> {
    let mut packed = Packed::default();
    packed.gauge(&rules.address);
    packed.gauge(&rules.network);
    packed.number(rules.names_challenged.into());
    packed.number(rules.names_refused.into());
    packed.number(now.as_u64() / 1_000);
    packed.0
}

pub(super) fn pack_place(name: u32, done: u8, charged_at: u64) -> Vec<u8> {
    let mut packed = Packed::default();
    packed.0.extend_from_slice(&name.to_le_bytes());
    packed.0.push(done);
    packed.number(charged_at);
    packed.0
}

pub(super) fn pack_attempt(attempt: &Attempt) -> Vec<u8> {
    let mut packed = Packed::default();
    let or_none = |key: Option<u64>| key.unwrap_or(0);
    let keys =
        [attempt.id, attempt.client, or_none(attempt.device), or_none(attempt.code), or_none(attempt.proof)];
    for key in keys {
        packed.0.extend_from_slice(&key.to_le_bytes());
    }
    packed.0.push(attempt.stepped_up.into());
    packed.0.push(attempt.always_challenged.into());
    packed.number(attempt.address_full_until.unwrap_or(0));
    packed.0
}

pub(super) fn pack_report(report: &Report) -> Vec<u8> {
    let (outcome, tag) = match report.outcome {
        Outcome::Success => (0, None),
        Outcome::Failure { tag } => (1, tag),
        Outcome::Aborted => (2, None),
    };
    let mut packed = report.id.to_le_bytes().to_vec();
    packed.extend([outcome, tag.is_some().into()]);
    packed.extend_from_slice(&tag.unwrap_or(0).to_le_bytes());
    packed
}

pub(super) fn verdict(kind: u8, more: u8, at: u64) -> Option<Verdict> {
    Some(match kind {
        0 => Verdict::Allow { lane: lane(more)? },
        1 => Verdict::Challenge(Challenge { level: more }),
        2 => Verdict::Delay { not_before: at },
        3 => Verdict::Deny { scope: scope(more)?, retry_at: at },
        4 => Verdict::Busy { retry_at: at },
        5 => Verdict::StepUp,
        _ => return None,
    })
}

pub(super) fn reported(kind: u8, more: u8, at: u64) -> Option<Reported> {
    Some(match kind {
        0 => Reported::Done { lane: lane(more)?, returned: at == 1 },
        1 => Reported::Already,
        2 => Reported::Expired,
        _ => return None,
    })
}

pub(super) fn lane(number: u8) -> Option<Lane> {
    match number {
        1 => Some(Lane::Device),
        2 => Some(Lane::Familiar),
        3 => Some(Lane::Unknown),
        _ => None,
    }
}

fn scope(number: u8) -> Option<Scope> {
    match number {
        1 => Some(Scope::Account),
        2 => Some(Scope::Address),
        3 => Some(Scope::Code),
        _ => None,
    }
}

/// Doubles one after another.
#[derive(Default)]
struct Packed(Vec<u8>);

impl Packed {
    fn double(&mut self, double: f64) {
        self.0.extend_from_slice(&double.to_le_bytes());
    }

    fn number(&mut self, number: u64) {
        self.double(to_double(number));
    }

    fn leak(&mut self, leak: Option<Leak>) {
        let leak = leak.unwrap_or(Leak { burst: 0, every_ms: 0 });
        self.number(leak.burst.into());
        self.number(leak.every_ms);
    }

    fn gauge(&mut self, gauge: &Gauge) {
        match gauge {
            Gauge::Leaks(leaks) => {
                self.number(0);
                for leak in leaks {
                    self.leak(*leak);
                }
            }
            Gauge::Counter(counter) => {
                let rest = [counter.limit.into(), counter.ttl_ms, counter.lockout_ms, 0, 0, 0];
                self.number(1);
                for number in rest {
                    self.number(number);
                }
            }
        }
    }
}
