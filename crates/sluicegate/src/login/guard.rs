//! The guard: begin, verify, report.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use sluicegate_core::{
    Micros,
    login::{Account, Alarm, Attempt, HeldName, Name, Origin, Outcome, Report, Reported, Verdict, Weight},
};

use super::{
    attempt::{Ticket, until},
    config::LoginConfig,
    cookie::{Device, number_of},
    keyring::number,
    place::Place,
    proof::{CaptchaVerifier, Work, number_of_token},
    purpose::Class,
    request::{LoginError, LoginRequest, Proof, Refusal, Settled, Settlement, Who},
    store::{AccountKey, LoginStore, PlaceKey},
    text::hex,
};
use crate::clock::Clock;

/// What the address pays for a popular secret beyond the guess itself. What it pays may not depend on whether the name
/// exists: the client sees when its address is full.
const POPULAR: u8 = 4;

/// Guards secrets: a guess is counted before it is verified.
///
/// ```
/// use std::sync::Arc;
/// use sluicegate::{
///     SystemClock,
///     login::{
///         Begun, EmbeddedLogin, Keyring, LoginConfig, LoginGuard, LoginRequest, Profile, Purpose, Settlement, Who,
///     },
/// };
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let keys = Keyring::new(&[1; 32], &[&[2; 32]])?;
/// let config = LoginConfig { domain: "shop".to_owned(), profile: Profile::Strong, keys };
/// let guard = LoginGuard::new(config, EmbeddedLogin::new(), SystemClock::new());
/// let request = LoginRequest::new(Purpose::Login, Who::Presented("bob@example.org"), Some("203.0.113.5".parse()?));
/// match guard.begin(&request).await? {
///     Begun::Open(attempt) => {
///         let is_right = "hunter2" == "correct horse";
///         let settled = attempt.report(if is_right { Settlement::Right } else { Settlement::WRONG }).await?;
///     }
///     Begun::Refused(refusal) => println!("not now: {refusal:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LoginGuard<S, C> {
    parts: Arc<Parts<S, C>>,
}

struct Parts<S, C> {
    config: LoginConfig,
    store: S,
    clock: C,
    captcha: Option<Arc<dyn CaptchaVerifier>>,
    alarm: Mutex<Alarm>,
    unreported: AtomicU64,
}

/// What a guard answers.
#[derive(Debug)]
pub enum Begun<S: LoginStore, C: Clock> {
    /// The guess is counted: verify the secret, and report.
    Open(OpenAttempt<S, C>),
    /// Verify nothing.
    Refused(Refusal),
}

/// A guess that is counted. Dropped without a report it stays counted, as a failure does.
#[must_use = "an attempt that is not reported counts as a failure"]
#[derive(Debug)]
pub struct OpenAttempt<S: LoginStore, C: Clock> {
    ticket: Ticket,
    parts: Arc<Parts<S, C>>,
    reported: bool,
}

/// What [`LoginGuard::guard`] answers.
#[derive(Debug)]
pub enum Guarded<T> {
    /// The secret was right, in time.
    In {
        /// What the verifier found.
        value: T,
        /// A cookie for the device, if it has none.
        cookie: Option<String>,
    },
    /// The secret was wrong, or nothing was verified in time.
    Out,
    /// Nothing was verified.
    Refused(Refusal),
}

/// What a verifier says to [`LoginGuard::guard`].
#[derive(Debug)]
pub enum Verified<'a, T> {
    /// The secret is right.
    Right(T),
    /// It is not, or nothing could be verified.
    Not(Settlement<'a>),
}

impl<S: LoginStore, C: Clock> LoginGuard<S, C> {
    /// A guard over a store.
    pub fn new(config: LoginConfig, store: S, clock: C) -> Self {
        let (alarm, unreported) = (Mutex::default(), AtomicU64::new(0));
        Self { parts: Arc::new(Parts { config, store, clock, captcha: None, alarm, unreported }) }
    }

    /// A guard over a store that also takes the tokens of a captcha.
    pub fn with_captcha(config: LoginConfig, store: S, clock: C, captcha: Arc<dyn CaptchaVerifier>) -> Self {
        let (alarm, unreported) = (Mutex::default(), AtomicU64::new(0));
        let captcha = Some(captcha);
        Self { parts: Arc::new(Parts { config, store, clock, captcha, alarm, unreported }) }
    }

    /// Counts a guess, if there is room for it.
    ///
    /// # Errors
    /// [`LoginError`] if the store does not answer or the name is none; then nothing may be verified either.
    pub async fn begin(&self, request: &LoginRequest<'_>) -> Result<Begun<S, C>, LoginError> {
        let parts = &self.parts;
        let (now, class) = (parts.clock.now(), request.purpose.class());
        let account = parts.account(class, request.who)?;
        let (client, place) = parts.place(request);
        let name = u32::try_from(number(&account.0) >> 32).unwrap_or(0);
        let rules = parts.config.profile.address();
        let origin = parts.store.hold(&place, &rules, now, name).await?;
        let attempt = parts.attempt(request, &account, client, origin, now).await;
        let verdict = parts.store.begin(&account, &class.rules(parts.config.profile), now, &attempt).await?;
        let held = match origin {
            Origin::Held { at, .. } => Some(HeldName { charged_at: at, name }),
            Origin::Refused { .. } => None,
        };
        audit("begin", class, &account, verdict);
        if !matches!(verdict, Verdict::Allow { .. } | Verdict::Deny { .. })
            && let Some(held) = held
        {
            parts.store.settle(&place, &rules, now, (held, Weight::Nothing)).await?;
        }
        let with_device = attempt.device.is_some();
        let ticket =
            Ticket { id: attempt.id, account, place, held, epoch: request.epoch, class, with_device };
        Ok(match parts.refusal(verdict, &account, request, now) {
            Some(refusal) => Begun::Refused(refusal),
            None => Begun::Open(OpenAttempt { ticket, parts: self.parts.clone(), reported: false }),
        })
    }

    /// Begins, verifies and reports. A verifier that panics or is dropped has used the guess up.
    ///
    /// # Errors
    /// [`LoginError`] as for [`LoginGuard::begin`]; then nobody is let in.
    pub async fn guard<'v, T>(
        &self,
        request: &LoginRequest<'_>,
        verify: impl AsyncFnOnce() -> Verified<'v, T>,
    ) -> Result<Guarded<T>, LoginError> {
        let attempt = match self.begin(request).await? {
            Begun::Refused(refusal) => return Ok(Guarded::Refused(refusal)),
            Begun::Open(attempt) => attempt,
        };
        match verify().await {
            Verified::Right(value) => Ok(match attempt.report(Settlement::Right).await? {
                Settled::Done { cookie, .. } => Guarded::In { value, cookie },
                Settled::Already | Settled::Expired => Guarded::Out,
            }),
            Verified::Not(settlement) => {
                // A verifier that says "not" cannot mean that the secret was right.
                let settlement = if settlement == Settlement::Right { Settlement::WRONG } else { settlement };
                attempt.report(settlement).await?;
                Ok(Guarded::Out)
            }
        }
    }

    /// The attempt of a token, in any process with the same keys; `None` if the token is not genuine.
    pub fn resume(&self, token: &str) -> Option<OpenAttempt<S, C>> {
        let ticket = Ticket::from_token(token, &self.parts.config.keys)?;
        Some(OpenAttempt { ticket, parts: self.parts.clone(), reported: false })
    }

    /// A cookie for a device of the account, for who proved to be its owner in another way, such as by a link in a mail.
    ///
    /// # Errors
    /// [`LoginError::Name`] if the name is none.
    pub fn grant(&self, who: Who<'_>, epoch: u32) -> Result<String, LoginError> {
        let account = self.parts.account(Class::Password, who)?;
        Ok(Device { keys: &self.parts.config.keys, account: &account, epoch }.issue(self.parts.clock.now()))
    }

    /// Makes the lanes of an account as if never used, for one purpose.
    ///
    /// # Errors
    /// [`LoginError`] if the store does not answer or the name is none.
    pub async fn unlock(&self, request: &LoginRequest<'_>) -> Result<bool, LoginError> {
        let account = self.parts.account(request.purpose.class(), request.who)?;
        Ok(self.parts.store.unlock(&account).await?)
    }

    /// What is stored of an account, for one purpose.
    ///
    /// # Errors
    /// [`LoginError`] if the store does not answer or the name is none.
    pub async fn explain(&self, request: &LoginRequest<'_>) -> Result<Option<Account>, LoginError> {
        let account = self.parts.account(request.purpose.class(), request.who)?;
        Ok(self.parts.store.read(&account).await?)
    }

    /// How many attempts were dropped without a report. They stay counted; many of them are a caller's mistake.
    pub fn unreported(&self) -> u64 {
        self.parts.unreported.load(Ordering::Relaxed)
    }
}

impl<S: LoginStore, C: Clock> OpenAttempt<S, C> {
    /// What is to be shown to report the attempt elsewhere. It is worth nothing but that; the attempt is no longer
    /// counted as dropped here.
    pub fn into_token(mut self) -> String {
        self.reported = true;
        self.ticket.to_token(&self.parts.config.keys)
    }

    /// Settles the attempt. Let somebody in only on [`Settled::Done`] of a right secret.
    ///
    /// # Errors
    /// [`LoginError`] if the store does not answer; then the attempt stays counted and nobody is let in.
    pub async fn report(mut self, settlement: Settlement<'_>) -> Result<Settled, LoginError> {
        self.reported = true;
        let (parts, ticket) = (&self.parts, &self.ticket);
        let now = parts.clock.now();
        let report = Report { id: ticket.id, outcome: parts.outcome(&ticket.account, settlement) };
        let rules = ticket.class.rules(parts.config.profile);
        let reported = parts.store.report(&ticket.account, &rules, now, &report).await?;
        let Reported::Done { returned, lane } = reported else {
            return Ok(if reported == Reported::Already { Settled::Already } else { Settled::Expired });
        };
        let weight = parts.weight(settlement, returned);
        if let (Some(held), Some(weight)) = (ticket.held, weight) {
            let address = parts.config.profile.address();
            parts.store.settle(&ticket.place, &address, now, (held, weight)).await?;
        }
        if !returned && matches!(settlement, Settlement::Wrong { .. }) {
            parts.alarm.lock().failed(now.as_u64() / 1_000);
        }
        let proves = settlement == Settlement::Right && ticket.class.knows_devices() && !ticket.with_device;
        let device = Device { keys: &parts.config.keys, account: &ticket.account, epoch: ticket.epoch };
        Ok(Settled::Done { lane, cookie: proves.then(|| device.issue(now)) })
    }
}

impl<S: LoginStore, C: Clock> Drop for OpenAttempt<S, C> {
    fn drop(&mut self) {
        if !self.reported {
            self.parts.unreported.fetch_add(1, Ordering::Relaxed);
            self.parts.alarm.lock().failed(self.parts.clock.now().as_u64() / 1_000);
        }
    }
}

impl<S: LoginStore, C: Clock> Parts<S, C> {
    fn account(&self, class: Class, who: Who<'_>) -> Result<AccountKey, LoginError> {
        let (kind, name) = match who {
            Who::Resolved(id) => ("resolved", id.to_owned()),
            Who::Presented(name) => ("presented", Name::new(name)?.to_string()),
        };
        let parts = [self.config.domain.as_str(), class.name(), kind, &name].map(str::as_bytes);
        Ok(AccountKey(self.config.keys.name(&parts)))
    }

    /// The client as its accounts know it, and as the store knows where it is.
    fn place(&self, request: &LoginRequest<'_>) -> (u64, PlaceKey) {
        let (domain, place) = (self.config.domain.as_bytes(), Place::of(request.address));
        let address = self.config.keys.name(&[domain, b"address", &place.address]);
        let network = self.config.keys.name(&[domain, b"network", &place.network]);
        (number(&address), PlaceKey { network, address })
    }

    async fn attempt(
        &self,
        request: &LoginRequest<'_>,
        account: &AccountKey,
        client: u64,
        origin: Origin,
        now: Micros,
    ) -> Attempt {
        let keys = &self.config.keys;
        let device = Device { keys, account, epoch: request.epoch };
        let (address_full_until, many_names) = match origin {
            Origin::Held { challenged, .. } => (None, challenged),
            Origin::Refused { retry_at } => (Some(retry_at), false),
        };
        let alarmed = self.alarm.lock().is_raised(now.as_u64() / 1_000);
        Attempt {
            id: fastrand::u64(1..),
            client,
            device: request.cookie.and_then(|cookie| device.verify(cookie, now)),
            code: request.purpose.code().map(|code| number_of(keys, &[b"code", code.as_bytes()])),
            proof: self.proof(request, account, now).await,
            stepped_up: request.stepped_up,
            address_full_until,
            always_challenged: many_names || alarmed || request.address.is_none(),
        }
    }

    async fn proof(&self, request: &LoginRequest<'_>, account: &AccountKey, now: Micros) -> Option<u64> {
        match (request.proof?, &self.captcha) {
            (Proof::Work(proof), _) => {
                self.work(account, &Place::of(request.address).address).verify(proof, now)
            }
            (Proof::Captcha(token), Some(captcha)) => {
                captcha.verify(token, request.address).await.then(|| number_of_token(token))
            }
            (Proof::Captcha(_), None) => None,
        }
    }

    fn work<'w>(&'w self, account: &'w AccountKey, address: &'w [u8]) -> Work<'w> {
        Work { keys: &self.config.keys, account, address }
    }

    fn refusal(
        &self,
        verdict: Verdict,
        account: &AccountKey,
        request: &LoginRequest<'_>,
        now: Micros,
    ) -> Option<Refusal> {
        Some(match verdict {
            Verdict::Allow { .. } => return None,
            Verdict::Challenge(challenge) => {
                let place = Place::of(request.address);
                let (nonce, bits) = self.work(account, &place.address).ask(challenge, now);
                Refusal::Challenge { nonce, bits, captcha: self.captcha.is_some() }
            }
            Verdict::Delay { not_before } => Refusal::Delay { after: until(not_before, now) },
            Verdict::Deny { scope, retry_at } => Refusal::Deny { scope, after: until(retry_at, now) },
            Verdict::Busy { retry_at } => Refusal::Busy { after: until(retry_at, now) },
            Verdict::StepUp => Refusal::StepUp,
        })
    }

    fn outcome(&self, account: &AccountKey, settlement: Settlement<'_>) -> Outcome {
        match settlement {
            Settlement::Right => Outcome::Success,
            Settlement::Undecided => Outcome::Aborted,
            Settlement::Wrong { secret, .. } => {
                let mark = secret.map(|secret| self.config.keys.name(&[b"tag", &account.0, secret]));
                Outcome::Failure { tag: mark.and_then(|mark| u16::try_from(number(&mark) >> 48).ok()) }
            }
        }
    }

    /// What becomes of the address's charge; `None` leaves it as it is.
    fn weight(&self, settlement: Settlement<'_>, returned: bool) -> Option<Weight> {
        if returned {
            return Some(Weight::Nothing);
        }
        let is_popular = matches!(settlement, Settlement::Wrong { popular: true, .. });
        let weighs = is_popular && self.config.profile == super::config::Profile::Strong;
        weighs.then_some(Weight::More(POPULAR))
    }
}

/// One line for who keeps watch. It holds no name: the account is a mark under a key.
fn audit(what: &'static str, class: Class, account: &AccountKey, verdict: Verdict) {
    tracing::info!(
        target: "sluicegate::login",
        what,
        class = class.name(),
        account = hex(&account.0),
        verdict = word(verdict),
    );
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow { .. } => "allow",
        Verdict::Challenge(_) => "challenge",
        Verdict::Delay { .. } => "delay",
        Verdict::Deny { .. } => "deny",
        Verdict::Busy { .. } => "busy",
        Verdict::StepUp => "step_up",
    }
}

impl<S, C> Clone for LoginGuard<S, C> {
    fn clone(&self) -> Self {
        Self { parts: self.parts.clone() }
    }
}

impl<S, C> std::fmt::Debug for Parts<S, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("config", &self.config).finish_non_exhaustive()
    }
}
