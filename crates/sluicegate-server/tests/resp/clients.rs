//! Clients that people have: redis-cli, the Redis crate, and Python's redis package.

use std::process::Command;

use super::support::Server;

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn redis_cli_is_a_client() {
    let server = Server::start_with(&[], Some("s3cret"));
    let port = server.address.port().to_string();
    let cli = |words: &[&str]| {
        let mut command = Command::new("redis-cli");
        output(command.args(["-p", &port, "-a", "s3cret", "--no-auth-warning"]).args(words))
    };
    assert_eq!(cli(&["ping"]), "PONG\n");
    assert_eq!(cli(&["cl.throttle", "user", "0", "1", "60"]), "0\n1\n0\n-1\n60\n");
    assert_eq!(cli(&["-3", "cl.throttle", "user", "0", "1", "60"]), "1\n1\n0\n60\n60\n");
}

#[tokio::test]
async fn the_redis_crate_is_a_client() {
    let server = Server::start();
    for version in ["resp2", "resp3"] {
        let url = format!("redis://{}/?protocol={version}", server.address);
        let client = redis::Client::open(url).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut pipe = redis::pipe();
        for _ in 0..50 {
            pipe.cmd("CL.THROTTLE").arg(version).arg(9).arg(1).arg(60);
        }
        let answers: Vec<[i64; 5]> = pipe.query_async(&mut connection).await.unwrap();
        assert_eq!(answers.iter().filter(|answer| answer[0] == 0).count(), 10, "{version}");
    }
}

/// The package `redis` of `PyPI`. `scripts/test` installs it into `target/tools/python`.
#[test]
fn python_is_a_client() {
    let server = Server::start();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let script = "
import redis, sys
for protocol in (2, 3):
    client = redis.Redis(port=int(sys.argv[1]), protocol=protocol, decode_responses=True)
    client.ping()
    pipe = client.pipeline(transaction=False)
    for _ in range(50):
        pipe.execute_command('CL.THROTTLE', f'python-{protocol}', 4, 1, 60)
    print(sum(answer[0] == 0 for answer in pipe.execute()))
";
    let mut python = Command::new("python3");
    let python = python.env("PYTHONPATH", format!("{root}/target/tools/python"));
    assert_eq!(output(python.args(["-c", script, &server.address.port().to_string()])), "5\n5\n");
}
