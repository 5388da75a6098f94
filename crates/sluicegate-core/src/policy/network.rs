//! Networks of addresses, in the notation of CIDR.

use std::{fmt, net::IpAddr};

use ipnet::{IpNet, Ipv4Net};

/// The bits of an IPv6 address that say that it is an IPv4 address in disguise: `::ffff:0:0/96`.
const MAPPED_LEN: u8 = 96;

/// A network of addresses. An IPv4 address that is written as IPv6 (`::ffff:10.0.0.1`) counts as IPv4 on both sides,
/// so that nobody leaves a network, or enters one, by another spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network(IpNet);

/// A text that is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NetworkError {
    /// Neither an address nor an address with a prefix length.
    Syntax,
    /// The address has bits beyond the prefix; the network that it lies in.
    StrayBits(IpNet),
}

impl Network {
    /// Reads `address/prefix`, or an address for itself alone.
    pub(super) fn parse(text: &str) -> Result<Self, NetworkError> {
        let parsed: Result<IpNet, _> = match text.parse::<IpAddr>() {
            Ok(address) => Ok(address.into()),
            Err(_) => text.parse(),
        };
        let network = parsed.map_err(|_| NetworkError::Syntax)?;
        if network.addr() != network.network() {
            return Err(NetworkError::StrayBits(network.trunc()));
        }
        Ok(Self(unmapped(network)))
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Whether every address of the other lies in this one.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.0.contains(&other.0)
    }

    /// Whether no address lies in both.
    pub(super) fn excludes(&self, other: &Self) -> bool {
        !self.covers(other) && !other.covers(self)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn unmapped(network: IpNet) -> IpNet {
    let (IpNet::V6(v6), Some(length)) = (network, network.prefix_len().checked_sub(MAPPED_LEN)) else {
        return network;
    };
    let v4 = v6.addr().to_ipv4_mapped().and_then(|address| Ipv4Net::new(address, length).ok());
    v4.map_or(network, IpNet::V4)
}

/// The address that a value writes, if it writes one.
pub(super) fn address(value: &str) -> Option<IpAddr> {
    value.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}
