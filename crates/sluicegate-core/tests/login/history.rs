//! Laws over random histories, against a count that knows nothing of lanes or instants of draining.

use proptest::prelude::*;
use sluicegate_core::login::{
    Account, AccountRules, Lane, MAX_CLIENTS, MAX_CODES, MAX_DEVICES, MAX_FAMILIAR, MAX_OPEN, MAX_TAGS,
    Outcome, Reported, Verdict,
};

use crate::world::{HOUR, MINUTE, World, stranger};

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Guess { client: u64, device: Option<u64>, outcome: Option<Outcome> },
    ReportOld { back: usize, outcome: Outcome },
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        6 => (0_u16..9).prop_map(|tag| Outcome::Failure { tag: (tag > 3).then_some(tag) }),
        1 => Just(Outcome::Success),
        1 => Just(Outcome::Aborted),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0..3 * HOUR).prop_map(Step::Wait),
        2 => (0..2 * MINUTE).prop_map(Step::Wait),
        6 => (0_u64..50, proptest::option::of(0_u64..20), proptest::option::of(outcome()))
            .prop_map(|(client, device, outcome)| Step::Guess { client: client * 256, device, outcome }),
        1 => (0_usize..70, outcome()).prop_map(|(back, outcome)| Step::ReportOld { back, outcome }),
    ]
}

fn bounded(account: &Account) -> bool {
    account.open.len() <= MAX_OPEN
        && account.clients.len() <= MAX_CLIENTS
        && account.devices.len() <= MAX_DEVICES
        && account.familiar.len() <= MAX_FAMILIAR
        && account.codes.len() <= MAX_CODES
        && account.tags.len() <= MAX_TAGS
}

/// Wrong, forgotten and unreported guesses of strangers: `(at, client)`; what a success forgave is struck out.
struct Ledger(Vec<(u64, u64, u64)>);

impl Ledger {
    fn strike(&mut self, id: u64) {
        self.0.retain(|(_, _, other)| *other != id);
    }

    fn strike_client(&mut self, client: u64) {
        self.0.retain(|(_, other, _)| *other != client);
    }

    fn keeps(&self, burst: u64, every: u64) -> bool {
        let at: Vec<u64> = self.0.iter().map(|(at, _, _)| *at).collect();
        (0..at.len()).all(|from| {
            (from..at.len())
                .all(|to| u64::try_from(to - from + 1).unwrap() <= burst + (at[to] - at[from]) / every)
        })
    }
}

proptest! {
    #[test]
    fn guesses_of_strangers_that_were_not_forgiven_keep_both_laws(steps in prop::collection::vec(step(), 1..400)) {
        let rules = AccountRules { step_up_after: None, ..AccountRules::strong() };
        let mut world = World::new(rules);
        let (mut ledger, mut ids) = (Ledger(Vec::new()), Vec::new());
        for step in steps {
            let settled = match step {
                Step::Wait(by) => { world.now += by; None }
                Step::Guess { client, device, outcome } => {
                    let mut attempt = stranger(client, 0);
                    attempt.proof = Some(world.fresh());
                    attempt.device = device;
                    let (id, verdict) = world.begin(attempt);
                    ids.push((id, client));
                    if verdict == (Verdict::Allow { lane: Lane::Unknown }) {
                        ledger.0.push((world.now, client, id));
                    }
                    outcome.filter(|_| matches!(verdict, Verdict::Allow { .. })).map(|outcome| (id, client, outcome))
                }
                Step::ReportOld { back, outcome } => {
                    let old = ids.len().checked_sub(1 + back).map(|at| ids[at]);
                    old.map(|(id, client)| (id, client, outcome))
                }
            };
            if let Some((id, client, outcome)) = settled {
                let owed = world.rules.unknown.used(&world.account.unknown, world.now);
                let clients = world.account.clients.len();
                if let Reported::Done { returned: true, .. } = world.report(id, outcome) {
                    ledger.strike(id);
                    if outcome == Outcome::Success && world.account.clients.len() < clients {
                        ledger.strike_client(client);
                    }
                }
                prop_assert!(world.rules.unknown.used(&world.account.unknown, world.now) <= owed);
            }
            prop_assert!(bounded(&world.account));
            prop_assert!(ledger.keeps(10, 30 * MINUTE));
            prop_assert!(ledger.keeps(40, 2 * HOUR));
            prop_assert!(world.rules.reset_at(&world.account) <= world.now + 31 * 24 * HOUR, "nothing is permanent");
        }
    }

    /// A clock that steps back neither empties a lane nor locks it for longer than it takes to drain.
    #[test]
    fn a_clock_that_steps_back_keeps_what_is_owed(ahead in 6_000_u64..400 * 24 * HOUR, guesses in 1_u64..10) {
        let mut world = World::new(AccountRules::strong());
        let right = world.now;
        world.now += ahead;
        for number in 0..guesses {
            world.begin(stranger(256 * number, 1_000 + number));
            world.now += 16_000;
        }
        let owed = world.rules.unknown.used(&world.account.unknown, world.now);
        world.now = right;
        world.begin(stranger(99 * 256, 5_000));
        let then = world.rules.unknown.used(&world.account.unknown, world.now);
        prop_assert!(then >= owed && then <= owed + 1);
        prop_assert!(world.account.unknown[0] <= world.now + 11 * 30 * MINUTE);
    }
}
