//! Bodies of requests: JSON to attributes and costs. Nothing is guessed: what is not understood is refused, with
//! the place in the body.

use std::{borrow::Cow, convert::Infallible, fmt};

use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor},
};
use serde_json::value::RawValue;
use sluicegate::core::{Attributes, Costs, RequestId};

use super::problem::Problem;

/// The most requests of one batch.
pub(super) const MAX_BATCH: usize = 1_000;
/// The most attributes of one request, and units of one cost: a policy needs a few, a stranger may send many.
pub(crate) const MAX_PAIRS: usize = 64;
/// The longest name of an attribute or unit, in bytes. Names come from policies; values may be longer.
pub(crate) const MAX_NAME_LEN: usize = 128;
/// The largest cost: 2^53 − 1, the last whole number that every JSON reader gets right.
pub(crate) const MAX_COST: u64 = (1 << 53) - 1;
/// The fields of a request.
const FIELDS: &[&str] = &["domain", "attributes", "cost", "id", "dry_run"];

/// One request for a decision.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    pub(super) domain: Option<Cow<'a, str>>,
    pub(super) attributes: Attributes,
    pub(super) costs: Costs,
    pub(super) id: Option<RequestId>,
    pub(super) dry_run: bool,
}

impl<'a> Ask<'a> {
    /// Reads the body of one request.
    pub(crate) fn read(json: &'a [u8]) -> Result<Self, Problem> {
        let fields: Fields<'a> = read(json)?;
        let Some(attributes) = fields.attributes else {
            return Err(Problem::malformed("`attributes` is missing").at("/attributes"));
        };
        Ok(Self {
            domain: fields.domain,
            attributes,
            costs: fields.costs.unwrap_or_default(),
            id: fields.id,
            dry_run: fields.dry_run.unwrap_or_default(),
        })
    }
}

/// Many requests, each still to be read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Batch<'a> {
    #[serde(borrow)]
    requests: Items<'a>,
}

impl<'a> Batch<'a> {
    /// Reads the frame of a batch: what is wrong inside one request is that request's own affair.
    pub(crate) fn read(json: &'a [u8]) -> Result<Self, Problem> {
        read(json)
    }

    /// The requests, each as JSON.
    pub(crate) fn items(&self) -> impl Iterator<Item = &'a [u8]> {
        self.requests.0.iter().map(|item| item.get().as_bytes())
    }
}

/// Reads JSON; if that fails, reads it again to find out where.
pub(super) fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(json).map_err(|error| locate::<T>(json, &error))
}

#[cold]
fn locate<'a, T: Deserialize<'a>>(json: &'a [u8], error: &serde_json::Error) -> Problem {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
        Err(located) => Problem::malformed_at(located.path(), error),
        // Read alone it is fine, so it is what follows it that is wrong.
        Ok(_) => Problem::malformed(error.to_string()),
    }
}

/// The fields of [`Ask`] as they come.
#[derive(Default)]
struct Fields<'a> {
    domain: Option<Cow<'a, str>>,
    attributes: Option<Attributes>,
    costs: Option<Costs>,
    id: Option<RequestId>,
    dry_run: Option<bool>,
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `attributes`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields::default();
        while let Some(Text(name)) = map.next_key()? {
            match &*name {
                "domain" => once(&mut fields.domain, &mut map, |Text(domain)| domain)?,
                "attributes" => once(&mut fields.attributes, &mut map, |AttributesIn(pairs)| pairs)?,
                "cost" => once(&mut fields.costs, &mut map, |CostsIn(costs)| costs)?,
                "dry_run" => once(&mut fields.dry_run, &mut map, |dry_run: bool| dry_run)?,
                "id" => once(&mut fields.id, &mut map, |IdIn(id)| id)?,
                _ => {
                    refuse(&mut map, format!("unknown field, expected one of {}", FIELDS.join(", ")).into())?;
                }
            }
        }
        Ok(fields)
    }
}

/// Reads the value of a field that was not there before.
fn once<'de, A: MapAccess<'de>, T: Deserialize<'de>, U>(
    field: &mut Option<U>,
    map: &mut A,
    convert: impl FnOnce(T) -> U,
) -> Result<(), A::Error> {
    if field.is_some() {
        refuse(map, "given twice".into())?;
    }
    *field = Some(convert(map.next_value()?));
    Ok(())
}

/// Fails at the value that comes next, so that the error names its place.
fn refuse<'de, A: MapAccess<'de>>(map: &mut A, why: Cow<'static, str>) -> Result<(), A::Error> {
    match map.next_value_seed(Refused(why))? {}
}

/// A value that is wrong whatever it is.
struct Refused(Cow<'static, str>);

impl<'de> DeserializeSeed<'de> for Refused {
    type Value = Infallible;

    fn deserialize<D: Deserializer<'de>>(self, _deserializer: D) -> Result<Infallible, D::Error> {
        Err(D::Error::custom(self.0))
    }
}

/// Checks the name of the next pair of an object of at most [`MAX_PAIRS`].
fn check_name<'de, A: MapAccess<'de>>(
    map: &mut A,
    name: &str,
    before: usize,
    known: bool,
) -> Result<(), A::Error> {
    if known {
        refuse(map, "given twice".into())?;
    }
    if name.is_empty() || name.len() > MAX_NAME_LEN {
        refuse(map, format!("a name has 1 to {MAX_NAME_LEN} bytes, this one has {}", name.len()).into())?;
    }
    if before == MAX_PAIRS {
        refuse(map, format!("more than {MAX_PAIRS} entries").into())?;
    }
    Ok(())
}

/// A string, borrowed from the body unless it has escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

/// What the caller names the request by, checked.
struct IdIn(RequestId);

impl<'de> Deserialize<'de> for IdIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(id) = Text::deserialize(deserializer)?;
        id.parse().map(IdIn).map_err(D::Error::custom)
    }
}

struct AttributesIn(Attributes);

impl<'de> Deserialize<'de> for AttributesIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AttributesVisitor)
    }
}

struct AttributesVisitor;

impl<'de> Visitor<'de> for AttributesVisitor {
    type Value = AttributesIn;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AttributesIn, A::Error> {
        let mut attributes = Attributes::default();
        let mut before = 0;
        while let Some(Text(name)) = map.next_key()? {
            check_name(&mut map, &name, before, attributes.value(&name).is_some())?;
            let Text(value) = map.next_value()?;
            attributes.insert(name, value);
            before += 1;
        }
        Ok(AttributesIn(attributes))
    }
}

/// One cost, checked.
struct CostIn(u64);

impl<'de> Deserialize<'de> for CostIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CostVisitor)
    }
}

struct CostVisitor;

impl Visitor<'_> for CostVisitor {
    type Value = CostIn;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {MAX_COST}")
    }

    fn visit_u64<E: Error>(self, cost: u64) -> Result<CostIn, E> {
        if cost > MAX_COST {
            return Err(E::invalid_value(Unexpected::Unsigned(cost), &self));
        }
        Ok(CostIn(cost))
    }

    fn visit_i64<E: Error>(self, cost: i64) -> Result<CostIn, E> {
        Err(E::invalid_value(Unexpected::Signed(cost), &self))
    }
}

/// A cost in requests, or in units by name.
struct CostsIn(Costs);

impl<'de> Deserialize<'de> for CostsIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CostsVisitor)
    }
}

struct CostsVisitor;

impl<'de> Visitor<'de> for CostsVisitor {
    type Value = CostsIn;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {MAX_COST}, or an object of them by unit")
    }

    fn visit_u64<E: Error>(self, cost: u64) -> Result<CostsIn, E> {
        CostVisitor.visit_u64(cost).map(|CostIn(cost)| CostsIn(Costs::requests(cost)))
    }

    fn visit_i64<E: Error>(self, cost: i64) -> Result<CostsIn, E> {
        Err(E::invalid_value(Unexpected::Signed(cost), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CostsIn, A::Error> {
        let mut units: Vec<(String, u64)> = Vec::new();
        while let Some(Text(unit)) = map.next_key()? {
            let known = units.iter().any(|(own, _)| *own == unit);
            check_name(&mut map, &unit, units.len(), known)?;
            let CostIn(cost) = map.next_value()?;
            units.push((unit.into_owned(), cost));
        }
        Ok(CostsIn(Costs::of_units(units)))
    }
}

/// The requests of a batch, at most [`MAX_BATCH`].
#[derive(Debug)]
struct Items<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ItemsVisitor)
    }
}

struct ItemsVisitor;

impl<'de> Visitor<'de> for ItemsVisitor {
    type Value = Items<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX_BATCH} requests")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Items<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            if items.len() == MAX_BATCH {
                return Err(A::Error::custom(format_args!("more than {MAX_BATCH} requests")));
            }
            items.push(item);
        }
        Ok(Items(items))
    }
}
