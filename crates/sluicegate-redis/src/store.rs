//! The store: asks to script calls, replies to decisions.

use std::{sync::Arc, time::Duration};

use redis::{Cmd, Value};
use sluicegate::{
    Clock, Counted, Merged, Once, Reason, Settled, Store, StoreError,
    core::{
        Ask, AskDecision, Charge, Decision, LimitId, MAX_SKEW_US, Micros, Question, RequestId, Rule, State,
        Subject, algorithm::GiveBack, policy::MAX_APPLIED,
    },
    guard::Probe,
};

use crate::{
    clock::RedisClock,
    config::{ConfigError, RedisConfig},
    connection::Call,
    error::unreadable,
    gather::Gather,
    key::record_key,
    packed::{ASK_LEN, NOW_LEN, push_ask, push_give_back, push_now},
    record::{Malformed, Record},
    script::{self, Script},
    straight::{Pair, Straight},
    topology::{Slot, Topology},
};

/// The most asks of one request: a script must stay short.
pub const MAX_ASKS: usize = MAX_APPLIED;
/// What a verdict that is no record begins with; a record begins with its first machine's number.
pub(crate) const DENIED: u8 = 0;
pub(crate) const SKEW: [u8; 1] = [255];

/// Keeps all state on Redis. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub struct RedisStore {
    pub(crate) servers: Arc<Topology>,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) gather: Arc<Gather>,
    clock: Option<RedisClock>,
}

#[derive(Debug)]
pub(crate) struct Scripts {
    take: Arc<Script>,
    pub(crate) many: Script,
    pub(crate) once: Script,
    straight: Straight,
    rebase: Script,
    pub(crate) part: Script,
    pub(crate) begin: Script,
    pub(crate) finish: Script,
    pub(crate) give_back: Script,
    pub(crate) release: Script,
    pub(crate) settle: Script,
    forget: Script,
    look: Script,
}

impl Scripts {
    /// The script that decides on these asks. All decide alike.
    fn take(&self, groups: &[Group], asks: &[Ask<'_>]) -> Arc<Script> {
        let all = || asks.iter().all(|ask| Pair::of(ask.rule).is_some());
        let pairs = asks.iter().filter_map(|ask| Some((Pair::of(ask.rule)?, ask.rule.tick())));
        let straight = (groups.len() == 1 && all()).then(|| self.straight.script(pairs)).flatten();
        straight.unwrap_or_else(|| self.take.clone())
    }
}

/// The asks of one subject: one record, one key.
pub(crate) struct Group {
    pub(crate) key: String,
    /// Which asks, as indices into the request's.
    asks: Vec<usize>,
}

/// What was decided on asks of one slot.
pub(crate) struct Taken {
    pub(crate) admitted: bool,
    /// The time that it was decided at.
    pub(crate) now: Micros,
    pub(crate) groups: Vec<Group>,
    /// Of each group, as the decision left it.
    pub(crate) records: Vec<Vec<u8>>,
}

/// What the script answered.
enum Verdict {
    Admitted(Vec<Vec<u8>>),
    Denied(Vec<Vec<u8>>),
    Skew,
}

impl RedisStore {
    /// A store that connects with its first call.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration names no server.
    pub fn open(config: &RedisConfig) -> Result<Self, ConfigError> {
        let scripts = Scripts {
            take: Arc::new(Script::new(script::TAKE)),
            many: Script::new(script::MANY),
            once: Script::new(script::ONCE),
            straight: Straight::default(),
            rebase: Script::new(script::REBASE),
            part: Script::new(script::PART),
            begin: Script::new(script::BEGIN),
            finish: Script::new(script::FINISH),
            give_back: Script::new(script::GIVE_BACK),
            release: Script::new(script::RELEASE),
            settle: Script::new(script::SETTLE),
            forget: Script::new(script::FORGET),
            look: Script::new(script::LOOK),
        };
        let (servers, gather) = (Topology::of(config)?, Gather::with_patience(config.response_timeout));
        Ok(Self {
            servers: Arc::new(servers),
            scripts: Arc::new(scripts),
            gather: Arc::new(gather),
            clock: None,
        })
    }

    /// Says that callers take `now` from this clock: when stored state is far ahead of it, it is set anew before the
    /// state is doubted.
    #[must_use]
    pub fn with_clock(mut self, clock: RedisClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Asks the server whether it is there.
    ///
    /// # Errors
    /// [`StoreError`] if it does not answer.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let pong = self.servers.run(Slot::FIRST, Call::of(&redis::cmd("PING"))).await;
        pong.map(|_pong| ()).map_err(StoreError::with_nothing_counted)
    }

    /// The stored state of one limit and subject, for tests and tools.
    ///
    /// # Errors
    /// [`StoreError`] if the record cannot be read.
    pub async fn state(
        &self,
        rule: &Rule,
        id: LimitId,
        subject: &Subject,
    ) -> Result<Option<State>, StoreError> {
        let (mut get, key) = (redis::cmd("GET"), record_key(subject));
        get.arg(key.as_str());
        let record = self.servers.run(self.servers.slot(&key), Call::of(&get)).await.and_then(bytes);
        let state = record.and_then(|record| Record::new(&record).state(id, rule).map_err(malformed));
        state.map_err(StoreError::with_nothing_counted)
    }

    /// Takes back a part of an earlier charge of one ask, as [`Question::give_back`] does. Not idempotent: after an error
    /// that does not say that nothing was counted it may have been done.
    ///
    /// # Errors
    /// [`StoreError`] if the server does not do it.
    pub async fn give_back(&self, ask: &Ask<'_>, back: GiveBack) -> Result<(), StoreError> {
        let groups = groups(std::slice::from_ref(ask))?;
        let mut part = Vec::new();
        push_give_back(&mut part, ask, back);
        let call = give_back_call(&self.scripts.give_back, &groups, &[part], None);
        self.servers.run(self.slot(&groups), Call::of_script(&self.scripts.give_back, &call)).await?;
        Ok(())
    }

    /// The call that a `take` of these asks makes, for measurements. The asks are of different limits or subjects.
    ///
    /// # Errors
    /// [`StoreError`] if there are more than [`MAX_ASKS`].
    pub fn take_call(&self, asks: &[Ask<'_>], now: Micros) -> Result<Cmd, StoreError> {
        let groups = groups(asks)?;
        Ok(call(&self.scripts.take(&groups, asks), &groups, asks, now))
    }

    /// The records as they stand at one instant.
    async fn records(&self, groups: &[Group]) -> Result<Vec<Vec<u8>>, StoreError> {
        let slot = self.slot(groups);
        if let [group] = groups {
            let record = self.servers.run(slot, Call::of(redis::cmd("GET").arg(group.key.as_str()))).await;
            return Ok(vec![record.and_then(bytes)?]);
        }
        let keys = groups.iter().map(|group| group.key.len()).sum();
        let mut look = self.scripts.look.call(groups.len(), 0, keys);
        for group in groups {
            look.arg(group.key.as_str());
        }
        self.servers.run(slot, Call::of_script(&self.scripts.look, &look)).await.and_then(list)
    }

    /// The slot of all these groups.
    pub(crate) fn slot(&self, groups: &[Group]) -> Slot {
        groups.first().map_or(Slot::FIRST, |group| self.servers.slot(&group.key))
    }

    /// Decides a request in a call of its own, or in one for each slot.
    pub(crate) async fn decide(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        let groups = groups(asks)?;
        if self.is_split(&groups) {
            return Box::pin(self.take_in_turn(asks, now)).await;
        }
        self.take_together(groups, asks, now).await?.decision(asks)
    }

    /// Whether the groups are in several slots.
    pub(crate) fn is_split(&self, groups: &[Group]) -> bool {
        let first = self.slot(groups);
        groups.iter().skip(1).any(|group| self.servers.slot(&group.key) != first)
    }

    /// Decides on asks of one slot, in one step.
    pub(crate) async fn take_together(
        &self,
        groups: Vec<Group>,
        asks: &[Ask<'_>],
        mut now: Micros,
    ) -> Result<Taken, StoreError> {
        let take = self.scripts.take(&groups, asks);
        for retried in [false, true] {
            let call = call(&take, &groups, asks, now);
            let reply = self.servers.run(self.slot(&groups), Call::of_script(&take, &call)).await?;
            match verdict(reply, groups.len())? {
                Verdict::Admitted(records) => return Ok(Taken { admitted: true, now, groups, records }),
                Verdict::Denied(records) => return Ok(Taken { admitted: false, now, groups, records }),
                Verdict::Skew if retried => break,
                // What was counted stays as much as it was, only its time is moved.
                Verdict::Skew => {
                    let moved = Box::pin(self.rebase(&groups, asks, now)).await;
                    now = moved.map_err(StoreError::with_nothing_counted)?;
                }
            }
        }
        Err(StoreError::new("another clock keeps setting the stored state ahead", Counted::Nothing))
    }

    /// Looks at asks of one slot.
    pub(crate) async fn look(&self, asks: &[Ask<'_>], now: Micros) -> Result<Taken, StoreError> {
        let groups = groups(asks)?;
        let records = self.records(&groups).await.map_err(StoreError::with_nothing_counted)?;
        Ok(Taken { admitted: false, now, groups, records })
    }

    /// Moves what is too far ahead back to now, if the clock, asked again, stands by it. Answers the time that holds.
    pub(crate) async fn rebase(
        &self,
        groups: &[Group],
        asks: &[Ask<'_>],
        now: Micros,
    ) -> Result<Micros, StoreError> {
        let now = self.again(now).await?;
        let call = call(&self.scripts.rebase, groups, asks, now);
        self.servers.run(self.slot(groups), Call::of_script(&self.scripts.rebase, &call)).await?;
        Ok(now)
    }

    async fn again(&self, now: Micros) -> Result<Micros, StoreError> {
        let Some(clock) = &self.clock else { return Ok(now) };
        clock.sync().await?;
        // If it was this clock that was behind, the state may not be ahead any more.
        if clock.now().since(now) <= Duration::from_micros(MAX_SKEW_US) {
            clock.settled().await;
        }
        Ok(clock.now())
    }
}

impl Store for RedisStore {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        if asks.is_empty() {
            return Ok(Decision::of(Vec::new()));
        }
        if asks.len() == 1 {
            return self.gathered(asks, now).await;
        }
        let merged = Merged::of(asks);
        let decided = self.gathered(merged.asks(), now).await?;
        Ok(Decision { allowed: decided.allowed, asks: merged.spread(&decided.asks) })
    }

    async fn take_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Result<Once, StoreError> {
        if asks.is_empty() {
            return Ok(Once::Decided { decision: Decision::of(Vec::new()), at: now });
        }
        self.decide_once(id, asks, now).await
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        if asks.is_empty() {
            return Ok(Decision::of(Vec::new()));
        }
        let merged = Merged::of(asks);
        let asks = merged.asks();
        let peeked = if self.is_split(&groups(asks)?) {
            Box::pin(self.look_in_turn(asks, now)).await?
        } else {
            self.look(asks, now).await?.decision(asks)?.asks
        };
        Ok(Decision::of(merged.spread(&peeked)))
    }

    async fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> Result<Settled, StoreError> {
        if charges.is_empty() {
            return Ok(Settled::Done);
        }
        self.settle_once(id, charges, now).await
    }

    async fn forget(&self, id: LimitId, subject: &Subject) -> Result<bool, StoreError> {
        let (mut call, key) = (self.scripts.forget.call(1, 1, 128), record_key(subject));
        call.arg(key.as_str()).arg(id.as_u32());
        let forget = Call::of_script(&self.scripts.forget, &call);
        let reply = self.servers.run(self.servers.slot(&key), forget).await?;
        Ok(reply == Value::Int(1))
    }
}

impl Probe for RedisStore {
    async fn probe(&self) -> Result<(), StoreError> {
        self.ping().await
    }
}

/// The asks by subject, in the order in which subjects come first.
pub(crate) fn groups(asks: &[Ask<'_>]) -> Result<Vec<Group>, StoreError> {
    if asks.len() > MAX_ASKS {
        let error = StoreError::new(format!("a request has at most {MAX_ASKS} asks"), Counted::Nothing);
        return Err(error.for_reason(Reason::Request));
    }
    let mut groups: Vec<Group> = Vec::with_capacity(1);
    let mut subjects: Vec<&Subject> = Vec::with_capacity(1);
    for (index, ask) in asks.iter().enumerate() {
        let at = subjects.iter().position(|subject| **subject == ask.subject);
        if let Some(group) = at.and_then(|at| groups.get_mut(at)) {
            group.asks.push(index);
        } else {
            subjects.push(&ask.subject);
            groups.push(Group { key: record_key(&ask.subject), asks: vec![index] });
        }
    }
    Ok(groups)
}

fn call(script: &Script, groups: &[Group], asks: &[Ask<'_>], now: Micros) -> Cmd {
    let keys: usize = groups.iter().map(|group| group.key.len()).sum();
    let mut call =
        script.call(groups.len(), groups.len(), keys + groups.len() * NOW_LEN + asks.len() * ASK_LEN);
    for group in groups {
        call.arg(group.key.as_str());
    }
    let mut packed = Vec::with_capacity(NOW_LEN + asks.len() * ASK_LEN);
    for group in groups {
        group.pack(&mut packed, asks, now);
        call.arg(packed.as_slice());
    }
    call
}

impl Group {
    /// What is asked of the record, as the scripts read it.
    pub(crate) fn pack(&self, packed: &mut Vec<u8>, asks: &[Ask<'_>], now: Micros) {
        packed.clear();
        push_now(packed, now);
        self.asks.iter().filter_map(|at| asks.get(*at)).for_each(|ask| push_ask(packed, ask, now));
    }
}

fn verdict(reply: Value, groups: usize) -> Result<Verdict, StoreError> {
    let mut records = match reply {
        Value::BulkString(reply) if reply == SKEW => return Ok(Verdict::Skew),
        Value::BulkString(mut record) if groups == 1 => {
            if record.first() != Some(&DENIED) {
                return Ok(Verdict::Admitted(vec![record]));
            }
            record.remove(0);
            return Ok(Verdict::Denied(vec![record]));
        }
        reply => list(reply)?,
    };
    if records.len() != groups + 1 {
        return Err(unreadable());
    }
    let denied = records.remove(0).first() == Some(&DENIED);
    Ok(if denied { Verdict::Denied(records) } else { Verdict::Admitted(records) })
}

impl Taken {
    /// The numbers. The records hold what was counted exactly if the asks were admitted.
    pub(crate) fn decision(&self, asks: &[Ask<'_>]) -> Result<Decision, StoreError> {
        let mut answers = vec![AskDecision::UNLIMITED; asks.len()];
        for (index, ask, record) in self.each(asks) {
            let Some(answer) = answers.get_mut(index) else { continue };
            let question = self.question(ask);
            let stored = record.state(ask.id, ask.rule).map_err(|cause| self.malformed(cause))?;
            *answer = match stored {
                Some(charged) if self.admitted && ask.cost > 0 => question.report(&charged, true),
                stored => question.report(&rolled(&question, stored), false),
            };
        }
        Ok(Decision { allowed: self.admitted, asks: answers })
    }

    /// The call that takes back everything that was counted, with what the script wants beyond that.
    pub(crate) fn undo(
        &self,
        asks: &[Ask<'_>],
        script: &Script,
        last: Option<(&str, &[u8])>,
    ) -> Result<Cmd, StoreError> {
        let mut parts = vec![Vec::new(); asks.len()];
        for (index, ask, record) in self.each(asks).filter(|(_, ask, _)| ask.cost > 0) {
            let stored = record.state(ask.id, ask.rule).map_err(|cause| self.malformed(cause))?;
            if let (Some(charged), Some(part)) = (stored, parts.get_mut(index)) {
                let charged_at = self.question(ask).charged_at(&charged);
                push_give_back(part, ask, GiveBack { charged_at, held: ask.cost, actual: 0 });
            }
        }
        Ok(give_back_call(script, &self.groups, &parts, last))
    }

    /// The same after everything was given back, as the script answered.
    pub(crate) fn undone(self, reply: Value) -> Result<Self, StoreError> {
        let records = list(reply)?;
        if records.len() != self.groups.len() {
            return Err(unreadable());
        }
        Ok(Self { admitted: false, records, ..self })
    }

    /// The asks with their places in the request and the records that they count in.
    fn each<'t, 'a>(&'t self, asks: &'t [Ask<'a>]) -> impl Iterator<Item = (usize, &'t Ask<'a>, Record<'t>)> {
        self.groups.iter().zip(&self.records).flat_map(move |(group, record)| {
            let of_group = group.asks.iter().filter_map(|at| Some((*at, asks.get(*at)?)));
            of_group.map(|(at, ask)| (at, ask, Record::new(record)))
        })
    }

    fn question<'q>(&self, ask: &'q Ask<'_>) -> Question<'q> {
        Question { rule: ask.rule, key: ask.subject.as_str().as_bytes(), cost: ask.cost, now: self.now }
    }

    /// A record that cannot be read. Only an admission counted.
    fn malformed(&self, cause: Malformed) -> StoreError {
        let error = malformed(cause);
        if self.admitted { error } else { error.with_nothing_counted() }
    }
}

/// The call that gives back the packed parts of each ask; `last` is one more key and its argument.
pub(crate) fn give_back_call(
    script: &Script,
    groups: &[Group],
    parts: &[Vec<u8>],
    last: Option<(&str, &[u8])>,
) -> Cmd {
    let bytes =
        groups.iter().map(|group| group.key.len()).sum::<usize>() + parts.iter().map(Vec::len).sum::<usize>();
    let keys = groups.len() + usize::from(last.is_some());
    let mut call = script.call(keys, keys, bytes);
    for group in groups {
        call.arg(group.key.as_str());
    }
    if let Some((key, _)) = last {
        call.arg(key);
    }
    for group in groups {
        let of_group: Vec<&[u8]> =
            group.asks.iter().filter_map(|at| parts.get(*at).map(Vec::as_slice)).collect();
        call.arg(of_group.concat());
    }
    if let Some((_, argument)) = last {
        call.arg(argument);
    }
    call
}

/// The stored state as of now. State too far ahead is looked at as if it had been moved back; only `take` moves it.
pub(crate) fn rolled(question: &Question<'_>, stored: Option<State>) -> State {
    let moved = stored.map(|state| question.rebase(state));
    question.roll(moved).unwrap_or_else(|_skew| question.fresh())
}

fn bytes(value: Value) -> Result<Vec<u8>, StoreError> {
    match value {
        Value::Nil => Ok(Vec::new()),
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(unreadable()),
    }
}

pub(crate) fn list(value: Value) -> Result<Vec<Vec<u8>>, StoreError> {
    match value {
        Value::Array(values) => values.into_iter().map(bytes).collect(),
        _ => Err(unreadable()),
    }
}

pub(crate) fn malformed(cause: Malformed) -> StoreError {
    unreadable().caused_by(cause).for_reason(Reason::Request)
}
