//! What a scraper reads of a server.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sluicegate_server::metrics::{ALL, Kind, Metric, dashboard};
use sluicegate_tests::{RedisServer, ports::free_port};
use tempfile::TempDir;

use crate::{
    changes::Served,
    process::{PolicyFile, Serving, sluicegate},
    support::Client,
};

const POLICY: &str = "
version: 1
limits:
  - { name: per-user, algorithm: fixed_window, limit: 5, per: 1d, key: [user], match: { endpoint: '/v1/*' } }
  - { name: tried, algorithm: fixed_window, limit: 1, per: 1d, key: [user], enforcement: shadow }
tiers:
  pro: { per-user: { limit: 10 } }
";

pub(crate) fn serve(name: &str, policy: &str, arguments: &[&str]) -> (Serving, PolicyFile) {
    let file = PolicyFile::new(name, policy);
    let mut command = sluicegate();
    command.args(["serve", "--http", "127.0.0.1:0", "--policy"]).arg(&file.0).args(arguments);
    (Serving::start(&mut command), file)
}

/// The samples of a scrape by name and labels, and the families by kind.
struct Scrape {
    samples: BTreeMap<String, f64>,
    kinds: BTreeMap<String, String>,
}

impl Scrape {
    fn read(serving: &mut Serving) -> Self {
        Self::of(&text(serving, "text/plain"))
    }

    fn of(text: &str) -> Self {
        let (mut samples, mut kinds) = (BTreeMap::new(), BTreeMap::new());
        for line in text.lines() {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert_eq!(kinds.insert(name.to_owned(), kind.to_owned()), None, "{name} twice");
            } else if !line.starts_with('#') {
                let (name, value) = line.rsplit_once(' ').unwrap();
                assert_eq!(samples.insert(name.to_owned(), value.parse().unwrap()), None, "{name} twice");
            }
        }
        Self { samples, kinds }
    }

    #[track_caller]
    fn is(&self, name: &str, expected: f64) {
        let value = self.samples.get(name);
        assert_eq!(value, Some(&expected), "{name} among {:#?}", self.samples.keys());
    }
}

fn text(serving: &mut Serving, accepted: &str) -> String {
    let reply = serving.client.request("GET", "/metrics", &[("accept", accepted)], b"");
    assert_eq!(reply.status, 200);
    String::from_utf8(reply.body).unwrap()
}

fn take(serving: &mut Serving, attributes: &serde_json::Value) -> u16 {
    serving.client.post("/v1/take", json!({ "attributes": attributes }).to_string()).status
}

const OF_THE_LIMIT: &str = r#"{domain="default",limit="per-user",endpoint="/v1/*",tier=""}"#;

#[test]
fn requests_that_pass_and_requests_that_are_refused_are_counted_exactly() {
    let (mut serving, _file) = serve("metrics-counts", POLICY, &[]);
    let before = Scrape::read(&mut serving);
    for zero in ["rate_limit_allowed_total", "rate_limit_denied_total", "rate_limit_near_limit_total"] {
        before.is(&format!("{zero}{OF_THE_LIMIT}"), 0.0);
    }
    before.is(r#"rate_limit_decisions_total{domain="default",decided_by="fallback"}"#, 0.0);
    before.is(r#"rate_limit_fallback_total{reason="deadline"}"#, 0.0);
    before.is("rate_limit_store_share", 1.0);

    let statuses = [(); 8].map(|()| take(&mut serving, &json!({"user": "alice", "endpoint": "/v1/chat"})));
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429, 429]);
    assert_eq!(take(&mut serving, &json!({"user": "bob", "endpoint": "/v1/chat", "tier": "pro"})), 200);
    // A look counts nothing; it is timed.
    serving.client.post("/v1/peek", r#"{"attributes": {"user": "alice", "endpoint": "/v1/chat"}}"#);

    let after = Scrape::read(&mut serving);
    after.is(&format!("rate_limit_allowed_total{OF_THE_LIMIT}"), 5.0);
    after.is(&format!("rate_limit_denied_total{OF_THE_LIMIT}"), 3.0);
    // One that leaves nothing: a fifth of five is one.
    after.is(&format!("rate_limit_near_limit_total{OF_THE_LIMIT}"), 1.0);
    after
        .is(&format!("rate_limit_allowed_total{}", OF_THE_LIMIT.replace(r#"tier="""#, r#"tier="pro""#)), 1.0);
    after.is(r#"rate_limit_cost_total{domain="default",limit="per-user",unit="requests"}"#, 6.0);
    after.is(r#"rate_limit_decisions_total{domain="default",decided_by="store"}"#, 9.0);
    after.is(r#"rate_limit_top_denied{domain="default",limit="per-user",key="user=alice"}"#, 3.0);
    after.is(r#"rate_limit_top_denied{domain="",limit="",key="other"}"#, 0.0);
    after.is("rate_limit_decision_latency_seconds_count", 10.0);
    // The limit in shadow would have refused alice from her second request on; once refused, she is only looked at.
    let tried = r#"rate_limit_shadow_denied_total{domain="default",limit="tried",endpoint="*",tier=""}"#;
    after.is(tried, 7.0);
}

#[test]
fn every_metric_of_the_table_is_told_and_no_other() {
    let (mut serving, _file) = serve("metrics-table", POLICY, &[]);
    take(&mut serving, &json!({"user": "alice"}));
    let told = Scrape::read(&mut serving);
    let expected: BTreeMap<String, String> = ALL
        .iter()
        .map(|metric| match metric.kind {
            Kind::Counter => (metric.sample_name(), "counter".to_owned()),
            Kind::Gauge => (metric.name.to_owned(), "gauge".to_owned()),
            Kind::Histogram => (metric.name.to_owned(), "histogram".to_owned()),
        })
        .collect();
    assert_eq!(told.kinds, expected);
    for metric in ALL {
        let name = metric.sample_name();
        let own = |sample: &&String| sample.split('{').next() == Some(&name);
        let samples: Vec<_> = told.samples.keys().filter(own).collect();
        assert!(!samples.is_empty(), "{name} has no sample before anything has happened");
        for sample in samples {
            let labels: Vec<_> =
                sample.split(['{', ',']).skip(1).filter_map(|label| label.split_once('=')).collect();
            let names: Vec<_> = labels.iter().map(|(name, _)| *name).filter(|name| *name != "le").collect();
            assert_eq!(names, metric.labels, "{sample}");
        }
    }
}

#[test]
fn the_text_is_what_prometheus_reads_in_either_format() {
    let (mut serving, _file) = serve("metrics-format", POLICY, &[]);
    let hostile = json!({"user": "a\"b\\c\n{}=,", "endpoint": "/v1/x"});
    (0..6).for_each(|_| _ = take(&mut serving, &hostile));
    let plain = text(&mut serving, "text/plain");
    assert!(plain.contains(r#"key="user=a\"b\\c\n{}=,""#), "{plain}");
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().expect("promtool is needed: apt-get install prometheus");
    promtool.stdin.take().unwrap().write_all(plain.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let accepted = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    let open = text(&mut serving, accepted);
    assert!(open.ends_with("# EOF\n"));
    assert!(open.contains("# TYPE rate_limit_denied counter\n"), "{open}");
    assert!(open.contains("rate_limit_denied_total{"));
}

#[test]
fn strangers_with_new_names_add_nothing_to_what_is_told() {
    let policy = "
version: 1
limits:
  - { name: per-user, algorithm: fixed_window, limit: 0, per: 1d, key: [user, endpoint] }
";
    let (mut serving, _file) = serve("metrics-strangers", policy, &[]);
    let mut told = Vec::new();
    for batch in 0..20 {
        let asks: Vec<_> = (0..1_000)
            .map(|at| json!({"attributes": {"user": format!("{batch}-{at}"), "endpoint": format!("/{at}"), "tier": "x"}}))
            .collect();
        let reply = serving.client.post("/v1/batch", json!({ "requests": asks }).to_string());
        assert_eq!(reply.status, 200);
        told.push(Scrape::read(&mut serving).samples.len());
    }
    assert!(told.windows(2).all(|pair| pair[0] == pair[1]), "{told:?}");
}

/// The counters of a limit go on when a change keeps it, begin when one adds it, and end when one takes it away.
#[test]
fn a_change_of_policy_is_counted_and_keeps_what_was_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.yaml");
    let limit = |name: &str| {
        format!("  - {{ name: {name}, algorithm: fixed_window, limit: 5, per: 1d, key: [user] }}\n")
    };
    let write = |limits: &str| fs::write(&path, format!("version: 1\nlimits:\n{limits}")).unwrap();
    write(&(limit("kept") + &limit("gone")));
    let served = Served::start(folder.path(), &["--policy", path.to_str().unwrap()]);
    served.take(&json!({"user": "alice"}));
    write("  - nonsense\n");
    assert_eq!(served.admin("POST", "/admin/reload", "").0, 409);
    Scrape::of(&served.scrape()).is("rate_limit_policy_rejected", 1.0);
    write(&(limit("kept") + &limit("new")));
    assert_eq!(served.admin("POST", "/admin/reload", "").0, 200);

    let told = Scrape::of(&served.scrape());
    let of = |limit: &str| {
        format!(r#"rate_limit_allowed_total{{domain="default",limit="{limit}",endpoint="*",tier=""}}"#)
    };
    told.is(&of("kept"), 1.0);
    told.is(&of("new"), 0.0);
    assert!(!told.samples.contains_key(&of("gone")));
    told.is("rate_limit_policy_rejected", 0.0);
    for result in ["accepted", "rejected"] {
        // The files are looked at by the server too, so the mistake may have been seen more than once.
        let name = format!(r#"rate_limit_policy_reloads_total{{result="{result}"}}"#);
        assert!(told.samples[&name] >= 1.0, "{name}");
    }
}

#[test]
fn what_is_decided_without_redis_is_counted_by_why() {
    let redis = RedisServer::start();
    let (mut serving, _file) = serve("metrics-redis", POLICY, &["--store", &redis.url()]);
    let ask = json!({"user": "alice", "endpoint": "/v1/chat"});
    let until = |serving: &mut Serving, what: &dyn Fn(&Scrape) -> bool| {
        let begin = Instant::now();
        loop {
            take(serving, &ask);
            let told = Scrape::read(serving);
            if what(&told) {
                return told;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "{:#?}", told.samples);
            // The breaker has pauses between its probes.
            thread::sleep(Duration::from_millis(20));
        }
    };
    let well = until(&mut serving, &|told| told.samples["rate_limit_redis_latency_seconds_count"] > 0.0);
    well.is("rate_limit_store_share", 1.0);
    drop(redis);
    let ill = until(&mut serving, &|told| told.samples["rate_limit_store_share"] < 1.0);
    ill.is("rate_limit_breaker_openings_total", 1.0);
    let fallbacks = |reason: &str| ill.samples[&format!(r#"rate_limit_fallback_total{{reason="{reason}"}}"#)];
    assert!(fallbacks("error") + fallbacks("deadline") >= 3.0, "{:#?}", ill.samples);
    let all: f64 = ["error", "deadline", "breaker", "overload"].map(fallbacks).iter().sum();
    // The limit in shadow is looked at by a call of its own.
    let decided = ill.samples[r#"rate_limit_decisions_total{domain="default",decided_by="fallback"}"#];
    assert!(decided > 0.0 && all >= decided, "{decided} of {all}");
}

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/prometheus/sluicegate.rules.yaml");
const ALERTS_PAGE: &str = include_str!("../../../../docs/operating/alerts.md");
const METRICS_PAGE: &str = include_str!("../../../../docs/reference/metrics.md");

/// Names that begin like ours, in a text of queries.
fn metrics_named(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    words.filter(|word| word.starts_with("rate_limit_"))
}

#[test]
fn every_alert_fires_when_it_should_and_is_silent_when_it_should() {
    let tests = RULES.replace("rules.yaml", "test.yaml");
    for arguments in [["check", "rules", RULES], ["test", "rules", &tests]] {
        let output = Command::new("promtool").args(arguments).output();
        let output = output.expect("promtool is needed: apt-get install prometheus");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let (rules, tests) = (fs::read_to_string(RULES).unwrap(), fs::read_to_string(tests).unwrap());
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        // A case that fires lists what it expects, one that is silent an empty list.
        let cases: Vec<_> = tests
            .split("  - name: ")
            .filter(|case| case.contains(&format!("alertname: {alert}\n")))
            .collect();
        for silent in [false, true] {
            let found = cases.iter().any(|case| case.contains("exp_alerts: []") == silent);
            assert!(found, "{alert} has no case in which it is silent: {silent}");
        }
    }
}

#[test]
fn alerts_ask_for_metrics_that_exist_and_have_a_page_that_exists() {
    let rules = fs::read_to_string(RULES).unwrap();
    let known: Vec<String> =
        ALL.iter().flat_map(|metric| [metric.sample_name(), format!("{}_count", metric.name)]).collect();
    for name in metrics_named(&rules).filter(|name| !name.contains(':')) {
        assert!(known.iter().any(|known| known == name), "{name}");
    }
    for link in rules.lines().filter_map(|line| line.trim().strip_prefix("runbook_url: ")) {
        let (page, section) = link.split_once('#').unwrap();
        assert!(page.ends_with("/docs/operating/alerts.md"));
        let headings = ALERTS_PAGE.lines().filter_map(|line| line.strip_prefix("## "));
        assert!(headings.map(str::to_lowercase).any(|heading| heading == section), "{link}");
    }
}

#[test]
fn the_page_of_metrics_is_the_table() {
    let table = sluicegate_server::metrics::reference();
    assert!(METRICS_PAGE.contains(&table), "docs/reference/metrics.md is stale; it should hold:\n{table}");
}

/// `deploy/grafana/sluicegate.json` is made of the table. `SLUICEGATE_BLESS=1` writes it anew.
#[test]
fn the_dashboard_is_up_to_date_and_prometheus_understands_its_queries() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/grafana/sluicegate.json");
    let dashboard = dashboard();
    let text = format!("{dashboard:#}\n");
    if std::env::var_os("SLUICEGATE_BLESS").is_some() {
        fs::write(path, &text).unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap_or_default(), text, "run with SLUICEGATE_BLESS=1");

    // As rules, queries are parsed by what will be asked them.
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries: Vec<_> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    let rules = queries.iter().enumerate().map(|(at, query)| {
        json!({ "record": format!("query_{at}"), "expr": query.replace("$__rate_interval", "1m") })
    });
    let rules = json!({ "groups": [{ "name": "queries", "rules": rules.collect::<Vec<_>>() }] });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    fs::write(&file, rules.to_string()).unwrap();
    let output = Command::new("promtool").args(["check", "rules"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = |metric: &&&Metric| queries.iter().any(|query| query.contains(metric.name));
    let hidden: Vec<_> = ALL.iter().filter(|metric| !shown(metric)).map(|metric| metric.name).collect();
    assert_eq!(hidden, ["rate_limit_policy_info", "rate_limit_build_info"]);
}

/// A Prometheus with the rules of this repository, in which a minute is two seconds; it is killed when dropped.
pub(crate) struct Prometheus {
    child: Child,
    pub(crate) address: SocketAddr,
    _folder: TempDir,
}

impl Prometheus {
    pub(crate) fn scraping(target: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rules = fs::read_to_string(RULES).unwrap().replace("[1m]", "[2s]");
        fs::write(folder.path().join("rules.yaml"), rules).unwrap();
        let config = format!(
            "global: {{ scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms }}\n\
             rule_files: [rules.yaml]\n\
             scrape_configs:\n  - job_name: sluicegate\n    static_configs: [{{ targets: ['{target}'] }}]\n"
        );
        fs::write(folder.path().join("prometheus.yaml"), config).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut command = Command::new("prometheus");
        command
            .current_dir(folder.path())
            .arg("--config.file=prometheus.yaml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("log")).unwrap());
        let child = command.spawn().expect("prometheus is needed: apt-get install prometheus");
        Self { child, address, _folder: folder }
    }

    /// Waits for the first samples.
    pub(crate) fn wait_until_scraped(&self) {
        let begin = Instant::now();
        while self
            .ask("/api/v1/query?query=rate_limit_build_info")
            .is_none_or(|answer| answer["data"]["result"].as_array().is_none_or(Vec::is_empty))
        {
            assert!(begin.elapsed() < Duration::from_secs(60), "nothing is scraped");
            // Prometheus looks five times a second.
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// What Prometheus answers; `None` while it cannot.
    fn ask(&self, path: &str) -> Option<Value> {
        drop(TcpStream::connect(self.address).ok()?);
        let reply = Client::connect(self.address).get(path);
        (reply.status == 200).then(|| reply.json())
    }

    /// The state of an alert: `firing`, `pending`, or nothing; `None` while Prometheus cannot tell.
    fn state_of(&self, alert: &str) -> Option<String> {
        let answer = self.ask("/api/v1/alerts")?;
        let alerts = answer["data"]["alerts"].as_array()?;
        let own = alerts.iter().find(|one| one["labels"]["alertname"] == alert);
        Some(own.map(|one| one["state"].as_str().unwrap().to_owned()).unwrap_or_default())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
fn a_real_prometheus_raises_the_alert_when_redis_stops_and_ends_it_when_redis_is_back() {
    let mut redis = RedisServer::start();
    let (mut serving, _file) = serve("metrics-alert", POLICY, &["--store", &redis.url()]);
    let prometheus = Prometheus::scraping(serving.address);
    let mut wait_for = |state: &str| {
        let begin = Instant::now();
        while prometheus.state_of("SluicegateFallbackActive").as_deref() != Some(state) {
            take(&mut serving, &json!({"user": "alice"}));
            assert!(begin.elapsed() < Duration::from_secs(60), "never {state:?}");
            // Prometheus looks five times a second.
            thread::sleep(Duration::from_millis(100));
        }
    };
    wait_for("");
    redis.stop();
    wait_for("firing");
    redis.restart();
    wait_for("");
}
