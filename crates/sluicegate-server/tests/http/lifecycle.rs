//! Connections from the first request to the last.

use std::{
    io::{ErrorKind, Write},
    net::TcpStream,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use sluicegate::{
    Once, Settled, Store, StoreError, SureStore, Verb,
    core::{Ask, Charge, Decision, LimitId, Micros, RequestId, Subject},
    embedded::EmbeddedStore,
};
use sluicegate_server::http::DoorConfig;

use crate::support::{Client, Server, post_bytes};

const POLICY: &str = "
version: 1
limits:
  - { name: all, algorithm: fixed_window, limit: 1000, per: 1d, key: [] }
";
const ASK: &str = r#"{"attributes": {}}"#;

/// A store that takes its time, as one over a network does.
#[derive(Clone, Debug)]
struct Slow(Arc<EmbeddedStore>, Duration);

impl Store for Slow {
    async fn take(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        Ok(self.decide(Verb::Take, asks, now).await)
    }

    async fn take_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Result<Once, StoreError> {
        Ok(self.decide_once(id, asks, now).await)
    }

    async fn peek(&self, asks: &[Ask<'_>], now: Micros) -> Result<Decision, StoreError> {
        self.0.peek(asks, now).await
    }

    async fn settle(
        &self,
        id: &RequestId,
        charges: &[Charge<'_>],
        now: Micros,
    ) -> Result<Settled, StoreError> {
        self.0.settle(id, charges, now).await
    }

    async fn forget(&self, id: LimitId, subject: &Subject) -> Result<bool, StoreError> {
        self.0.forget(id, subject).await
    }
}

impl SureStore for Slow {
    async fn decide_once(&self, id: &RequestId, asks: &[Ask<'_>], now: Micros) -> Once {
        self.0.take_once_now(id, asks, now)
    }

    async fn decide(&self, _verb: Verb, asks: &[Ask<'_>], now: Micros) -> Decision {
        tokio::time::sleep(self.1).await; // The latency of this store.
        self.0.take_now(asks, now)
    }
}

fn slow(latency: Duration) -> Server {
    let store = Slow(Arc::default(), latency);
    Server::start_over(store, &[POLICY], DoorConfig::default(), Duration::ZERO)
}

#[test]
fn one_connection_serves_many_requests() {
    let server = Server::start(&[POLICY]);
    let mut client = server.connect();
    for left in (0..200).rev() {
        let reply = client.post("/v1/take", r#"{"attributes": {}, "cost": 5}"#);
        assert_eq!((reply.status, &reply.json()["limits"][0]["remaining"]), (200, &json!(left * 5)));
    }
}

#[test]
fn requests_sent_in_one_go_are_answered_in_their_order() {
    let server = Server::start(&[POLICY]);
    let mut client = server.connect();
    let mut all = post_bytes("/v1/take", ASK).repeat(100);
    all.extend(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n");
    all.extend(post_bytes("/v1/take", "nonsense"));
    all.extend(post_bytes("/v1/peek", ASK));
    client.send(all);
    for left in (900..1_000).rev() {
        assert_eq!(client.reply().json()["limits"][0]["remaining"], json!(left));
    }
    let statuses = [client.reply(), client.reply(), client.reply()].map(|reply| reply.status);
    assert_eq!(statuses, [200, 400, 200]);
}

#[test]
fn a_request_that_asks_for_it_is_the_last_of_its_connection() {
    let server = Server::start(&[POLICY]);
    let mut client = server.connect();
    let reply = client.request("POST", "/v1/take", &[("connection", "close")], ASK.as_bytes());
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    assert!(client.try_reply().is_none());
}

#[test]
fn a_head_request_gets_the_headers_alone() {
    let server = Server::start(&[POLICY]);
    let mut client = server.connect();
    client.send("HEAD /livez HTTP/1.0\r\nhost: x\r\n\r\n");
    let all = client.read_to_end();
    assert!(all.starts_with("HTTP/1.0 200 OK\r\n") && all.ends_with("\r\n\r\n"), "{all}");
}

#[test]
fn a_batch_asks_the_store_for_all_at_once() {
    let latency = Duration::from_millis(50);
    let server = slow(latency);
    let begin = std::time::Instant::now();
    let reply = server.post("/v1/batch", format!(r#"{{"requests": [{}]}}"#, vec![ASK; 200].join(",")));
    assert_eq!(reply.json()["results"].as_array().unwrap().len(), 200);
    // One after the other would take 10 s.
    assert!(begin.elapsed() < latency * 40, "{:?}", begin.elapsed());
}

#[test]
fn a_stop_loses_no_request_that_waits_for_the_store() {
    let mut server = slow(Duration::from_millis(300));
    let mut clients: Vec<Client> = (0..50).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send_post("/v1/take", ASK);
    }
    // Long enough for the door to read what was sent, and less than the store takes.
    thread::sleep(Duration::from_millis(100));
    server.stop();
    for client in &mut clients {
        assert_eq!(client.reply().status, 200);
        assert!(client.try_reply().is_none(), "the connection goes on");
    }
    server.join();
}

#[test]
fn a_stop_waits_for_a_body_that_is_on_its_way() {
    let mut server = Server::start(&[POLICY]);
    let mut client = server.connect();
    let bytes = post_bytes("/v1/take", ASK);
    let (first, second) = bytes.split_at(bytes.len() - 5);
    client.send(first);
    // Long enough for the door to read the head.
    thread::sleep(Duration::from_millis(100));
    server.stop();
    // Long enough for the stop to be seen.
    thread::sleep(Duration::from_millis(100));
    client.send(second);
    let reply = client.reply();
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    server.join();
}

#[test]
fn a_stop_ends_idle_connections_and_closes_the_port() {
    let mut server = Server::start(&[POLICY]);
    let mut client = server.connect();
    assert_eq!(client.post("/v1/take", ASK).status, 200);
    server.stop();
    server.join();
    assert!(client.try_reply().is_none());
    assert!(std::net::TcpStream::connect(server.address).is_err());
}

#[test]
fn a_stop_first_turns_readiness_red_and_goes_on_serving() {
    let drain = Duration::from_secs(2);
    let mut server =
        Server::start_over(Arc::new(EmbeddedStore::default()), &[POLICY], DoorConfig::default(), drain);
    let mut client = server.connect();
    assert_eq!(client.get("/readyz").status, 200);
    server.stop();
    let red = (0..100).any(|_| {
        // The stop is seen by another thread, some time soon.
        thread::sleep(Duration::from_millis(10));
        client.get("/readyz").status == 503
    });
    assert!(red);
    assert_eq!(client.get("/livez").status, 200);
    assert_eq!(server.post("/v1/take", ASK).status, 200);
    server.join();
}

#[test]
fn a_body_that_does_not_arrive_is_answered_408() {
    let config = DoorConfig { body_timeout: Duration::from_millis(50), ..DoorConfig::default() };
    let server = Server::start_with(&[POLICY], config);
    let mut client = server.connect();
    client.send("POST /v1/take HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{");
    assert_eq!(client.reply().status, 408);
}

/// A client that asked and never read held its connection for ever, and ten thousand of them the whole door.
#[test]
fn a_client_that_never_reads_its_answers_loses_its_connection() {
    let server = Server::start(&[POLICY]);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let asks = post_bytes("/v1/take", ASK.as_bytes()).repeat(100);
    let began = Instant::now();
    let end = loop {
        assert!(began.elapsed() < Duration::from_secs(30), "still connected");
        match stream.write(&asks) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(end.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{end}");
}
