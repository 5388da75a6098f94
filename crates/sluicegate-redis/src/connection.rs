//! One multiplexed connection, made again by the next call when it is lost.

use std::{fmt, pin::Pin};

use parking_lot::RwLock;
use redis::{Cmd, RedisError, Value};
use sluicegate::StoreError;

use crate::{
    error::{Unreachable, failed, is_no_script},
    flight::Flight,
    script::Script,
    sentinel::Sentinels,
    server::{Live, Server},
};

/// How often a call waits for its script to be loaded. More than once only if someone flushes scripts again and again.
const MAX_LOADS: usize = 3;

/// A connection to one server. It connects with the first call; no call waits longer than a connect and a response
/// timeout each for itself and for one caller before it.
pub(crate) struct Connection {
    to: Target,
    live: RwLock<Option<Live>>,
    last_failure: RwLock<Option<Unreachable>>,
    connecting: Flight,
    loading: Flight,
}

/// Which server is meant.
pub(crate) enum Target {
    /// The one at an address.
    Server(Box<Server>),
    /// The one that sentinels call the master when the connection is made.
    Master(Box<Sentinels>),
}

/// What is asked of a server.
#[derive(Clone, Copy)]
pub(crate) struct Call<'c> {
    pub(crate) command: &'c Cmd,
    /// The script that the command calls by name, to be loaded if the server does not know it.
    pub(crate) script: Option<&'c Script>,
    /// Says to a node of a cluster that the call was sent to it by the node that gives the slot away.
    pub(crate) asking: bool,
}

impl<'c> Call<'c> {
    pub(crate) fn of(command: &'c Cmd) -> Self {
        Self { command, script: None, asking: false }
    }

    pub(crate) fn of_script(script: &'c Script, command: &'c Cmd) -> Self {
        Self { command, script: Some(script), asking: false }
    }
}

/// What came of a call that was sent; the outer error says that nothing was sent.
pub(crate) type Answer = Result<Result<Value, RedisError>, Unreachable>;

impl Connection {
    pub(crate) fn new(to: Target) -> Self {
        Self {
            to,
            live: RwLock::new(None),
            last_failure: RwLock::new(None),
            connecting: Flight::default(),
            loading: Flight::default(),
        }
    }

    /// One call, sent at most once, but for a server that does not know its script: then nothing has run.
    pub(crate) async fn run(&self, call: Call<'_>) -> Result<Value, StoreError> {
        self.answer(call).await.map_err(StoreError::from)?.map_err(|cause| failed(&self.name(), cause))
    }

    /// As [`Connection::run`], for callers that know what to do about some answers.
    pub(crate) async fn answer(&self, call: Call<'_>) -> Answer {
        let Some(script) = call.script else { return self.send(call).await };
        for _ in 0..MAX_LOADS {
            let seen = self.loading.seen();
            match self.send(call).await? {
                Err(error) if is_no_script(&error) => {}
                answered => return Ok(answered),
            }
            let load = self.loading.unless_landed(seen, self.load(script));
            if let Some(Err(refused)) = Box::pin(load).await.transpose()? {
                return Ok(Err(refused));
            }
        }
        Box::pin(self.load_and_call(script, call)).await
    }

    /// Loads the script and calls it in one write, so that hardly anything can come in between.
    async fn load_and_call(&self, script: &Script, call: Call<'_>) -> Answer {
        let mut all = redis::pipe();
        all.cmd("SCRIPT").arg("LOAD").arg(script.source.as_ref());
        if call.asking {
            all.cmd("ASKING");
        }
        all.add_command(call.command.clone());
        let answer = self.live_or_made().await?.send_all(&all).await;
        Ok(answer.and_then(|last| last.ok_or_else(no_answer)))
    }

    async fn load(&self, script: &Script) -> Answer {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(script.source.as_ref());
        let answer = self.send(Call::of(&load)).await?;
        // Nothing counts by loading, whatever becomes of it.
        answer.map(Ok).map_err(|cause| Unreachable::new(&self.name(), cause))
    }

    async fn send(&self, call: Call<'_>) -> Answer {
        let mut live = self.live_or_made().await?;
        if call.asking {
            let mut both = redis::pipe();
            both.cmd("ASKING").add_command(call.command.clone());
            let answer = Box::pin(live.send_all(&both)).await;
            return Ok(answer.and_then(|last| last.ok_or_else(no_answer)));
        }
        Ok(live.send(call.command).await)
    }

    async fn live_or_made(&self) -> Result<Live, Unreachable> {
        match self.live() {
            Some(live) => Ok(live),
            None => self.connect_rarely().await,
        }
    }

    /// [`Connection::connect`], boxed as other rare ways are: the future of a handshake is large, and every call would
    /// carry it. And without its type: whoever wraps a store in a few futures more would else meet the compiler's
    /// limit on nesting.
    fn connect_rarely(&self) -> Pin<Box<dyn Future<Output = Result<Live, Unreachable>> + Send + '_>> {
        Box::pin(self.connect())
    }

    fn live(&self) -> Option<Live> {
        self.live.read().as_ref().filter(|live| !live.has_ended()).cloned()
    }

    async fn connect(&self) -> Result<Live, Unreachable> {
        let seen = self.connecting.seen();
        if let Some(live) = self.live() {
            return Ok(live);
        }
        let made = self.connecting.unless_landed(seen, self.connect_and_keep()).await;
        match made {
            Some(made) => made,
            // Another caller tried meanwhile: its connection serves, or its failure stands.
            None => self.live().ok_or_else(|| self.last_failure()),
        }
    }

    async fn connect_and_keep(&self) -> Result<Live, Unreachable> {
        let made = match &self.to {
            Target::Server(server) => server.connect().await,
            Target::Master(sentinels) => sentinels.connect().await,
        };
        match &made {
            Ok(live) => *self.live.write() = Some(live.clone()),
            Err(failure) => *self.last_failure.write() = Some(failure.clone()),
        }
        made
    }

    fn last_failure(&self) -> Unreachable {
        let last = self.last_failure.read().clone();
        last.unwrap_or_else(|| Unreachable::new(&self.to.to_string(), crate::server::timed_out()))
    }

    /// The server that was spoken to last.
    fn name(&self) -> String {
        let live = self.live.read();
        live.as_ref().map_or_else(|| self.to.to_string(), |live| live.server().to_owned())
    }
}

/// A pipeline without answers; the library does not make one.
fn no_answer() -> RedisError {
    (redis::ErrorKind::UnexpectedReturnType, "no answer to a pipeline").into()
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(server) => server.fmt(f),
            Self::Master(sentinels) => sentinels.fmt(f),
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("live", &self.live().is_some()).finish_non_exhaustive()
    }
}
