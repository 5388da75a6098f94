//! Where a door listens: a TCP port or a unix socket.

use std::{
    fmt, fs, io,
    net::SocketAddr,
    os::unix::{fs::FileTypeExt, net::UnixStream as Probe},
    path::{Path, PathBuf},
    str::FromStr,
    task::{Context, Poll, ready},
};

use tokio::net::{TcpListener, UnixListener};

use super::arrival::Socket;

/// What an address of a unix socket begins with.
const UNIX: &str = "unix:";

/// An address to listen at.
///
/// ```
/// use sluicegate_server::listen::Listen;
/// assert!(matches!("127.0.0.1:8081".parse(), Ok(Listen::Tcp(_))));
/// assert_eq!("unix:/run/sluicegate.sock".parse::<Listen>()?.to_string(), "unix:/run/sluicegate.sock");
/// assert!("unix:".parse::<Listen>().is_err());
/// # Ok::<(), sluicegate_server::listen::UnknownAddress>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

/// Words that name no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an address is written `127.0.0.1:8081` or `unix:/path`")]
pub struct UnknownAddress;

impl FromStr for Listen {
    type Err = UnknownAddress;

    fn from_str(text: &str) -> Result<Self, UnknownAddress> {
        match text.strip_prefix(UNIX) {
            Some("") => Err(UnknownAddress),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| UnknownAddress),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// A listener of either kind. The file of a unix socket goes with it.
#[derive(Debug)]
pub enum Listener {
    /// On a TCP port.
    Tcp(TcpListener),
    /// On a unix socket, with its file.
    Unix(UnixListener, SocketFile),
}

impl Listener {
    /// Begins to listen. A socket file that a dead process left behind is replaced, any other file is not.
    ///
    /// # Errors
    /// [`io::Error`] if the address is not free, or not this process's to take.
    pub async fn bind(address: &Listen) -> io::Result<Self> {
        match address {
            Listen::Tcp(address) => Ok(Self::Tcp(TcpListener::bind(address).await?)),
            Listen::Unix(path) => {
                remove_abandoned(path)?;
                let listener = UnixListener::bind(path)?;
                Ok(Self::Unix(listener, SocketFile(path.clone())))
            }
        }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// [`io::Error`] if the system does not tell.
    pub fn address(&self) -> io::Result<Listen> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Listen::Tcp),
            Self::Unix(_, file) => Ok(Listen::Unix(file.0.clone())),
        }
    }

    /// The next connection.
    pub(super) fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Socket>> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = ready!(listener.poll_accept(context))?;
                // Answers are small and whole: waiting for more to send would only delay them.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "cannot turn off delays on a connection");
                }
                Poll::Ready(Ok(Socket { bytes: Box::new(stream), peer: Some(address.ip()) }))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = ready!(listener.poll_accept(context))?;
                Poll::Ready(Ok(Socket { bytes: Box::new(stream), peer: None }))
            }
        }
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

/// The file of a unix socket; it is removed when dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Whoever starts next replaces it all the same.
        let _ = fs::remove_file(&self.0);
    }
}

fn remove_abandoned(path: &Path) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    match Probe::connect(path) {
        Err(error) if is_socket && error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        _ => Ok(()),
    }
}
