//! The description of the door against the door: every answer is described, and every description is answered.

use std::{collections::BTreeSet, sync::Arc, thread, time::Duration};

use serde_json::{Map, Value, json};
use sluicegate::embedded::EmbeddedStore;
use sluicegate_server::http::{DoorConfig, OPENAPI};

use crate::{
    degraded::without_store,
    support::{Reply, Server},
};

/// The parts of JSON Schema that the description uses; any other word in it fails the test.
struct Schema<'a> {
    document: &'a Value,
    /// Properties that were met in answers, as `schema.property`.
    met: BTreeSet<String>,
}

impl<'a> Schema<'a> {
    fn resolve(&self, schema: &'a Value) -> (&'a Value, Option<&'a str>) {
        match schema["$ref"].as_str() {
            None => (schema, None),
            Some(reference) => {
                let path = reference.strip_prefix('#').unwrap();
                (self.document.pointer(path).unwrap_or_else(|| panic!("no {path}")), path.rsplit('/').next())
            }
        }
    }

    /// Checks a value; the error says what does not fit.
    fn check(&mut self, schema: &'a Value, value: &Value) -> Result<(), String> {
        let (schema, name) = self.resolve(schema);
        for (word, rule) in schema.as_object().unwrap() {
            let fits = match word.as_str() {
                "description" | "default" => true,
                "type" => is_of_type(rule, value),
                "const" => rule == value,
                "enum" => rule.as_array().unwrap().contains(value),
                "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
                "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
                "minItems" => value.as_array().is_none_or(|list| json!(list.len()).as_u64() >= rule.as_u64()),
                "maxItems" => value.as_array().is_none_or(|list| json!(list.len()).as_u64() <= rule.as_u64()),
                "required" => {
                    let has = |name: &Value| value.get(name.as_str().unwrap()).is_some();
                    rule.as_array().unwrap().iter().all(has)
                }
                "items" => {
                    let mut items = value.as_array().into_iter().flatten();
                    items.try_for_each(|item| self.check(rule, item)).map(|()| true)?
                }
                "properties" => {
                    self.check_properties(rule.as_object().unwrap(), name, value).map(|()| true)?
                }
                "additionalProperties" => {
                    assert_eq!(*rule, json!(false), "answers have no free names");
                    let known = &schema["properties"];
                    value.as_object().is_none_or(|fields| fields.keys().all(|name| known.get(name).is_some()))
                }
                "oneOf" => {
                    let fitting =
                        rule.as_array().unwrap().iter().filter(|one| self.check(one, value).is_ok());
                    fitting.count() == 1
                }
                other => panic!("the test does not know the word `{other}`"),
            };
            if !fits {
                return Err(format!("`{word}: {rule}` does not fit {value}"));
            }
        }
        Ok(())
    }

    fn check_properties(
        &mut self,
        properties: &'a Map<String, Value>,
        schema: Option<&str>,
        value: &Value,
    ) -> Result<(), String> {
        for (name, rule) in properties {
            let Some(field) = value.get(name) else { continue };
            self.check(rule, field).map_err(|error| format!("{name}: {error}"))?;
            self.met.insert(format!("{}.{name}", schema.unwrap_or_default()));
        }
        Ok(())
    }
}

fn is_of_type(rule: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "null" => value.is_null(),
        other => panic!("no type {other}"),
    };
    rule.as_array().map_or_else(|| is(rule), |names| names.iter().any(is))
}

/// An answer and what was asked.
type Exchange = (&'static str, &'static str, Reply);

const POLICY: &str = "
version: 1
exempt: [{ name: probes, match: { endpoint: /healthz } }]
limits:
  - { name: per-user, algorithm: fixed_window, limit: 3, per: 1m, key: [user] }
  - { name: free, algorithm: gcra, limit: unlimited, per: 1s, key: [] }
  - { name: tried-out, algorithm: gcra, limit: 1, per: 1s, key: [user], enforcement: shadow }
";

fn decisions() -> Vec<Exchange> {
    let server = Server::start(&[POLICY]);
    let mut exchanges = Vec::new();
    let mut post = |path, body: &str| exchanges.push((path, "post", server.post(path, body)));
    for body in
        [r#"{"attributes": {}, "cost": 3}"#, r#"{"attributes": {}}"#, r#"{"attributes": {}, "cost": 4}"#]
    {
        post("/v1/take", body);
        post("/v1/peek", body);
        post("/v1/explain", body);
        post("/v1/batch", &format!(r#"{{"requests": [{body}, {{}}]}}"#));
    }
    post("/v1/take", r#"{"attributes": {"endpoint": "/healthz"}}"#);
    let degraded = without_store();
    for body in [r#"{"attributes": {}}"#, r#"{"attributes": {}, "cost": 4}"#] {
        exchanges.push(("/v1/take", "post", degraded.post("/v1/take", body)));
    }
    exchanges
}

fn mistakes() -> Vec<Exchange> {
    let config = DoorConfig { body_timeout: Duration::from_millis(50), ..crate::login::config().0 };
    let server = Server::start_with(&[POLICY], config);
    let mut exchanges = Vec::new();
    for path in ["/v1/take", "/v1/peek", "/v1/batch", "/v1/explain", "/v1/login/begin", "/v1/login/report"] {
        let mut client = server.connect();
        let mut add = |reply| exchanges.push((path, "post", reply));
        add(client.post(path, r#"{"cost": -1}"#));
        add(client.post(path, " ".repeat(1_100_000)));
        add(client.request("PUT", path, &[], b""));
        add(client.request("POST", path, &[("content-type", "text/plain")], b"{}"));
        client.send(format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{{"));
        add(client.reply());
    }
    let mut client = server.connect();
    client.post("/v1/take", r#"{"attributes": {}, "id": "used"}"#);
    let conflict = client.post("/v1/take", r#"{"attributes": {}, "id": "used", "cost": 2}"#);
    exchanges.push(("/v1/take", "post", conflict));
    exchanges
}

fn probes() -> Vec<Exchange> {
    let drain = Duration::from_secs(1);
    let mut server =
        Server::start_over(Arc::new(EmbeddedStore::default()), &[POLICY], DoorConfig::default(), drain);
    let mut client = server.connect();
    let mut exchanges = Vec::new();
    for path in ["/livez", "/readyz", "/openapi.json"] {
        exchanges.push((path, "get", client.get(path)));
        exchanges.push((path, "get", client.request("DELETE", path, &[], b"")));
    }
    server.stop();
    // The stop is seen by another thread, some time soon.
    thread::sleep(Duration::from_millis(200));
    exchanges.push(("/readyz", "get", client.get("/readyz")));
    exchanges
}

/// The description of an answer, and that it fits.
fn check(schema: &mut Schema<'_>, (path, method, reply): &Exchange) -> String {
    let place = format!("{method} {path} {}", reply.status);
    let described = &schema.document["paths"][path][method]["responses"][reply.status.to_string()];
    assert!(!described.is_null(), "{place} is not described");
    let (described, _) = schema.resolve(described);
    let media_type = reply.header("content-type").unwrap();
    let body = &described["content"][media_type]["schema"];
    assert!(!body.is_null(), "{place} with {media_type} is not described");
    schema.check(body, &reply.json()).unwrap_or_else(|error| panic!("{place}: {error}"));
    check_headers(described["headers"].as_object(), reply, &place);
    place
}

fn check_headers(described: Option<&Map<String, Value>>, reply: &Reply, place: &str) {
    let names: Vec<String> =
        described.into_iter().flatten().map(|(name, _)| name.to_ascii_lowercase()).collect();
    let usual = ["content-type", "content-length", "date", "connection"];
    for (name, _) in &reply.headers {
        assert!(usual.contains(&name.as_str()) || names.contains(name), "{place} does not describe `{name}`");
    }
    for (name, header) in described.into_iter().flatten() {
        let value = reply.header(&name.to_ascii_lowercase());
        assert!(header["required"] != true || value.is_some(), "{place} lacks `{name}`");
        if let (Some(value), "integer") = (value, header["schema"]["type"].as_str().unwrap()) {
            assert!(value.parse::<u64>().is_ok(), "{place}: {name}: {value}");
        }
    }
}

#[test]
fn every_answer_fits_the_description_and_every_described_status_is_answered() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let mut schema = Schema { document: &document, met: BTreeSet::new() };
    let exchanges = [decisions(), crate::login::exchanges(), mistakes(), probes()];
    let answered: BTreeSet<String> =
        exchanges.iter().flatten().map(|exchange| check(&mut schema, exchange)).collect();
    let mut described = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let statuses = operation["responses"].as_object().unwrap().keys();
            described.extend(statuses.map(|status| format!("{method} {path} {status}")));
        }
    }
    assert_eq!(answered, described);
    every_property_was_met(&document, &schema.met);
}

fn every_property_was_met(document: &Value, met: &BTreeSet<String>) {
    let answers = ["Decision", "Refusal", "Limit", "Problem", "Results", "Explanation", "Why"];
    for name in answers.into_iter().chain(["LoginBegun", "LoginSettled"]) {
        for property in document["components"]["schemas"][name]["properties"].as_object().unwrap().keys() {
            assert!(met.contains(&format!("{name}.{property}")), "no answer has `{name}.{property}`");
        }
    }
}

#[test]
fn the_description_is_of_this_version_and_is_what_the_door_serves() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let served = Server::start(&[POLICY]).connect().get("/openapi.json");
    assert_eq!(served.body, OPENAPI.as_bytes());
}

#[test]
fn the_checker_of_these_tests_can_refuse() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let mut schema = Schema { document: &document, met: BTreeSet::new() };
    let decision =
        &document["paths"]["/v1/take"]["post"]["responses"]["200"]["content"]["application/json"]["schema"];
    let good = Server::start(&[POLICY]).post("/v1/take", r#"{"attributes": {}}"#).json();
    assert_eq!(schema.check(decision, &good), Ok(()));
    for (pointer, wrong) in [
        ("/allowed", json!("yes")),
        ("/retry_after_ms", json!("soon")),
        ("/limits/0/remaining", json!(-1)),
        ("/limits/0/algorithm", json!("guess")),
        ("/limits/0", json!({})),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = wrong;
        assert!(schema.check(decision, &bad).is_err(), "{pointer}");
    }
    let mut more = good;
    more["extra"] = json!(1);
    assert!(schema.check(decision, &more).is_err());
}
