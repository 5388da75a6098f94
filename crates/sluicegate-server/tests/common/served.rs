//! A door that serves in this process, on a free port, until it is told to stop.

use std::{
    net::SocketAddr,
    sync::Arc,
    thread::{self, JoinHandle},
};

use sluicegate::{Store, core::Policy};
use sluicegate_server::domains::Domains;
use sluicegate_tests::HandClock;
use tokio::{net::TcpListener, runtime, sync::oneshot};

/// A running door; it stops when dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// Runs `serve` on threads of its own, with a listener and what ends when it is to stop.
    pub(crate) fn start<F: Future<Output = ()>>(
        serve: impl FnOnce(TcpListener, oneshot::Receiver<()>) -> F + Send + 'static,
    ) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime =
                runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async { serve(TcpListener::from_std(listener).unwrap(), stopped).await });
        });
        Self { address, stop: Some(stop), thread: Some(thread) }
    }

    /// Begins a graceful stop.
    pub(crate) fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            _ = stop.send(());
        }
    }

    /// Waits until the door has ended.
    pub(crate) fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
        self.join();
    }
}

/// Domains of these policies, by a clock that is turned by hand.
pub(crate) fn domains<S: Store + Clone>(
    policies: &[&str],
    store: &S,
    clock: &Arc<HandClock>,
) -> Domains<S, Arc<HandClock>> {
    Domains::new(policies.iter().map(|text| Policy::parse(text).unwrap()), store, clock).unwrap()
}
