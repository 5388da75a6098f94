//! What systemd is told of this process: that it is ready, that it is stopping, and that it still turns.
//!
//! The protocol is a line per datagram: <https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html>.

use std::{
    env, io,
    os::unix::net::{SocketAddr, UnixDatagram},
    time::Duration,
};

use tokio::time::interval;

/// Whoever started this process and wants to hear of it; without systemd, nobody does.
pub(super) struct Supervisor {
    socket: Option<(UnixDatagram, SocketAddr)>,
}

impl Supervisor {
    /// The one that the environment names.
    pub(super) fn of_environment() -> Self {
        let named = env::var("NOTIFY_SOCKET").ok();
        let socket = named.and_then(|name| {
            let connected = address(&name).and_then(|address| Ok((UnixDatagram::unbound()?, address)));
            connected.inspect_err(|error| tracing::warn!(name, %error, "cannot reach NOTIFY_SOCKET")).ok()
        });
        Self { socket }
    }

    /// Every door listens.
    pub(super) fn ready(&self) {
        self.say("READY=1");
    }

    /// A stop signal has come.
    pub(super) fn stopping(&self) {
        self.say("STOPPING=1");
    }

    /// Says for ever that the doors' threads still turn, twice in each span in which it must be heard.
    pub(super) async fn watch(&self) {
        let span_us = env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse::<u64>().ok());
        let Some(span_us) = span_us.filter(|span_us| *span_us > 1 && self.socket.is_some()) else {
            return std::future::pending().await;
        };
        let mut ticks = interval(Duration::from_micros(span_us / 2));
        loop {
            ticks.tick().await;
            self.say("WATCHDOG=1");
        }
    }

    fn say(&self, what: &str) {
        let Some((socket, address)) = &self.socket else { return };
        if let Err(error) = socket.send_to_addr(what.as_bytes(), address) {
            tracing::warn!(what, %error, "cannot notify systemd");
        }
    }
}

/// A path or, on Linux, a name that no file has, which begins with `@`.
fn address(name: &str) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = name.strip_prefix('@') {
        return <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name);
    }
    SocketAddr::from_pathname(name)
}
