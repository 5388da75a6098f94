use std::fs;

use crate::support::{Folder, run, sample};

#[test]
fn sound_policies_are_summed_up_in_a_line_each() {
    let (login, llm) = (sample("right/login.yaml"), sample("right/llm-tokens.yaml"));
    let run = run(&["policy", "check", &login, &llm]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let expected =
        format!("{login}: ok, domain `login` with 3 limits\n{llm}: ok, domain `llm` with 4 limits\n");
    assert_eq!((run.out, run.err), (expected, String::new()));
}

#[test]
fn mistakes_are_told_to_the_letter_and_files_after_a_bad_one_are_checked_too() {
    let (wrong, right) = (sample("wrong/limit-quoted.yaml"), sample("right/login.yaml"));
    let run = run(&["policy", "check", &wrong, &right]);
    let message = fs::read_to_string(sample("wrong/limit-quoted.txt")).unwrap();
    assert_eq!(run.code, Some(2), "{run:?}");
    assert_eq!(run.err, format!("{wrong}: {message}"));
    assert!(run.out.starts_with(&format!("{right}: ok")), "{run:?}");
}

#[test]
fn a_file_that_is_not_there_and_none_at_all_are_usage_errors() {
    let missing = run(&["policy", "check", "/does/not/exist.yaml"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.err.starts_with("/does/not/exist.yaml: cannot be read: "), "{missing:?}");
    assert_eq!(run(&["policy", "check"]).code, Some(2));
}

/// A policy is read whole into memory: a device that never ends must not be.
#[test]
fn an_endless_file_is_refused() {
    let run = run(&["policy", "check", "/dev/zero"]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("the file has 4194305 bytes"), "{run:?}");
}

#[test]
fn an_import_is_a_policy_on_standard_output_and_its_notes_on_the_other() {
    let file = sample("import/envoy-shop.yaml");
    let made = run(&["policy", "import", "envoy-ratelimit", &file]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(made.err.contains(&format!("{file}:32: `detailed_metric` is left out")), "{made:?}");
    let folder = Folder::new("import");
    let path = format!("{}/shop.yaml", folder.path());
    fs::write(&path, &made.out).unwrap();
    assert_eq!(run(&["policy", "check", &path]).code, Some(0));
    let denied = run(&["take", "x-api_key=[scraper]", "--policy", &path]);
    assert_eq!(denied.code, Some(1), "{denied:?}");
}

#[test]
fn an_import_of_several_domains_needs_a_folder_and_overwrites_nothing() {
    let file = sample("import/limitador-toys.yaml");
    let several = run(&["policy", "import", "limitador", &file]);
    assert_eq!((several.code, several.out.as_str()), (Some(2), ""), "{several:?}");
    assert!(several.err.contains("hint: give a folder for them: `--into policies`"), "{several:?}");
    let folder = Folder::new("import-into");
    let into = ["policy", "import", "limitador", &file, "--into", folder.path()];
    let made = run(&into);
    let expected = format!("{0}/toys.yaml\n{0}/store_warehouse.yaml\n", folder.path());
    assert_eq!((made.code, made.out), (Some(0), expected), "{}", made.err);
    let again = run(&into);
    assert_eq!(again.code, Some(3), "{again:?}");
}

#[test]
fn a_warning_is_told_and_ends_with_1_only_if_that_is_asked_for() {
    let folder = Folder::new("lints");
    let policy =
        folder.policy("p.yaml", &["{ name: a, algorithm: fixed_window, limit: 100, per: 1m, key: [user] }"]);
    let told = run(&["policy", "check", &policy]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(told.out, format!("{policy}: ok, domain `here` with 1 limit, 1 warning\n"));
    assert!(
        told.err.starts_with(&format!("{policy}: warning `double_at_the_edge`: line 4, column ")),
        "{told:?}"
    );
    assert_eq!(run(&["policy", "check", "--strict", &policy]).code, Some(1));

    let json = run(&["policy", "check", "--output", "json", &policy, &sample("wrong/limit-quoted.yaml")]);
    assert_eq!((json.code, json.err.as_str()), (Some(2), ""), "{json:?}");
    let json = json.json();
    let warning = &json["files"][0]["warnings"][0];
    assert_eq!((warning["code"].as_str(), warning["line"].as_u64()), (Some("double_at_the_edge"), Some(4)));
    assert!(warning["docs"].as_str().unwrap().ends_with("docs/reference/lints.md#double_at_the_edge"));
    assert_eq!(json["files"][1]["errors"][0]["line"], 5);
    assert_eq!(json["files"][0]["limits"], 1);

    let github = run(&["policy", "check", "--output", "github", &policy]);
    let start = format!("::warning file={policy},line=4,col=");
    assert!(github.out.starts_with(&start), "{github:?}");
    assert!(github.out.contains(",title=double_at_the_edge::up to 200 pass"), "{github:?}");
    assert!(github.out.trim_end().contains("%0Ahint: take"), "{github:?}");
    assert_eq!(github.out.lines().count(), 1);
}

#[test]
fn a_need_is_answered_with_an_algorithm_its_worst_case_and_a_snippet_that_loads() {
    let chosen = run(&["policy", "choose", "--need", "exact", "--limit", "100", "--per", "1m"]);
    assert_eq!(chosen.code, Some(0), "{chosen:?}");
    assert!(chosen.out.starts_with("# sliding_log: "), "{chosen:?}");
    assert!(
        chosen.out.contains("# contract lets pass at most 100 at once, 100 in any 1m, 6,000 in any 1h\n"),
        "{chosen:?}"
    );
    let folder = Folder::new("choose");
    let path = format!("{}/p.yaml", folder.path());
    fs::write(&path, &chosen.out).unwrap();
    assert_eq!(run(&["policy", "check", "--strict", &path]).code, Some(0));

    let all = run(&["policy", "choose"]);
    assert!(all.out.lines().count() >= 8 && all.out.contains("billing"), "{all:?}");
    let bursts =
        run(&["policy", "choose", "--need", "bursts", "--limit", "50", "--per", "10s", "--key", "org,user"]);
    assert!(bursts.out.contains("key: [org, user]") && bursts.out.contains("burst: 10\n"), "{bursts:?}");
    for (arguments, message) in [
        (["--need", "exact", "--limit", "5000"], "at most 1000"),
        (["--need", "magic", "--limit", "1"], "magic"),
        (["--need", "api", "--per", "month"], "has no fixed length"),
        (["--need", "api", "--key", "a b"], "not a valid `attribute`"),
    ] {
        let refused = run(&[["policy", "choose"].as_slice(), arguments.as_slice()].concat());
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(message), "{refused:?}");
    }
}

const PLANS: &str = "version: 1
domain: here
limits:
  - { name: per-user, algorithm: fixed_window, limit: 2, per: 1h, key: [user] }
  - { name: writes, algorithm: gcra, limit: 30, per: 1m, key: [user], match: { method: [POST, PUT] } }
  - { name: per-org, algorithm: gcra, limit: 9, per: 1s, key: [org], if_missing: skip }
tiers:
  pro: { per-user: { limit: 5 } }
";

#[test]
fn an_explanation_tells_what_applies_and_why_the_rest_does_not() {
    let folder = Folder::new("explain");
    let path = format!("{}/p.yaml", folder.path());
    fs::write(&path, PLANS).unwrap();
    let explain = ["policy", "explain", &path, "user=alice", "method=GET", "tier=pro"];
    let told = run(&explain);
    assert_eq!(told.code, Some(0), "{told:?}");
    let (before, after) = told.out.split_once("  as if").unwrap_or((&told.out, ""));
    let expected = "would be allowed
tier `pro`
per-user applies: its amount is that of tier `pro`
  key {here:user=alice}
  5 requests left, fixed_window of 5 per 3600s: allows a cost of 1
writes does not apply: `method` is `GET`, and must be `POST` or `PUT`
per-org does not apply: `org` is missing, and the limit skips such requests
";
    assert_eq!((before, after), (expected, ""));
    let json = run(&[&explain[..], &["--output", "json"]].concat()).json();
    assert_eq!((&json["decision"]["allowed"], &json["tier"]), (&true.into(), &"pro".into()));
    assert_eq!(json["limits"][1]["because"], "`method` is `GET`, and must be `POST` or `PUT`");
    let costly = run(&["policy", "explain", &path, "user=alice", "--cost", "3"]);
    assert_eq!(costly.code, Some(1), "{costly:?}");
    assert!(
        costly.out.contains("  2 requests left, fixed_window of 2 per 3600s: denies a cost of 3\n"),
        "{costly:?}"
    );
    assert_eq!(run(&["policy", "explain", &path, "tier=gold"]).code, Some(2));
}

#[test]
fn a_difference_is_told_in_words_and_by_the_exit_code() {
    let folder = Folder::new("diff");
    let (old, new) = (format!("{}/p.yaml", folder.path()), format!("{}/q.yaml", folder.path()));
    fs::write(&old, PLANS).unwrap();
    fs::write(&new, PLANS.replace("limit: 30", "limit: 20")).unwrap();
    let same = run(&["policy", "diff", &old, &old]);
    assert_eq!((same.code, same.out.as_str()), (Some(0), "nothing changes\n"));
    let changed = run(&["policy", "diff", &old, &new]);
    let expected = "writes, lowered for everybody: 20 per 60s instead of 30 per 60s; what was used is kept\n";
    assert_eq!((changed.code, changed.out.as_str()), (Some(1), expected));
    let json = run(&["policy", "diff", &old, &new, "--output", "json"]).json();
    assert_eq!(json["changes"][0]["kind"], "lowered");
}
