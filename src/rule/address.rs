//! Networks that overlap: packets for one of them go to the other.

use std::net::IpAddr;

use serde_json::Value;

use super::Judged;
use crate::api::OpenStackDeploymentSpec;
use crate::observed::Site;

/// Keys below which networks are allowed to overlap: they say who may come in, not what is where.
const ALLOWED: [&str; 4] = ["networkPolicies", "clients", "nodes", "allowed"];

/// A network as people write it: `10.0.0.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    bits: u128,
    prefix: u32,
    is_v6: bool,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let prefix: u32 = prefix.parse().ok()?;
        let (bits, width, is_v6) = match address.parse().ok()? {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32, false),
            IpAddr::V6(address) => (address.to_bits(), 128, true),
        };
        (prefix <= width).then_some(Self { bits, prefix, is_v6 })
    }

    fn overlaps(&self, other: &Self) -> bool {
        let common = self.prefix.min(other.prefix);
        let part = |bits: u128| bits.checked_shr(128 - common).unwrap_or_default();
        self.is_v6 == other.is_v6 && part(self.bits) == part(other.bits)
    }
}

/// Whether a text is a network with its prefix length.
///
/// # Errors
/// What it lacks, and what is wanted.
pub fn check_network(text: &str) -> Result<(), String> {
    if Network::parse(text).is_some() {
        return Ok(());
    }
    let wanted = "wanted is a network, such as 10.244.0.0/16 or fd00:10:244::/48";
    Err(match (text.split_once('/'), text.parse::<IpAddr>()) {
        (None, Ok(_)) => format!("the prefix length is missing; {wanted}"),
        (Some((address, _)), _) if address.parse::<IpAddr>().is_ok() => {
            format!("the prefix length is none (IPv4 has 0 to 32, IPv6 0 to 128); {wanted}")
        }
        _ => format!("this is no address; {wanted}"),
    })
}

/// Whether the features of a spec name any network at all.
pub fn names_networks(spec: &OpenStackDeploymentSpec) -> bool {
    !named(spec).is_empty()
}

/// The networks of the spec's features, by their fields.
fn named(spec: &OpenStackDeploymentSpec) -> Vec<(String, String, Network)> {
    let mut networks = Vec::new();
    let features = spec.features.iter().filter(|(name, _)| !ALLOWED.contains(&name.as_str()));
    features.for_each(|(name, value)| walk(value, &super::schema::below("spec.features", name), &mut networks));
    networks
}

/// Networks of the spec's features that overlap each other, or those of the cluster's own pods and Services.
///
/// The latter is no reason to refuse a cloud that may run so for years: what is behind a tunnel need not be met by pods.
pub(super) fn judge(spec: &OpenStackDeploymentSpec, site: &Site) -> Vec<Judged> {
    let networks = named(spec);
    let own: Vec<_> = site.networks.iter().filter_map(|range| Some((Network::parse(&range.cidr)?, range))).collect();
    let mut found = Vec::new();
    for (index, (field, text, network)) in networks.iter().enumerate() {
        let clash = networks[..index].iter().find(|(_, _, other)| network.overlaps(other));
        found.extend(clash.map(|(other, theirs, _)| {
            let message = format!(
                "{text} overlaps {theirs} of {other}: packets for one would go to the other; choose another range"
            );
            Judged::error("address", field.clone(), message)
        }));
        let clash = own.iter().find(|(other, _)| network.overlaps(other));
        found.extend(clash.map(|(_, range)| {
            let message = format!(
                "{text} overlaps {} of {}: from pods of the cloud what is there can't be reached, or the cluster's own can't; choose another range",
                range.cidr, range.what
            );
            Judged::warning("address", field.clone(), message)
        }));
    }
    found
}

fn walk(value: &Value, field: &str, networks: &mut Vec<(String, String, Network)>) {
    match value {
        Value::Object(map) => {
            let named = map.iter().filter(|(key, _)| !ALLOWED.contains(&key.as_str()));
            named.for_each(|(key, value)| walk(value, &super::schema::below(field, key), networks));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| walk(item, &format!("{field}[{index}]"), networks));
        }
        Value::String(text) => {
            networks.extend(Network::parse(text).map(|network| (field.to_owned(), text.clone(), network)));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn networks_overlap_where_one_holds_the_other() {
        let overlaps = |one: &str, other: &str| Network::parse(one).unwrap().overlaps(&Network::parse(other).unwrap());
        assert!(overlaps("10.0.0.0/8", "10.96.0.0/12") && overlaps("0.0.0.0/0", "192.0.2.0/24"));
        assert!(!overlaps("10.0.0.0/24", "10.0.1.0/24") && !overlaps("::/0", "0.0.0.0/0"));
        assert!(Network::parse("10.0.0.0/33").is_none() && Network::parse("a/b").is_none());
    }

    #[test]
    fn what_is_no_network_is_told_what_it_lacks_and_what_is_wanted() {
        for (text, lacks) in [
            ("10.0.0.0", "the prefix length is missing; wanted is a network, such as 10.244.0.0/16"),
            ("10.0.0.0/33", "the prefix length is none (IPv4 has 0 to 32, IPv6 0 to 128); "),
            ("10.0.0.0/x", "the prefix length is none"),
            ("pods", "this is no address; wanted is "),
            ("", "this is no address; "),
        ] {
            let said = check_network(text).unwrap_err();
            assert!(said.starts_with(lacks), "{text}: {said}");
        }
        assert_eq!((check_network("10.244.0.0/16"), check_network("fd00::/48")), (Ok(()), Ok(())));
    }

    #[test]
    fn two_networks_of_the_features_that_overlap_are_told_once() {
        let features = json!({"octavia": {"network": {"cidr": "10.10.0.0/16"}}, "network": {"external": [{"cidr": "10.10.3.0/24"}]},
                              "networkPolicies": {"clients": ["10.0.0.0/8"]}});
        let spec: OpenStackDeploymentSpec =
            serde_json::from_value(json!({"openstackRelease": "2026.1", "features": features})).unwrap();
        let found: Vec<_> = judge(&spec, &Site::default())
            .into_iter()
            .map(|judged| format!("{}: {}", judged.field, judged.message))
            .collect();
        assert_eq!(
            found,
            [
                "spec.features.octavia.network.cidr: 10.10.0.0/16 overlaps 10.10.3.0/24 of spec.features.network.external[0].cidr: packets for one would go to the other; choose another range"
            ]
        );
    }
}
