//! Log lines: the common and combined formats of web servers, and JSON.

use serde_json::Value;
use sluicegate::core::{Attributes, Micros};

use super::{Config, FieldMap, Record, instant};

mod access_log;

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// JSON if the first line begins with `{`, else a web server's.
    #[default]
    Auto,
    /// A web server's, with or without referer and user agent.
    Common,
    /// A web server's, with referer and user agent.
    Combined,
    /// An object per line.
    Json,
}

/// Where JSON logs usually have the time.
const USUAL_TIMES: [&str; 4] = ["time", "ts", "timestamp", "@timestamp"];

/// Reads lines, each into a request.
pub(super) struct Reader<'c> {
    format: Format,
    map: &'c FieldMap,
    /// The time that was read last, as it was written and as it was meant.
    last_time: Option<(String, Micros)>,
}

impl<'c> Reader<'c> {
    pub(super) fn new(config: &'c Config) -> Self {
        Self { format: config.format, map: &config.map, last_time: None }
    }

    pub(super) fn read(&mut self, line: &str) -> Result<Record, String> {
        if self.format == Format::Auto {
            self.format = if line.starts_with('{') { Format::Json } else { Format::Common };
        }
        match self.format {
            Format::Json => json(line, self.map),
            format => self.access_log(line, format == Format::Combined),
        }
    }

    fn access_log(&mut self, line: &str, combined: bool) -> Result<Record, String> {
        let fields = access_log::read(line, combined)?;
        let at = self.time(fields.time).ok_or_else(|| format!("`{}` is no time", shortened(fields.time)))?;
        let attributes = if self.map.attributes.is_empty() {
            fields.usual().filter_map(|(name, value)| Some((name, value?))).collect()
        } else {
            let mapped = self.map.attributes.iter().map(|mapping| {
                let name = mapping.path.join(".");
                let known = access_log::NAMES.contains(&name.as_str());
                let value = if known { fields.get(&name) } else { return Err(unknown(&name)) };
                Ok(value.map(|value| (mapping.attribute.as_str(), value)))
            });
            mapped.filter_map(Result::transpose).collect::<Result<Attributes, String>>()?
        };
        Ok(Record { at, attributes })
    }

    /// The time of a line; in a busy log it is mostly that of the line before.
    fn time(&mut self, text: &str) -> Option<Micros> {
        if let Some((_, at)) = self.last_time.as_ref().filter(|(known, _)| known == text) {
            return Some(*at);
        }
        let at = instant::of_access_log(text)?;
        self.last_time = Some((text.to_owned(), at));
        Some(at)
    }
}

fn unknown(name: &str) -> String {
    let known = access_log::NAMES.join("`, `.");
    format!("lines of this format have no field `.{name}`; they have `.{known}`")
}

fn json(line: &str, map: &FieldMap) -> Result<Record, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| format!("it is not JSON: {error}"))?;
    let Value::Object(fields) = &value else { return Err("it is no JSON object".to_owned()) };
    let time = match &map.time {
        Some(path) => at(&value, path),
        None => USUAL_TIMES.iter().find_map(|name| fields.get(*name)),
    };
    let time = time.ok_or("it has no time")?;
    let read = match time {
        Value::Number(number) => instant::of_number(&number.to_string()),
        Value::String(text) => instant::of_text(text),
        _ => None,
    };
    let at_us = read.ok_or_else(|| format!("`{}` is no time", shortened(&time.to_string())))?;
    let attributes = if map.attributes.is_empty() {
        let usual = fields.iter().filter(|(name, _)| !USUAL_TIMES.contains(&name.as_str()));
        usual.filter_map(|(name, value)| Some((name.as_str(), scalar(value)?))).collect()
    } else {
        let mapped = map.attributes.iter();
        mapped.filter_map(|one| Some((one.attribute.as_str(), scalar(at(&value, &one.path)?)?))).collect()
    };
    Ok(Record { at: at_us, attributes })
}

fn at<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// A value as the text of an attribute; nothing, lists and objects are none.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A text of a line as a message may show it.
fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Mapping;

    const COMBINED: &str = r#"203.0.113.7 - alice [30/Nov/2026:12:00:00 +0000] "GET /v1/chat?q=1 HTTP/1.1" 200 512 "-" "say \"hi\"""#;

    fn read(line: &str, format: Format, mappings: &[&str]) -> Result<Record, String> {
        let mappings: Vec<Mapping> = mappings.iter().map(|text| text.parse().unwrap()).collect();
        let config = Config { format, map: FieldMap::new(mappings) };
        Reader::new(&config).read(line)
    }

    fn pairs(record: &Record, names: &[&str]) -> Vec<Option<String>> {
        names.iter().map(|name| record.attributes.value(name).map(str::to_owned)).collect()
    }

    #[test]
    fn a_web_servers_line_becomes_the_usual_attributes() {
        let record = read(COMBINED, Format::Auto, &[]).unwrap();
        assert_eq!(record.at, Micros::new(1_796_040_000_000_000));
        let names = ["ip", "user", "method", "endpoint", "status", "user_agent", "referer"];
        let expected = ["203.0.113.7", "alice", "GET", "/v1/chat", "200", r#"say \"hi\""#];
        let mut expected: Vec<_> = expected.iter().map(|text| Some((*text).to_owned())).collect();
        expected.push(None);
        assert_eq!(pairs(&record, &names), expected);
    }

    #[test]
    fn a_map_chooses_and_renames() {
        let record = read(COMBINED, Format::Combined, &["org=.user", "path=.target"]).unwrap();
        let expected = [Some("alice".to_owned()), Some("/v1/chat?q=1".to_owned()), None];
        assert_eq!(pairs(&record, &["org", "path", "ip"]), expected);
        let error = read(COMBINED, Format::Auto, &["org=.colour"]).unwrap_err();
        assert!(error.contains("no field `.colour`"), "{error}");
        let line = r#"{"ts": 1796040000.5, "auth": {"user": "bob"}, "n": 7, "tags": []}"#;
        let record =
            read(line, Format::Auto, &["user=.auth.user", "n=.n", "tags=.tags", "time=.ts"]).unwrap();
        assert_eq!(record.at, Micros::new(1_796_040_000_500_000));
        assert_eq!(
            pairs(&record, &["user", "n", "tags"]),
            [Some("bob".to_owned()), Some("7".to_owned()), None]
        );
    }

    #[test]
    fn a_json_line_without_a_map_gives_its_scalars() {
        let record =
            read(r#"{"time":"2026-11-30T12:00:00Z","user":"bob","ok":true,"x":null}"#, Format::Json, &[]);
        let record = record.unwrap();
        let expected = [Some("bob".to_owned()), Some("true".to_owned()), None, None];
        assert_eq!(pairs(&record, &["user", "ok", "x", "time"]), expected);
    }

    #[test]
    fn what_is_no_request_says_why() {
        let cases = [
            ("hello", Format::Common, "time"),
            ("1.2.3.4 - - [yesterday] \"GET / HTTP/1.1\" 200 1", Format::Common, "`yesterday` is no time"),
            (
                "1.2.3.4 - - [30/Nov/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 1",
                Format::Combined,
                "user agent",
            ),
            ("1.2.3.4 - - [30/Nov/2026:12:00:00 +0000] \"GET /", Format::Common, "request"),
            ("[]", Format::Json, "no JSON object"),
            ("{", Format::Json, "not JSON"),
            ("{\"user\":\"a\"}", Format::Json, "no time"),
            ("{\"time\":\"noon\"}", Format::Json, "is no time"),
        ];
        for (line, format, why) in cases {
            let error = read(line, format, &[]).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
