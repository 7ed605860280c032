//! Networks and addresses that are none, and networks that overlap: packets for one of them go to the other.

use std::net::IpAddr;

use serde_json::Value;

use super::place::keys_of;
use super::{Cloud, Judged};
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::{Catalog, Level};
use crate::expr::network::Network;
use crate::observed::Site;
use crate::values::Values;

/// Keys below which networks are allowed to overlap: they say who may come in, not what is where.
const ALLOWED: [&str; 4] = ["networkPolicies", "clients", "nodes", "allowed"];

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

/// A text in features.
struct Said<'a> {
    field: String,
    text: &'a str,
    /// Whether it stands below one of [`ALLOWED`].
    is_allowed: bool,
}

/// The networks of features, by their fields.
fn named(features: &Values) -> Vec<(String, String, Network)> {
    let placed = texts(features).into_iter().filter(|said| !said.is_allowed);
    placed.filter_map(|Said { field, text, .. }| Some((field, text.to_owned(), Network::parse(text)?))).collect()
}

/// Every text of features.
fn texts(features: &Values) -> Vec<Said<'_>> {
    let mut found = Vec::new();
    below(features, "spec.features", false, &mut found);
    found
}

/// Networks of the cloud's features, whoever set them, that overlap each other, or those of the cluster's own pods and Services.
pub(super) fn judge(cloud: &Cloud<'_>) -> Vec<Judged> {
    let mut found = unreadable(&cloud.spec.features);
    // A check of the feature knows better what the field is for.
    found.retain(|judged| !cloud.selection.findings.iter().any(|told| told.field == judged.field));
    found.retain(|judged| !is_free(&judged.field, cloud.catalog));
    found.extend(judged(&cloud.selection.features, &cloud.spec.features, cloud.site()));
    found.extend(of_cluster(cloud.site()));
    found
}

/// Whether a field of features is an entry of a map that takes any text, such as options of a driver: what looks like an address there, a version it may be.
fn is_free(field: &str, catalog: &Catalog) -> bool {
    let keys = keys_of(field);
    let Some((feature, below)) = keys.get(2..).and_then(<[String]>::split_first) else { return false };
    let Some(feature) = catalog.features.get(feature) else { return false };
    let mut schema: &Value = &feature.schema;
    let mut is_free = false;
    for key in below {
        let (known, any) = (&schema["properties"][key], &schema["additionalProperties"]);
        is_free = known.is_null() && any.is_object() && any["pattern"].is_null();
        schema = match (known.is_null(), schema["items"].is_null()) {
            (false, _) => known,
            (true, false) => &schema["items"],
            (true, true) => any,
        };
    }
    is_free
}

/// The first two of the cluster's own that overlap, where one is of pods and the other of Services.
fn of_cluster(site: &Site) -> Option<Judged> {
    let networks: Vec<_> =
        site.networks.iter().filter_map(|range| Some((range, Network::parse(&range.cidr)?))).collect();
    let pairs = networks.iter().flat_map(|one| networks.iter().map(move |other| (one, other)));
    let mut pairs = pairs.filter(|((pods, _), (services, _))| pods.is_of_pods && !services.is_of_pods);
    let ((pods, _), (services, _)) = pairs.find(|((_, one), (_, other))| one.overlaps(other))?;
    let message = format!(
        "{} of {} overlaps {} of {}: a pod and a Service get the same address, and one of the two can't be reached; give the cluster's pods and Services \
         networks of their own before a cloud is in it (they are chosen when the cluster is made), or correct what was said of them",
        pods.cidr, pods.what, services.cidr, services.what
    );
    Some(Judged::warning("address", "", message))
}

/// What has the shape of a network or an address, and is none: patterns of schemas do not count to 255.
fn unreadable(written: &Values) -> Vec<Judged> {
    let said = texts(written).into_iter().filter_map(|Said { field, text, .. }| {
        let (part, problem) = text.split(',').find_map(|part| Some((part.trim(), problem(part.trim())?)))?;
        Some(Judged::error("address", field, format!("{part:?}: {problem}")))
    });
    said.collect()
}

/// What is wrong with what looks like a network or an address.
fn problem(text: &str) -> Option<String> {
    let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let is_of = |more: &str| address.chars().all(|c| c.is_ascii_digit() || more.contains(c));
    let is_v4 = is_of(".") && address.contains('.');
    let is_v6 = is_of("abcdefABCDEF:.") && address.contains(':');
    match prefix {
        Some(prefix) if !prefix.is_empty() && prefix.chars().all(|c| c.is_ascii_digit()) && (is_v4 || is_v6) => {
            check_network(text).err()
        }
        // Versions have dots as well, and addresses of interfaces colons.
        None if is_v4 && address.matches('.').count() == 3 || is_v6 && address.contains("::") => {
            let wanted = "this is no address; wanted is one such as 192.0.2.10 or 2001:db8::10";
            address.parse::<IpAddr>().is_err().then(|| wanted.to_owned())
        }
        _ => None,
    }
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

fn below<'a>(map: &'a Values, field: &str, is_allowed: bool, found: &mut Vec<Said<'a>>) {
    for (key, value) in map {
        let is_allowed = is_allowed || ALLOWED.contains(&key.as_str());
        walk(value, super::schema::below(field, key), is_allowed, found);
    }
}

fn walk<'a>(value: &'a Value, field: String, is_allowed: bool, found: &mut Vec<Said<'a>>) {
    match value {
        Value::Object(map) => below(map, &field, is_allowed, found),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, item)| walk(item, format!("{field}[{index}]"), is_allowed, found));
        }
        Value::String(text) => found.push(Said { field, text, is_allowed }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::observed::Range;

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
    fn what_looks_like_a_network_or_an_address_is_one() {
        let told = |text: &str| {
            let features = json!({"any": {"nodes": [text]}});
            let found = unreadable(features.as_object().unwrap()).into_iter();
            found.map(|judged| format!("{}: {}", judged.field, judged.message)).collect::<Vec<_>>()
        };
        for (text, expected) in [
            ("10.0.0.0/40", "spec.features.any.nodes[0]: \"10.0.0.0/40\": the prefix length is none (IPv4 has 0 to 32"),
            (
                "1.1.1.1,999.1.1.1",
                "spec.features.any.nodes[0]: \"999.1.1.1\": this is no address; wanted is one such as",
            ),
            ("10.0/8", "spec.features.any.nodes[0]: \"10.0/8\": this is no address; wanted is a network"),
            ("fd00::/129", "spec.features.any.nodes[0]: \"fd00::/129\": the prefix length is none"),
            ("fd00::1::2", "spec.features.any.nodes[0]: \"fd00::1::2\": this is no address; wanted is one such as"),
        ] {
            let said = told(text);
            assert!(said.len() == 1 && said[0].starts_with(expected), "{said:?}");
        }
        for text in [
            "10.0.0.0/8",
            "10.0.0.1, fd00::1",
            "2026.1.0",
            "52:54:00:12:34:56",
            "1:1000",
            "*/5 * * * *",
            "a/b",
            "v1.2/3",
        ] {
            assert_eq!(told(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn an_entry_of_a_map_that_takes_any_text_need_not_be_an_address() {
        let catalog = crate::files::catalog(None).unwrap();
        let at = |field: &str| is_free(field, &catalog);
        assert!(at("spec.features.volumes.backends[0].options.firmware"));
        assert!(!at("spec.features.volumes.backends[0].host") && !at("spec.features.network.dnsServers"));
        assert!(!at("spec.features.nothing.of.this"));
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
        let range = Range { what: "Services".into(), is_of_pods: false, cidr: "10.96.0.0/12".into() };
        let site = Site { networks: vec![range], ..Site::default() };
        let found = judged(features.as_object().unwrap(), &Values::new(), &site);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].level, found[0].field.as_str()), (Level::Warning, "spec.features.network.tunnelNetwork"));
        assert!(found[0].message.starts_with("10.96.10.0/24 overlaps 10.96.0.0/12 of Services: "), "{found:?}");
    }

    #[test]
    fn pods_and_services_of_the_cluster_that_share_addresses_are_told_once() {
        let range = |is_of_pods, cidr: &str| {
            let what = if is_of_pods { "pods" } else { "Services" };
            Range { what: what.into(), is_of_pods, cidr: cidr.into() }
        };
        let said = |networks: Vec<Range>| of_cluster(&Site { networks, ..Site::default() }).map(|told| told.message);
        let told = said(vec![range(true, "10.0.0.0/8"), range(false, "10.96.0.0/12"), range(true, "10.96.1.0/24")]);
        assert!(told.unwrap().starts_with("10.0.0.0/8 of pods overlaps 10.96.0.0/12 of Services: "));
        let apart = vec![range(true, "10.244.0.0/16"), range(false, "10.96.0.0/12"), range(false, "10.96.0.1/32")];
        assert_eq!(said(apart), None, "and two of Services may");
    }
}
