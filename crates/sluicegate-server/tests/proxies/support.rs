//! A limiter, an application and a proxy between them and the clients.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::ROOT;

/// Nothing of a minute or an hour may end within the test, so the window moves with the requests.
const POLICY: &str = "
version: 1
limits:
  - { name: per-client, algorithm: sliding_log, limit: 5, per: 1h, key: [ip], match: { endpoint: \"/v1/*\" } }
";

/// Where all of them are: files in a folder of their own, on free ports.
pub(crate) struct Place {
    folder: TempDir,
    limiter: Running,
    limiter_address: String,
    application: SocketAddr,
    reached: Arc<AtomicUsize>,
    proxy: SocketAddr,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("policy.yaml"), POLICY).unwrap();
        let mut serve = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
        serve.args(["serve", "--http", "127.0.0.1:0", "--policy", "policy.yaml"]);
        let mut limiter = Running::start(serve.current_dir(folder.path()).stdout(Stdio::piped()));
        let mut line = String::new();
        BufReader::new(limiter.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let limiter_address =
            line.trim().strip_prefix("listening on http://").expect("its address").to_owned();
        let reached = Arc::new(AtomicUsize::new(0));
        let application = application(reached.clone());
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        Self { folder, limiter, limiter_address, application, reached, proxy }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// The one block of that language in the recipes, with the addresses of this place.
    pub(crate) fn recipe(&self, language: &str) -> String {
        let page = fs::read_to_string(format!("{ROOT}/docs/operating/forward-auth.md")).unwrap();
        let (_, after) = page.split_once(&format!("```{language}\n")).expect("a recipe");
        let (recipe, _) = after.split_once("```").expect("its end");
        recipe
            .replace("127.0.0.1:8080", &self.limiter_address)
            .replace("127.0.0.1:9000", &self.application.to_string())
            .replace(":8000", &format!(":{}", self.proxy.port()))
    }

    /// Starts the proxy, and waits until it listens.
    pub(crate) fn start(self, mut proxy: Command) -> Proxied {
        let running = Running::start(proxy.current_dir(self.folder.path()));
        let begun = Instant::now();
        while TcpStream::connect(self.proxy).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{proxy:?} does not listen");
            thread::sleep(Duration::from_millis(20)); // Nothing tells when a proxy starts to listen.
        }
        Proxied { place: self, _proxy: running }
    }
}

/// A process that ends with this value.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Asks it to end, so that it takes its own workers along, and kills it if it does not.
    fn end(&mut self) {
        let asked = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let begun = Instant::now();
        while asked.is_ok() && self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            if begun.elapsed() > Duration::from_secs(5) {
                break;
            }
            thread::sleep(Duration::from_millis(5)); // A wait with an end is not to be had.
        }
        _ = self.0.kill();
        _ = self.0.wait();
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
        b"HTTP/1.1 200 OK\r\ncontent-length: 15\r\nconnection: close\r\n\r\nthe application";
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
        let mut stream = TcpStream::connect(self.place.proxy).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let head =
            "GET /v1/chat?x=1 HTTP/1.1\r\nhost: api\r\nconnection: close\r\nx-forwarded-uri: /free\r\n";
        write!(stream, "{head}x-forwarded-for: 198.51.100.{client}\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// How many requests the application has seen.
    pub(crate) fn reached(&self) -> usize {
        self.place.reached.load(Ordering::SeqCst)
    }

    pub(crate) fn end_limiter(&mut self) {
        self.place.limiter.end();
    }
}
