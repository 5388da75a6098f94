//! Settings from flags, the environment and a file, and what is told of them.

use std::{fmt::Write as _, fs};

use clap::{Command, CommandFactory};
use serde_json::{Value, json};
use sluicegate_server::cli::Cli;

use crate::support::{Folder, Run, Serving, finish, run, sluicegate};

fn file(folder: &Folder, text: &str) -> String {
    let path = format!("{}/config.yaml", folder.path());
    fs::write(&path, text).unwrap();
    path
}

fn show(words: &[&str], environment: &[(&str, &str)]) -> Run {
    let mut command = sluicegate();
    command.env_remove("SLUICEGATE_LOG").args(["config", "show"]).args(words);
    finish(command.envs(environment.iter().copied()))
}

fn shown(words: &[&str], environment: &[(&str, &str)]) -> Value {
    show(&[words, &["--output", "json"]].concat(), environment).json()
}

fn server() -> Command {
    let mut all = Cli::command();
    all.build();
    all.find_subcommand("serve").unwrap().clone()
}

/// The flags of `serve` that are settings.
fn flags(server: &Command) -> impl Iterator<Item = &clap::Arg> {
    let others = ["config", "help", "version"];
    server.get_arguments().filter(move |flag| !others.contains(&flag.get_id().as_str()))
}

#[test]
fn a_flag_comes_before_the_environment_and_that_before_the_file_and_that_before_the_default() {
    let folder = Folder::new("config-order");
    let path = file(&folder, "# a comment\nmax_connections: 1\ndrain_ms: 2\nreset: delta\n");
    let environment = [("SLUICEGATE_MAX_CONNECTIONS", "10"), ("SLUICEGATE_DRAIN_MS", "20")];
    let all = shown(&["--config", &path, "--max-connections", "100"], &environment);
    let of = |key: &str| (all[key]["value"].clone(), all[key]["origin"].as_str().unwrap().to_owned());
    assert_eq!(of("max_connections"), (json!("100"), "flag".to_owned()));
    assert_eq!(of("drain_ms"), (json!("20"), "environment SLUICEGATE_DRAIN_MS".to_owned()));
    assert_eq!(of("reset"), (json!("delta"), "file".to_owned()));
    assert_eq!(of("http"), (json!("127.0.0.1:8080"), "default".to_owned()));
    assert_eq!(of("resp"), (Value::Null, "default".to_owned()));
    let by_variable = shown(&[], &[("SLUICEGATE_CONFIG", &path)]);
    assert_eq!(by_variable["drain_ms"], json!({"value": "2", "origin": "file"}));
    assert_eq!(shown(&[], &[])["drain_ms"]["origin"], "default", "no file is no mistake");
    assert_eq!(shown(&["--config", &file(&folder, "# nothing\n\n")], &[])["drain_ms"]["origin"], "default");
}

#[test]
fn a_server_runs_by_its_file() {
    let folder = Folder::new("config-serve");
    let policy =
        folder.policy("policy.yaml", &["{ name: one, algorithm: fixed_window, limit: 1, per: 1d, key: [] }"]);
    let path = file(&folder, &format!("policy: [{policy:?}]\nheaders: none\nresp_password: enough\n"));
    let mut command = sluicegate();
    // The password of the file is for the door of the variable.
    command.env("SLUICEGATE_CONFIG", &path).env("SLUICEGATE_RESP", "127.0.0.1:0");
    command.args(["serve", "--http", "127.0.0.1:0"]);
    let serving = Serving::spawn(command);
    let body = r#"{"domain": "here", "attributes": {}}"#;
    let answers = [(), ()].map(|()| serde_json::from_str::<Value>(&serving.post("/v1/take", body)).unwrap());
    assert_eq!(answers.map(|answer| answer["allowed"].clone()), [true, false]);
}

#[test]
fn a_mistake_in_the_file_is_told_with_its_place_and_what_to_do() {
    let folder = Folder::new("config-mistakes");
    for (text, told) in [
        (
            "drain_ms: 1\nmax-connections: 1",
            "line 2, column 1: a config file has no key `max-connections`\n  hint: did you mean `max_connections`?",
        ),
        (
            "verbose: 1",
            "line 1, column 1: a config file has no key `verbose`\n  hint: the keys are the flags",
        ),
        ("config: x", "a config file has no key `config`"),
        ("drain_ms: 1\nhttp: 8080x", "line 2, column 7: `http`: invalid value '8080x' for '--http <ADDR>'"),
        (
            "reset: never",
            "line 1, column 8: `reset`: invalid value 'never' for '--reset <RESET>': a reset counts from the `epoch`",
        ),
        (
            "drain_ms: 1\ndrain_ms: 2",
            "line 2, column 1: `drain_ms` is given twice\n  hint: remove one; the first is in line 1",
        ),
        ("drain_ms:", "line 1, column 1: `drain_ms` has no value"),
        ("drain_ms: 1.5", "line 1, column 11: `drain_ms` must be a text or a whole number"),
        ("drain_ms: {a: 1}", "line 1, column 11: `drain_ms` must be a text"),
        ("drain_ms: [1, 2]", "line 1, column 11: `drain_ms` takes one value"),
        ("- drain_ms", "line 1, column 1: a config file must be a mapping"),
        ("drain_ms: [", "not valid YAML"),
    ] {
        for verb in [&["serve"][..], &["config", "show"]] {
            let run = run(&[verb, &["--config", &file(&folder, text)]].concat());
            assert_eq!(run.code, Some(2), "{run:?}");
            assert!(run.err.contains(told), "{told}: {}", run.err);
        }
    }
    let absent = run(&["serve", "--config", "/does/not/exist"]);
    assert!(absent.code == Some(2) && absent.err.contains("`/does/not/exist`: cannot be read"), "{absent:?}");
    // A mistake of the command line is told as one, whatever the file says.
    let path = file(&folder, "resp: 127.0.0.1:0\n");
    assert!(run(&["serve", "--config", &path, "--drain-ms", "x"]).err.contains("'--drain-ms <MS>'"));
    assert_eq!(shown(&["--config", &path, "--resp-password", "p"], &[])["resp"]["origin"], "file");
    assert_eq!(run(&["config", "show", "--resp-password", "p"]).code, Some(2), "it needs `--resp`");
}

#[test]
fn secrets_are_told_nowhere() {
    let folder = Folder::new("config-secrets");
    let secrets = "store: redis://limiter:s3cret@db:6379/1\nconfig_source: postgres://reader:s3cret@db/limits\n\
                   resp: 127.0.0.1:0\nresp_password: s3cret\nadmin_token: s3cret-s3cret-s3cret\n";
    let path = file(&folder, secrets);
    for output in ["text", "json"] {
        let run = show(&["--config", &path, "--output", output], &[]);
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(!run.out.contains("s3cret"), "{}", run.out);
        assert!(
            run.out.contains("redis://db:6379/1") && run.out.contains("postgres://db:5432/limits"),
            "{}",
            run.out
        );
    }
    let all = shown(&["--config", &path], &[]);
    assert_eq!(all["resp_password"], json!({"hidden": true, "origin": "file"}));
    assert_eq!(all["store"]["hidden"], true);
    assert_eq!(shown(&["--store", "memory"], &[])["store"], json!({"value": "memory", "origin": "flag"}));
    for mistake in [
        "resp_pasword: s3cret",
        "store: {a: s3cret}",
        "store: [redis://u:s3cret@a, memory]",
        "resp_password: 's3cret",
    ] {
        let run = run(&["serve", "--config", &file(&folder, mistake)]);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(!run.err.contains("s3cret"), "{mistake}: {}", run.err);
    }
}

#[test]
fn what_is_shown_is_a_file_that_says_the_same() {
    let folder = Folder::new("config-again");
    let words = [
        "--policy",
        "a.yaml",
        "--policy",
        "b: \"c\".yaml",
        "--grpc",
        "--max-connections",
        "7",
        "--log",
        "warn",
    ];
    let first = show(&words, &[("SLUICEGATE_HEADERS", "none")]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let again = show(&["--config", &file(&folder, &first.out)], &[]);
    let values = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| line.rsplit_once("  # ").map_or(line, |(value, _)| value).to_owned())
            .collect()
    };
    assert_eq!(values(&again.out), values(&first.out), "{again:?}");
    assert!(again.out.contains("policy: [\"a.yaml\",\"b: \\\"c\\\".yaml\"]  # file"), "{}", again.out);
}

#[test]
fn every_flag_of_a_server_has_its_key() {
    let server = server();
    let all = shown(&[], &[]);
    for flag in flags(&server) {
        let key = flag.get_long().unwrap().replace('-', "_");
        assert!(all.get(&key).is_some(), "{key}");
        assert!(flag.get_action().takes_values(), "{key}: a key of the file has a value");
    }
    assert_eq!(all.as_object().unwrap().len(), flags(&server).count());
}

/// The table of `docs/reference/config.md` is written from the flags themselves. `SLUICEGATE_BLESS=1` writes it anew.
#[test]
fn the_reference_page_is_up_to_date() {
    const HEAD: &str = "| key | default | variable | |\n|---|---|---|---|\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/config.md");
    let page = fs::read_to_string(path).unwrap();
    let mut fresh = page.split_once(HEAD).expect("the head of the table").0.to_owned() + HEAD;
    let cell = |text: String| text.replace('\n', " ").replace('|', "\\|");
    for flag in flags(&server()) {
        let (long, variable) = (flag.get_long().unwrap(), flag.get_env().unwrap().to_str().unwrap());
        let default: Vec<_> = flag.get_default_values().iter().map(|value| value.to_str().unwrap()).collect();
        let default = if default.is_empty() { String::new() } else { format!("`{}`", default.join(",")) };
        let help = flag.get_long_help().or(flag.get_help()).unwrap().to_string();
        let key = long.replace('-', "_");
        writeln!(fresh, "| `{key}` | {default} | `{variable}` | {} |", cell(help)).unwrap();
    }
    if std::env::var_os("SLUICEGATE_BLESS").is_some() {
        fs::write(path, &fresh).unwrap();
    }
    assert!(page == fresh, "run with SLUICEGATE_BLESS=1");
}
