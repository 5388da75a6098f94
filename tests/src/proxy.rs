//! A TCP proxy that fails on command.
//!
//! It stands between a client and one server of this host, and runs on a thread of its own, so that a test's runtime
//! may be as busy as it likes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
};

use crate::ports::free_port;

/// What a proxy does to what it carries, from now on, connections that stand already included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Carries everything.
    Pass,
    /// Carries everything; answers this much later.
    Delay(Duration),
    /// Accepts connections and carries nothing. What was held back arrives when the fault ends, as after a lost route.
    Blackhole,
    /// Carries requests and no answers. Answers arrive when the fault ends.
    HalfOpen,
    /// Closes what stands and refuses to connect.
    Refuse,
    /// Closes a connection instead of carrying a request that holds these letters: the server never sees it.
    CutBeforeRequest(&'static str),
    /// Carries a request that holds these letters, waits until the server has done all that it was sent, and closes the
    /// connection instead of carrying the answer.
    CutBeforeReply(&'static str),
}

/// How far an order to the proxy has come, so that a test can wait for it.
#[derive(Debug, Default)]
struct Counts {
    accepted: AtomicU64,
    cut: AtomicU64,
    listening: AtomicBool,
}

/// What a connection needs to know.
#[derive(Clone)]
struct Orders {
    fault: watch::Receiver<Fault>,
    /// Rises with each order to close what stands.
    closing: watch::Receiver<u64>,
    counts: Arc<Counts>,
}

/// A running proxy. It ends with this value.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    fault: Option<watch::Sender<Fault>>,
    closing: watch::Sender<u64>,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

/// Bytes that are read at once.
const CHUNK: usize = 16 * 1_024;
/// Chunks that may wait for their time in a delayed direction.
const DELAYED: usize = 4_096;
/// How long an order may take to be carried out.
const PATIENCE: Duration = Duration::from_secs(10);

impl Proxy {
    /// A proxy to a port of this host, carrying everything.
    pub fn to(server: u16) -> Self {
        let (fault, told) = watch::channel(Fault::Pass);
        let (closing, closed) = watch::channel(0);
        let counts = Arc::new(Counts::default());
        let orders = Orders { fault: told, closing: closed, counts: counts.clone() };
        let port = free_port();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(listen(port, server, orders));
        });
        let proxy = Self { port, fault: Some(fault), closing, counts, thread: Some(thread) };
        proxy.wait_until(|counts| counts.listening.load(Ordering::Acquire));
        proxy
    }

    /// What it does from now on. When this returns, the order holds for all that is carried later.
    pub fn set(&self, fault: Fault) {
        if let Some(orders) = &self.fault {
            orders.send_replace(fault);
        }
        let listens = fault != Fault::Refuse;
        self.wait_until(|counts| counts.listening.load(Ordering::Acquire) == listens);
    }

    /// Closes all connections that stand.
    pub fn cut_all(&self) {
        self.closing.send_modify(|times| *times += 1);
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of the server behind it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How many connections it has accepted so far.
    pub fn connections(&self) -> u64 {
        self.counts.accepted.load(Ordering::Acquire)
    }

    /// How many connections it has cut at a request so far.
    pub fn cuts(&self) -> u64 {
        self.counts.cut.load(Ordering::Acquire)
    }

    fn wait_until(&self, done: impl Fn(&Counts) -> bool) {
        let began = Instant::now();
        while !done(&self.counts) {
            assert!(began.elapsed() < PATIENCE, "the proxy does not follow");
            // Its thread does not tell when it is done.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Everything on its thread ends when nobody can give orders any more.
        self.fault = None;
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// Accepts until nobody gives orders any more.
async fn listen(port: u16, server: u16, orders: Orders) {
    let mut told = orders.fault.clone();
    let refuses = |fault: &Fault| *fault == Fault::Refuse;
    loop {
        if told.wait_for(|fault| !refuses(fault)).await.is_err() {
            return;
        }
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the proxy's port");
        orders.counts.listening.store(true, Ordering::Release);
        loop {
            tokio::select! {
                biased;
                told = told.wait_for(refuses) => {
                    if told.is_err() {
                        return;
                    }
                    break;
                }
                accepted = listener.accept() => {
                    let Ok((client, _)) = accepted else { continue };
                    orders.counts.accepted.fetch_add(1, Ordering::AcqRel);
                    tokio::spawn(carry(client, server, orders.clone()));
                }
            }
        }
        drop(listener);
        orders.counts.listening.store(false, Ordering::Release);
    }
}

/// Carries one connection until either side, or an order, ends it.
async fn carry(client: TcpStream, server: u16, orders: Orders) {
    let (mut fault, mut closing) = (orders.fault.clone(), orders.closing.clone());
    closing.mark_unchanged();
    tokio::select! {
        // An order that was given before a byte arrived holds for that byte.
        biased;
        _ = fault.wait_for(|fault| *fault == Fault::Refuse) => {}
        _ = closing.changed() => {}
        () = between(client, server, orders) => {}
    }
}

async fn between(client: TcpStream, server: u16, orders: Orders) {
    if open(&orders.fault, Fault::Blackhole).await.is_none() {
        return;
    }
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    for stream in [&client, &server] {
        // Nothing is lost without it but time.
        let _undelayed = stream.set_nodelay(true);
    }
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let (cut, mut cutting) = watch::channel(false);
    let answers = answer(from_server, to_client, orders.fault.clone(), cutting.clone());
    let requests = request(from_client, to_server, orders, cut);
    tokio::pin!(answers, requests);
    tokio::select! {
        () = &mut requests => {
            // A cut waits until the server has closed its side: by then it has done all that it was sent.
            if *cutting.borrow_and_update() {
                answers.await;
            }
        }
        () = &mut answers => {}
    }
}

/// Carries what the client says. Ends after the last of it, or when it is to be cut.
async fn request(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, orders: Orders, cut: watch::Sender<bool>) {
    let mut chunk = vec![0; CHUNK];
    loop {
        let Ok(length @ 1..) = from.read(&mut chunk).await else { return };
        let Some(fault) = open(&orders.fault, Fault::Blackhole).await else { return };
        let said = &chunk[..length];
        match fault {
            Fault::CutBeforeRequest(letters) if holds(said, letters) => {
                orders.counts.cut.fetch_add(1, Ordering::AcqRel);
                return;
            }
            Fault::CutBeforeReply(letters) if holds(said, letters) => {
                let _drained = cut.send(true);
                let _carried = to.write_all(said).await;
                let _ended = to.shutdown().await;
                orders.counts.cut.fetch_add(1, Ordering::AcqRel);
                return;
            }
            _ => {}
        }
        if to.write_all(said).await.is_err() {
            return;
        }
    }
}

/// Carries what the server says, each chunk not before its time; nothing once the connection is to be cut.
async fn answer(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    fault: watch::Receiver<Fault>,
    cutting: watch::Receiver<bool>,
) {
    let (put, mut due) = mpsc::channel::<(tokio::time::Instant, Vec<u8>)>(DELAYED);
    let told = fault.clone();
    let read = async move {
        let mut chunk = vec![0; CHUNK];
        while let Ok(length @ 1..) = from.read(&mut chunk).await {
            let delay = if let Fault::Delay(delay) = *told.borrow() { delay } else { Duration::ZERO };
            let at = tokio::time::Instant::now() + delay;
            if put.send((at, chunk[..length].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((at, said)) = due.recv().await {
            tokio::time::sleep_until(at).await;
            if open(&fault, Fault::Blackhole).await.is_none() || open(&fault, Fault::HalfOpen).await.is_none()
            {
                return;
            }
            if !*cutting.borrow() && to.write_all(&said).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}

/// Waits while this fault lasts, and answers what holds then; `None` if the proxy ends.
async fn open(fault: &watch::Receiver<Fault>, shut: Fault) -> Option<Fault> {
    fault.clone().wait_for(|fault| *fault != shut).await.ok().map(|fault| *fault)
}

fn holds(said: &[u8], letters: &str) -> bool {
    said.windows(letters.len()).any(|window| window == letters.as_bytes())
}
