//! `sluicegate take` and `sluicegate peek`: one decision, answered as the HTTP door answers it.

use std::{
    io::{Write, stdout},
    process::ExitCode,
};

use clap::ValueEnum;
use sluicegate::{
    LimitVerdict, LimiterError, Verb, Verdict,
    core::{Attributes, Costs, RequestId, Retry, policy::Enforcement},
};

use super::{
    DENIED, Failure, runtime,
    sources::{Opened, Sources, domains},
};
use crate::{causes::with_causes, costs::read_cost, domains::RequestError, http};

/// Flags of `take` and `peek`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    request: Request,
    /// The domain that is asked. Without it: the only one that there is a policy for, else `default`.
    #[arg(long, env = "SLUICEGATE_DOMAIN", value_name = "NAME")]
    domain: Option<String>,
    /// How the answer looks; `json` is what the HTTP door says.
    #[arg(long, env = "SLUICEGATE_OUTPUT", default_value = "text")]
    output: Output,
}

/// A request on the command line.
#[derive(Debug, clap::Args)]
pub(super) struct Request {
    /// What is known of the request, such as `user=alice`. The value may hold anything, `=` too.
    #[arg(value_name = "ATTR=VALUE", value_parser = pair)]
    attributes: Vec<(String, String)>,
    /// What the request costs: a number of requests, or `unit=number`; again for each further unit.
    #[arg(
        long = "cost",
        allow_negative_numbers = true,
        env = "SLUICEGATE_COST",
        value_delimiter = ',',
        value_name = "N|UNIT=N",
        value_parser = read_cost
    )]
    costs: Vec<(String, u64)>,
}

impl Request {
    /// The attributes and costs; one that is given twice is a mistake.
    pub(super) fn read(&self) -> Result<(Attributes, Costs), Failure> {
        Ok((attributes(&self.attributes)?, costs(&self.costs)?))
    }
}

/// Flags of `take` alone.
#[derive(Debug, clap::Args)]
pub(super) struct TakeArgs {
    #[command(flatten)]
    args: Args,
    /// What the request is called: taken again with the same id within 24 hours, it is counted once.
    #[arg(long, env = "SLUICEGATE_ID")]
    id: Option<RequestId>,
}

/// How an answer looks.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Output {
    Text,
    Json,
}

fn pair(text: &str) -> Result<(String, String), NoAttribute> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(NoAttribute),
    }
}

/// An argument that is no attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an attribute is written `name=value`")]
struct NoAttribute;

/// `sluicegate take`.
pub(super) fn take(TakeArgs { args, id }: &TakeArgs) -> Result<ExitCode, Failure> {
    run(Verb::Take, id.as_ref(), args)
}

/// `sluicegate peek`.
pub(super) fn peek(args: &Args) -> Result<ExitCode, Failure> {
    run(Verb::Peek, None, args)
}

/// Decides, says so, and ends with 0 for allowed or 1 for denied.
fn run(verb: Verb, id: Option<&RequestId>, args: &Args) -> Result<ExitCode, Failure> {
    let (attributes, costs) = args.request.read()?;
    runtime()?.block_on(async {
        let Opened { policies, store, clock, .. } = args.sources.open().await?;
        let domains = domains(policies, &store, &clock)?;
        let domain = args.domain.as_deref().or(domains.only()).unwrap_or(crate::domains::DEFAULT_DOMAIN);
        let limiter = domains
            .limiter(domain)
            .ok_or_else(|| Failure::usage(RequestError::UnknownDomain(domain.to_owned())))?;
        let verdict = match id {
            Some(id) => limiter.take_once(id, &attributes, &costs).await,
            None => limiter.decide(verb, &attributes, &costs).await,
        };
        let verdict = verdict.map_err(failure)?;
        print(&verdict, args.output);
        Ok(if verdict.allowed { ExitCode::SUCCESS } else { ExitCode::from(DENIED) })
    })
}

fn failure(error: LimiterError) -> Failure {
    match error {
        LimiterError::Ask(error) => Failure::usage(error),
        error @ LimiterError::OtherRequest(_) => Failure::usage(error),
        other => Failure::undecided(with_causes(&other)),
    }
}

fn attributes(pairs: &[(String, String)]) -> Result<Attributes, Failure> {
    let mut attributes = Attributes::default();
    for (name, value) in pairs {
        if attributes.value(name).is_some() {
            return Err(Failure::usage(format!("the attribute `{name}` is given twice")));
        }
        attributes.insert(name.as_str(), value.as_str());
    }
    Ok(attributes)
}

fn costs(units: &[(String, u64)]) -> Result<Costs, Failure> {
    for (index, (unit, _)) in units.iter().enumerate() {
        if units.iter().take(index).any(|(earlier, _)| earlier == unit) {
            return Err(Failure::usage(format!("the cost in `{unit}` is given twice")));
        }
    }
    Ok(Costs::of_units(units.iter().cloned()))
}

/// Nobody may be reading; the exit code says it all the same.
fn print(verdict: &Verdict<'_>, output: Output) {
    let text = match output {
        Output::Text => text(verdict).into_bytes(),
        Output::Json => {
            let mut json = http::decision_json(verdict);
            json.push(b'\n');
            json
        }
    };
    let _ = stdout().write_all(&text);
}

fn text(verdict: &Verdict<'_>) -> String {
    let delay = verdict.delay();
    let mut text = match verdict.retry() {
        None if delay.is_zero() => "allowed\n".to_owned(),
        None => format!("allowed, after a wait of {delay:?}\n"),
        Some(Retry::After(wait)) => format!("denied, retry in {wait:?}\n"),
        Some(Retry::Never) => "denied, can never pass\n".to_owned(),
    };
    verdict.limits.iter().for_each(|limit| text.push_str(&line(limit)));
    match verdict.exempt {
        Some(exemption) => text.extend(["  exempt by `", exemption, "`\n"]),
        None if verdict.limits.is_empty() => text.push_str("  no limit applies\n"),
        None => {}
    }
    text
}

fn line(limit: &LimitVerdict<'_>) -> String {
    let LimitVerdict { name, algorithm, unit, decision, .. } = limit;
    let word = match (limit.enforcement, decision.allowed) {
        (Enforcement::On, true) => "allows",
        (Enforcement::On, false) => "denies",
        (Enforcement::Shadow, true) => "would allow (in shadow)",
        (Enforcement::Shadow, false) => "would deny (in shadow)",
        (Enforcement::Off, _) => return format!("  {name}: off\n"),
    };
    match (decision.limit, decision.remaining) {
        (Some(amount), Some(left)) => {
            let per = limit.per();
            format!("  {name} {word}: {left} {unit} left, {algorithm} of {amount} per {per}\n")
        }
        _ => format!("  {name} {word}: unlimited {unit}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_keeps_its_equals_signs_and_may_be_empty() {
        assert_eq!(pair("token=a=b="), Ok(("token".to_owned(), "a=b=".to_owned())));
        assert_eq!(pair("user="), Ok(("user".to_owned(), String::new())));
        assert_eq!(pair("=x"), Err(NoAttribute));
        assert_eq!(pair("user"), Err(NoAttribute));
    }
}
