//! Callers of one tight limit whose calls are held against its law, while a test meddles with the servers.

use std::{sync::Arc, time::Duration};

use sluicegate::{
    Clock, Counted, Store, SystemClock,
    core::{Ask, LimitId, Rule, Subject},
    testing::history::{Limits, Outcome, Record, Recorder, Report, Verdict},
};

use crate::Load;

const CALLERS: usize = 3;
const BURST: u64 = 40;
const PER_SECOND: u64 = 200;
const NAME: &str = "witness";

/// Callers that take until they are stopped, more than passes, each told to a history.
#[derive(Debug)]
pub struct Witness {
    history: Recorder,
    load: Load,
}

fn rule(burst: u64) -> Rule {
    Rule::token_bucket(PER_SECOND, Duration::from_secs(1), burst).expect("a rule")
}

impl Witness {
    /// Callers of this store, about this subject.
    pub fn of<S: Store + Clone + 'static>(store: &S, subject: &Subject) -> Self {
        let (history, clock) = (Recorder::default(), Arc::new(SystemClock::new()));
        let (told, store, subject, rule) = (history.clone(), store.clone(), subject.clone(), rule(BURST));
        let load = Load::of(CALLERS, move |_| {
            let (told, store, clock) = (told.clone(), store.clone(), clock.clone());
            let (rule, subject) = (rule.clone(), subject.clone());
            async move {
                let ask = Ask::new(&rule, LimitId::of(NAME, &rule), subject, 1);
                let start = clock.now();
                let answer = store.take(&[ask], start).await;
                let outcome = match &answer {
                    Ok(decision) if decision.allowed => Outcome::Allowed,
                    Ok(_) => Outcome::Denied,
                    Err(error) if error.counted() == Counted::Nothing => return answer,
                    Err(_) => Outcome::Unknown,
                };
                let (limit, end) = (NAME.into(), clock.now());
                told.record(Record { limit, cost: 1, start, end, outcome, ..Record::default() });
                answer
            }
        });
        Self { history, load }
    }

    /// Stops the callers, each of which ends within `longest`. Nothing was lost: the law held, nothing was denied that
    /// had room, and there was enough of both.
    pub async fn held(self, longest: Duration) {
        let report = self.report(longest, 0).await;
        assert!(report.holds(), "{report}");
    }

    /// The same where the servers lost their state so many times: each time the limit granted its burst anew, and not more.
    pub async fn held_but_for_losses(self, longest: Duration, losses: u64) {
        let report = self.report(longest, losses).await;
        assert!(report.verdict() != Verdict::Refuted, "{report}");
    }

    /// What the history is worth.
    pub async fn report(self, longest: Duration, losses: u64) -> Report {
        self.load.enough(|told| told.admitted() >= BURST && told.denied() > 0).await;
        self.load.end(longest).await;
        self.history.check(&Limits::of([(NAME, rule(BURST * (losses + 1)))]))
    }
}
