//! Who the client is, when proxies stand between.
//!
//! A header that tells a client's address is a claim of whoever sent it. Each proxy adds the address that it was asked
//! from at the right, so the right-most address that is none of our own proxies is the only one that nobody could
//! choose at will.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use hyper::{HeaderMap, header::HeaderName};
use ipnet::{IpNet, Ipv6Net};

/// The bits of an IPv6 address that are one client: a provider gives each customer a /64 or more.
const V6_PREFIX: u8 = 64;
/// `64:ff9b::`, the network of addresses whose last 32 bits are an IPv4 one (RFC 6052).
const NAT64: u128 = 0x0064_ff9b << 96;
/// The key that all requests share whose client cannot be told.
const UNKNOWN: &str = "unknown";

/// How the client of a request is found.
#[derive(Clone, Debug)]
pub struct ClientRule {
    /// The proxies whose word is taken.
    pub trusted: Proxies,
    /// The header in which they tell who asked them: a list as in `X-Forwarded-For`, or `Forwarded` (RFC 7239).
    pub header: HeaderName,
}

/// Addresses of proxies: networks such as `10.0.0.0/8`, or single addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxies(Vec<IpNet>);

/// A word that is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither an address nor a network such as `10.0.0.0/8`")]
pub struct NoNetwork(String);

impl Default for ClientRule {
    /// Proxies on this machine, `X-Forwarded-For`.
    fn default() -> Self {
        let loopback =
            [IpNet::from(IpAddr::from([127, 0, 0, 0])), IpNet::from(IpAddr::from(Ipv6Addr::LOCALHOST))];
        let [v4, v6] = loopback;
        let v4 = IpNet::new(v4.addr(), 8).unwrap_or(v4);
        Self { trusted: Proxies(vec![v4, v6]), header: HeaderName::from_static("x-forwarded-for") }
    }
}

impl FromStr for Proxies {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let network = |word: &str| {
            let parsed = word.parse::<IpNet>().or_else(|_| word.parse::<IpAddr>().map(IpNet::from));
            parsed.map_err(|_| NoNetwork(word.to_owned()))
        };
        text.split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(network)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl Proxies {
    /// No proxies at all.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Whether the address is one of theirs, in whatever notation.
    pub(crate) fn contain(&self, address: IpAddr) -> bool {
        let address = unwrapped(address);
        self.0.iter().any(|network| network.contains(&address))
    }
}

impl ClientRule {
    /// What the client is counted by: an IPv4 address, the /64 network of an IPv6 one, or `unknown`.
    ///
    /// One client has one key however its address is written: IPv4 addresses inside IPv6 ones are unwrapped. A missing
    /// or malformed address is never a way around a limit: all such requests share one key.
    pub fn key(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> String {
        match self.address(peer, headers) {
            None => UNKNOWN.to_owned(),
            Some(IpAddr::V4(address)) => address.to_string(),
            Some(IpAddr::V6(address)) => Ipv6Net::new(address, V6_PREFIX)
                .map_or_else(|_| UNKNOWN.to_owned(), |network| network.trunc().to_string()),
        }
    }

    /// The right-most address that is no proxy's; the left-most if all are.
    fn address(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
        let peer = unwrapped(peer?);
        if !self.trusted.contain(peer) {
            return Some(peer);
        }
        let mut farthest = None;
        for line in headers.get_all(&self.header).iter().rev() {
            for hop in line.to_str().ok()?.rsplit(',') {
                let address = unwrapped(self.hop(hop)?);
                if !self.trusted.contain(address) {
                    return Some(address);
                }
                farthest = Some(address);
            }
        }
        farthest
    }

    fn hop(&self, hop: &str) -> Option<IpAddr> {
        let is_forwarded = self.header == hyper::header::FORWARDED;
        node(if is_forwarded { forwarded_for(hop)? } else { hop.trim() })
    }
}

/// The `for` of one element of `Forwarded`, without quotes.
fn forwarded_for(element: &str) -> Option<&str> {
    let parameters = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, node) = parameters.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    Some(node.trim().trim_matches('"'))
}

/// An address with or without brackets and port.
fn node(text: &str) -> Option<IpAddr> {
    let bare = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|socket| socket.ip());
    text.parse().ok().or_else(with_port).or_else(bare)
}

/// The IPv4 address that an IPv6 one stands for, else the address itself.
fn unwrapped(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address.to_canonical() else { return address.to_canonical() };
    match u32::try_from(v6.to_bits() ^ NAT64) {
        Ok(v4) => Ipv4Addr::from_bits(v4).into(),
        Err(_) => v6.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use hyper::header::HeaderValue;

    use super::*;

    fn rule(trusted: &str, header: &'static str) -> Result<ClientRule, NoNetwork> {
        Ok(ClientRule { trusted: trusted.parse()?, header: HeaderName::from_static(header) })
    }

    fn key(rule: &ClientRule, peer: &str, lines: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers
                .append(&rule.header, HeaderValue::from_str(line).unwrap_or(HeaderValue::from_static("?")));
        }
        rule.key(peer.parse().ok(), &headers)
    }

    #[test]
    fn the_right_most_address_that_is_no_proxy_is_the_client() -> Result<(), NoNetwork> {
        let rule = rule("10.0.0.0/8, 127.0.0.1", "x-forwarded-for")?;
        let cases: [(&str, &[&str], &str); 9] = [
            ("203.0.113.5", &["198.51.100.1"], "203.0.113.5"),
            ("127.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("127.0.0.1", &["1.1.1.1, 198.51.100.1, 10.2.3.4"], "198.51.100.1"),
            ("127.0.0.1", &["1.1.1.1", "198.51.100.1"], "198.51.100.1"),
            ("127.0.0.1", &["198.51.100.1:4711"], "198.51.100.1"),
            ("127.0.0.1", &["10.9.9.9, 10.2.3.4"], "10.9.9.9"),
            ("127.0.0.1", &[], "unknown"),
            ("127.0.0.1", &["198.51.100.1, nonsense"], "unknown"),
            ("nobody", &["198.51.100.1"], "unknown"),
        ];
        for (peer, lines, expected) in cases {
            assert_eq!(key(&rule, peer, lines), expected, "{peer} {lines:?}");
        }
        Ok(())
    }

    #[test]
    fn forwarded_is_read_as_its_standard_says() -> Result<(), NoNetwork> {
        let rule = rule("127.0.0.1", "forwarded")?;
        for (line, expected) in [
            ("for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"),
            ("for=1.1.1.1, For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::/64"),
            ("proto=http;for=\"192.0.2.60:80\"", "192.0.2.60"),
            ("for=192.0.2.60, for=unknown", "unknown"),
            ("for=192.0.2.60, proto=http", "unknown"),
        ] {
            assert_eq!(key(&rule, "127.0.0.1", &[line]), expected, "{line}");
        }
        Ok(())
    }

    /// GHSA-46wh-pxpv-q5gq: an IPv4 address inside an IPv6 one had a counter of its own.
    #[test]
    fn one_address_has_one_key_in_any_notation() -> Result<(), NoNetwork> {
        let rule = rule("127.0.0.1", "x-forwarded-for")?;
        for text in [
            "1.2.3.4",
            "::ffff:1.2.3.4",
            "::FFFF:0102:0304",
            "[::ffff:1.2.3.4]:99",
            "64:ff9b::1.2.3.4",
            " 1.2.3.4:1 ",
        ] {
            assert_eq!(key(&rule, "127.0.0.1", &[text]), "1.2.3.4", "{text}");
        }
        assert_eq!(key(&rule, "::ffff:127.0.0.1", &["1.2.3.4"]), "1.2.3.4", "the proxy itself");
        Ok(())
    }

    /// zulip#21544 and others: one customer has 2^64 addresses.
    #[test]
    fn all_addresses_of_one_network_are_one_client() -> Result<(), NoNetwork> {
        let rule = rule("127.0.0.1", "x-forwarded-for")?;
        let keys: HashSet<_> =
            (0..100).map(|host| key(&rule, "127.0.0.1", &[&format!("2001:db8:1:2::{host:x}")])).collect();
        assert_eq!(keys, HashSet::from(["2001:db8:1:2::/64".to_owned()]));
        assert_ne!(key(&rule, "127.0.0.1", &["2001:db8:1:3::1"]), "2001:db8:1:2::/64");
        Ok(())
    }

    /// axes#224 and others: a client that turned the left-most address was a new client each time.
    #[test]
    fn a_client_that_forges_the_header_gains_nothing() -> Result<(), NoNetwork> {
        let rule = rule("127.0.0.1", "x-forwarded-for")?;
        let keys: HashSet<_> = (0..1_000)
            .map(|forged| {
                let forged = Ipv4Addr::from_bits(forged * 7_919);
                key(&rule, "127.0.0.1", &[&format!("{forged}, 127.0.0.1, 203.0.113.9")])
            })
            .collect();
        assert_eq!(keys, HashSet::from(["203.0.113.9".to_owned()]));
        Ok(())
    }

    #[test]
    fn a_network_that_is_none_is_named() {
        assert_eq!("10.0.0.0/8,x".parse::<Proxies>(), Err(NoNetwork("x".to_owned())));
        assert_eq!("".parse(), Ok(Proxies(Vec::new())));
    }
}
