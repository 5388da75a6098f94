//! A guard on a clock that is turned, whose captcha believes every token that begins with "person".

use std::{
    net::{IpAddr, Ipv4Addr},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sluicegate::{
    Clock,
    core::Micros,
    login::{
        Begun, CaptchaVerifier, EmbeddedLogin, Keyring, LoginConfig, LoginGuard, LoginRequest, OpenAttempt,
        Profile, Proof, Purpose, Refusal, Settled, Settlement, Who,
    },
};

pub(crate) type Guard = LoginGuard<Arc<EmbeddedLogin>, Arc<HandClock>>;
pub(crate) type Attempt = OpenAttempt<Arc<EmbeddedLogin>, Arc<HandClock>>;
pub(crate) const BOB: Who<'static> = Who::Presented("bob");

#[derive(Debug)]
pub(crate) struct HandClock(AtomicU64);

impl HandClock {
    pub(crate) fn turn(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Micros {
        Micros::new(self.0.load(Ordering::SeqCst))
    }
}

struct Persons;

impl CaptchaVerifier for Persons {
    fn verify<'a>(
        &'a self,
        token: &'a str,
        _address: Option<IpAddr>,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async move { token.starts_with("person") })
    }
}

pub(crate) struct Place {
    pub(crate) guard: Guard,
    pub(crate) clock: Arc<HandClock>,
    pub(crate) store: Arc<EmbeddedLogin>,
}

pub(crate) fn keys() -> Keyring {
    Keyring::new(&[1; 32], &[&[2; 32]]).unwrap()
}

pub(crate) fn place(profile: Profile) -> Place {
    place_with(profile, keys(), Arc::new(EmbeddedLogin::new()))
}

pub(crate) fn place_with(profile: Profile, keys: Keyring, store: Arc<EmbeddedLogin>) -> Place {
    let clock = Arc::new(HandClock(AtomicU64::new(1_790_000_000_000_000)));
    let config = LoginConfig { domain: "shop".to_owned(), profile, keys };
    let guard = LoginGuard::with_captcha(config, store.clone(), clock.clone(), Arc::new(Persons));
    Place { guard, clock, store }
}

/// The addresses of different networks.
pub(crate) fn address(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + 256 * number))
}

pub(crate) fn from(number: u32, who: Who<'_>) -> LoginRequest<'_> {
    LoginRequest::new(Purpose::Login, who, Some(address(number)))
}

/// A request with a token of a captcha that was never shown before.
pub(crate) fn person<'a>(request: LoginRequest<'a>, token: &'a str) -> LoginRequest<'a> {
    LoginRequest { proof: Some(Proof::Captcha(token)), ..request }
}

pub(crate) async fn open(guard: &Guard, request: &LoginRequest<'_>) -> Attempt {
    match guard.begin(request).await.unwrap() {
        Begun::Open(attempt) => attempt,
        Begun::Refused(refusal) => panic!("refused: {refusal:?}"),
    }
}

pub(crate) async fn refused(guard: &Guard, request: &LoginRequest<'_>) -> Refusal {
    match guard.begin(request).await.unwrap() {
        Begun::Open(attempt) => panic!("let in: {attempt:?}"),
        Begun::Refused(refusal) => refusal,
    }
}

/// A login that succeeds; answers the cookie.
pub(crate) async fn log_in(guard: &Guard, request: &LoginRequest<'_>) -> Option<String> {
    match open(guard, request).await.report(Settlement::Right).await.unwrap() {
        Settled::Done { cookie, .. } => cookie,
        other => panic!("{other:?}"),
    }
}

/// Uses the free guesses up: whoever asks next is challenged.
pub(crate) async fn use_up_free_guesses(guard: &Guard, who: Who<'_>) {
    for number in 0..3 {
        open(guard, &from(1_000 + number, who)).await.report(Settlement::WRONG).await.unwrap();
    }
}
