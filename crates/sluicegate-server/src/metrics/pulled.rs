//! What is looked up when it is asked for: the store, the clock, and what is in force.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};
use sluicegate::{Clock, SystemClock};

use super::{
    Metric,
    table::{
        BREAKER_OPENINGS, BUILD_INFO, CLOCK_OFFSET, FALLBACK, Kind, POLICY_INFO, POLICY_REJECTED,
        POLICY_VERSION, STORE_IN_FLIGHT, STORE_SHARE, TOP_DENIED,
    },
};
use crate::{running::Control, store::ServedStore};

/// The keys that are told of those that are refused most, the others as one.
const TOLD: usize = 20;
/// The key that stands for all others.
const OTHER: &str = "other";

#[derive(Debug)]
pub(super) struct Pulled<C> {
    control: Arc<Control<ServedStore, C>>,
    store: ServedStore,
    clock: C,
    machine: SystemClock,
}

impl<C> Pulled<C> {
    pub(super) fn new(control: Arc<Control<ServedStore, C>>, store: ServedStore, clock: C) -> Self {
        Self { control, store, clock, machine: SystemClock::new() }
    }
}

/// A value, whatever the kind.
#[derive(Clone, Copy, Debug)]
enum Value {
    Count(u64),
    Level(f64),
}

fn whole(number: usize) -> Value {
    // A gauge is a double; numbers of calls and keys are far below 2^53.
    Value::Level(u32::try_from(number).map_or(f64::MAX, f64::from))
}

fn flag(set: bool) -> Value {
    whole(usize::from(set))
}

impl Value {
    fn write(self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => encoder.encode_counter::<NoLabelSet, _, u64>(&count, None),
            Self::Level(level) => encoder.encode_gauge(&level),
        }
    }
}

/// Begins one metric.
fn begin<'e>(
    encoder: &'e mut DescriptorEncoder<'_>,
    metric: &'e Metric,
) -> Result<MetricEncoder<'e>, fmt::Error> {
    let kind = match metric.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    };
    let help = format!("{}.", metric.help);
    encoder.encode_descriptor(metric.name, &help, None, kind)
}

fn write_one(encoder: &mut DescriptorEncoder<'_>, metric: &Metric, value: Value) -> fmt::Result {
    value.write(&mut begin(encoder, metric)?)
}

/// Writes one metric with a value for each set of labels.
fn write<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &Metric,
    values: impl IntoIterator<Item = (L, Value)>,
) -> fmt::Result {
    let mut encoder = begin(encoder, metric)?;
    for (labels, value) in values {
        value.write(&mut encoder.encode_family(&labels)?)?;
    }
    Ok(())
}

impl<C: Clock + Clone + fmt::Debug + 'static> Collector for Pulled<C> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.store(&mut encoder)?;
        self.policies(&mut encoder)?;
        self.top(&mut encoder)?;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        write(&mut encoder, &BUILD_INFO, [(version, flag(true))])
    }
}

impl<C: Clock + Clone + 'static> Pulled<C> {
    fn store(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let health = self.store.health();
        let fallbacks =
            health.fallbacks().map(|(why, count)| ([("reason", why.name())], Value::Count(count)));
        write(encoder, &FALLBACK, fallbacks)?;
        write_one(encoder, &BREAKER_OPENINGS, Value::Count(health.openings))?;
        write_one(encoder, &STORE_SHARE, Value::Level(f64::from(health.share_permille) / 1_000.0))?;
        write_one(encoder, &STORE_IN_FLIGHT, whole(health.in_flight))?;
        let [told, own] = [self.clock.now(), self.machine.now()];
        let ahead = told.since(own).as_secs_f64() - own.since(told).as_secs_f64();
        write_one(encoder, &CLOCK_OFFSET, Value::Level(ahead))
    }

    fn policies(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let status = self.control.status();
        let version = usize::try_from(status.version).unwrap_or(usize::MAX);
        write_one(encoder, &POLICY_VERSION, whole(version))?;
        write_one(encoder, &POLICY_REJECTED, flag(status.rejected.is_some() || status.unread.is_some()))?;
        let infos = status
            .domains
            .iter()
            .map(|own| ([("domain", own.domain.as_str()), ("policy", own.policy.as_str())], flag(true)));
        write(encoder, &POLICY_INFO, infos)
    }

    fn top(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (most, others) = self.control.meters().top().most(TOLD);
        let told = most
            .iter()
            .map(|(key, count)| (key.domain.as_str(), key.limit.as_str(), key.key.as_str(), *count));
        let all = told.chain([("", "", OTHER, others)]).map(|(domain, limit, key, count)| {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            ([("domain", domain), ("limit", limit), ("key", key)], whole(count))
        });
        write(encoder, &TOP_DENIED, all)
    }
}
