//! Guesses at secrets over HTTP.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use sluicegate::login::{EmbeddedLogin, Keyring, LoginConfig, LoginGuard, Profile, solve};
use sluicegate_server::http::DoorConfig;
use sluicegate_tests::{HandClock, RedisServer};

use crate::{
    process::{PolicyFile, Serving, sluicegate},
    support::{NOW_S, Reply, Server},
};

const POLICY: &str =
    "version: 1\nlimits: [{ name: free, algorithm: gcra, limit: unlimited, per: 1s, key: [] }]\n";

/// A door with a guard, and the clock that the guard goes by.
pub(crate) fn config() -> (DoorConfig, Arc<HandClock>) {
    let keys = Keyring::new(&[1; 32], &[&[2; 32]]).unwrap();
    let clock = Arc::new(HandClock::at(NOW_S));
    let config = LoginConfig { domain: "default".to_owned(), profile: Profile::Strong, keys };
    let guard = LoginGuard::new(config, EmbeddedLogin::new(), clock.clone());
    (DoorConfig { login: Some(Arc::new(guard)), ..DoorConfig::default() }, clock)
}

fn server() -> (Server, Arc<HandClock>) {
    let (config, clock) = config();
    (Server::start_with(&[POLICY], config), clock)
}

fn begin(server: &Server, address: &str, more: Value) -> Reply {
    let mut body = json!({"purpose": "login", "name": "bob", "address": address});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.post("/v1/login/begin", body.to_string())
}

fn report(server: &Server, begun: &Reply, outcome: &str) -> Reply {
    let body = json!({"attempt": begun.json()["attempt"], "outcome": outcome});
    server.post("/v1/login/report", body.to_string())
}

#[test]
fn a_right_secret_is_let_in_once_and_its_device_knows_its_own_lane() {
    let (server, _) = server();
    let begun = begin(&server, "203.0.113.5", json!({}));
    assert_eq!((begun.status, &begun.json()["verdict"]), (200, &json!("allow")));
    let settled = report(&server, &begun, "success").json();
    assert_eq!((&settled["settled"], &settled["let_in"]), (&json!("done"), &json!(true)));
    let again = report(&server, &begun, "success").json();
    assert_eq!(again, json!({"settled": "already", "let_in": false}));
    let begun = begin(&server, "198.51.100.7", json!({"cookie": settled["cookie"]}));
    let settled = report(&server, &begun, "failure").json();
    assert_eq!(settled, json!({"settled": "done", "let_in": false, "lane": "device"}));
}

#[test]
fn guesses_at_one_account_are_free_and_then_cost_work() {
    let (server, _) = server();
    for number in 0..5 {
        let address = format!("203.0.{number}.5");
        let mut begun = begin(&server, &address, json!({}));
        assert_eq!(begun.status, if number < 3 { 200 } else { 429 }, "{begun:?}");
        if begun.status == 429 {
            let told = begun.json();
            assert_eq!(told["verdict"], json!("challenge"));
            let bits = u8::try_from(told["bits"].as_u64().unwrap()).unwrap();
            let proof = solve(told["nonce"].as_str().unwrap(), bits);
            begun = begin(&server, &address, json!({"proof": proof}));
        }
        assert_eq!(begun.json()["verdict"], json!("allow"), "{begun:?}");
        report(&server, &begun, "failure");
    }
}

#[test]
fn a_denial_says_when_there_is_room_and_then_there_is() {
    let (server, clock) = server();
    let send = json!({"purpose": "reset_request"});
    let begun = begin(&server, "203.0.113.5", send.clone());
    assert_eq!(report(&server, &begun, "success").json()["let_in"], json!(true));
    let denied = begin(&server, "203.0.113.5", send.clone());
    assert_eq!(denied.json(), json!({"verdict": "deny", "scope": "account", "retry_after_ms": 60_000}));
    assert_eq!((denied.status, denied.header("retry-after")), (429, Some("60")));
    clock.turn(Duration::from_secs(60));
    assert_eq!(begin(&server, "203.0.113.5", send).status, 200);
}

/// As many products showed: only names that exist were locked, or answered with other words.
#[test]
fn an_id_that_exists_and_a_name_that_does_not_are_answered_alike() {
    let seen = |who: Value| -> Vec<(u16, Vec<String>, usize)> {
        let (server, _) = server();
        let tell = |number: u32| {
            let mut body = json!({"purpose": "login", "address": format!("203.0.{number}.5")});
            body.as_object_mut().unwrap().extend(who.as_object().unwrap().clone());
            let reply = server.post("/v1/login/begin", body.to_string());
            let fields = reply.json().as_object().unwrap().keys().cloned().collect();
            (reply.status, fields, reply.body.len())
        };
        (0..6).map(tell).collect()
    };
    let (real, fake) = (seen(json!({"id": "17"})), seen(json!({"name": "nobody"})));
    assert_eq!(
        real.iter().map(|one| (one.0, &one.1)).collect::<Vec<_>>(),
        fake.iter().map(|one| (one.0, &one.1)).collect::<Vec<_>>()
    );
    // A nonce has a random number in hexadecimal, which may be a digit or two shorter.
    assert!(real.iter().zip(&fake).all(|(one, other)| one.2.abs_diff(other.2) <= 4), "{real:?} {fake:?}");
    assert_eq!(real[5].0, 429);
}

/// What a client sees of its own address, full after guesses at one name, told whether the name exists.
#[test]
fn a_full_address_tells_nothing_about_the_name_that_filled_it() {
    let history = |who: Value| -> Vec<(u16, Value, Option<String>)> {
        let (server, clock) = server();
        let tries = |who: &Value, code: u32| {
            let mut body = json!({"purpose": "otp", "code": code.to_string(), "address": "203.0.113.5"});
            body.as_object_mut().unwrap().extend(who.as_object().unwrap().clone());
            let reply = server.post("/v1/login/begin", body.to_string());
            if reply.status == 200 {
                report(&server, &reply, "failure");
            }
            clock.turn(Duration::from_secs(1));
            let mut told = reply.json();
            told.as_object_mut().unwrap().remove("attempt");
            (reply.status, told, reply.header("retry-after").map(str::to_owned))
        };
        let own = json!({"id": "own"});
        let mine = (0..9).map(|number| tries(&own, number / 5)).collect::<Vec<_>>();
        let theirs = (0..9).map(|number| tries(&who, number / 5)).collect::<Vec<_>>();
        let after = (0..6).map(|number| tries(&json!({"name": format!("other {}", number % 2)}), 9));
        mine.into_iter().chain(theirs).chain(after).collect()
    };
    let (real, fake) = (history(json!({"id": "17"})), history(json!({"name": "nobody"})));
    assert_eq!(real, fake);
    assert_eq!(real.iter().filter(|answer| answer.0 == 200).count(), 20, "{real:?}");
    assert_eq!(real[23].1["scope"], json!("address"));
    assert!(real[23].2.is_some());
}

#[test]
fn a_report_has_no_word_for_a_name_that_nobody_has() {
    let (server, _) = server();
    let begun = begin(&server, "203.0.113.5", json!({}));
    let body = json!({"attempt": begun.json()["attempt"], "outcome": "failure", "unknown_name": true});
    assert_eq!(server.post("/v1/login/report", body.to_string()).status, 400);
}

#[test]
fn what_makes_no_sense_is_refused_and_never_an_attempt_that_nobody_counts() {
    let (server, _) = server();
    let wrong = [
        (json!({"purpose": "sso", "name": "bob"}), "/purpose"),
        (json!({"purpose": "otp", "name": "bob"}), "/purpose"),
        (json!({"purpose": "login"}), "/name"),
        (json!({"purpose": "login", "name": "bob", "id": "17"}), "/name"),
        (json!({"purpose": "login", "name": "x".repeat(321)}), "/name"),
        (json!({"purpose": "login", "name": "bob", "address": "nowhere"}), "/address"),
    ];
    for (body, place) in wrong {
        let reply = server.post("/v1/login/begin", body.to_string());
        assert_eq!((reply.status, &reply.json()["pointer"]), (400, &json!(place)), "{body}");
    }
    let forged =
        server.post("/v1/login/report", json!({"attempt": "a1.00.00", "outcome": "success"}).to_string());
    assert_eq!((forged.status, &forged.json()["pointer"]), (400, &json!("/attempt")));
    let plain = Server::start(&[POLICY]).post("/v1/login/begin", r#"{"purpose": "login", "name": "bob"}"#);
    assert_eq!(plain.status, 404, "a server without secrets guards no logins");
}

#[test]
fn two_processes_on_one_redis_share_an_account_and_its_attempts() {
    let redis = RedisServer::start();
    // A server that has known guesses for long: a new one is met with caution.
    redis.command(&["SET", "sg1:{!login}:login", "1", "EX", "100000"]);
    let keys = PolicyFile::new("login-keys", &format!("{}\n{}\n", "n".repeat(32), "s".repeat(32)));
    let start = || {
        let mut command = sluicegate();
        command.args(["serve", "--http", "127.0.0.1:0", "--store", &redis.url(), "--login-keys-file"]);
        // Tests share their machine: an answer may take long.
        command.arg(&keys.0).args(["--store-timeout-ms", "20000", "--store-deadline-ms", "4000"]);
        Serving::start(&mut command)
    };
    let mut both = [start(), start()];
    let body = |number: u32| {
        json!({"purpose": "login", "name": "bob", "address": format!("203.0.{number}.5")}).to_string()
    };
    let mut attempts = Vec::new();
    for number in 0..3 {
        let begun = both[usize::from(number == 1)].client.post("/v1/login/begin", body(number));
        assert_eq!(begun.status, 200, "{begun:?}");
        attempts.push(begun.json()["attempt"].clone());
    }
    for serving in &mut both {
        let refused = serving.client.post("/v1/login/begin", body(9)).json();
        assert_eq!(refused["verdict"], "challenge");
    }
    let report = json!({"attempt": attempts[0], "outcome": "success"}).to_string();
    let settled = both[1].client.post("/v1/login/report", &report).json();
    assert_eq!((&settled["settled"], &settled["let_in"]), (&json!("done"), &json!(true)));
    assert_eq!(both[0].client.post("/v1/login/report", &report).json()["settled"], "already");
}

#[test]
fn secrets_that_can_be_guessed_keep_a_server_from_starting() {
    let keys = PolicyFile::new("short-keys", "short\nsecret\n");
    let output =
        sluicegate().args(["serve", "--http", "127.0.0.1:0", "--login-keys-file"]).arg(&keys.0).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("a secret has at least 32 bytes, this one has 5"), "{told}");
}

/// Every answer that the description tells of, for the test of the description.
pub(crate) fn exchanges() -> Vec<(&'static str, &'static str, Reply)> {
    let (server, _) = server();
    let mut exchanges = Vec::new();
    let mut add = |path, reply| exchanges.push((path, "post", reply));
    let begun = begin(&server, "203.0.1.5", json!({}));
    add("/v1/login/report", report(&server, &begun, "success"));
    add("/v1/login/report", report(&server, &begun, "success"));
    add("/v1/login/begin", begun);
    for number in 2..6 {
        add("/v1/login/begin", begin(&server, &format!("203.0.{number}.5"), json!({})));
    }
    let code = json!({"purpose": "otp", "code": "1"});
    for number in 10..16 {
        add("/v1/login/begin", begin(&server, &format!("203.0.{number}.5"), code.clone()));
    }
    exchanges
}
