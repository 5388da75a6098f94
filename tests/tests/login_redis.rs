//! Guesses on a real server: at once, from several processes, on an empty server, and without one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::{
    io::{BufRead, BufReader, Write},
    net::{IpAddr, Ipv4Addr},
    pin::Pin,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use sluicegate::{
    core::login::Lane,
    login::{
        Begun, CaptchaVerifier, Keyring, LocalTwin, LoginConfig, LoginGuard, LoginRequest, LoginStore,
        Profile, Proof, Purpose, Refusal, Settled, Settlement, Who,
    },
};
use sluicegate_redis::{RedisConfig, RedisLogin};
use sluicegate_tests::{HandClock, RedisServer};

const SINCE: &str = "sg1:{!login}:login";

struct Anyone;

impl CaptchaVerifier for Anyone {
    fn verify<'a>(
        &'a self,
        _: &'a str,
        _: Option<IpAddr>,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async { true })
    }
}

fn redis(server: &RedisServer, patience: Duration) -> RedisLogin {
    let config = RedisConfig::from_url(&server.url()).unwrap().response_timeout(patience);
    RedisLogin::open(&config.connect_timeout(patience)).unwrap()
}

fn patient(server: &RedisServer) -> RedisLogin {
    redis(server, Duration::from_secs(20))
}

fn guard<S: LoginStore>(store: S, clock: Arc<HandClock>) -> LoginGuard<S, Arc<HandClock>> {
    let keys = Keyring::new(&[1; 32], &[&[2; 32]]).unwrap();
    let config = LoginConfig { domain: "shop".to_owned(), profile: Profile::Strong, keys };
    LoginGuard::with_captcha(config, store, clock, Arc::new(Anyone))
}

fn clock() -> Arc<HandClock> {
    Arc::new(HandClock::at(1_790_000_000))
}

fn request(number: u32, token: &str) -> LoginRequest<'_> {
    let address = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + 256 * number));
    let plain = LoginRequest::new(Purpose::Login, Who::Presented("bob"), Some(address));
    LoginRequest { proof: (!token.is_empty()).then_some(Proof::Captcha(token)), ..plain }
}

async fn verified<S: LoginStore>(guard: &LoginGuard<S, Arc<HandClock>>, number: u32, token: &str) -> bool {
    match guard.begin(&request(number, token)).await.unwrap() {
        Begun::Open(attempt) => {
            attempt.report(Settlement::WRONG).await.unwrap();
            true
        }
        Begun::Refused(_) => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_tasks_at_once_verify_exactly_seven_guesses_on_redis() {
    let server = RedisServer::start();
    let guards = [guard(patient(&server), clock()), guard(patient(&server), clock())];
    let tasks = (0..1_000_u32).map(|number| {
        let guard = guards[usize::from(number % 2 == 0)].clone();
        tokio::spawn(async move { verified(&guard, number, &format!("person {number}")).await })
    });
    let mut count = 0;
    for task in tasks.collect::<Vec<_>>() {
        count += u32::from(task.await.unwrap());
    }
    assert_eq!(count, 7);
}

#[test]
fn four_processes_at_once_verify_exactly_seven_guesses() {
    let server = RedisServer::start();
    let processes = (0..4).map(|number: u32| {
        Command::new(env!("CARGO_BIN_EXE_guess_many"))
            .args([server.url(), number.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    });
    let mut processes: Vec<_> = processes.collect();
    let mut outputs: Vec<_> =
        processes.iter_mut().map(|process| BufReader::new(process.stdout.take().unwrap()).lines()).collect();
    for output in &mut outputs {
        assert_eq!(output.next().unwrap().unwrap(), "ready");
    }
    for process in &mut processes {
        writeln!(process.stdin.as_mut().unwrap(), "go").unwrap();
    }
    let counts = outputs.iter_mut().map(|output| output.next().unwrap().unwrap().parse::<u32>().unwrap());
    assert_eq!(counts.sum::<u32>(), 7);
    for process in &mut processes {
        assert!(process.wait().unwrap().success());
    }
}

/// A failover to an empty server forgets every failure: for a quarter of an hour strangers are challenged at once, and
/// recognised devices are not.
#[tokio::test]
async fn a_server_that_was_flushed_is_met_with_caution() {
    let server = RedisServer::start();
    let clock = clock();
    let guard = guard(patient(&server), clock.clone());
    let cookie = guard.grant(Who::Presented("bob"), 0).unwrap();
    let challenged = async |number| {
        let begun = guard.begin(&request(number, "")).await.unwrap();
        matches!(begun, Begun::Refused(Refusal::Challenge { .. }))
    };
    assert!(challenged(1).await, "a server that never knew a guess");
    clock.turn(Duration::from_secs(900));
    assert!(!challenged(2).await);
    server.command(&["FLUSHALL"]);
    clock.turn(Duration::from_secs(1));
    assert!(challenged(3).await, "a server that knows none any more");
    let owner = LoginRequest { cookie: Some(&cookie), ..request(4, "") };
    let Begun::Open(attempt) = guard.begin(&owner).await.unwrap() else { panic!("the owner is refused") };
    let settled = attempt.report(Settlement::Right).await.unwrap();
    assert!(matches!(settled, Settled::Done { lane: Lane::Device, .. }));
    let redis::Value::Int(left) = server.command(&["PTTL", SINCE]) else { panic!("no time to live") };
    assert!(left > 0);
    clock.turn(Duration::from_secs(900));
    assert!(!challenged(5).await);
}

/// Without Redis a stricter twin counts here: never nobody, never everybody.
#[tokio::test]
async fn a_dead_server_leaves_strangers_challenged_and_counted_and_devices_in() {
    let mut server = RedisServer::start();
    let clock = clock();
    let twin = Arc::new(LocalTwin::new(redis(&server, Duration::from_millis(500)), 2));
    let guard = guard(twin.clone(), clock.clone());
    let cookie = guard.grant(Who::Presented("bob"), 0).unwrap();
    clock.turn(Duration::from_secs(900));
    assert_eq!(twin.decided_here(), 0);
    server.stop();
    let plain = guard.begin(&request(1, "")).await.unwrap();
    assert!(matches!(plain, Begun::Refused(Refusal::Challenge { .. })), "{plain:?}");
    let mut count = 0;
    for number in 0..100 {
        count += u32::from(verified(&guard, number, &format!("person {number}")).await);
        clock.turn(Duration::from_secs(5));
    }
    assert_eq!(count, 5, "half of ten, on one instance of two");
    for _ in 0..3 {
        let owner = LoginRequest { cookie: Some(&cookie), ..request(4, "") };
        let Begun::Open(attempt) = guard.begin(&owner).await.unwrap() else { panic!("the owner is refused") };
        let settled = attempt.report(Settlement::Right).await.unwrap();
        assert!(matches!(settled, Settled::Done { lane: Lane::Device, .. }), "{settled:?}");
    }
    assert!(twin.decided_here() > 100);
}
