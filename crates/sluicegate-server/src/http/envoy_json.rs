//! `/json`: Envoy's rate limit service for those who do not speak gRPC. The messages are the gRPC door's, in the JSON that
//! protobuf defines for them.

use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderName},
};
use prost_types::value::Kind;
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny},
};
use serde_json::{Map, Value, json};

use super::{
    answer::{Answer, JSON, answer},
    problem::Problem,
    request::read,
};
use crate::grpc::proto::envoy::{
    config::core::v3::HeaderValue,
    extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor},
    service::ratelimit::v3::{
        RateLimitRequest, RateLimitResponse,
        rate_limit_response::{Code, DescriptorStatus},
    },
    r#type::v3::RateLimitUnit,
};

/// The path, which is that of Envoy's own service.
pub(super) const PATH: &str = "/json";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    #[serde(default)]
    domain: String,
    #[serde(default)]
    descriptors: Vec<Descriptor>,
    #[serde(default, alias = "hitsAddend")]
    hits_addend: Number<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Descriptor {
    #[serde(default)]
    entries: Vec<Entry>,
    limit: Option<Override>,
    #[serde(alias = "hitsAddend")]
    hits_addend: Option<Number<u64>>,
    #[serde(default, alias = "isNegativeHits")]
    is_negative_hits: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Override {
    #[serde(default, alias = "requestsPerUnit")]
    requests_per_unit: Number<u32>,
    unit: Unit,
}

/// A whole number, which protobuf lets stand in quotes.
#[derive(Clone, Copy, Default)]
struct Number<T>(T);

/// A unit of time by its name.
struct Unit(RateLimitUnit);

impl<'de, T: TryFrom<u64>> Deserialize<'de> for Number<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Bare(u64),
            Quoted(String),
            Other(IgnoredAny),
        }
        let number = match Written::deserialize(deserializer)? {
            Written::Bare(number) => Some(number),
            Written::Quoted(text) => text.parse().ok(),
            Written::Other(_) => None,
        };
        let number = number.and_then(|number| T::try_from(number).ok());
        number.map(Self).ok_or_else(|| D::Error::custom("expected a whole number that the field can hold"))
    }
}

impl<'de> Deserialize<'de> for Unit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let unit = RateLimitUnit::from_str_name(&name);
        unit.map(Self).ok_or_else(|| D::Error::custom(format!("no unit is called `{name}`")))
    }
}

impl From<Descriptor> for RateLimitDescriptor {
    fn from(descriptor: Descriptor) -> Self {
        let entry = |Entry { key, value }| rate_limit_descriptor::Entry { key, value };
        let limit = |Override { requests_per_unit: Number(requests_per_unit), unit: Unit(unit) }| {
            rate_limit_descriptor::RateLimitOverride { requests_per_unit, unit: unit.into() }
        };
        Self {
            entries: descriptor.entries.into_iter().map(entry).collect(),
            limit: descriptor.limit.map(limit),
            hits_addend: descriptor.hits_addend.map(|Number(hits)| hits),
            is_negative_hits: descriptor.is_negative_hits,
        }
    }
}

/// The request that a body means.
pub(super) fn request(json: &[u8]) -> Result<RateLimitRequest, Problem> {
    let Request { domain, descriptors, hits_addend: Number(hits_addend) } = read(json)?;
    let descriptors = descriptors.into_iter().map(RateLimitDescriptor::from).collect();
    Ok(RateLimitRequest { domain, descriptors, hits_addend })
}

/// The answer: 200 or 429, with the headers that Envoy would be asked to add.
pub(super) fn tell(response: &RateLimitResponse) -> Answer {
    let passes = response.overall_code() == Code::Ok;
    let status = if passes { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    let metadata = response.dynamic_metadata.as_ref().map(|fields| &fields.fields);
    let metadata = metadata.into_iter().flatten().map(|(name, value)| (name.clone(), plain(value)));
    let body = json!({
        "overallCode": response.overall_code().as_str_name(),
        "statuses": response.statuses.iter().map(descriptor_status).collect::<Vec<_>>(),
        "dynamicMetadata": metadata.collect::<Map<_, _>>(),
    });
    let mut told = answer(status, JSON, body.to_string());
    for HeaderValue { key, value, .. } in &response.response_headers_to_add {
        // The body is this one, not the problem details that the content type tells of.
        if let (Ok(name), Ok(value)) = (key.parse::<HeaderName>(), value.parse())
            && name != CONTENT_TYPE
        {
            told.headers_mut().insert(name, value);
        }
    }
    told
}

fn descriptor_status(status: &DescriptorStatus) -> Value {
    let mut told = json!({ "code": status.code().as_str_name(), "limitRemaining": status.limit_remaining });
    if let (Some(limit), Some(fields)) = (&status.current_limit, told.as_object_mut()) {
        let (name, amount, unit) = (&limit.name, limit.requests_per_unit, limit.unit().as_str_name());
        fields
            .insert("currentLimit".into(), json!({ "name": name, "requestsPerUnit": amount, "unit": unit }));
        if let Some(reset) = status.duration_until_reset {
            fields.insert("durationUntilReset".into(), format!("{}s", reset.seconds).into());
        }
    }
    told
}

/// A value of protobuf's `Struct` as the JSON that it stands for.
fn plain(value: &prost_types::Value) -> Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(truth)) => (*truth).into(),
        Some(Kind::NumberValue(number)) => (*number).into(),
        Some(Kind::StringValue(text)) => text.as_str().into(),
        Some(Kind::ListValue(list)) => list.values.iter().map(plain).collect(),
        Some(Kind::StructValue(fields)) => {
            fields.fields.iter().map(|(name, value)| (name.clone(), plain(value))).collect()
        }
    }
}
