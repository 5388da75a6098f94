//! Whether somebody watches: Prometheus scrapes, and the alerts are loaded.

use hyper::StatusCode;
use serde_json::Value;

use super::{Item, server};

const SCRAPED: (&str, &str) = ("scraped", "somebody collects the metrics");
const ALERTS: (&str, &str) = ("alerts", "somebody is woken when the store does not decide");
/// The alert that must be there; the others come in the same file.
const ALERT: &str = "SluicegateFallbackActive";

pub(super) async fn items(prometheus: Option<&str>) -> Vec<Item> {
    let Some(url) = prometheus else {
        let unseen =
            |(id, what)| Item::to_do(id, what, "not looked at", "give `--prometheus`, where it listens");
        return [SCRAPED, ALERTS].map(unseen).into();
    };
    vec![scraped(url).await, alerts(url).await]
}

/// What Prometheus answers to a question, or why it does not.
async fn asked(url: &str, path: &str) -> Result<Value, String> {
    let answer = server::get(url, path).await.map_err(|error| format!("`{url}` {error}"))?;
    if answer.status != StatusCode::OK {
        return Err(format!("`{url}` answers {}", answer.status));
    }
    serde_json::from_str(&answer.body).map_err(|error| format!("`{url}` is no Prometheus: {error}"))
}

async fn scraped(url: &str) -> Item {
    let (id, what) = SCRAPED;
    let fix = "add the server to `scrape_configs`, with `job_name: sluicegate`";
    match asked(url, "/api/v1/query?query=count(rate_limit_build_info)").await {
        Ok(answer) => match answer.pointer("/data/result/0/value/1").and_then(Value::as_str) {
            Some(instances) => Item::pass(id, what, format!("instances that are scraped: {instances}")),
            None => Item::fail(id, what, "no instance is scraped", fix),
        },
        Err(seen) => Item::fail(id, what, seen, fix),
    }
}

async fn alerts(url: &str) -> Item {
    let (id, what) = ALERTS;
    let fix = "load `deploy/prometheus/sluicegate.rules.yaml`";
    match asked(url, "/api/v1/rules?type=alert").await {
        Ok(answer) if names(&answer).any(|name| name == ALERT) => {
            Item::pass(id, what, format!("`{ALERT}` is loaded, with {} others", names(&answer).count() - 1))
        }
        Ok(_) => Item::fail(id, what, format!("`{ALERT}` is not loaded"), fix),
        Err(seen) => Item::fail(id, what, seen, fix),
    }
}

fn names(rules: &Value) -> impl Iterator<Item = &str> {
    let groups = rules.pointer("/data/groups").and_then(Value::as_array).into_iter().flatten();
    let all = groups.filter_map(|group| group["rules"].as_array()).flatten();
    all.filter_map(|rule| rule["name"].as_str())
}
