//! One multiplexed connection, made again by the next call when it is lost.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::RwLock;
use redis::{
    AsyncConnectionConfig, Client, Cmd, PushInfo, PushKind, RedisError, Value, aio::MultiplexedConnection,
};
use sluicegate::StoreError;

use crate::{
    config::{ConfigError, RedisConfig},
    error::{ends_connection, failed, is_no_script, not_connected, unreadable},
    flight::Flight,
    script::Script,
};

/// Calls that may wait to be written before callers wait for room; each is some hundred bytes.
const QUEUE: usize = 1_024;
/// How often a call waits for its script to be loaded. More than once only if someone flushes scripts again and again.
const MAX_LOADS: usize = 3;

/// A connection to one server. It connects with the first call; no call waits longer than a connect and a response
/// timeout each for itself and for one caller before it.
pub(crate) struct Connection {
    client: Client,
    connect_timeout: Duration,
    response_timeout: Duration,
    live: RwLock<Option<Live>>,
    last_failure: RwLock<Option<RedisError>>,
    connecting: Flight,
    loading: Flight,
}

#[derive(Clone)]
struct Live {
    calls: MultiplexedConnection,
    ended: Arc<AtomicBool>,
}

impl Live {
    /// Gives the connection up if the answer says so.
    fn note<T>(&self, answer: &Result<T, RedisError>) {
        if answer.as_ref().is_err_and(ends_connection) {
            // After a timeout the way to the server may be cut without a sign; a new connection finds out.
            self.ended.store(true, Ordering::Release);
        }
    }
}

impl Connection {
    pub(crate) fn new(config: &RedisConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            client: config.client()?,
            connect_timeout: config.connect_timeout,
            response_timeout: config.response_timeout,
            live: RwLock::new(None),
            last_failure: RwLock::new(None),
            connecting: Flight::default(),
            loading: Flight::default(),
        })
    }

    /// One call, sent at most once.
    pub(crate) async fn call(&self, call: &Cmd) -> Result<Value, StoreError> {
        self.send(call).await?.map_err(failed)
    }

    /// One call of a script. Only the answer that the server does not know the script leads to a second one: then
    /// nothing has run.
    pub(crate) async fn call_script(&self, script: &Script, call: &Cmd) -> Result<Value, StoreError> {
        for _ in 0..MAX_LOADS {
            let seen = self.loading.seen();
            match self.send(call).await? {
                Err(error) if is_no_script(&error) => {}
                answered => return answered.map_err(failed),
            }
            let load = self.loading.unless_landed(seen, self.load(script));
            if let Some(loaded) = Box::pin(load).await {
                loaded?;
            }
        }
        Box::pin(self.load_and_call(script, call)).await
    }

    /// Loads the script and calls it in one write, so that hardly anything can come in between.
    async fn load_and_call(&self, script: &Script, call: &Cmd) -> Result<Value, StoreError> {
        let mut both = redis::pipe();
        both.cmd("SCRIPT").arg("LOAD").arg(script.source.as_ref()).add_command(call.clone());
        let mut live = self.live_or_made().await?;
        let answers = live.calls.send_packed_commands(&both, 0, 2).await;
        live.note(&answers);
        let answer = answers.map_err(failed)?.pop().ok_or_else(unreadable)?;
        answer.extract_error().map_err(failed)
    }

    async fn load(&self, script: &Script) -> Result<(), StoreError> {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(script.source.as_ref());
        // Nothing counts by loading, whatever becomes of it.
        self.send(&load).await?.map(|_sha| ()).map_err(not_connected)
    }

    /// The outer error says that nothing was sent.
    async fn send(&self, call: &Cmd) -> Result<Result<Value, RedisError>, StoreError> {
        let mut live = self.live_or_made().await?;
        let answer = live.calls.send_packed_command(call).await.and_then(Value::extract_error);
        live.note(&answer);
        Ok(answer)
    }

    async fn live_or_made(&self) -> Result<Live, StoreError> {
        match self.live() {
            Some(live) => Ok(live),
            // Boxed, as other rare ways are: the future of a handshake is large, and every call would carry it.
            None => Box::pin(self.connect()).await.map_err(not_connected),
        }
    }

    fn live(&self) -> Option<Live> {
        self.live.read().as_ref().filter(|live| !live.ended.load(Ordering::Acquire)).cloned()
    }

    async fn connect(&self) -> Result<Live, RedisError> {
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

    async fn connect_and_keep(&self) -> Result<Live, RedisError> {
        let connecting = tokio::time::timeout(self.connect_timeout, self.make());
        let made = connecting.await.unwrap_or_else(|_elapsed| Err(timed_out()));
        match &made {
            Ok(live) => *self.live.write() = Some(live.clone()),
            Err(error) => *self.last_failure.write() = Some(error.clone()),
        }
        made
    }

    async fn make(&self) -> Result<Live, RedisError> {
        let ended = Arc::new(AtomicBool::new(false));
        let sign = ended.clone();
        let listen = move |push: PushInfo| {
            if push.kind == PushKind::Disconnection {
                sign.store(true, Ordering::Release);
            }
            Ok::<(), redis::aio::SendError>(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(self.response_timeout))
            .set_pipeline_buffer_size(QUEUE)
            .set_push_sender(listen);
        let calls = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Live { calls, ended })
    }

    fn last_failure(&self) -> RedisError {
        self.last_failure.read().clone().unwrap_or_else(timed_out)
    }
}

fn timed_out() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("live", &self.live().is_some()).finish_non_exhaustive()
    }
}
