//! Networks that overlap: packets for one of them go to the other.

use std::net::IpAddr;

use serde_json::Value;

use super::{Cloud, Judged};
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::Level;
use crate::observed::Site;
use crate::values::Values;

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
    !named(&spec.features).is_empty()
}

/// The networks of features, by their fields.
fn named(features: &Values) -> Vec<(String, String, Network)> {
    let mut networks = Vec::new();
    let features = features.iter().filter(|(name, _)| !ALLOWED.contains(&name.as_str()));
    features.for_each(|(name, value)| walk(value, &super::schema::below("spec.features", name), &mut networks));
    networks
}

/// Networks of the cloud's features, whoever set them, that overlap each other, or those of the cluster's own pods and Services.
pub(super) fn judge(cloud: &Cloud<'_>) -> Vec<Judged> {
    judged(&cloud.selection.features, &cloud.spec.features, cloud.site())
}

/// Refused is only what the user himself has written twice: another preset, or a cluster's own networks, are no reason to refuse a cloud that may run
/// so for years. What is behind a tunnel need not be met by pods.
fn judged(features: &Values, written: &Values, site: &Site) -> Vec<Judged> {
    let (mut networks, written) = (named(features), named(written));
    // What is refused elsewhere is no feature, and judged all the same.
    let refused = written.iter().filter(|(own, ..)| !networks.iter().any(|(field, ..)| field == own)).cloned();
    let refused: Vec<_> = refused.collect();
    networks.extend(refused);
    let is_written = |field: &String| written.iter().any(|(own, ..)| own == field);
    let own: Vec<_> = site.networks.iter().filter_map(|range| Some((Network::parse(&range.cidr)?, range))).collect();
    let mut found = Vec::new();
    for (index, (field, text, network)) in networks.iter().enumerate() {
        let clashes = || networks[..index].iter().filter(|(_, _, other)| network.overlaps(other));
        let clash = clashes().find(|(other, ..)| is_written(other)).or_else(|| clashes().next());
        found.extend(clash.map(|(other, theirs, _)| {
            let message = format!(
                "{text} overlaps {theirs} of {other}: packets for one would go to the other; choose another range"
            );
            let level = if is_written(field) && is_written(other) { Level::Error } else { Level::Warning };
            Judged { level, ..Judged::warning("address", field.clone(), message) }
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
    use crate::observed::Range;

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
        let features = features.as_object().unwrap();
        let spec = OpenStackDeploymentSpec { features: features.clone(), ..OpenStackDeploymentSpec::default() };
        assert!(names_networks(&spec) && !names_networks(&OpenStackDeploymentSpec::default()));
        let said = |written: &Values| -> Vec<_> {
            let found = judged(features, written, &Site::default()).into_iter();
            found.map(|judged| format!("{} {}: {}", judged.level.word(), judged.field, judged.message)).collect()
        };
        let brought = said(json!({"octavia": features["octavia"]}).as_object().unwrap());
        assert_eq!((brought.len(), brought[0].starts_with("warning spec.features.")), (1, true), "{brought:?}");
        assert_eq!(
            said(features),
            [
                "error spec.features.octavia.network.cidr: 10.10.0.0/16 overlaps 10.10.3.0/24 of spec.features.network.external[0].cidr: packets for one would go to the other; choose another range"
            ]
        );
    }

    #[test]
    fn a_network_of_the_clusters_own_is_warned_of() {
        let features = json!({"network": {"tunnelNetwork": "10.96.10.0/24"}});
        let range = Range { what: "Services".into(), cidr: "10.96.0.0/12".into() };
        let site = Site { networks: vec![range], ..Site::default() };
        let found = judged(features.as_object().unwrap(), &Values::new(), &site);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].level, found[0].field.as_str()), (Level::Warning, "spec.features.network.tunnelNetwork"));
        assert!(found[0].message.starts_with("10.96.10.0/24 overlaps 10.96.0.0/12 of Services: "), "{found:?}");
    }
}
