//! One connection, and what the server tells on it unasked.

use std::{future::poll_fn, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Notify,
    task::JoinHandle,
    time::timeout,
};
use tokio_postgres::{AsyncMessage, Client, Connection};

use super::{
    tls::{self, RootError},
    url::PostgresUrl,
};

/// How long a connection may take to be made, each way that is tried. No decision waits for it.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The server was not reached, or refused.
    #[error("the server cannot be connected to")]
    Refused(#[source] tokio_postgres::Error),
    /// It took too long.
    #[error("the server did not answer within {} s", PATIENCE.as_secs())]
    Slow,
    /// It could not be told from another.
    #[error(transparent)]
    Root(#[from] RootError),
}

/// A connection that ends with this value.
pub(super) struct Live {
    pub(super) client: Client,
    driver: JoinHandle<()>,
}

impl Live {
    /// Connects. What is told of the domain wakes whoever waits.
    pub(super) async fn connect(url: &PostgresUrl, told: &Arc<Notify>) -> Result<Self, ConnectError> {
        let mut failure = ConnectError::Slow;
        for attempt in url.attempts() {
            let mut config = url.config.clone();
            config.ssl_mode(*attempt).connect_timeout(PATIENCE);
            if config.get_application_name().is_none() {
                config.application_name("sluicegate");
            }
            let connector = tls::connector(url.tls, &url.trust)?;
            match timeout(PATIENCE, config.connect(connector)).await {
                Ok(Ok((client, connection))) => {
                    let (told, domain) = (told.clone(), url.domain.clone());
                    return Ok(Self { client, driver: tokio::spawn(drive(connection, told, domain)) });
                }
                Ok(Err(error)) => failure = ConnectError::Refused(error),
                Err(_elapsed) => failure = ConnectError::Slow,
            }
        }
        Err(failure)
    }

    /// Whether the server has closed it.
    pub(super) fn has_ended(&self) -> bool {
        self.client.is_closed()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // A server that hangs would keep it for ever.
        self.driver.abort();
    }
}

async fn drive<S, T>(mut connection: Connection<S, T>, told: Arc<Notify>, domain: String)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            AsyncMessage::Notification(notice) if notice.payload() == domain => told.notify_one(),
            _ => {}
        }
    }
}
