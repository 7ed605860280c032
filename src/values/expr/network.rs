//! Parses and compares IP addresses and IP networks, such as `10.0.0.0/24`.

use std::net::IpAddr;

pub use ipnet::IpNet;

/// Parses an IP network: an address with a prefix length, such as `10.0.0.0/24`. Returns `None` if the string is
/// invalid.
///
/// The address need not be the first address of the network: `10.0.0.7/24` is valid.
///
/// The standard library parses the address, because `IpNet` would accept `010.0.0.0/8`, which Kubernetes rejects.
pub fn parse(text: &str) -> Option<IpNet> {
    let (address, prefix) = text.split_once('/')?;
    IpNet::new(address.parse().ok()?, prefix.parse().ok()?).ok()
}

/// Whether two IP networks have an address in common.
pub fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

/// Whether a string is an IP address.
pub(super) fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Whether an address is not in a network.
///
/// Returns `false` if the address or the network is invalid, because another check reports an invalid address or
/// network.
pub(super) fn is_outside(address: &str, network: &str) -> bool {
    let both = address.parse::<IpAddr>().ok().zip(parse(network));
    both.is_some_and(|(address, network)| !network.contains(&address))
}

/// Whether an address is higher than another address of the same IP version.
///
/// Returns `false` if one of the addresses is invalid.
pub(super) fn is_after(address: &str, other: &str) -> bool {
    let both = address.parse::<IpAddr>().ok().zip(other.parse::<IpAddr>().ok());
    both.is_some_and(|(one, other)| one.is_ipv4() == other.is_ipv4() && one > other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_overlap_if_one_contains_the_other() {
        let overlaps = |one: &str, other: &str| overlap(&parse(one).unwrap(), &parse(other).unwrap());
        assert!(overlaps("10.0.0.0/8", "10.96.0.0/12") && overlaps("0.0.0.0/0", "192.0.2.0/24"));
        assert!(!overlaps("10.0.0.0/24", "10.0.1.0/24") && !overlaps("::/0", "0.0.0.0/0"));
        assert!(overlaps("10.0.0.7/24", "10.0.0.200/25") && !overlaps("10.0.0.7/25", "10.0.0.200/25"));
        assert!(parse("10.0.0.0/33").is_none() && parse("a/b").is_none() && parse("010.0.0.0/8").is_none());
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
