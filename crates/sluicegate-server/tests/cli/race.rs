use serde_json::json;

use crate::support::{Folder, Serving, finish, run, sluicegate};

const WINDOW: &str = "{ name: window, algorithm: fixed_window, limit: 1000, per: 1d, key: [user] }";
const JSON: [&str; 4] = ["--method", "POST", "--header", "content-type: application/json"];

/// At 998 of 1,000 with 50 at once two pass, in every round.
#[test]
fn this_limiter_lets_through_exactly_what_is_left() {
    let run = run(&["race", "--rounds", "50", "--output", "json"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let expected = json!({
        "limiter": "sluicegate on memory", "limit": 1000, "used": 998, "burst": 50, "rounds": 50, "allowed": 2,
        "admitted_least": 2, "admitted_most": 2, "over_admitted_rounds": 0, "under_admitted_rounds": 0
    });
    assert_eq!(run.json(), expected);
}

#[test]
fn the_edges_of_a_race_are_exact_too() {
    for (used, burst, allowed) in
        [("1000", "10", "0"), ("0", "1000", "1000"), ("990", "5", "5"), ("0", "1", "1")]
    {
        let run = run(&["race", "--used", used, "--burst", burst]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let expected = format!("allowed   {allowed}\nadmitted  {allowed}\nverdict   exact\n");
        assert!(run.out.ends_with(&expected), "{run:?}");
    }
}

#[test]
fn the_http_door_lets_through_exactly_what_is_left() {
    let folder = Folder::new("race-http");
    let serving = Serving::start(&folder.policy("p.yaml", &[WINDOW]));
    let url = format!("http://{}/v1/take", serving.address);
    let body = r#"{"domain": "here", "attributes": {"user": "{key}"}}"#;
    let mut command = sluicegate();
    command.args(["race", "--url", &url, "--body", body, "--rounds", "3"]).args(JSON);
    let run = finish(&mut command);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.out.ends_with("allowed   2\nadmitted  2\nverdict   exact\n"), "{run:?}");
}

/// An endpoint that admits everything is the worst limiter that there is.
#[test]
fn an_endpoint_that_admits_too_much_is_caught() {
    let folder = Folder::new("race-caught");
    let serving = Serving::start(&folder.policy("p.yaml", &[WINDOW]));
    let url = format!("http://{}/livez", serving.address);
    let run = run(&["race", "--url", &url, "--limit", "12", "--used", "10"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(
        run.out.ends_with("admitted  50\nverdict   OVER-ADMITTED in 1 of 1 rounds, by up to 48\n"),
        "{run:?}"
    );
}

#[test]
fn an_endpoint_that_says_nothing_about_limits_is_no_result() {
    let folder = Folder::new("race-other");
    let serving = Serving::start(&folder.policy("p.yaml", &[WINDOW]));
    let url = |path: &str| format!("http://{}{path}", serving.address);
    let missing = run(&["race", "--url", &url("/nowhere")]);
    assert_eq!(missing.code, Some(3), "{missing:?}");
    assert!(missing.err.contains("404"), "{missing:?}");

    let mut early = sluicegate();
    let body = r#"{"domain": "here", "attributes": {"user": "x"}, "cost": 400}"#;
    early.args(["race", "--url", &url("/v1/take"), "--body", body, "--used", "5"]).args(JSON);
    let early = finish(&mut early);
    assert_eq!(early.code, Some(3), "{early:?}");
    assert!(early.err.contains("request 3 of the 5 before the burst was denied"), "{early:?}");

    let nobody = run(&["race", "--url", "http://127.0.0.1:1/"]);
    assert_eq!(nobody.code, Some(3), "{nobody:?}");
}

#[test]
fn a_race_against_others_or_without_sense_is_refused() {
    let cases: [(&[&str], &str); 10] = [
        (&["--url", "http://192.0.2.1/"], "add `--allow-remote`"),
        (&["--url", "https://127.0.0.1/"], "no `http://` URL"),
        (&["--url", "not a url"], "write it as `http://"),
        (&["--url", "http://127.0.0.1:1/", "--limiter", "get-check-incr"], "cannot be used with"),
        (&["--url", "http://127.0.0.1:1/", "--rounds", "2"], "`{key}`"),
        (&["--url", "http://127.0.0.1:1/", "--header", "nonsense"], "write `name: value`"),
        (&["--limit", "10", "--used", "11"], "`--used 11` exceeds `--limit 10`"),
        (&["--burst", "1001"], "1001"),
        (&["--rounds", "0"], "0"),
        (&["--limiter", "get-check-incr"], "add `--store redis://127.0.0.1:6379`"),
    ];
    for (arguments, message) in cases {
        let run = finish(sluicegate().arg("race").args(arguments));
        assert_eq!(run.code, Some(2), "{arguments:?}: {run:?}");
        assert!(run.err.contains(message), "{arguments:?}: {run:?}");
    }
}
