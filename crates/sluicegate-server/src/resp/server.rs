//! The listener: connections in, answers out, and an end that loses nothing.

use std::{io, pin::pin, sync::Arc, time::Duration};

use sluicegate::{Clock, SureStore};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{door::Door, session::Session};
use crate::listen::{self, Arrival, Entry, Listener, Listening, Protocol};

/// How long requests in flight may take after a stop before they are given up.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// The bytes that a read has room for.
const READ_LEN: usize = 16 * 1024;
/// A buffer that grew beyond this is given back once its answers are out.
const KEPT_LEN: usize = 64 * 1024;

/// What an operator chooses about the listener.
#[derive(Clone, Debug)]
pub struct Config {
    /// How connections come in.
    pub entry: Entry,
    /// How long to go on serving after the stop.
    pub drain: Duration,
    /// How long an answer may wait for its client to take it; then the connection is closed.
    pub write_timeout: Duration,
    /// How long a client may take for its first command, for its password, and for the rest of a command that it began.
    pub command_timeout: Duration,
}

impl Default for Config {
    /// No drain; 30 s for answers, and a minute for commands.
    fn default() -> Self {
        Self {
            entry: Entry::default(),
            drain: Duration::ZERO,
            write_timeout: Duration::from_secs(30),
            command_timeout: Duration::from_secs(60),
        }
    }
}

/// Serves until `stop` ends and `config.drain` has passed; then it finishes what is in flight and returns.
pub async fn serve<S, C>(
    listener: impl Into<Listener>,
    door: Arc<Door<S, C>>,
    config: Config,
    stop: impl Future<Output = ()>,
) where
    S: SureStore + 'static,
    C: Clock + 'static,
{
    let listening = Listening::new(listener.into(), config.entry, Protocol::Resp);
    let (stopping, stopped) = watch::channel(());
    let mut connections = JoinSet::new();
    let patience = Patience { write: config.write_timeout, command: config.command_timeout };
    let serve = |connections: &mut JoinSet<()>, arrival: Arrival| {
        let (door, stopped) = (Arc::clone(&door), stopped.clone());
        connections.spawn(async move {
            match arrival.open().await {
                Ok(stream) => Connection::new(stream, patience, stopped).serve(&door).await,
                Err(error) => tracing::debug!(%error, "a connection was not opened"),
            }
        });
    };
    let mut until = pin!(async {
        stop.await;
        sleep(config.drain).await;
    });
    loop {
        tokio::select! {
            biased;
            () = &mut until => break,
            Some(_ended) = connections.join_next() => {}
            arrival = listening.accept() => serve(&mut connections, arrival),
        }
    }
    while let Some(arrival) = listening.waiting().await {
        serve(&mut connections, arrival);
    }
    drop((stopping, listening));
    let finished = async { while connections.join_next().await.is_some() {} };
    if timeout(STOP_TIMEOUT, finished).await.is_err() {
        tracing::warn!("gave up on connections that did not end in {} s", STOP_TIMEOUT.as_secs());
    }
}

/// How long a client may take to take an answer, and to send a command.
#[derive(Clone, Copy)]
struct Patience {
    write: Duration,
    command: Duration,
}

/// One connection.
struct Connection {
    stream: listen::Connection,
    patience: Patience,
    /// Its sender is gone once the server stops.
    stopped: watch::Receiver<()>,
    buffer: Vec<u8>,
    out: Vec<u8>,
}

impl Connection {
    fn new(stream: listen::Connection, patience: Patience, stopped: watch::Receiver<()>) -> Self {
        Self { stream, patience, stopped, buffer: Vec::new(), out: Vec::new() }
    }

    async fn serve<S: SureStore, C: Clock>(mut self, door: &Door<S, C>) {
        let mut session = door.session();
        if let Err(error) = self.answer_all(door, &mut session).await {
            tracing::debug!(%error, "a connection ended early");
        }
        // The client has all its answers, or is gone.
        let _ = self.stream.shutdown().await;
    }

    async fn answer_all<S: SureStore, C: Clock>(
        &mut self,
        door: &Door<S, C>,
        session: &mut Session<'_>,
    ) -> io::Result<()> {
        let mut greeted = false;
        // Since when a command is owed: bytes that come one by one, or commands before the password, win no time.
        let mut owing = Instant::now();
        loop {
            let progress = door.carry_out(session, &self.buffer, &mut self.out).await;
            self.buffer.drain(..progress.consumed.min(self.buffer.len()));
            self.write().await?;
            if session.ending || progress.broken.is_some() {
                return Ok(());
            }
            if progress.consumed > 0 {
                greeted = true;
                owing = if session.trusted { Instant::now() } else { owing };
                continue;
            }
            let may_idle = greeted && session.trusted && self.buffer.is_empty();
            let until = (!may_idle).then(|| owing + self.patience.command);
            if !self.read(until).await? {
                return Ok(());
            }
            owing = if may_idle { Instant::now() } else { owing };
        }
    }

    /// Waits for more bytes; `false` if there will be none by then. An idle client may take its time.
    async fn read(&mut self, until: Option<Instant>) -> io::Result<bool> {
        self.buffer.reserve(READ_LEN);
        let Self { stream, stopped, buffer, .. } = self;
        let patience = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = patience => Err(io::Error::new(io::ErrorKind::TimedOut, "no whole command came")),
            // What has arrived before a stop is still answered.
            read = stream.read_buf(buffer) => Ok(read? > 0),
            _sender_gone = stopped.changed() => Ok(false),
        }
    }

    async fn write(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        let written = timeout(self.patience.write, self.stream.write_all(&self.out)).await;
        written
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes no answer")))?;
        self.out.clear();
        self.out.shrink_to(KEPT_LEN);
        self.buffer.shrink_to(KEPT_LEN);
        Ok(())
    }
}
