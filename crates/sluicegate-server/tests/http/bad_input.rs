//! Bodies that make no sense: each is answered, with the place at fault, and never with a 5xx.

use crate::support::{Client, Reply, Server};

const POLICY: &str = "
version: 1
limits:
  - { name: per-user, algorithm: fixed_window, limit: 1, per: 1d, key: [user] }
  - { name: pair, algorithm: fixed_window, limit: 100000, per: 1d, key: [org, user] }
";

/// Bodies and the place that the answer names; none if the body as a whole is at fault.
const REFUSED: &[(&str, Option<&str>)] = &[
    // Not JSON, or not the right JSON.
    ("", None),
    ("nonsense", None),
    ("{", None),
    ("[]", None),
    ("null", None),
    ("3", None),
    ("{} trailing", None),
    (r#"{"attributes": {}} {}"#, None),
    (r#"{"attributes": {}}garbage"#, None),
    (r#"{"attributes": {},}"#, None),
    ("\u{feff}{\"attributes\": {}}", None),
    // Fields.
    ("{}", Some("/attributes")),
    (r#"{"attribute": {}}"#, Some("/attribute")),
    (r#"{"attributes": {}, "Cost": 1}"#, Some("/Cost")),
    (r#"{"attributes": {}, "a/b~c": 1}"#, Some("/a~1b~0c")),
    (r#"{"attributes": {}, "attributes": {}}"#, Some("/attributes")),
    (r#"{"attributes": {}, "cost": 1, "cost": 1}"#, Some("/cost")),
    (r#"{"attributes": {}, "id": ""}"#, Some("/id")),
    (r#"{"attributes": {}, "id": "two words"}"#, Some("/id")),
    (r#"{"attributes": {}, "id": 17}"#, Some("/id")),
    (r#"{"attributes": {}, "id": "a", "id": "a"}"#, Some("/id")),
    (r#"{"attributes": {}, "dry_run": 1}"#, Some("/dry_run")),
    (r#"{"attributes": {}, "dry_run": "true"}"#, Some("/dry_run")),
    (r#"{"attributes": {}, "domain": 1}"#, Some("/domain")),
    (r#"{"attributes": {}, "domain": null}"#, Some("/domain")),
    (r#"{"attributes": {}, "domain": ""}"#, Some("/domain")),
    (r#"{"attributes": {}, "domain": "elsewhere"}"#, Some("/domain")),
    // Attributes.
    (r#"{"attributes": null}"#, Some("/attributes")),
    (r#"{"attributes": []}"#, Some("/attributes")),
    (r#"{"attributes": "user=alice"}"#, Some("/attributes")),
    (r#"{"attributes": {"user": 1}}"#, Some("/attributes/user")),
    (r#"{"attributes": {"user": null}}"#, Some("/attributes/user")),
    (r#"{"attributes": {"user": ["a"]}}"#, Some("/attributes/user")),
    (r#"{"attributes": {"user": {"a": "b"}}}"#, Some("/attributes/user")),
    (r#"{"attributes": {"user": "a", "user": "b"}}"#, Some("/attributes/user")),
    (r#"{"attributes": {"user": "a", "us\u0065r": "b"}}"#, Some("/attributes/user")),
    (r#"{"attributes": {"": "a"}}"#, Some("/attributes/")),
    (r#"{"attributes": {"user": "\ud800"}}"#, Some("/attributes/user")),
    (r#"{"attributes": {"user": "\udc00\ud800"}}"#, Some("/attributes/user")),
    (r#"{"attributes": {"user": "\x"}}"#, Some("/attributes/user")),
    ("{\"attributes\": {\"user\": \"a\nb\"}}", Some("/attributes/user")),
    // Costs.
    (r#"{"attributes": {}, "cost": -1}"#, Some("/cost")),
    (r#"{"attributes": {}, "cost": -9223372036854775808}"#, Some("/cost")),
    (r#"{"attributes": {}, "cost": 0.5}"#, Some("/cost")),
    (r#"{"attributes": {}, "cost": 1.0}"#, Some("/cost")),
    (r#"{"attributes": {}, "cost": 1e3}"#, Some("/cost")),
    (r#"{"attributes": {}, "cost": 1e400}"#, Some("/cost")),
    (r#"{"attributes": {}, "cost": 9007199254740992}"#, Some("/cost")),
    (r#"{"attributes": {}, "cost": 18446744073709551615}"#, Some("/cost")),
    (r#"{"attributes": {}, "cost": 18446744073709551616}"#, Some("/cost")),
    (r#"{"attributes": {}, "cost": "1"}"#, Some("/cost")),
    (r#"{"attributes": {}, "cost": null}"#, Some("/cost")),
    (r#"{"attributes": {}, "cost": true}"#, Some("/cost")),
    (r#"{"attributes": {}, "cost": [1]}"#, Some("/cost")),
    (r#"{"attributes": {}, "cost": NaN}"#, Some("/cost")),
    (r#"{"attributes": {}, "cost": {"requests": -1}}"#, Some("/cost/requests")),
    (r#"{"attributes": {}, "cost": {"requests": 9007199254740992}}"#, Some("/cost/requests")),
    (r#"{"attributes": {}, "cost": {"requests": {}}}"#, Some("/cost/requests")),
    (r#"{"attributes": {}, "cost": {"requests": 1, "requests": 1}}"#, Some("/cost/requests")),
    (r#"{"attributes": {}, "cost": {"tokens": 1}}"#, Some("/cost")),
];

fn is_a_problem(reply: &Reply, status: u16) {
    assert_eq!(reply.status, status, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{reply:?}");
    let problem = reply.json();
    assert_eq!(problem["status"], status);
    assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty() && detail.len() < 500));
}

#[test]
fn a_body_that_makes_no_sense_is_answered_400_with_the_place() {
    let server = Server::start(&[POLICY]);
    // One connection for all: each mistake leaves it usable.
    let mut client = server.connect();
    for path in ["/v1/take", "/v1/peek"] {
        for (body, pointer) in REFUSED {
            let reply = client.post(path, body);
            is_a_problem(&reply, 400);
            assert_eq!(reply.pointer().as_deref(), *pointer, "{body}: {reply:?}");
        }
    }
}

#[test]
fn an_item_that_makes_no_sense_is_the_only_one_refused() {
    let server = Server::start(&[POLICY]);
    let mut client = server.connect();
    let is_json = |body: &&(&str, _)| serde_json::from_str::<&serde_json::value::RawValue>(body.0).is_ok();
    let items: Vec<_> = REFUSED.iter().filter(is_json).collect();
    assert!(items.len() > 40, "{}", items.len());
    for (item, pointer) in items {
        let reply = client
            .post("/v1/batch", format!(r#"{{"requests": [{item}, {{"attributes": {{}}, "cost": 0}}]}}"#));
        assert_eq!(reply.status, 200, "{item}: {reply:?}");
        let results = &reply.json()["results"];
        assert_eq!(
            (&results[0]["status"], results[0]["pointer"].as_str()),
            (&400.into(), *pointer),
            "{item}"
        );
        assert_eq!(results[1]["allowed"], true, "{item}");
    }
}

#[test]
fn a_batch_that_makes_no_sense_is_answered_400() {
    let server = Server::start(&[POLICY]);
    let mut client = server.connect();
    for body in [
        "",
        "{}",
        "[]",
        r#"{"requests": {}}"#,
        r#"{"requests": null}"#,
        r#"{"requests": [{]}"#,
        r#"{"requests": [], "requests": []}"#,
        r#"{"requests": [], "more": 1}"#,
        r#"{"requests": []} trailing"#,
    ] {
        is_a_problem(&client.post("/v1/batch", body), 400);
    }
}

#[test]
fn bytes_that_are_no_text_are_answered_400() {
    let server = Server::start(&[POLICY]);
    let mut client = server.connect();
    let bodies: [&[u8]; 5] = [
        b"\xff\xfe",
        b"\0",
        b"{\"attributes\": {\"user\": \"\xff\"}}",
        b"{\"attributes\": {\"\xc0\x80\": \"a\"}}",
        b"{\"attributes\": {\"user\": \"\xed\xa0\x80\"}}",
    ];
    for path in ["/v1/take", "/v1/peek", "/v1/batch"] {
        for body in bodies {
            is_a_problem(&client.post(path, body), 400);
        }
    }
}

#[test]
fn deep_nesting_is_refused_and_not_followed() {
    let server = Server::start(&[POLICY]);
    let mut client = server.connect();
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
        for body in [
            deep.clone(),
            format!(r#"{{"attributes": {deep}}}"#),
            format!(r#"{{"attributes": {{}}, "cost": {deep}}}"#),
        ] {
            is_a_problem(&client.post("/v1/take", &body), 400);
            let batch = client.post("/v1/batch", format!(r#"{{"requests": [{body}]}}"#));
            assert!([200, 400].contains(&batch.status), "{batch:?}");
        }
    }
}

#[test]
fn a_long_mistake_makes_a_short_answer() {
    let long = "ü".repeat(20_000);
    let server = Server::start(&[POLICY]);
    for body in [
        format!(r#"{{"attributes": {{"{long}": "a"}}}}"#),
        format!(r#"{{"attributes": {{}}, "cost": "{long}"}}"#),
        format!(r#"{{"attributes": {{}}, "domain": "{long}"}}"#),
        format!(r#"{{"attributes": {{}}, "{long}": 1}}"#),
        format!(r#"{{"attributes": {{}}, "cost": {{"{long}": 1}}}}"#),
    ] {
        let reply = server.post("/v1/take", body);
        is_a_problem(&reply, 400);
        assert!(reply.body.len() < 1_500, "{} bytes", reply.body.len());
    }
}

#[test]
fn attributes_are_bounded_in_number_and_names_in_length() {
    let server = Server::start(&[POLICY]);
    let with = |count: usize| {
        let pairs: Vec<_> = (0..count).map(|index| format!(r#""a{index}": "x""#)).collect();
        server.post("/v1/peek", format!(r#"{{"attributes": {{{}}}}}"#, pairs.join(",")))
    };
    assert_eq!(with(64).status, 200);
    is_a_problem(&with(65), 400);
    let named = |length: usize| {
        server.post("/v1/peek", format!(r#"{{"attributes": {{"{}": "x"}}}}"#, "n".repeat(length)))
    };
    assert_eq!(named(128).status, 200);
    is_a_problem(&named(129), 400);
}

#[test]
fn a_body_above_64_kib_is_answered_413_and_the_connection_lives() {
    let server = Server::start(&[POLICY]);
    let mut client = server.connect();
    let of_length = |length: usize| {
        let frame = r#"{"attributes":{"user":""}}"#;
        frame.replace("\"\"", &format!("\"{}\"", "x".repeat(length - frame.len())))
    };
    assert_eq!(client.post("/v1/peek", of_length(64 * 1024)).status, 200);
    for length in [64 * 1024 + 1, 1024 * 1024, 3 * 1024 * 1024] {
        is_a_problem(&client.post("/v1/take", of_length(length)), 413);
    }
    is_a_problem(&client.post("/v1/batch", of_length(1024 * 1024 + 1)), 413);
    assert_eq!(client.post("/v1/take", r#"{"attributes": {}}"#).status, 200);
}

#[test]
fn a_body_in_chunks_is_held_to_the_same_bound() {
    let server = Server::start(&[POLICY]);
    let mut client = server.connect();
    let head = "POST /v1/peek HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    client.send(head);
    client.send("b\r\n{\"attribute\r\n");
    client.send("7\r\ns\": {}}\r\n0\r\n\r\n");
    assert_eq!(client.reply().status, 200);
    client.send(head);
    for _ in 0..20 {
        client.send(format!("2000\r\n{}\r\n", " ".repeat(0x2000)));
    }
    client.send("0\r\n\r\n");
    is_a_problem(&client.reply(), 413);
    assert_eq!(client.post("/v1/peek", r#"{"attributes": {}}"#).status, 200);
}

#[test]
fn who_asks_before_sending_a_large_body_is_told_at_once() {
    let server = Server::start(&[POLICY]);
    let mut client = server.connect();
    client.send(
        "POST /v1/take HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 1000000000\r\n\r\n",
    );
    is_a_problem(&client.reply(), 413);
}

#[test]
fn paths_methods_and_media_types_that_are_not_served_are_named() {
    let server = Server::start(&[POLICY]);
    let mut client = server.connect();
    for path in ["/", "/v1", "/v1/take/", "/v1/Take", "/v2/take", "//v1/take", "/v1/hold", "/../livez"] {
        is_a_problem(&client.post(path, "{}"), 404);
    }
    for method in ["GET", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"] {
        let reply = client.request(method, "/v1/take", &[], b"");
        is_a_problem(&reply, 405);
        assert_eq!(reply.header("allow"), Some("POST"));
    }
    let reply = client.post("/livez", "");
    is_a_problem(&reply, 405);
    assert_eq!(reply.header("allow"), Some("GET, HEAD"));
    let typed = |client: &mut Client, name: &str, value: &str| {
        client.request("POST", "/v1/peek", &[(name, value)], br#"{"attributes": {}}"#)
    };
    for refused in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "", "json"] {
        is_a_problem(&typed(&mut client, "content-type", refused), 415);
    }
    is_a_problem(&typed(&mut client, "content-encoding", "gzip"), 415);
    for taken in ["application/json", "Application/JSON; charset=utf-8", "application/vnd.api+json"] {
        assert_eq!(typed(&mut client, "content-type", taken).status, 200, "{taken}");
    }
    assert_eq!(client.request("POST", "/v1/peek?x=1", &[], br#"{"attributes": {}}"#).status, 200);
}

#[test]
fn heads_that_are_too_long_or_no_http_are_answered_before_the_connection_ends() {
    let server = Server::start(&[POLICY]);
    let long = "x".repeat(20_000);
    let many = (0..200).fold(String::new(), |head, index| format!("{head}h{index}: x\r\n"));
    for (head, status) in [
        (format!("GET /livez HTTP/1.1\r\nx: {long}\r\n\r\n"), 431),
        (format!("GET /livez HTTP/1.1\r\nx: {}\r\n\r\n", long.repeat(40)), 431),
        (format!("GET /livez HTTP/1.1\r\n{many}\r\n"), 431),
        (format!("GET /{long} HTTP/1.1\r\n\r\n"), 431),
        ("nonsense\r\n\r\n".into(), 400),
        ("GET /livez HTTP/3.0\r\n\r\n".into(), 400),
        ("POST /v1/take HTTP/1.1\r\ncontent-length: abc\r\n\r\n".into(), 400),
        ("POST /v1/take HTTP/1.1\r\ncontent-length: -1\r\n\r\n".into(), 400),
        ("POST /v1/take HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}".into(), 400),
        ("POST /v1/take HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n".into(), 400),
        ("\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\r\n\r\n".into(), 400),
    ] {
        let mut client = server.connect();
        client.send(&head);
        assert_eq!(client.reply().status, status, "{}", &head[..40.min(head.len())]);
        assert!(client.try_reply().is_none());
    }
}

/// Attribute values that have broken keys of other limiters: each pair must count for itself.
fn strange_values() -> Vec<String> {
    let long = "x".repeat(10_000);
    let mut values: Vec<String> = [
        "",
        " ",
        "  ",
        "a",
        "A",
        "a b",
        "a:b",
        "a=b",
        "{a}",
        "{",
        "}",
        "{}",
        "%7B",
        "%",
        "a%3Ab",
        "\n",
        "\r\n",
        "\0",
        "\0\0",
        "😀",
        "é",
        "e\u{301}",
        "\u{202e}",
        "*",
        "?",
        "user",
        "user=a",
        "a:user=b",
        "sg1:{default}",
        "null",
        "%h",
        "\"",
        "\\",
        "-",
        "_",
        "..",
        "/",
        "127.0.0.1",
        "::1",
    ]
    .map(str::to_owned)
    .into();
    values.extend([format!("{long}1"), format!("{long}2"), long, "y".repeat(96), "y".repeat(97)]);
    values
}

#[test]
fn two_different_keys_never_share_a_counter() {
    let server = Server::start(&[POLICY]);
    let mut client = server.connect();
    let values = strange_values();
    let take = |client: &mut Client, value: Option<&str>| {
        let attributes = value.map_or(serde_json::json!({}), |value| serde_json::json!({"user": value}));
        client.post("/v1/take", serde_json::json!({"attributes": attributes}).to_string()).status
    };
    // The limit is 1 a day for each user: the first of each passes exactly if nobody else counted for it.
    let keys = || values.iter().map(|value| Some(value.as_str())).chain([None]);
    for value in keys() {
        assert_eq!(take(&mut client, value), 200, "{value:?}");
    }
    for value in keys() {
        assert_eq!(take(&mut client, value), 429, "{value:?}");
    }
}

#[test]
fn two_different_pairs_of_values_never_share_a_counter() {
    let policy = "
version: 1
limits:
  - { name: pair, algorithm: fixed_window, limit: 1, per: 1d, key: [org, user] }
";
    let server = Server::start(&[policy]);
    let mut client = server.connect();
    let values = strange_values();
    let mut batch = |pairs: &[(&String, &String)]| -> Vec<bool> {
        let requests: Vec<_> = pairs
            .iter()
            .map(|(org, user)| serde_json::json!({"attributes": {"org": org, "user": user}}))
            .collect();
        let reply = client.post("/v1/batch", serde_json::json!({"requests": requests}).to_string());
        let results = reply.json()["results"].as_array().unwrap().clone();
        results.iter().map(|result| result["allowed"] == true).collect()
    };
    for org in &values {
        let pairs: Vec<_> = values.iter().map(|user| (org, user)).collect();
        assert_eq!(batch(&pairs), vec![true; pairs.len()], "{org:?}");
        assert_eq!(batch(&pairs), vec![false; pairs.len()], "{org:?}");
    }
}
