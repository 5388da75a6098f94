//! A running server: ready, with headers on its answers, and counting.

use http_body_util::Full;
use hyper::{Request, StatusCode, Uri, body::Bytes, header};
use serde_json::json;
use sluicegate::core::Attributes;

use super::{
    super::asking::{self, Answer, Unheard},
    Item,
};

const READY: (&str, &str) = ("ready", "the server wants traffic");
const HEADERS: (&str, &str) = ("headers", "answers say what is left, and when to come back");
const METRICS: (&str, &str) = ("metrics", "the share of refusals is known");
const IN_FORCE: (&str, &str) = ("in-force", "what is written is in force");

pub(super) async fn items(url: Option<&str>, domain: &str, attributes: &Attributes) -> Vec<Item> {
    let Some(url) = url else {
        let unseen =
            |(id, what)| Item::to_do(id, what, "not looked at", "give `--url`, where the server listens");
        return [READY, HEADERS, METRICS, IN_FORCE].map(unseen).into();
    };
    let ready = match get(url, "/readyz").await {
        Ok(answer) if answer.status == StatusCode::OK => {
            Item::pass(READY.0, READY.1, "`/readyz` answers 200")
        }
        Ok(answer) => {
            Item::fail(READY.0, READY.1, format!("`/readyz` answers {}", answer.status), "see its log")
        }
        Err(error) => {
            return vec![Item::fail(
                READY.0,
                READY.1,
                format!("`{url}` {error}"),
                "start it, or mend the URL",
            )];
        }
    };
    let mut items = vec![ready, headers(url, domain, attributes).await];
    items.extend(metrics(url).await);
    items
}

/// The host and port of an `http://` URL.
fn authority(url: &str) -> Result<String, Unheard> {
    let no_url = || Unheard::Garbled(format!("`{url}` is no `http://host:port`").into());
    let uri: Uri = url.parse().map_err(|_| no_url())?;
    let host = uri.host().filter(|_| uri.scheme_str() == Some("http")).ok_or_else(no_url)?;
    Ok(format!("{host}:{}", uri.port_u16().unwrap_or(80)))
}

pub(super) async fn get(url: &str, path: &str) -> Result<Answer, Unheard> {
    let request = Request::get(path).body(Full::default()).map_err(|error| Unheard::Garbled(error.into()))?;
    asking::ask(&authority(url)?, request).await
}

async fn headers(url: &str, domain: &str, attributes: &Attributes) -> Item {
    let (id, what) = HEADERS;
    let attributes: serde_json::Map<_, _> = attributes
        .names()
        .filter_map(|name| Some((name.to_owned(), attributes.value(name)?.into())))
        .collect();
    let body = json!({ "domain": domain, "attributes": attributes }).to_string();
    let request = Request::post("/v1/peek")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| Unheard::Garbled(error.into()));
    let asked = async { asking::ask(&authority(url)?, request?).await };
    match asked.await {
        Ok(answer) if answer.status == StatusCode::OK => told(&answer),
        Ok(answer) => Item::fail(
            id,
            what,
            format!("a peek in `{domain}` answers {}: {}", answer.status, answer.body),
            "name a request that its policy takes, such as `user=alice`",
        ),
        Err(error) => Item::fail(id, what, format!("`{url}` {error}"), "see its log"),
    }
}

fn told(answer: &Answer) -> Item {
    let (id, what) = HEADERS;
    let sent: Vec<&str> =
        ["ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]
            .into_iter()
            .filter(|name| answer.headers.contains_key(*name))
            .collect();
    if sent.is_empty() {
        let fix =
            "name a request that a limit applies to, such as `user=alice`; or leave `--headers` as it is";
        Item::to_do(id, what, "the answer to a peek has none", fix)
    } else {
        Item::pass(id, what, sent.join(", "))
    }
}

async fn metrics(url: &str) -> Vec<Item> {
    let text = match get(url, "/metrics").await {
        Ok(answer) if answer.status == StatusCode::OK => answer.body,
        Ok(answer) => {
            let seen = format!("`/metrics` answers {}", answer.status);
            return vec![Item::fail(
                METRICS.0,
                METRICS.1,
                seen,
                "this version has it: is the URL another program's?",
            )];
        }
        Err(error) => {
            return vec![Item::fail(METRICS.0, METRICS.1, format!("`{url}` {error}"), "see its log")];
        }
    };
    let sum = |name: &str| -> Option<f64> {
        let own = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        own.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).reduce(|sum, value| sum + value)
    };
    let wanted = ["rate_limit_allowed_total", "rate_limit_denied_total", "rate_limit_policy_rejected"];
    let [Some(allowed), Some(denied), Some(rejected)] = wanted.map(sum) else {
        let seen = "`/metrics` has none of this program's";
        return vec![Item::fail(METRICS.0, METRICS.1, seen, "is the URL another program's?")];
    };
    let share = if denied > 0.0 { denied / (allowed + denied) * 100.0 } else { 0.0 };
    let all = allowed + denied;
    let seen = format!("of {all} answers of limits since the start {denied} were refusals ({share:.1} %)");
    let in_force = if rejected > 0.0 {
        let fix = "`GET /admin/status` and the log say why";
        Item::fail(IN_FORCE.0, IN_FORCE.1, "the last change was rejected or cannot be read", fix)
    } else {
        Item::pass(IN_FORCE.0, IN_FORCE.1, "no change was rejected")
    };
    vec![Item::pass(METRICS.0, METRICS.1, seen), in_force]
}
