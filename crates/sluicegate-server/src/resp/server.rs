//! The listener: connections in, answers out, and an end that loses nothing.

use std::{io, pin::pin, sync::Arc, time::Duration};

use sluicegate::{Clock, SureStore};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{door::Door, session::Session};
use crate::listen::Listening;

/// How long a client may take for its first command, for its password, and for the rest of a command that it began.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// How long requests in flight may take after a stop before they are given up.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// The bytes that a read has room for.
const READ_LEN: usize = 16 * 1024;
/// A buffer that grew beyond this is given back once its answers are out.
const KEPT_LEN: usize = 64 * 1024;

/// What an operator chooses about the listener.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The most connections at once.
    pub max_connections: u32,
    /// How long to go on serving after the stop.
    pub drain: Duration,
    /// How long an answer may wait for its client to take it; then the connection is closed.
    pub write_timeout: Duration,
}

/// Serves until `stop` ends and `config.drain` has passed; then it finishes what is in flight and returns.
pub async fn serve<S, C>(
    listener: TcpListener,
    door: Arc<Door<S, C>>,
    config: Config,
    stop: impl Future<Output = ()>,
) where
    S: SureStore + 'static,
    C: Clock + 'static,
{
    let listening = Listening::new(listener, config.max_connections);
    let (stopping, stopped) = watch::channel(());
    let mut connections = JoinSet::new();
    let serve = |connections: &mut JoinSet<()>, stream, permit| {
        let connection = Connection::new(stream, config.write_timeout, stopped.clone());
        let door = Arc::clone(&door);
        connections.spawn(async move {
            connection.serve(&door).await;
            drop::<Option<OwnedSemaphorePermit>>(permit);
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
            (stream, permit) = listening.accept() => serve(&mut connections, stream, permit),
        }
    }
    while let Some(stream) = listening.waiting().await {
        serve(&mut connections, stream, None);
    }
    drop((stopping, listening));
    let finished = async { while connections.join_next().await.is_some() {} };
    if timeout(STOP_TIMEOUT, finished).await.is_err() {
        tracing::warn!("gave up on connections that did not end in {} s", STOP_TIMEOUT.as_secs());
    }
}

/// One connection.
struct Connection {
    stream: TcpStream,
    write_timeout: Duration,
    /// Its sender is gone once the server stops.
    stopped: watch::Receiver<()>,
    buffer: Vec<u8>,
    out: Vec<u8>,
}

impl Connection {
    fn new(stream: TcpStream, write_timeout: Duration, stopped: watch::Receiver<()>) -> Self {
        Self { stream, write_timeout, stopped, buffer: Vec::new(), out: Vec::new() }
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
        loop {
            let progress = door.carry_out(session, &self.buffer, &mut self.out).await;
            self.buffer.drain(..progress.consumed.min(self.buffer.len()));
            self.write().await?;
            if session.ending || progress.broken.is_some() {
                return Ok(());
            }
            if progress.consumed > 0 {
                greeted = true;
                continue;
            }
            let may_idle = greeted && session.trusted && self.buffer.is_empty();
            if !self.read(may_idle).await? {
                return Ok(());
            }
        }
    }

    /// Waits for more bytes; `false` if there will be none. An idle client may take its time, others not.
    async fn read(&mut self, may_idle: bool) -> io::Result<bool> {
        self.buffer.reserve(READ_LEN);
        let Self { stream, stopped, buffer, .. } = self;
        let patience =
            async { if may_idle { std::future::pending().await } else { sleep(COMMAND_TIMEOUT).await } };
        tokio::select! {
            biased;
            // What has arrived before a stop is still answered.
            read = stream.read_buf(buffer) => Ok(read? > 0),
            _sender_gone = stopped.changed() => Ok(false),
            () = patience => Err(io::Error::new(io::ErrorKind::TimedOut, "no whole command came")),
        }
    }

    async fn write(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        let written = timeout(self.write_timeout, self.stream.write_all(&self.out)).await;
        written
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes no answer")))?;
        self.out.clear();
        self.out.shrink_to(KEPT_LEN);
        self.buffer.shrink_to(KEPT_LEN);
        Ok(())
    }
}
