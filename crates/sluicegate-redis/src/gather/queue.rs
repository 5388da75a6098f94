//! Who goes at once, who waits, and who goes together. Nothing here waits or calls.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use sluicegate::{
    Counted, StoreError,
    core::{Ask, Decision, LimitId, Micros, Question, Rule, Subject},
};
use tokio::{runtime::Handle, sync::oneshot};

use crate::{store::MAX_ASKS, topology::Slot};

/// Calls of one slot in flight before asks wait. As many keep a server busy over any network: together they carry 512
/// groups.
pub(super) const CALLS: usize = 16;
/// The most groups of one call: a script must stay short.
pub(super) const GROUPS: usize = 32;
/// The most requests of a group: answering them keeps one task busy for about a millisecond.
const GROUP_LEN: usize = 1_024;
/// The most requests that wait, each some hundred bytes: beyond it a server is lost, and waiting helps nobody.
const WAITING: usize = 65_536;

pub(super) type Answer = Result<Decision, StoreError>;

/// What is asked, without borrowing.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) rule: Rule,
    pub(super) id: LimitId,
    pub(super) subject: Subject,
    pub(super) cost: u64,
}

impl Owned {
    pub(super) fn of(ask: &Ask<'_>) -> Self {
        Self { rule: ask.rule.clone(), id: ask.id, subject: ask.subject.clone(), cost: ask.cost }
    }

    pub(super) fn ask(&self) -> Ask<'_> {
        Ask::new(&self.rule, self.id, self.subject.clone(), self.cost)
    }

    pub(super) fn question(&self, now: Micros) -> Question<'_> {
        Question { rule: &self.rule, key: self.subject.as_str().as_bytes(), cost: self.cost, now }
    }

    fn is_like(&self, ask: &Ask<'_>) -> bool {
        self.id == ask.id && self.subject == ask.subject && self.rule == *ask.rule
    }
}

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) asks: Vec<Owned>,
    pub(super) now: Micros,
    /// Whether it passes, as far as is known of the state so far.
    pub(super) passes: bool,
    since: Instant,
    answer: oneshot::Sender<Answer>,
    /// Where its caller lives, and so where its call may run.
    runtime: Handle,
}

impl Request {
    pub(super) fn new(asks: &[Ask<'_>], now: Micros, runtime: Handle) -> (Self, oneshot::Receiver<Answer>) {
        let (answer, receiver) = oneshot::channel();
        let asks = asks.iter().map(Owned::of).collect();
        (Self { asks, now, passes: true, since: Instant::now(), answer, runtime }, receiver)
    }

    pub(super) fn answer(self, answer: Answer) {
        // Whoever asked may have gone away.
        let _gone = self.answer.send(answer);
    }

    /// The same, to be asked for in the next call.
    pub(super) fn passing(self) -> Self {
        Self { passes: true, ..self }
    }

    fn is_like(&self, asks: &[Ask<'_>]) -> bool {
        self.asks.len() == asks.len() && self.asks.iter().zip(asks).all(|(own, ask)| own.is_like(ask))
    }
}

/// Requests that are decided together: of one subject and the same limits, in the order in which they came.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) requests: Vec<Request>,
}

/// The groups of one call.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) flight: Place,
    pub(super) groups: Vec<Group>,
    /// Those that waited too long to be sent.
    expired: Vec<Request>,
}

impl Load {
    /// Where to run the call.
    pub(super) fn runtime(&self) -> Option<Handle> {
        Some(self.groups.first()?.requests.first()?.runtime.clone())
    }

    /// Answers those that waited too long.
    pub(super) fn answer_expired(&mut self) {
        for request in self.expired.drain(..) {
            request.answer(Err(StoreError::new(
                "redis did not answer those that asked before in time",
                Counted::Nothing,
            )));
        }
    }
}

/// Requests that count on the same states: one number for a subject and its limits.
pub(super) type Gate = u64;

/// What a call occupies until it lands.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) slot: Slot,
    pub(super) gates: Vec<Gate>,
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Entered {
    /// It goes at once, by itself.
    Goes(Place),
    /// It waits for its turn.
    Waits(oneshot::Receiver<Answer>),
    /// Too many wait.
    Refused,
}

/// All that is in flight and all that waits.
///
/// Behind a gate at most one call is in flight, so that whatever comes meanwhile is decided together by the next.
/// Whenever asks of a slot wait for a turn, all of its calls are in flight.
#[derive(Debug)]
pub(super) struct Queue {
    lanes: HashMap<Slot, Lane>,
    gates: HashMap<Gate, Behind>,
    waiting: usize,
    patience: Duration,
}

#[derive(Debug, Default)]
struct Lane {
    calls: usize,
    turns: VecDeque<Turn>,
}

#[derive(Debug)]
enum Turn {
    Alone(Box<Request>),
    Gate(Gate),
}

#[derive(Debug, Default)]
struct Behind {
    in_flight: bool,
    requests: Vec<Request>,
}

impl Queue {
    /// A queue in which nobody waits longer than `patience` for a turn.
    pub(super) fn new(patience: Duration) -> Self {
        Self { lanes: HashMap::new(), gates: HashMap::new(), waiting: 0, patience }
    }

    /// Lets a request go, or lets it wait. `gate` is `None` for one that nothing can be decided together with.
    pub(super) fn enter(
        &mut self,
        slot: Slot,
        gate: Option<Gate>,
        asks: &[Ask<'_>],
        request: impl FnOnce() -> (Request, oneshot::Receiver<Answer>),
    ) -> Entered {
        let lane = self.lanes.entry(slot).or_default();
        let behind = gate.and_then(|gate| self.gates.get(&gate));
        let joins = behind.is_some_and(|behind| behind.takes(asks));
        // One that finds other rules behind its gate, or too many there, goes by itself.
        let gate = gate.filter(|_| joins || behind.is_none());
        if !joins && lane.calls < CALLS {
            lane.calls += 1;
            let gates: Vec<Gate> = gate.into_iter().collect();
            for gate in &gates {
                self.gates.insert(*gate, Behind { in_flight: true, requests: Vec::new() });
            }
            return Entered::Goes(Place { slot, gates });
        }
        if self.waiting >= WAITING {
            return Entered::Refused;
        }
        self.waiting += 1;
        let (request, receiver) = request();
        match gate {
            None => lane.turns.push_back(Turn::Alone(Box::new(request))),
            Some(gate) => {
                let behind = self.gates.entry(gate).or_default();
                if !behind.in_flight && behind.requests.is_empty() {
                    lane.turns.push_back(Turn::Gate(gate));
                }
                behind.requests.push(request);
            }
        }
        Entered::Waits(receiver)
    }

    /// Ends a call, and hands its place to those whose turn it is, if there are any.
    pub(super) fn land(&mut self, place: &Place) -> Option<Load> {
        let lane = self.lanes.entry(place.slot).or_default();
        for gate in &place.gates {
            let Some(behind) = self.gates.get_mut(gate) else { continue };
            if behind.requests.is_empty() {
                self.gates.remove(gate);
            } else {
                behind.in_flight = false;
                lane.turns.push_back(Turn::Gate(*gate));
            }
        }
        let load = self.next(place.slot);
        if load.groups.is_empty() && load.expired.is_empty() {
            self.leave(place.slot);
            return None;
        }
        Some(load)
    }

    /// Gives up the place of a call that is not made.
    pub(super) fn leave(&mut self, slot: Slot) {
        let Some(lane) = self.lanes.get_mut(&slot) else { return };
        lane.calls = lane.calls.saturating_sub(1);
        if lane.calls == 0 && lane.turns.is_empty() {
            self.lanes.remove(&slot);
        }
    }

    fn next(&mut self, slot: Slot) -> Load {
        let mut load =
            Load { flight: Place { slot, gates: Vec::new() }, groups: Vec::new(), expired: Vec::new() };
        let mut asked = 0;
        while load.groups.len() < GROUPS && asked < MAX_ASKS {
            let Some(turn) = self.lanes.get_mut(&slot).and_then(|lane| lane.turns.pop_front()) else { break };
            let (gate, came) = match turn {
                Turn::Alone(request) => (None, vec![*request]),
                Turn::Gate(gate) => (Some(gate), self.open(gate)),
            };
            self.waiting = self.waiting.saturating_sub(came.len());
            let requests = self.still_wanted(came, &mut load.expired);
            match (requests.first(), gate) {
                (Some(first), gate) => {
                    asked += first.asks.len();
                    load.flight.gates.extend(gate);
                    load.groups.push(Group { requests });
                }
                (None, Some(gate)) => drop(self.gates.remove(&gate)),
                (None, None) => {}
            }
        }
        load
    }

    /// All that waits behind a gate.
    fn open(&mut self, gate: Gate) -> Vec<Request> {
        let Some(behind) = self.gates.get_mut(&gate) else { return Vec::new() };
        behind.in_flight = true;
        std::mem::take(&mut behind.requests)
    }

    /// Those that still wait and have not waited too long.
    fn still_wanted(&self, came: Vec<Request>, expired: &mut Vec<Request>) -> Vec<Request> {
        let waited = came.into_iter().filter(|request| !request.answer.is_closed());
        let (fresh, stale) = waited.partition(|request| request.since.elapsed() < self.patience);
        expired.extend::<Vec<Request>>(stale);
        fresh
    }
}

impl Behind {
    /// Whether a request can wait here: it is like those that do, and there is room.
    fn takes(&self, asks: &[Ask<'_>]) -> bool {
        self.requests.len() < GROUP_LEN && self.requests.first().is_none_or(|first| first.is_like(asks))
    }
}
