//! What a server tells of itself to Prometheus: every metric stands in one table, and none has a label that a stranger can
//! fill without bound.

mod dashboard;
mod latency;
mod meters;
mod pulled;
mod table;
mod top;

use std::{fmt, sync::Arc};

use hyper::{
    HeaderMap,
    header::{ACCEPT, HeaderValue},
};
use prometheus_client::{
    encoding::{prometheus_text, text},
    registry::{Metric as Registered, Registry},
};
use sluicegate::Clock;

pub use self::{
    dashboard::dashboard,
    latency::Timed,
    meters::Meters,
    table::{ALL, Kind, Metric, reference},
};
pub(crate) use self::{latency::Timing, meters::DomainMeter};
use self::{latency::latencies, pulled::Pulled, top::TopKeys};
use crate::{running::Control, store::ServedStore};

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text, version 0.0.4.
    Text,
    /// `OpenMetrics` text, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// What a scraper asks for; Prometheus text unless it names `OpenMetrics`.
    pub fn accepted(headers: &HeaderMap) -> Self {
        let named = headers.get_all(ACCEPT).iter().any(|value| {
            let value = value.to_str().unwrap_or_default();
            value.contains("application/openmetrics-text")
        });
        if named { Self::OpenMetrics } else { Self::Text }
    }

    /// The media type.
    pub fn media_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        })
    }
}

/// All metrics of a server.
#[derive(Debug)]
pub struct Metrics(Registry);

impl Metrics {
    /// The metrics of a server that is controlled by `control` and decides by `store`.
    pub fn new<C: Clock + Clone + fmt::Debug + 'static>(
        control: Arc<Control<ServedStore, C>>,
        store: ServedStore,
        clock: C,
    ) -> Self {
        let mut registry = Registry::default();
        control.meters().register(&mut registry);
        register(&mut registry, &table::REDIS_LATENCY, store.latency().unwrap_or_else(latencies));
        registry.register_collector(Box::new(Pulled::new(control, store, clock)));
        Self(registry)
    }

    /// What a scraper reads.
    ///
    /// # Errors
    /// None that is known: text is written to memory.
    pub fn scrape(&self, format: Format) -> Result<String, fmt::Error> {
        let mut text = String::new();
        match format {
            Format::Text => prometheus_text::encode(&mut text, &self.0)?,
            Format::OpenMetrics => text::encode(&mut text, &self.0)?,
        }
        Ok(text)
    }
}

/// Registers a metric under its name in the table; the library ends the help with a full stop of its own.
fn register(registry: &mut Registry, metric: &Metric, values: impl Registered) {
    registry.register(metric.name, metric.help, values);
}
