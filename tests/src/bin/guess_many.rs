//! A process that makes 250 wrong guesses at one account at once: `guess_many URL NUMBER`. It says `ready`, waits for a
//! line, and prints how many were to be verified. Its clock stands still.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test's helper")]

use std::{
    io::Write,
    net::{IpAddr, Ipv4Addr},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use sluicegate::login::{
    Begun, CaptchaVerifier, Keyring, LoginConfig, LoginGuard, LoginRequest, Profile, Proof, Purpose,
    Settlement, Who,
};
use sluicegate_redis::{RedisConfig, RedisLogin};
use sluicegate_tests::HandClock;

/// Tests share their machine: an answer may take long.
const PATIENCE: Duration = Duration::from_secs(20);

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

#[tokio::main(worker_threads = 1)]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number: u32 = arguments[2].parse().unwrap();
    let config = RedisConfig::from_url(&arguments[1]).unwrap().response_timeout(PATIENCE);
    let store = RedisLogin::open(&config.connect_timeout(PATIENCE)).unwrap();
    let keys = Keyring::new(&[1; 32], &[&[2; 32]]).unwrap();
    let config = LoginConfig { domain: "shop".to_owned(), profile: Profile::Strong, keys };
    let clock = Arc::new(HandClock::at(1_790_000_000));
    let guard = LoginGuard::with_captcha(config, store, clock, Arc::new(Anyone));
    say("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let tasks = (0..250_u32).map(|guess| {
        let guard = guard.clone();
        tokio::spawn(async move {
            let guess = number * 250 + guess;
            let (token, address) =
                (format!("person {guess}"), Ipv4Addr::from_bits(0x0a00_0000 + 256 * guess));
            let plain = LoginRequest::new(Purpose::Login, Who::Presented("bob"), Some(IpAddr::V4(address)));
            let request = LoginRequest { proof: Some(Proof::Captcha(&token)), ..plain };
            let Begun::Open(attempt) = guard.begin(&request).await.unwrap() else { return 0 };
            attempt.report(Settlement::WRONG).await.unwrap();
            1
        })
    });
    let mut verified = 0;
    for task in tasks.collect::<Vec<_>>() {
        verified += task.await.unwrap();
    }
    say(&verified.to_string());
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}
