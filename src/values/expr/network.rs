//! IP addresses and networks in text form.

use std::net::IpAddr;

/// A network: `10.0.0.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    bits: u128,
    prefix: u32,
    is_v6: bool,
}

impl Network {
    /// Parses an address with its prefix length. Host bits may be set, as in `10.0.0.7/24`.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let prefix: u32 = prefix.parse().ok()?;
        let whole = Self::of(address.parse().ok()?);
        (prefix <= whole.prefix).then_some(Self { prefix, ..whole })
    }

    /// Returns the network of a single address.
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self { bits: u128::from(address.to_bits()) << 96, prefix: 32, is_v6: false },
            IpAddr::V6(address) => Self { bits: address.to_bits(), prefix: 128, is_v6: true },
        }
    }

    /// Whether the networks have an address in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        let common = self.prefix.min(other.prefix);
        let part = |bits: u128| bits.checked_shr(128 - common).unwrap_or_default();
        self.is_v6 == other.is_v6 && part(self.bits) == part(other.bits)
    }
}

/// Whether a text is an IP address.
pub(super) fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Whether an address is not in this network; `false` if either is invalid, because another check reports that.
pub(super) fn is_outside(address: &str, network: &str) -> bool {
    let both = address.parse().ok().map(Network::of).zip(Network::parse(network));
    both.is_some_and(|(address, network)| !network.overlaps(&address))
}

/// Whether an address is higher than another of the same family; `false` if either is invalid.
pub(super) fn is_after(address: &str, other: &str) -> bool {
    let both = address.parse().ok().map(Network::of).zip(other.parse().ok().map(Network::of));
    both.is_some_and(|(one, other)| one.is_v6 == other.is_v6 && one.bits > other.bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_overlap_if_one_contains_the_other() {
        let overlaps = |one: &str, other: &str| Network::parse(one).unwrap().overlaps(&Network::parse(other).unwrap());
        assert!(overlaps("10.0.0.0/8", "10.96.0.0/12") && overlaps("0.0.0.0/0", "192.0.2.0/24"));
        assert!(!overlaps("10.0.0.0/24", "10.0.1.0/24") && !overlaps("::/0", "0.0.0.0/0"));
        assert!(Network::parse("10.0.0.0/33").is_none() && Network::parse("a/b").is_none());
    }

    #[test]
    fn compares_addresses_and_ignores_invalid_ones() {
        assert!(is_outside("10.0.0.1", "203.0.113.0/24") && is_outside("fd00::1", "10.0.0.0/8"));
        assert!(!is_outside("203.0.113.9", "203.0.113.0/24") && !is_outside("fd00::1", "fd00::/64"));
        assert!(!is_outside("999.0.0.1", "10.0.0.0/8") && !is_outside("10.0.0.1", "10.0.0.0/40"));
        assert!(is_after("10.0.0.10", "10.0.0.9") && !is_after("10.0.0.9", "10.0.0.10"));
        assert!(!is_after("10.0.0.9", "10.0.0.9") && !is_after("10.0.0.9", "x") && !is_after("fd00::1", "10.0.0.9"));
    }
}
