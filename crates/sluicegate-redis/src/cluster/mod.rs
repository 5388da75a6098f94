//! A Redis Cluster: each call goes to the node that serves its slot.
//!
//! The library has a cluster client of its own. It repeats calls that may have been counted, and waits without bound;
//! here only those are sent again that a node says it has not run.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};
use redis::{RedisError, Value};
use sluicegate::{Counted, StoreError};
use tokio::task::JoinSet;

use crate::{
    connection::{Call, Connection, Target},
    error::{Unreachable, failed},
    flight::Flight,
    server::Server,
    topology::Slot,
};

mod slots;

pub(crate) use slots::slot_of;
use slots::{Address, SlotMap};

/// How often one call is sent. Each time before the last a node said that it has run nothing of it.
const MAX_SENDS: usize = 8;
/// How many nodes are asked at once for the slots: one that hangs must not hold up the others.
const ASKED_AT_ONCE: usize = 3;
/// The least time between two questions for the slots. While a node is down, every call would ask.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a call waits while its keys are on their way from one node to another.
const TRY_AGAIN: Duration = Duration::from_millis(10);

/// The nodes of a cluster and who serves what.
pub(crate) struct Cluster {
    /// The node that is known without asking in the first place; it says how to speak to all.
    first: Server,
    /// Further such nodes.
    seeds: Vec<Address>,
    slots: RwLock<SlotMap>,
    nodes: RwLock<HashMap<Address, Arc<Connection>>>,
    learning: Flight,
    learned_at: Mutex<Option<Instant>>,
    /// Which node is asked first the next time: one whose answers are old must not be asked for ever.
    turn: AtomicUsize,
}

/// What to do after an answer.
enum Next {
    /// The call has ended.
    End(Result<Value, StoreError>),
    /// Send it to the node that serves the slot by now.
    Again,
    /// The same a little later: the slot is half moved, as the node says.
    Later(StoreError),
    /// Send it once to this node, which is about to be given the slot.
    Ask(Address),
}

impl Cluster {
    /// A cluster of which these nodes are known: `first` and those of `seeds`.
    pub(crate) fn new(first: Server, seeds: &[Server]) -> Self {
        Self {
            seeds: [&first].into_iter().chain(seeds).filter_map(Address::of).collect(),
            first,
            slots: RwLock::default(),
            nodes: RwLock::default(),
            learning: Flight::default(),
            learned_at: Mutex::new(None),
            turn: AtomicUsize::new(0),
        }
    }

    /// One call to the node of a slot. It is sent again only after an answer that says that nothing has run.
    ///
    /// # Errors
    /// [`StoreError`] if no node decided. A call waits for at most [`MAX_SENDS`] nodes, each of which must answer in
    /// time for it to go on.
    pub(crate) async fn run(&self, slot: Slot, call: Call<'_>) -> Result<Value, StoreError> {
        let (mut sent_by, mut looked, mut half_moved) = (None, false, None);
        for _ in 0..MAX_SENDS {
            let asking = sent_by.is_some();
            let at = match sent_by.take() {
                Some(address) => address,
                None => self.owner(slot).await?,
            };
            let answer = match self.node(&at).answer(Call { asking, ..call }).await {
                Ok(answer) => answer,
                Err(gone) if looked => return Err(gone.into()),
                Err(gone) => {
                    looked = true;
                    self.replaced(slot, &at, gone).await?;
                    continue;
                }
            };
            match self.react(slot, &at, answer).await {
                Next::End(result) => return result,
                Next::Again => {}
                Next::Later(error) => {
                    half_moved = Some(error);
                    // No node tells when the other keys have been moved.
                    tokio::time::sleep(TRY_AGAIN).await;
                }
                Next::Ask(address) => sent_by = Some(address),
            }
        }
        let torn = || {
            let what = "the nodes of the redis cluster do not agree on who serves the key";
            StoreError::new(what, Counted::Nothing)
        };
        Err(half_moved.unwrap_or_else(torn))
    }

    async fn react(&self, slot: Slot, at: &Address, answer: Result<Value, RedisError>) -> Next {
        let error = match answer {
            Ok(value) => return Next::End(Ok(value)),
            Err(error) => error,
        };
        let told = error.redirect_node().and_then(|(address, _slot)| Address::read(address, at));
        match (error.code(), told) {
            (Some("MOVED"), Some(address)) => {
                // More than this slot may have moved. What the node said of this one stands in any case.
                let _known_or_not = self.learn().await;
                self.slots.write().set(slot, address);
                Next::Again
            }
            (Some("ASK"), Some(address)) => Next::Ask(address),
            (Some("TRYAGAIN"), _) => Next::Later(failed(&at.to_string(), error)),
            _ => Next::End(Err(failed(&at.to_string(), error))),
        }
    }

    /// Looks whether another node serves the slot of one that cannot be reached.
    async fn replaced(&self, slot: Slot, gone: &Address, error: Unreachable) -> Result<(), StoreError> {
        // Without an answer the slots stay as they were, and so does the node.
        let _known_or_not = self.learn().await;
        match self.slots.read().owner(slot) {
            Some(owner) if owner != gone => Ok(()),
            _ => Err(error.into()),
        }
    }

    async fn owner(&self, slot: Slot) -> Result<Address, StoreError> {
        if let Some(owner) = self.slots.read().owner(slot) {
            return Ok(owner.clone());
        }
        self.learn().await?;
        let owner = self.slots.read().owner(slot).cloned();
        owner.ok_or_else(|| {
            StoreError::new("no node of the redis cluster serves the key's slot", Counted::Nothing)
        })
    }

    fn node(&self, address: &Address) -> Arc<Connection> {
        if let Some(node) = self.nodes.read().get(address) {
            return node.clone();
        }
        let server = || Box::new(self.first.at(&address.host, address.port));
        let made = || Arc::new(Connection::new(Target::Server(server())));
        self.nodes.write().entry(address.clone()).or_insert_with(made).clone()
    }

    /// Asks who serves what. Of many callers one asks; none asks again within [`PAUSE`].
    async fn learn(&self) -> Result<(), StoreError> {
        let seen = self.learning.seen();
        let learned = Box::pin(self.learning.unless_landed(seen, self.ask_in_time())).await;
        learned.unwrap_or(Ok(()))
    }

    /// Asks the nodes, for as long as one of them may take: a cluster may have many, and none may be there.
    async fn ask_in_time(&self) -> Result<(), StoreError> {
        if self.learned_at.lock().is_some_and(|at| at.elapsed() < PAUSE) {
            return Ok(());
        }
        let patience = self.first.connect_timeout + self.first.response_timeout;
        let asked = tokio::time::timeout(patience, self.ask_nodes()).await;
        *self.learned_at.lock() = Some(Instant::now());
        asked.unwrap_or_else(|_elapsed| {
            Err(StoreError::new("no node of the redis cluster says who serves what", Counted::Nothing))
        })
    }

    async fn ask_nodes(&self) -> Result<(), StoreError> {
        let mut left = self.candidates().into_iter();
        let mut asked: JoinSet<Result<SlotMap, StoreError>> = JoinSet::new();
        for address in left.by_ref().take(ASKED_AT_ONCE) {
            asked.spawn(ask(self.node(&address), address));
        }
        let mut refused = None;
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(slots)) => {
                    self.keep(slots);
                    return Ok(());
                }
                Ok(Err(error)) => refused = Some(error),
                // A question that panicked has no answer.
                Err(_) => {}
            }
            if let Some(address) = left.next() {
                asked.spawn(ask(self.node(&address), address));
            }
        }
        Err(refused.unwrap_or_else(|| StoreError::new("the redis cluster has no nodes", Counted::Nothing)))
    }

    /// The nodes that serve slots and the seeds, beginning with another one each time.
    fn candidates(&self) -> Vec<Address> {
        let mut all = self.slots.read().nodes();
        let unnamed: Vec<Address> = self.seeds.iter().filter(|seed| !all.contains(seed)).cloned().collect();
        all.extend(unnamed);
        if !all.is_empty() {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % all.len();
            all.rotate_left(turn);
        }
        all
    }

    /// Forgets what was known before, and the connections to nodes that are gone.
    fn keep(&self, slots: SlotMap) {
        let named = slots.nodes();
        self.nodes.write().retain(|address, _| named.contains(address) || self.seeds.contains(address));
        *self.slots.write() = slots;
    }
}

async fn ask(node: Arc<Connection>, at: Address) -> Result<SlotMap, StoreError> {
    let mut question = redis::cmd("CLUSTER");
    question.arg("SLOTS");
    let told = node.run(Call::of(&question)).await.map_err(StoreError::with_nothing_counted)?;
    SlotMap::read(&told, &at).ok_or_else(|| {
        StoreError::new(
            format!("redis at `{at}` knows of no slots: it is no node of a cluster"),
            Counted::Nothing,
        )
    })
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("nodes", &self.slots.read().nodes()).finish_non_exhaustive()
    }
}
