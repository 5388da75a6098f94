//! Policies, assignments and switches that change while the binary serves.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sluicegate_tests::RedisServer;
use tempfile::TempDir;

use crate::{process::sluicegate, support::Client};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A serving process with an admin door; it is killed when dropped.
pub(crate) struct Served {
    child: Child,
    http: SocketAddr,
    admin: SocketAddr,
    log: PathBuf,
}

impl Served {
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        let log = folder.join("log");
        let mut command = sluicegate();
        command.args(["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]).args(arguments);
        command.env("SLUICEGATE_ADMIN_TOKEN", TOKEN);
        // Tests share their machine, and a decision without the store is not what they count.
        command.env("SLUICEGATE_STORE_TIMEOUT_MS", "20000").env("SLUICEGATE_STORE_DEADLINE_MS", "10000");
        command.stdout(Stdio::piped()).stderr(fs::File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut address = |scheme: &str| {
            let line = lines.next().unwrap_or_else(|| panic!("{}", fs::read_to_string(&log).unwrap()));
            line.strip_prefix(&format!("listening on {scheme}://")).unwrap().parse().unwrap()
        };
        let (http, admin) = (address("http"), address("admin"));
        Self { child, http, admin, log }
    }

    pub(crate) fn admin(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let token = format!("Bearer {TOKEN}");
        let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
        let reply = Client::connect(self.admin).request(method, path, &headers, body.as_bytes());
        (reply.status, reply.json())
    }

    pub(crate) fn status(&self) -> Value {
        self.admin("GET", "/admin/status", "").1
    }

    /// What `/metrics` tells.
    pub(crate) fn scrape(&self) -> String {
        String::from_utf8(Client::connect(self.http).get("/metrics").body).unwrap()
    }

    pub(crate) fn take(&self, attributes: &Value) -> Value {
        let body = json!({"attributes": attributes}).to_string();
        Client::connect(self.http).post("/v1/take", body).json()
    }

    /// The amount and the rest of the first limit, once the amount is as expected.
    fn wait_for_amount(&self, amount: u64) -> Value {
        let begin = Instant::now();
        loop {
            let reply = Client::connect(self.http).post("/v1/peek", r#"{"attributes": {"user": "alice"}}"#);
            let limit = reply.json()["limits"][0].clone();
            if limit["limit"] == amount {
                return limit["remaining"].clone();
            }
            assert!(begin.elapsed() < Duration::from_secs(30), "{limit} {}", self.status());
            // The files are looked at a few times a second, by another process.
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

pub(crate) fn of_amount(amount: u64) -> String {
    format!(
        "version: 1\nlimits:\n  - {{ name: per-user, algorithm: fixed_window, limit: {amount}, per: 1d, align: first_request, key: [user] }}\n"
    )
}

fn started(text: &str, more: &[&str]) -> (TempDir, PathBuf, Served) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    fs::write(&file, text).unwrap();
    let mut arguments = vec!["--policy", file.to_str().unwrap()];
    arguments.extend(more);
    let served = Served::start(folder.path(), &arguments);
    (folder, file, served)
}

#[test]
fn a_policy_comes_into_force_however_its_file_is_changed_and_counters_stay() {
    let (folder, file, served) = started(&of_amount(100), &[]);
    for _ in 0..3 {
        assert_eq!(served.take(&json!({"user": "alice"}))["allowed"], true);
    }
    fs::write(&file, of_amount(200)).unwrap();
    assert_eq!(served.wait_for_amount(200), 197, "in place");
    let aside = folder.path().join("aside.yaml");
    fs::write(&aside, of_amount(300)).unwrap();
    fs::rename(&aside, &file).unwrap();
    assert_eq!(served.wait_for_amount(300), 297, "by a rename");
    assert_eq!(served.status()["version"], 3);
}

/// Kubernetes changes a mounted file by turning a link to another folder.
#[test]
fn a_policy_behind_swapped_links_comes_into_force() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (version, amount) in [("v1", 100), ("v2", 200)] {
        fs::create_dir(path(version)).unwrap();
        fs::write(path(version).join("policy.yaml"), of_amount(amount)).unwrap();
    }
    symlink("v1", path("data")).unwrap();
    symlink("data/policy.yaml", path("policy.yaml")).unwrap();
    let served = Served::start(folder.path(), &["--policy", path("policy.yaml").to_str().unwrap()]);
    assert_eq!(served.wait_for_amount(100), 100);
    symlink("v2", path("data-new")).unwrap();
    fs::rename(path("data-new"), path("data")).unwrap();
    assert_eq!(served.wait_for_amount(200), 200);
}

#[test]
fn a_bad_policy_is_rejected_whole_with_its_message_and_the_old_one_stays() {
    let (_folder, file, served) = started(&of_amount(100), &[]);
    let before = served.status();
    fs::write(&file, of_amount(200).replace("limit: 200", "limit: 200, limt: 5")).unwrap();
    let (status, problem) = served.admin("POST", "/admin/reload", "");
    assert_eq!(status, 409);
    assert!(problem["detail"].as_str().unwrap().contains("a limit has no field `limt`"), "{problem}");
    let after = served.status();
    assert_eq!((&after["version"], &after["domains"]), (&before["version"], &before["domains"]));
    assert!(after["rejected"].as_str().unwrap().contains("line 3"), "{after}");
    assert_eq!(served.wait_for_amount(100), 100);
    assert!(served.log().contains("those in force stay"), "{}", served.log());
    assert_eq!(Client::connect(served.http).get("/readyz").status, 200);
    fs::write(&file, of_amount(300)).unwrap();
    assert_eq!(served.admin("POST", "/admin/reload", ""), (200, json!({"version": 2})));
    assert_eq!(served.status().get("rejected"), None);
}

#[test]
fn a_hangup_reads_the_files_at_once() {
    let (_folder, file, served) = started(&of_amount(100), &[]);
    fs::write(&file, of_amount(200)).unwrap();
    let id = served.child.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    assert_eq!(served.wait_for_amount(200), 200);
}

/// As many requests as the machine bears, a hundred in each call, while the policy changes all the time: what passes is the
/// limit, to the last one. Without other work on it, two cores bear far more than 5,000 a second.
fn reloads_under_load(more: &[&str]) {
    const LIMIT: usize = 30_000;
    const TOGETHER: usize = 100;
    let batch = vec![r#"{"attributes": {"user": "alice"}}"#; TOGETHER].join(",");
    let batch = format!(r#"{{"requests": [{batch}]}}"#);
    let text = |comment: usize| format!("# {comment}\n{}", of_amount(u64::try_from(LIMIT).unwrap()));
    let (_folder, file, served) = started(&text(0), more);
    let (passed, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = Client::connect(served.http);
                    for _ in 0..100 {
                        let reply = client.post("/v1/batch", &batch).json();
                        let results = reply["results"].as_array().unwrap();
                        assert_eq!(results.len(), TOGETHER);
                        assert!(results.iter().all(|result| result["decided_by"] == "store"), "{reply}");
                        let allowed = results.iter().filter(|result| result["allowed"] == true).count();
                        passed.fetch_add(allowed, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let reloader = scope.spawn(|| {
            let mut reloads = 0;
            while !done.load(Ordering::Relaxed) {
                reloads += 1;
                fs::write(&file, text(reloads)).unwrap();
                assert_eq!(served.admin("POST", "/admin/reload", "").0, 200);
            }
            reloads
        });
        for client in clients {
            client.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(reloader.join().unwrap() >= 5, "too few changes to prove anything");
    });
    assert_eq!(passed.load(Ordering::Relaxed), LIMIT);
}

#[test]
fn reloads_under_load_lose_and_double_nothing() {
    reloads_under_load(&[]);
}

#[test]
fn reloads_under_load_on_redis_lose_and_double_nothing() {
    let redis = RedisServer::start();
    reloads_under_load(&["--store", &redis.url()]);
}

#[test]
fn a_limit_is_switched_from_the_command_line_and_the_log_says_so() {
    let (_folder, file, served) = started(&of_amount(0), &[]);
    let switch = |words: &[&str]| {
        let mut command = sluicegate();
        command.arg("enforcement").args(words).args(["--admin", &served.admin.to_string()]);
        let output = command.env("SLUICEGATE_ADMIN_TOKEN", TOKEN).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let alice = json!({"user": "alice"});
    assert_eq!(served.take(&alice)["allowed"], false);
    assert_eq!(switch(&["shadow", "per-user"]).0, Some(0));
    let shadowed = served.take(&alice);
    assert_eq!((&shadowed["allowed"], &shadowed["binding"]), (&json!(true), &Value::Null));
    assert_eq!(shadowed["limits"][0]["enforcement"], "shadow");
    assert_eq!(shadowed["limits"][0]["allowed"], false, "what it would have said");
    assert_eq!(switch(&["off"]).0, Some(0));
    let off = served.take(&alice)["limits"][0].clone();
    assert_eq!(
        (&off["enforcement"], &off["limit"], &off["remaining"]),
        (&json!("off"), &json!(0), &Value::Null)
    );
    assert_eq!(served.status()["domains"][0]["switched"], json!(["", "per-user"]));
    // A switch that was turned stays turned when the file is read again.
    fs::write(&file, format!("{}# more\n", of_amount(0))).unwrap();
    assert_eq!(served.admin("POST", "/admin/reload", "").0, 200);
    assert_eq!(served.take(&alice)["allowed"], true);
    assert_eq!(switch(&["file"]).0, Some(0));
    assert_eq!(switch(&["file", "per-user"]).0, Some(0));
    assert_eq!(served.take(&alice)["allowed"], false);
    let (code, told) = switch(&["off", "per-usr"]);
    assert_eq!(code, Some(2));
    assert!(told.contains("the domain `default` has no limit `per-usr`"), "{told}");
    let log = served.log();
    assert!(log.contains("enforcement is switched") && log.contains("audit"), "{log}");
}

#[test]
fn a_counter_is_forgotten_alone() {
    let (_folder, _file, served) = started(&of_amount(1), &[]);
    for user in ["alice", "bob"] {
        assert_eq!(served.take(&json!({"user": user}))["allowed"], true);
    }
    let body = json!({"limit": "per-user", "attributes": {"user": "alice"}}).to_string();
    assert_eq!(served.admin("POST", "/admin/forget", &body), (200, json!({"forgotten": true})));
    assert_eq!(served.admin("POST", "/admin/forget", &body), (200, json!({"forgotten": false})));
    assert_eq!(served.take(&json!({"user": "alice"}))["allowed"], true);
    assert_eq!(served.take(&json!({"user": "bob"}))["allowed"], false);
}

#[test]
fn without_the_token_the_admin_door_tells_and_changes_nothing() {
    let (_folder, _file, served) = started(&of_amount(100), &[]);
    for said in [None, Some("Bearer "), Some("Bearer 0123456789abcdef0123456789abcdee"), Some(TOKEN)] {
        let headers: Vec<_> = said.map(|said| ("authorization", said)).into_iter().collect();
        let off = br#"{"enforcement": "off"}"#;
        let reply = Client::connect(served.admin).request("POST", "/admin/enforcement", &headers, off);
        assert_eq!(reply.status, 401, "{said:?}");
        assert_eq!(Client::connect(served.admin).request("GET", "/admin/status", &headers, b"").status, 401);
    }
    assert_eq!(served.status()["domains"][0]["enforcement"], "on");
    assert_eq!(Client::connect(served.http).get("/admin/status").status, 404);
    let short =
        sluicegate().args(["serve", "--admin", "127.0.0.1:0", "--admin-token", "short"]).output().unwrap();
    assert_eq!(short.status.code(), Some(2));
}

#[test]
fn assignments_give_tiers_and_change_while_the_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("assignments.yaml");
    let write = |entries: &str| fs::write(&file, format!("version: 1\nassignments: [{entries}]\n")).unwrap();
    write("{ user: alice, tier: pro }");
    let policy = folder.path().join("policy.yaml");
    let tiers = "tiers:\n  free: { per-user: { limit: 5 } }\n  pro: { per-user: { limit: 1000 } }\n";
    fs::write(&policy, format!("{}{tiers}", of_amount(100))).unwrap();
    let source = format!("file:{}", file.display());
    let arguments = ["--policy", policy.to_str().unwrap(), "--config-source", &source];
    let served = Served::start(folder.path(), &arguments);
    let amount = |attributes: Value| served.take(&attributes)["limits"][0]["limit"].clone();
    assert_eq!(amount(json!({"user": "alice"})), 1_000);
    assert_eq!(amount(json!({"user": "alice", "tier": "free"})), 1_000, "what is stored beats what is sent");
    assert_eq!(amount(json!({"user": "bob", "tier": "free"})), 5);
    assert_eq!(amount(json!({"user": "bob"})), 100);
    assert_eq!(served.take(&json!({"user": "bob", "tier": "fre"}))["pointer"], "/attributes/tier");
    write("{ user: alice, tier: free }, { user: bob, tier: pro, until: 2001-01-01T00:00:00Z }");
    assert_eq!(served.admin("POST", "/admin/reload", "").0, 200);
    assert_eq!(amount(json!({"user": "alice"})), 5);
    assert_eq!(amount(json!({"user": "bob"})), 100, "it has ended");
    write("{ user: alice, tier: prp }");
    let (status, problem) = served.admin("POST", "/admin/reload", "");
    assert_eq!(status, 409);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("a tier `prp`") && detail.contains("did you mean `pro`?"), "{detail}");
    assert_eq!(amount(json!({"user": "alice"})), 5);
}
