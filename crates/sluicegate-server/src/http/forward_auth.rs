//! Forward authentication: a proxy asks about each request before it passes it on, and takes 200 for yes.
//!
//! `/forward-auth/DOMAIN`, with any method, any query, and any path below it. What is known of the request is what the
//! operator declared: nothing else that a stranger sends becomes an attribute.

use std::{borrow::Cow, net::IpAddr, str::FromStr};

use hyper::{StatusCode, header::HeaderName, http::request::Parts};
use sluicegate::core::Attributes;

use super::path::normalized;
use super::problem::Problem;
use crate::client::ClientRule;

/// Where the door is.
pub(super) const PREFIX: &str = "/forward-auth/";

/// How requests of proxies are read.
#[derive(Clone, Debug, Default)]
pub struct ForwardAuth {
    /// Which attributes a request has.
    pub attributes: Declared,
    /// Who the client is.
    pub client: ClientRule,
}

/// Attributes and where each comes from, as `ip=client,endpoint=path:x-forwarded-uri,user=header:x-user`.
///
/// ```
/// use sluicegate_server::http::Declared;
/// assert!("ip=client,method=method,endpoint=path,user=header:x-user".parse::<Declared>().is_ok());
/// assert!("user=cookie:session".parse::<Declared>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared(Vec<(String, Source)>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// The client's address.
    Client,
    /// The method that the proxy asks with.
    Method,
    /// The path below the domain's: what proxies append that pass a request on as it is.
    Path,
    /// A header as it is.
    Header(HeaderName),
    /// The path of a URI in a header, [`normalized`].
    PathOf(HeaderName),
}

/// A declaration that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` declares no attribute: write `name=` and `client`, `method`, `path`, `header:NAME` or `path:NAME`"
)]
pub struct NoSource(String);

impl Default for Declared {
    /// What proxies tell that describe a request in headers of their own.
    fn default() -> Self {
        let header = |name| Source::Header(HeaderName::from_static(name));
        Self(vec![
            ("ip".to_owned(), Source::Client),
            ("method".to_owned(), header("x-forwarded-method")),
            ("host".to_owned(), header("x-forwarded-host")),
            ("endpoint".to_owned(), Source::PathOf(HeaderName::from_static("x-forwarded-uri"))),
        ])
    }
}

impl FromStr for Declared {
    type Err = NoSource;

    fn from_str(text: &str) -> Result<Self, NoSource> {
        text.split(',')
            .map(|pair| declared(pair.trim()).ok_or_else(|| NoSource(pair.to_owned())))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

fn declared(pair: &str) -> Option<(String, Source)> {
    let (name, source) = pair.split_once('=')?;
    let source = match source.split_once(':') {
        None => match source {
            "client" => Source::Client,
            "method" => Source::Method,
            "path" => Source::Path,
            _ => return None,
        },
        Some(("header", header)) => Source::Header(header.parse().ok()?),
        Some(("path", header)) => Source::PathOf(header.parse().ok()?),
        Some(_) => return None,
    };
    (!name.is_empty()).then(|| (name.to_owned(), source))
}

/// What a proxy asks.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) domain: String,
    pub(super) attributes: Attributes,
    /// The status of a denial, if the proxy knows only certain ones.
    pub(super) deny_status: Option<StatusCode>,
}

impl ForwardAuth {
    pub(super) fn read(&self, head: &Parts, peer: Option<IpAddr>) -> Result<Asked, Problem> {
        let below = head.uri.path().strip_prefix(PREFIX).unwrap_or_default();
        let (place, path) = below.find('/').map_or((below, ""), |slash| below.split_at(slash));
        let (domain, parameter) =
            place.split_once(';').map_or((place, None), |(domain, rest)| (domain, Some(rest)));
        if domain.is_empty() {
            return Err(Problem::malformed("name the domain: `/forward-auth/DOMAIN`"));
        }
        let deny_status = parameter.map(deny_status).transpose()?;
        let mut attributes = Attributes::default();
        for (name, source) in &self.attributes.0 {
            if let Some(value) = self.value(source, head, path, peer) {
                attributes.insert(name.as_str(), value);
            }
        }
        Ok(Asked { domain: domain.to_owned(), attributes, deny_status })
    }

    fn value(&self, source: &Source, head: &Parts, path: &str, peer: Option<IpAddr>) -> Option<String> {
        let header = |name| head.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        match source {
            Source::Client => Some(self.client.key(peer, &head.headers)),
            Source::Method => Some(head.method.as_str().to_owned()),
            Source::Path => Some(normalized(path)),
            Source::Header(name) => header(name).map(Cow::into_owned),
            Source::PathOf(name) => header(name).map(|uri| normalized(&uri)),
        }
    }
}

/// `deny_status=403`, the one parameter that there is. It stands in the path, which the operator wrote: proxies append
/// the client's own query.
fn deny_status(parameter: &str) -> Result<StatusCode, Problem> {
    let status = parameter.strip_prefix("deny_status=").and_then(|code| code.parse::<StatusCode>().ok());
    let mistake = || Problem::malformed("the one parameter is `;deny_status=`, from 400 to 499");
    status.filter(StatusCode::is_client_error).ok_or_else(mistake)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_is_a_name_and_where_it_comes_from() {
        let declared = "ip=client, user=header:X-User,endpoint=path:x-forwarded-uri".parse::<Declared>();
        let expected = vec![
            ("ip".to_owned(), Source::Client),
            ("user".to_owned(), Source::Header(HeaderName::from_static("x-user"))),
            ("endpoint".to_owned(), Source::PathOf(HeaderName::from_static("x-forwarded-uri"))),
        ];
        assert_eq!(declared, Ok(Declared(expected)));
        for wrong in ["", "ip", "=client", "ip=peer", "user=header:", "user=header:a b", "user=cookie:x"] {
            assert!(wrong.parse::<Declared>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_status_of_denials_is_a_client_error() {
        assert_eq!(deny_status("deny_status=403").ok(), Some(StatusCode::FORBIDDEN));
        for wrong in ["deny_status=200", "deny_status=503", "deny_status=", "x=1", "deny_status=403&x=1"] {
            assert!(deny_status(wrong).is_err(), "{wrong}");
        }
    }
}
