//! Assignments that stand in tables of PostgreSQL, while the binary serves.

use std::{fs, path::Path, process::Output, thread, time::Duration};

use serde_json::json;
use sluicegate_server::postgres::Source;
use sluicegate_tests::{Fault, PostgresServer, Proxy, certs::Certs, redis_server::until};
use tokio::time::timeout;

use crate::{
    changes::Served,
    process::sluicegate,
    source::{amount, policy, says, serve},
};

/// The least rights of the user that a server connects as, as the documentation has them.
const READER: &str = "CREATE ROLE reader LOGIN PASSWORD 'password'; \
    GRANT USAGE ON SCHEMA sluicegate TO reader; \
    GRANT SELECT ON sluicegate.domain, sluicegate.assignment TO reader";

fn migrate(url: &str) -> Output {
    sluicegate().args(["migrate", "--config-source", url]).output().unwrap()
}

/// A server with the tables and the reader.
fn started() -> PostgresServer {
    let database = PostgresServer::start();
    let made = migrate(&database.unix_url("admin"));
    assert_eq!(String::from_utf8(made.stdout).unwrap(), "made 0001-assignments\n");
    database.sql(READER);
    database
}

/// Gives a user of the domain `default` a tier, or the tier that takes the place of the one before.
fn assign(database: &PostgresServer, user: &str, tier: &str) {
    database.sql(&format!(
        "INSERT INTO sluicegate.assignment VALUES ('default', 'user', '{user}', '{tier}', NULL) \
         ON CONFLICT (domain, attribute, assignee) WHERE until IS NULL DO UPDATE SET tier = excluded.tier"
    ));
}

#[test]
fn rows_take_effect_with_or_without_a_notice() {
    let database = started();
    assign(&database, "alice", "pro");
    let (_folder, _file, served) = serve(&database.url("reader", ""));
    assert_eq!(amount(&served, "alice"), 1_000);
    assign(&database, "alice", "free");
    until("a change is in force", || amount(&served, "alice") == 5);
    database.sql(
        "INSERT INTO sluicegate.assignment VALUES \
         ('default', 'user', 'bob', 'pro', '2999-01-01T00:00:00Z'), ('default', 'user', 'bob', 'free', NULL), \
         ('default', 'user', 'carol', 'pro', '2001-01-01T00:00:00Z'), ('other', 'user', 'dave', 'pro', NULL)",
    );
    until("a change is in force", || amount(&served, "bob") == 1_000);
    let (alice, carol, dave) = (amount(&served, "alice"), amount(&served, "carol"), amount(&served, "dave"));
    assert_eq!((alice, carol, dave), (json!(5), json!(100), json!(100)));
    // A tool that writes while triggers are off, and gives a new version itself, tells nobody.
    database.sql(
        "SET session_replication_role = replica; DELETE FROM sluicegate.assignment WHERE assignee = 'bob'; \
         UPDATE sluicegate.domain SET version = gen_random_uuid()",
    );
    until("a change is found", || amount(&served, "bob") == 100);
    assign(&database, "bob", "pro");
    assert_eq!(served.admin("POST", "/admin/reload", "").0, 200);
    assert_eq!(amount(&served, "bob"), 1_000, "a reload asks at once");
    database.sql("UPDATE sluicegate.assignment SET domain = 'other' WHERE assignee = 'bob'");
    until("a row that moved away is gone", || amount(&served, "bob") == 100);
    database.sql("TRUNCATE sluicegate.assignment");
    until("an empty table takes every tier away", || amount(&served, "alice") == 100);
}

#[test]
fn a_database_that_is_down_or_hangs_keeps_what_is_in_force_and_is_told_once() {
    let mut database = started();
    assign(&database, "alice", "pro");
    let proxy = Proxy::to(database.port());
    let through = |query: &str| {
        database
            .url("reader", query)
            .replace(&format!(":{}/", database.port()), &format!(":{}/", proxy.port()))
    };
    let (_folder, _file, served) = serve(&through("connect_timeout=1"));
    assert_eq!(amount(&served, "alice"), 1_000);
    proxy.set(Fault::Blackhole);
    until("the status tells", || says(&served, "unread", "did not answer within 5 s"));
    assert_eq!(amount(&served, "alice"), 1_000);
    proxy.set(Fault::Pass);
    until("the status tells", || served.status().get("unread").is_none());
    database.stop();
    until("the status tells", || says(&served, "unread", "cannot be connected to"));
    assert_eq!(amount(&served, "alice"), 1_000);
    database.restart();
    until("the status tells", || served.status().get("unread").is_none());
    assign(&database, "alice", "free");
    until("the source is heard again", || amount(&served, "alice") == 5);
    let told = served.log();
    assert_eq!(told.matches("cannot be read: what is in force stays").count(), 2, "{told}");
    assert!(!told.contains("password"), "{told}");
}

#[test]
fn rows_that_do_not_fit_the_policy_are_rejected_whole_and_a_database_that_lost_them_takes_no_tier_away() {
    let database = started();
    assign(&database, "alice", "pro");
    let (_folder, _file, served) = serve(&database.url("reader", ""));
    database.sql(
        "UPDATE sluicegate.assignment SET tier = 'free'; \
         INSERT INTO sluicegate.assignment VALUES ('default', 'org', 'acme', 'prp', NULL)",
    );
    until("the mistake is told", || says(&served, "rejected", "did you mean `pro`?"));
    assert_eq!(amount(&served, "alice"), 1_000);
    database.sql("DELETE FROM sluicegate.assignment WHERE tier = 'prp'");
    until("a good one is in force", || amount(&served, "alice") == 5);
    assert_eq!(served.status().get("rejected"), None);
    database.sql("DELETE FROM sluicegate.domain");
    until("the status tells", || says(&served, "unread", "never any assignments of the domain `default`"));
    assert_eq!(amount(&served, "alice"), 5);
    database.sql("DROP SCHEMA sluicegate CASCADE");
    until("the status tells", || says(&served, "unread", "`sluicegate migrate` makes them"));
    assert_eq!(amount(&served, "alice"), 5);
}

#[test]
fn more_rows_than_anyone_reads_are_not_fetched() {
    let database = started();
    assign(&database, "alice", "pro");
    let (_folder, _file, served) = serve(&database.url("reader", ""));
    let many = |rows: u32| {
        format!(
            "INSERT INTO sluicegate.assignment SELECT 'default', 'user', 'u' || n, 'pro', NULL \
             FROM generate_series(1, {rows}) n"
        )
    };
    database.sql(&many(100_000));
    until("the status tells", || says(&served, "unread", "100001 assignments, and at most 100000"));
    database.sql("DELETE FROM sluicegate.assignment WHERE assignee LIKE 'u%'");
    until("the status tells", || served.status().get("unread").is_none());
    let long = many(9_000).replace("'u' || n", "rpad('u' || n, 500, 'x')");
    database.sql(&long);
    until("the status tells", || says(&served, "unread", "at most 4194304 are read"));
    assert_eq!(amount(&served, "alice"), 1_000);
}

/// What a writer can do wrong is refused where it is written.
#[test]
fn the_tables_refuse_what_no_assignment_can_be() {
    let database = started();
    assign(&database, "alice", "pro");
    database.sql(
        "CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA sluicegate TO writer; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON sluicegate.assignment TO writer",
    );
    database.admit("local all all trust");
    for bad in [
        "'default', 'user', 'alice', 'free', NULL",
        "'default', 'ip', '10.0.0.1', 'free', NULL",
        "'default', 'user', 'bob', 'a tier', NULL",
        "'no domain', 'user', 'bob', 'free', NULL",
        "'default', 'user', 'bob', 'free', 'infinity'",
        "'default', 'user', repeat('b', 513), 'free', NULL",
    ] {
        let refused = database.sql_as("writer", &format!("INSERT INTO sluicegate.assignment VALUES ({bad})"));
        assert!(refused.as_ref().is_err_and(|told| told.contains("constraint")), "{bad}: {refused:?}");
    }
    let before = database.sql("SELECT version FROM sluicegate.domain");
    database
        .sql_as("writer", "INSERT INTO sluicegate.assignment VALUES ('default', 'user', 'bob', 'free', NULL)")
        .expect("who may write assignments needs no right to write versions");
    assert_ne!(database.sql("SELECT version FROM sluicegate.domain"), before);
    assert!(database.sql_as("writer", "DELETE FROM sluicegate.domain").is_err());
}

/// Each way to connect against each kind of server: what connects, and what does not.
#[test]
fn tls_is_as_the_sslmode_of_libpq_says() {
    let database = started();
    assign(&database, "alice", "pro");
    let connects = |mode: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = policy(&folder);
        let url = database.url("reader", &format!("sslmode={mode}"));
        let url = if mode.contains("hostaddr") { url.replace("localhost", "db.test") } else { url };
        let mut command = sluicegate();
        command.args(["serve", "--http", "192.0.2.1:0", "--policy", file.to_str().unwrap()]);
        let output = command.args(["--config-source", &url]).output().unwrap();
        // It reads the assignments, and cannot listen on an address that is nobody's; or it does not get so far.
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!told.contains("password@"), "{told}");
        (told.contains("cannot listen on"), told)
    };
    let authority = database.authority().display().to_string();
    let strange = tempfile::tempdir().unwrap();
    Certs::new().write_to(strange.path());
    let strange = strange.path().join("ca.pem").display().to_string();
    let (encrypted, plain) = ("hostssl all all all scram-sha-256", "hostnossl all all all scram-sha-256");
    let by_name = format!("verify-full&sslrootcert={authority}");
    let cases = [
        (encrypted, vec!["allow", "prefer", "require", by_name.as_str()], vec!["disable", "verify-full"]),
        (plain, vec!["disable", "allow", "prefer"], vec!["require", by_name.as_str()]),
    ];
    for (admitted, good, bad) in cases {
        database.admit(admitted);
        for mode in good {
            let (connected, told) = connects(mode);
            assert!(connected, "{admitted}, {mode}: {told}");
        }
        for mode in bad {
            let (connected, told) = connects(mode);
            assert!(!connected, "{admitted}, {mode}: {told}");
        }
    }
    database.admit(encrypted);
    for mode in ["require", "verify-ca", "verify-full"] {
        let (connected, told) = connects(&format!("{mode}&sslrootcert={strange}"));
        assert!(!connected && told.contains("certificate"), "{mode}: {told}");
    }
    // The certificate is for `localhost`.
    let elsewhere = |mode: &str| format!("{mode}&sslrootcert={authority}&hostaddr=127.0.0.1");
    let (connected, told) = connects(&elsewhere("verify-ca"));
    assert!(connected, "{told}");
    let (connected, told) = connects(&elsewhere("verify-full"));
    assert!(!connected && told.contains("certificate not valid for name"), "{told}");
    assert!(connects(&format!("require&channel_binding=require&sslrootcert={authority}")).0);
}

#[test]
fn tables_are_made_once_however_many_make_them_at_once() {
    let database = PostgresServer::start();
    let (code, told) = {
        let output = migrate("postgres://u:s3cret@localhost:1/limits");
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert!(code == Some(3) && !told.contains("s3cret"), "{told}");
    assert_eq!(migrate("redis://localhost").status.code(), Some(2));
    let url = database.unix_url("admin");
    let told: Vec<_> = thread::scope(|scope| {
        let runs: Vec<_> = (0..8).map(|_| scope.spawn(|| migrate(&url))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let told: Vec<_> = told.into_iter().map(|output| String::from_utf8(output.stdout).unwrap()).collect();
    let made = told.iter().filter(|told| *told == "made 0001-assignments\n").count();
    let idle = told.iter().filter(|told| *told == "the tables are up to date\n").count();
    assert_eq!((made, idle), (1, 7), "{told:?}");
    // What is printed makes the same tables.
    let printed = sluicegate().args(["migrate", "--print"]).output().unwrap().stdout;
    database.sql("DROP SCHEMA sluicegate CASCADE");
    database.sql(&String::from_utf8(printed).unwrap());
    assign(&database, "alice", "pro");
    assert_eq!(database.sql("SELECT count(*) FROM sluicegate.domain"), "1");
}

#[test]
fn a_start_without_the_database_uses_the_last_good_copy_if_it_is_told_to() {
    let mut database = started();
    assign(&database, "alice \"the\" 1st: née\n- x", "pro");
    let folder = tempfile::tempdir().unwrap();
    let (file, copy) = (policy(&folder), folder.path().join("copy.yaml"));
    let source = database.url("reader", "domain=default");
    let without = ["--policy", file.to_str().unwrap(), "--config-source", &source];
    let with = [&without[..], &["--config-cache", copy.to_str().unwrap()]].concat();
    let served = Served::start(folder.path(), &with);
    until("the rows are kept", || fs::read_to_string(&copy).is_ok_and(|text| text.contains("tier")));
    drop(served);
    database.stop();
    let served = Served::start(folder.path(), &with);
    assert_eq!(amount(&served, "alice \"the\" 1st: née\n- x"), 1_000);
    until("the status tells", || says(&served, "unread", "the assignments are those kept in"));
    let output = sluicegate().arg("serve").args(without).args(["--http", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    database.restart();
    assign(&database, "bob", "pro");
    until("the source is heard", || amount(&served, "bob") == 1_000);
}

#[tokio::test]
async fn a_change_wakes_whoever_waits_for_its_domain_and_nobody_else() {
    let mut database = started();
    let url = database.url("reader", "domain=api").parse().unwrap();
    let mut source = Source::new(url, 1_000);
    let told = source.told();
    assert!(source.read().await.is_err(), "nothing was ever written");
    let change = |database: &PostgresServer, domain: &str| {
        database.sql(&format!(
            "INSERT INTO sluicegate.assignment VALUES ('{domain}', 'org', gen_random_uuid()::text, 'pro', NULL)"
        ));
    };
    for _ in 0..2 {
        change(&database, "api");
        timeout(Duration::from_secs(30), told.notified()).await.expect("a notice");
        assert!(source.read().await.unwrap().is_some());
        assert_eq!(source.read().await.unwrap(), None, "the version is the same");
        change(&database, "other");
        // The server tells in order: what is asked after it is answered after it.
        assert_eq!(source.read().await.unwrap(), None);
        assert!(timeout(Duration::ZERO, told.notified()).await.is_err(), "that was of another domain");
        database.stop();
        database.restart();
        while source.read().await.is_err() {
            // The connection to the server that was stopped is found to be dead by the first read after.
            tokio::task::yield_now().await;
        }
    }
}

#[test]
fn the_rights_on_the_page_are_those_that_the_tests_connect_with() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/policies.md");
    let page = fs::read_to_string(page).unwrap();
    for statement in READER.split("; ") {
        assert!(page.contains(statement), "the page lacks `{statement}`");
    }
}
