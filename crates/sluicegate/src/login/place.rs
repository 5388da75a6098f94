//! Addresses as they are counted.

use std::net::{IpAddr, Ipv4Addr};

/// An address and the network around it, each as the bytes that make it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) address: [u8; 9],
    pub(super) network: [u8; 7],
}

impl Place {
    /// An IPv4 address within its /24, or the /64 of an IPv6 address within its /48. An IPv4 address that comes as an
    /// IPv6 one (`::ffff:0:0/96`, `64:ff9b::/96`) is itself. Who is not known shares one place.
    pub(super) fn of(address: Option<IpAddr>) -> Self {
        match address.map(unwrapped) {
            None => Self { address: [0; 9], network: [0; 7] },
            Some(IpAddr::V4(v4)) => Self::made_of(4, &v4.octets(), 3),
            Some(IpAddr::V6(v6)) => Self::made_of(6, &v6.octets(), 6),
        }
    }

    /// The family, the bytes of the address as far as there is room, and the first of them for its network.
    fn made_of(family: u8, bytes: &[u8], network_len: usize) -> Self {
        let (mut address, mut network) = ([family; 9], [family; 7]);
        for (place, byte) in address.iter_mut().skip(1).zip(bytes) {
            *place = *byte;
        }
        for (place, byte) in network.iter_mut().skip(1).zip(bytes.iter().take(network_len)) {
            *place = *byte;
        }
        Self { address, network }
    }
}

/// The first 96 bits of `::ffff:0:0/96` and of `64:ff9b::/96`.
const WITH_IPV4: [u128; 2] = [0xffff, 0x0064_ff9b << 64];

fn unwrapped(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let bits = v6.to_bits();
    let last = u32::try_from(bits & u128::from(u32::MAX));
    match last {
        Ok(last) if WITH_IPV4.contains(&(bits >> 32)) => IpAddr::V4(Ipv4Addr::from_bits(last)),
        _ => address,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn place(address: &str) -> Place {
        Place::of(Some(address.parse().unwrap()))
    }

    /// As express-rate-limit's CVE-2026-30827 reports, and grav-login #204, zulip #21544 and others.
    #[test]
    fn one_client_is_one_address_however_it_is_written() {
        assert_eq!(place("::ffff:203.0.113.5"), place("203.0.113.5"));
        assert_eq!(place("64:ff9b::203.0.113.5"), place("203.0.113.5"));
        assert_eq!(place("2001:db8:1:2::1"), place("2001:db8:1:2:ffff::9"));
        assert_ne!(place("2001:db8:1:2::1").address, place("2001:db8:1:3::1").address);
        assert_eq!(place("2001:db8:1:2::1").network, place("2001:db8:1:3::1").network);
        assert_ne!(place("203.0.113.5"), place("203.0.113.6"));
        assert_eq!(place("203.0.113.5").network, place("203.0.113.6").network);
    }
}
