//! A dashboard for Grafana, made of the table of metrics: no panel asks for what is not told.

use serde_json::{Value, json};

use super::{
    Metric,
    table::{
        ALLOWED, BREAKER_OPENINGS, CLOCK_OFFSET, COST, DECISION_LATENCY, DECISIONS, DENIED, FALLBACK,
        NEAR_LIMIT, POLICY_REJECTED, POLICY_VERSION, REDIS_LATENCY, RELOADS, SHADOW_DENIED, STORE_IN_FLIGHT,
        STORE_SHARE, TOP_DENIED,
    },
};

/// Panels in one row.
const COLUMNS: usize = 2;
/// A panel's size, of a grid that is 24 wide.
const SIZE: (usize, usize) = (12, 8);

/// What one panel shows.
struct Panel {
    title: &'static str,
    unit: &'static str,
    /// Queries with the legends of their lines.
    queries: Vec<(String, &'static str)>,
}

/// How many a second, summed by some labels.
fn rate(metric: &Metric, by: &str) -> String {
    let only = if metric.labels.contains(&"domain") { r#"{domain=~"$domain"}"# } else { "" };
    format!("sum by ({by}) (rate({}{only}[$__rate_interval]))", metric.sample_name())
}

fn quantile(part: &str, metric: &Metric) -> String {
    format!("histogram_quantile({part}, sum by (le) (rate({}[$__rate_interval])))", metric.sample_name())
}

fn panels() -> Vec<Panel> {
    let one = |title, unit, query: String, legend| Panel { title, unit, queries: vec![(query, legend)] };
    let share = format!(
        "{denied} / ({denied} + {})",
        rate(&ALLOWED, "domain, limit"),
        denied = rate(&DENIED, "domain, limit")
    );
    let latency = |title, metric: &Metric| Panel {
        title,
        unit: "s",
        queries: vec![(quantile("0.5", metric), "p50"), (quantile("0.99", metric), "p99")],
    };
    vec![
        one("Refused, of all requests", "percentunit", share, "{{domain}} {{limit}}"),
        one("Allowed", "reqps", rate(&ALLOWED, "domain, limit"), "{{domain}} {{limit}}"),
        one("Refused", "reqps", rate(&DENIED, "domain, limit, tier"), "{{domain}} {{limit}} {{tier}}"),
        one(
            "Refused most since the start",
            "short",
            format!("topk(10, {})", TOP_DENIED.name),
            "{{limit}} {{key}}",
        ),
        one("Near the limit", "reqps", rate(&NEAR_LIMIT, "domain, limit"), "{{domain}} {{limit}}"),
        one(
            "Would be refused by limits in shadow",
            "reqps",
            rate(&SHADOW_DENIED, "domain, limit"),
            "{{domain}} {{limit}}",
        ),
        one("Units that passed", "short", rate(&COST, "domain, limit, unit"), "{{limit}} {{unit}}"),
        one("Decisions, by who made them", "reqps", rate(&DECISIONS, "decided_by"), "{{decided_by}}"),
        latency("Time of a decision", &DECISION_LATENCY),
        latency("Time that decisions wait for Redis", &REDIS_LATENCY),
        one("Decisions without the store, by why", "reqps", rate(&FALLBACK, "reason"), "{{reason}}"),
        one("Keys that the store decides about", "percentunit", STORE_SHARE.name.to_owned(), "{{instance}}"),
        one("Openings of the breaker", "short", rate(&BREAKER_OPENINGS, "instance"), "{{instance}}"),
        one("Decisions that wait for the store", "short", STORE_IN_FLIGHT.name.to_owned(), "{{instance}}"),
        one("Clock, ahead of the machine's", "s", CLOCK_OFFSET.name.to_owned(), "{{instance}}"),
        Panel {
            title: "What is in force",
            unit: "short",
            queries: vec![
                (POLICY_VERSION.name.to_owned(), "version {{instance}}"),
                (POLICY_REJECTED.name.to_owned(), "rejected {{instance}}"),
                (rate(&RELOADS, "result"), "changes {{result}}"),
            ],
        },
    ]
}

/// The dashboard, as Grafana imports it.
pub fn dashboard() -> Value {
    let source = json!({ "type": "prometheus", "uid": "${datasource}" });
    let panels: Vec<Value> = panels()
        .iter()
        .enumerate()
        .map(|(at, panel)| {
            let (width, height) = SIZE;
            let place = json!({
                "x": at % COLUMNS * width, "y": at / COLUMNS * height, "w": width, "h": height
            });
            let targets = panel.queries.iter().zip('A'..).map(|((query, legend), id)| {
                json!({ "refId": id, "expr": query, "legendFormat": legend, "datasource": source })
            });
            json!({
                "id": at + 1, "type": "timeseries", "title": panel.title, "datasource": source, "gridPos": place,
                "fieldConfig": { "defaults": { "unit": panel.unit }, "overrides": [] },
                "options": { "legend": { "displayMode": "list", "placement": "bottom" } },
                "targets": targets.collect::<Vec<_>>(),
            })
        })
        .collect();
    let domains = format!("label_values({}, domain)", DECISIONS.sample_name());
    json!({
        "title": "Sluicegate", "uid": "sluicegate", "schemaVersion": 39, "version": 1, "editable": true,
        "refresh": "10s", "time": { "from": "now-1h", "to": "now" }, "timezone": "browser", "tags": ["sluicegate"],
        "templating": { "list": [
            { "name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source" },
            {
                "name": "domain", "type": "query", "label": "Domain", "datasource": source, "query": domains,
                "definition": domains, "multi": true, "includeAll": true, "refresh": 2
            },
        ] },
        "panels": panels,
    })
}
