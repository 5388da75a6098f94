//! A limiter, an application and a proxy between them and the clients.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::{net::TcpSocket, runtime};

use super::{
    ROOT,
    binary::{Process, sluicegate},
};

/// Where all of them are: files in a folder of their own, on free ports.
pub(crate) struct Place {
    folder: TempDir,
    arguments: Vec<String>,
    limiter: Limiter,
    application: SocketAddr,
    reached: Arc<AtomicUsize>,
    proxy: SocketAddr,
}

impl Place {
    /// A place whose limiter has this policy, and these arguments beside it.
    pub(crate) fn new(policy: &str, arguments: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("policy.yaml"), policy).unwrap();
        let arguments: Vec<_> = arguments.iter().map(|&word| word.to_owned()).collect();
        let anywhere = "127.0.0.1:0".to_owned();
        let limiter = Limiter::start(&folder, [anywhere.clone(), anywhere], &arguments);
        let reached = Arc::new(AtomicUsize::new(0));
        let application = application(reached.clone());
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        Self { folder, arguments, limiter, application, reached, proxy }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Where the proxy is to listen.
    pub(crate) fn proxy(&self) -> SocketAddr {
        self.proxy
    }

    /// The block of a page that begins so, with the addresses of this place. Tests share their machine, so nobody gives up
    /// early in them.
    pub(crate) fn recipe(&self, page: &str, beginning: &str) -> String {
        let [http, grpc] = self.limiter.addresses.each_ref().map(|address| port(address));
        block(page, beginning)
            .replace("127.0.0.1:8080", &self.limiter.addresses[0])
            .replace("port_value: 8080", &format!("port_value: {http}"))
            .replace("port_value: 8081", &format!("port_value: {grpc}"))
            .replace("127.0.0.1:9000", &self.application.to_string())
            .replace("port_value: 9000", &format!("port_value: {}", self.application.port()))
            .replace("port_value: 8000", &format!("port_value: {}", self.proxy.port()))
            .replace(":8000", &format!(":{}", self.proxy.port()))
            .replace(": 0.1s", ": 10s")
    }

    /// Starts the proxy, and waits until it listens.
    pub(crate) fn start(self, mut proxy: Command) -> Proxied {
        let running = Running::start(proxy.current_dir(self.folder.path()));
        until_it_listens(self.proxy);
        Proxied { place: self, _proxy: running }
    }
}

pub(crate) fn until_it_listens(address: SocketAddr) {
    let begun = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody listens at {address}");
        thread::sleep(Duration::from_millis(20)); // Nothing tells when a proxy starts to listen.
    }
}

/// What stands in the one block of a page of `docs/operating` that begins so.
pub(crate) fn block(page: &str, beginning: &str) -> String {
    let page = fs::read_to_string(format!("{ROOT}/docs/operating/{page}.md")).unwrap();
    let (_, after) = page.split_once(&format!("```{beginning}\n")).expect("a block that begins so");
    after.split_once("```").expect("its end").0.to_owned()
}

fn port(address: &str) -> &str {
    address.rsplit(':').next().unwrap()
}

/// A limiter, until it is killed, and where its HTTP and gRPC doors are.
struct Limiter {
    process: Option<Process>,
    addresses: [String; 2],
}

impl Limiter {
    fn start(folder: &TempDir, [http, grpc]: [String; 2], arguments: &[String]) -> Self {
        let mut serve = sluicegate();
        serve.args(["serve", "--policy", "policy.yaml", "--http", &http, "--grpc", &grpc]).args(arguments);
        let process = Process::start(serve.current_dir(folder.path()), 2);
        let addresses = ["http", "grpc"].map(|door| process.address(door).to_owned());
        Self { process: Some(process), addresses }
    }
}

/// A process that ends with this value.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Asks it to end, so that it takes its own workers along, and kills it if it does not.
    fn end(&mut self) {
        let begun = Instant::now();
        if self.runs() {
            _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        }
        while self.runs() && begun.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(5)); // A wait with an end is not to be had.
        }
        _ = self.0.kill();
        _ = self.0.wait();
    }

    fn runs(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|ended| ended.is_none())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// An application that answers everybody.
fn application(reached: Arc<AtomicUsize>) -> SocketAddr {
    const ANSWER: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-length: 15\r\nx-tokens: 500\r\nconnection: close\r\n\r\nthe application";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = BufReader::new(stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).is_ok_and(|len| len > 0) {}
            if !head.is_empty() {
                reached.fetch_add(1, Ordering::SeqCst);
                _ = stream.get_mut().write_all(ANSWER);
            }
        }
    });
    address
}

/// The whole of it, running.
pub(crate) struct Proxied {
    place: Place,
    _proxy: Running,
}

/// What a client got.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.into_iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Proxied {
    /// One request through the proxy, of a client that claims an address of its own.
    pub(crate) fn get(&self, client: usize) -> Reply {
        self.request(
            "/v1/chat?x=1",
            &format!("x-forwarded-for: 198.51.100.{client}\r\nx-forwarded-uri: /free\r\n"),
        )
    }

    /// One request through the proxy, from an address that is not the proxy's own.
    pub(crate) fn request(&self, path: &str, headers: &str) -> Reply {
        self.request_from("127.0.0.2", path, headers)
    }

    /// One request through the proxy, from that address.
    pub(crate) fn request_from(&self, source: &str, path: &str, headers: &str) -> Reply {
        let stream = connect_from(source, self.place.proxy);
        exchange(stream, &format!("GET {path} HTTP/1.1\r\nhost: api\r\nconnection: close\r\n{headers}\r\n"))
    }

    /// How many requests the application has seen.
    pub(crate) fn reached(&self) -> usize {
        self.place.reached.load(Ordering::SeqCst)
    }

    /// Kills the limiter.
    pub(crate) fn end_limiter(&mut self) {
        self.place.limiter.process = None;
    }

    /// Starts the limiter again, where it was.
    pub(crate) fn restart_limiter(&mut self) {
        let Place { folder, arguments, limiter, .. } = &mut self.place;
        *limiter = Limiter::start(folder, limiter.addresses.clone(), arguments);
    }

    /// What the limiter's own HTTP door says to a body.
    pub(crate) fn ask_limiter(&self, path: &str, body: &str) -> Reply {
        let stream = TcpStream::connect(&self.place.limiter.addresses[0]).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n"
        );
        exchange(stream, &format!("{head}content-length: {}\r\n\r\n{body}", body.len()))
    }
}

/// One request on a connection of its own, and its answer.
pub(crate) fn exchange(mut stream: TcpStream, request: &str) -> Reply {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

/// A connection from an address of this machine to another.
fn connect_from(source: &str, target: SocketAddr) -> TcpStream {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{source}:0").parse().unwrap()).unwrap();
        socket.connect(target).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream
}
