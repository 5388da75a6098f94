//! What a breaker knows, in one word: how much goes to the store, and how its last calls ended.

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// In time.
    Good,
    /// In time, but slowly.
    Slow,
    /// Without a decision.
    Failed,
}

/// Counts the openings, modulo 2^13: a call or a task that began before the last one has no say any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch(u16);

/// The state of a breaker. Every change makes a new one, so that it can be swapped without a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Circuit {
    pub(super) epoch: Epoch,
    step: u8,
    /// Two bits for each of the last calls, the newest lowest: 0 good, 1 slow, 3 failed.
    outcomes: u64,
}

/// The calls that are looked at.
const WINDOW: u32 = 24;
/// So many slow or failed ones of them open a closed breaker.
const ILL: u32 = 12;
/// So many failed ones of them open a breaker that is being closed: one call lost in a thousand does not.
const ILL_AGAIN: u32 = 3;
/// So many failures in a row open it at any time: an instance with few calls need not wait for a dozen.
const IN_A_ROW: u32 = 3;
/// What goes to the store at each step from open to closed, in thousandths of all keys.
const SHARES: [u16; 5] = [0, 50, 250, 500, WHOLE];
/// Thousandths of all keys.
pub(super) const WHOLE: u16 = 1_000;

const OUTCOME_BITS: u32 = 2;
const OUTCOMES_BITS: u32 = WINDOW * OUTCOME_BITS;
const OUTCOMES: u64 = (1 << OUTCOMES_BITS) - 1;
/// The upper bit of each outcome: it failed.
const FAILED: u64 = 0xaaaa_aaaa_aaaa_aaaa & OUTCOMES;
/// The lower bit of each outcome: it was not good.
const NOT_GOOD: u64 = FAILED >> 1;
const LAST_FAILED: u64 = FAILED & ((1 << (IN_A_ROW * OUTCOME_BITS)) - 1);
const STEP_BITS: u32 = 3;
const EPOCHS: u16 = 1 << (64 - OUTCOMES_BITS - STEP_BITS);

impl Circuit {
    const OPEN: u8 = 0;
    const CLOSED: u8 = 4;

    /// Closed, and nothing bad has happened.
    pub(super) const NEW: Self = Self { epoch: Epoch(0), step: Self::CLOSED, outcomes: 0 };

    pub(super) fn is_open(self) -> bool {
        self.step == Self::OPEN
    }

    pub(super) fn is_closed(self) -> bool {
        self.step == Self::CLOSED
    }

    /// The thousandths of all keys whose calls go to the store.
    pub(super) fn share(self) -> u16 {
        SHARES.get(usize::from(self.step)).copied().unwrap_or(0)
    }

    /// After a call ended. Enough bad ones open it.
    #[must_use]
    pub(super) fn after(self, outcome: Outcome) -> Self {
        if self.is_open() {
            return self;
        }
        let newest = match outcome {
            Outcome::Good => 0,
            Outcome::Slow => 1,
            Outcome::Failed => 3,
        };
        let noted = Self { outcomes: (self.outcomes << OUTCOME_BITS | newest) & OUTCOMES, ..self };
        if noted.is_ill() { noted.opened() } else { noted }
    }

    /// One step further towards closed.
    #[must_use]
    pub(super) fn stepped_up(self) -> Self {
        Self { step: self.step.saturating_add(1).min(Self::CLOSED), ..self }
    }

    fn is_ill(self) -> bool {
        let failed = (self.outcomes & FAILED).count_ones();
        let not_good = (self.outcomes & NOT_GOOD).count_ones();
        let again = !self.is_closed() && failed >= ILL_AGAIN;
        not_good >= ILL || again || self.outcomes & LAST_FAILED == LAST_FAILED
    }

    fn opened(self) -> Self {
        Self { epoch: Epoch((self.epoch.0 + 1) % EPOCHS), step: Self::OPEN, outcomes: 0 }
    }

    pub(super) fn packed(self) -> u64 {
        let head = u64::from(self.epoch.0) << STEP_BITS | u64::from(self.step);
        head << OUTCOMES_BITS | self.outcomes
    }

    pub(super) fn unpacked(word: u64) -> Self {
        let head = word >> OUTCOMES_BITS;
        let step = head & ((1 << STEP_BITS) - 1);
        Self {
            epoch: Epoch(u16::try_from(head >> STEP_BITS).unwrap_or(0)),
            step: u8::try_from(step).unwrap_or(Self::OPEN),
            outcomes: word & OUTCOMES,
        }
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test that cannot go on must fail")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What may happen to a breaker.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        Call(Outcome),
        StepUp,
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let outcome = prop_oneof![
            6 => Just(Outcome::Good),
            2 => Just(Outcome::Slow),
            2 => Just(Outcome::Failed),
        ];
        let event = prop_oneof![8 => outcome.prop_map(Event::Call), 1 => Just(Event::StepUp)];
        proptest::collection::vec(event, 0..400)
    }

    /// The rules as text: the last calls since the opening, newest last.
    fn is_ill(calls: &[Outcome], closed: bool) -> bool {
        let last = &calls[calls.len().saturating_sub(24)..];
        let failed = last.iter().filter(|outcome| **outcome == Outcome::Failed).count();
        let bad = last.iter().filter(|outcome| **outcome != Outcome::Good).count();
        let in_a_row = last.iter().rev().take_while(|outcome| **outcome == Outcome::Failed).count();
        bad >= 12 || in_a_row >= 3 || !closed && failed >= 3
    }

    proptest! {
        #[test]
        fn it_opens_exactly_when_the_last_calls_were_ill_and_closes_step_by_step(events in events()) {
            let (mut circuit, mut calls) = (Circuit::NEW, Vec::new());
            for event in events {
                let before = circuit;
                match event {
                    Event::Call(outcome) => {
                        circuit = circuit.after(outcome);
                        if before.is_open() {
                            prop_assert_eq!(circuit, before);
                            continue;
                        }
                        calls.push(outcome);
                        prop_assert_eq!(circuit.is_open(), is_ill(&calls, before.is_closed()));
                    }
                    Event::StepUp => {
                        circuit = circuit.stepped_up();
                        prop_assert!(circuit.share() > before.share() || before.is_closed());
                    }
                }
                if circuit.is_open() && !before.is_open() {
                    calls.clear();
                    prop_assert_ne!(circuit.epoch, before.epoch);
                } else {
                    prop_assert_eq!(circuit.epoch, before.epoch);
                }
                prop_assert_eq!(Circuit::unpacked(circuit.packed()), circuit);
            }
        }
    }

    #[test]
    fn a_good_call_leaves_a_healthy_breaker_as_it_was() {
        assert_eq!(Circuit::NEW.after(Outcome::Good), Circuit::NEW);
    }

    #[test]
    fn epochs_begin_anew_after_the_last() {
        let last = Circuit { epoch: Epoch(EPOCHS - 1), ..Circuit::NEW };
        assert_eq!(Circuit::unpacked(last.packed()), last);
        let opened = (0..3).fold(last, |circuit, _| circuit.after(Outcome::Failed));
        assert_eq!(opened.epoch, Epoch(0));
    }
}
