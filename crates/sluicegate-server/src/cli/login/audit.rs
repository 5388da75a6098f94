//! `sluicegate login audit`: worst-case guesses at one account.

use std::{
    fmt::Write as _,
    io::{Write as _, stdout},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use sluicegate::{
    core::{
        Policy,
        login::{Exposure, KNOWN_POLICIES, Pacing, exposure, exposure_of_rule},
        policy::{Applied, Enforcement},
    },
    login::Profile,
};

use super::{DENIED, Failure, decide::Request, sources};

/// An owner who waits for longer is locked out for good, as people see it.
const TOO_LONG: Duration = Duration::from_secs(7 * 86_400);

/// Flags of `login audit`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The policy file whose limits guard a login.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    request: Request,
    /// The attribute that says whose account it is.
    #[arg(long, env = "SLUICEGATE_ACCOUNT", default_value = "account", value_name = "ATTR")]
    account: String,
    /// The attribute that says where the client is.
    #[arg(long, env = "SLUICEGATE_ADDRESS", default_value = "ip", value_name = "ATTR")]
    address: String,
}

/// What a policy is worth.
struct Row {
    name: String,
    /// `None` where nothing bounds guesses from many addresses.
    worth: Option<Exposure>,
    lets_devices_in: bool,
}

/// Prints the table, and ends with 1 if something in it is alarming.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let named = |error| Failure::usage(format!("`{}`: {error}", args.file.display()));
    let policy = sources::read(&args.file).map_err(named)?;
    let audited = Audited::of(&policy, args)?;
    let mut rows =
        vec![Row { name: args.file.display().to_string(), worth: audited.worth(), lets_devices_in: false }];
    for (name, profile) in [("sluicegate, strong", Profile::Strong), ("sluicegate, basic", Profile::Basic)] {
        let rules = profile.account();
        let worth = Some(exposure(&rules.unknown));
        rows.push(Row { name: name.to_owned(), worth, lets_devices_in: rules.device.is_some() });
    }
    rows.extend(KNOWN_POLICIES.iter().map(|known| Row {
        name: known.name.to_owned(),
        worth: known.gauge.as_ref().map(exposure),
        lets_devices_in: known.lets_devices_in,
    }));
    let findings = audited.findings(args);
    // Nobody may be reading; the exit code says it all the same.
    let _ = stdout().write_all(format!("{}{}", table(&rows), findings.join("")).as_bytes());
    Ok(if audited.is_alarming() { ExitCode::from(DENIED) } else { ExitCode::SUCCESS })
}

/// The limits that bound guesses at one account: by its name alone, and by the address alone.
struct Audited {
    account: Option<Exposure>,
    address: Option<Exposure>,
}

impl Audited {
    fn of(policy: &Policy, args: &Args) -> Result<Self, Failure> {
        let (mut attributes, costs) = args.request.read()?;
        for (name, value) in [(&args.account, "somebody"), (&args.address, "203.0.113.5")] {
            if attributes.value(name).is_none() {
                attributes.insert(name, value);
            }
        }
        let applied = policy.apply(&attributes, &costs).map_err(Failure::usage)?.limits;
        // A counter that is told apart by anything else brings a fresh budget with each value of that.
        let least = |by: &str| {
            let counts = |applied: &&Applied<'_>| {
                applied.enforcement == Enforcement::On && applied.limit.key.iter().all(|name| name == by)
            };
            let worth = |applied: &Applied<'_>| applied.grant.rule().map(exposure_of_rule);
            applied.iter().filter(counts).filter_map(worth).min_by_key(|worth| worth.later_day)
        };
        Ok(Self { account: least(&args.account), address: least(&args.address) })
    }

    fn worth(&self) -> Option<Exposure> {
        self.account
    }

    fn is_alarming(&self) -> bool {
        self.account.is_none_or(|worth| worth.longest_wait >= TOO_LONG)
    }

    fn findings(&self, args: &Args) -> Vec<String> {
        let mut findings = Vec::new();
        let Some(account) = self.account else {
            findings.push(format!(
                "\nwarning: no limit counts by `{}` alone: every further address brings a fresh budget\nhint: add a limit with \
                 `key: [{}]`, or use the login guard\n",
                args.account, args.account
            ));
            return findings;
        };
        if account.longest_wait >= TOO_LONG {
            let wait = shown(account.longest_wait);
            findings.push(format!("\nwarning: anybody can lock an owner out for {wait}\n"));
        }
        match self.address {
            Some(address) if address.first_day > 0 => {
                let needed = account.first_day.div_ceil(address.first_day).max(1);
                findings.push(format!("\naddresses needed for all of the first day's guesses: {needed}\n"));
            }
            _ => findings.push("\none address makes all of the first day's guesses\n".to_owned()),
        }
        findings
    }
}

fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let mut table = format!(
        "{:width$}  {:>9}  {:>9}  {:>9}  {:13}  best pacing\n",
        "guesses at one account", "first day", "later day", "then wait", "known devices"
    );
    for row in rows {
        let devices = if row.lets_devices_in { "get in" } else { "are refused" };
        // Writing to a string cannot fail.
        let _written = match &row.worth {
            None => writeln!(
                table,
                "{:width$}  {:>9}  {:>9}  {:>9}  {:13}  one guess from each address",
                row.name, "unbounded", "unbounded", "-", "get in"
            ),
            Some(worth) => writeln!(
                table,
                "{:width$}  {:>9}  {:>9}  {:>9}  {devices:13}  {}",
                row.name,
                worth.first_day,
                worth.later_day,
                shown(worth.longest_wait),
                pacing(worth.pacing)
            ),
        };
    }
    table
}

fn pacing(pacing: Pacing) -> String {
    match pacing {
        Pacing::Greedy => "whenever there is room".to_owned(),
        Pacing::OneShort { guesses, every } => format!("{guesses} every {}", shown(every)),
    }
}

/// Whole units, rounded up.
fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds.div_ceil(60)),
        7_200..172_800 => format!("{} h", seconds.div_ceil(3_600)),
        _ => format!("{} d", seconds.div_ceil(86_400)),
    }
}
