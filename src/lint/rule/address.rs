//! Checks that IP networks and addresses in features are valid, and that networks do not overlap.

use std::net::IpAddr;

use serde_json::Value;

use crate::cloud::Cloud;
use crate::field::keys_of_field;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::schema::field_path;
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::finding::Finding;
use osdpl_core::observed::{ClusterInfo, Range};
use osdpl_values::Values;
use osdpl_values::expr::network::{self, IpNet, overlap};

/// The keys below which features list the networks of permitted clients.
///
/// Such a network may overlap other networks, because osdpl assigns no addresses from it.
const ALLOWED: [&str; 4] = ["networkPolicies", "clients", "nodes", "allowed"];

/// Checks that a string is an IP network with a prefix length, such as `10.244.0.0/16`.
///
/// # Errors
/// Returns an error if the string is not such a network. The message contains the problem and an example of a valid
/// network.
pub fn check_network(text: &str) -> Result<(), String> {
    if network::parse(text).is_some() {
        return Ok(());
    }
    let expected = "write a network such as 10.244.0.0/16 or fd00:10:244::/48";
    Err(match (text.split_once('/'), text.parse::<IpAddr>()) {
        (None, Ok(_)) => format!("the prefix length is missing; {expected}"),
        (Some((address, _)), _) if address.parse::<IpAddr>().is_ok() => {
            format!("the prefix length is invalid (0 to 32 for IPv4, 0 to 128 for IPv6); {expected}")
        }
        _ => format!("this is not an IP address; {expected}"),
    })
}

/// Whether the features of a spec contain an IP network, such as `10.0.0.0/24`. Networks of permitted clients do not
/// count.
pub fn names_networks(spec: &OpenStackDeploymentSpec) -> bool {
    !networks(&spec.features).is_empty()
}

/// A string value in the features of a spec.
struct Text<'a> {
    field: String,
    value: &'a str,
    /// Whether the field is below one of the keys in [`ALLOWED`].
    is_allowed: bool,
}

/// Returns each IP network in the features: its field, and the network as written and in parsed form.
///
/// Leaves out networks below the keys in [`ALLOWED`].
fn networks(features: &Values) -> Vec<(String, String, IpNet)> {
    let assigned = texts(features).into_iter().filter(|text| !text.is_allowed);
    assigned.filter_map(|Text { field, value, .. }| Some((field, value.to_owned(), network::parse(value)?))).collect()
}

/// Returns every string in the features with its field.
fn texts(features: &Values) -> Vec<Text<'_>> {
    let mut found = Vec::new();
    walk_map(features, "spec.features", false, &mut found);
    found
}

/// Reports invalid networks and addresses in the features, and networks that overlap each other or the cluster's own
/// pod and Service networks.
pub(super) fn check(cloud: &Cloud<'_>) -> Vec<Finding> {
    let mut found = invalid_texts(&cloud.spec.features);
    // If the catalogue already reports a field, drop this rule's finding about the field, because the catalogue's
    // message is more precise.
    found.retain(|finding| !cloud.selection.findings.iter().any(|known| known.field() == finding.field()));
    found.retain(|finding| !is_free_form(finding.field(), cloud.catalog));
    found.extend(overlaps(&cloud.selection.features, &cloud.spec.features, cloud.cluster_info()));
    found.extend(cluster_overlap(cloud.cluster_info()));
    found
}

/// Whether a field belongs to a map that takes any string, such as the options of a driver.
///
/// In such a map, a string that looks like an address may be a version number. The function also returns true if the
/// spec's feature is unknown, because another finding already reports the feature.
fn is_free_form(field: &str, catalog: &Catalog) -> bool {
    let keys = keys_of_field(field);
    let Some((feature, below)) = keys.get(2..).and_then(<[String]>::split_first) else { return false };
    let Some(feature) = catalog.features.get(feature) else { return true };
    let mut schema: &Value = &feature.schema;
    let mut is_free_form = false;
    for key in below {
        let (known, others) = (&schema["properties"][key], &schema["additionalProperties"]);
        is_free_form = known.is_null() && others.is_object() && others["pattern"].is_null();
        schema = match (known.is_null(), schema["items"].is_null()) {
            (false, _) => known,
            (true, false) => &schema["items"],
            (true, true) => others,
        };
    }
    is_free_form
}

/// Reports a pod network that overlaps a Service network of the cluster. Of several overlaps, reports only the first.
fn cluster_overlap(cluster_info: &ClusterInfo) -> Option<Finding> {
    let (pods, services): (Vec<_>, Vec<_>) =
        cluster_networks(cluster_info).into_iter().partition(|(_, range)| range.is_of_pods);
    let mut pairs = pods.iter().flat_map(|one| services.iter().map(move |other| (one, other)));
    let ((_, pods), (_, services)) = pairs.find(|((one, _), (other, _))| overlap(one, other))?;
    let message = format!(
        "{} overlaps {} of {}: a pod and a Service can get the same address, and one of the two can't be reached; give pods and Services separate \
         networks before a cloud runs in the cluster (these networks are chosen when the cluster is created), or correct the networks given to osdpl",
        describe(pods, cluster_info),
        services.cidr,
        services.description
    );
    Some(Finding::warning("address", "", message))
}

/// Returns the pod and Service networks of the cluster, without networks that can't be parsed.
fn cluster_networks(cluster_info: &ClusterInfo) -> Vec<(IpNet, &Range)> {
    cluster_info.networks.iter().filter_map(|range| Some((network::parse(&range.cidr)?, range))).collect()
}

/// Describes one of the networks of the cluster for a message.
///
/// If the cluster has several pod networks, one for each node, the description contains no address range. With the
/// range, the message would change whenever a node is added or removed.
fn describe(range: &Range, cluster_info: &ClusterInfo) -> String {
    if range.is_of_pods && cluster_info.networks.iter().filter(|other| other.is_of_pods).count() > 1 {
        return "a network of the cluster's pods".into();
    }
    format!("{} of {}", range.cidr, range.description)
}

/// Reports strings that look like a network or an address but are not valid.
///
/// The patterns in the schemas of features do not refuse an address such as 10.0.0.999.
fn invalid_texts(written: &Values) -> Vec<Finding> {
    let findings = texts(written).into_iter().filter_map(|Text { field, value: text, .. }| {
        let (part, problem) = text.split(',').find_map(|part| Some((part.trim(), problem(part.trim())?)))?;
        Some(Finding::error("address", field, format!("{part:?}: {problem}")))
    });
    findings.collect()
}

/// Returns the problem of a string that looks like a network or an address but is not valid; `None` for all other
/// strings.
fn problem(text: &str) -> Option<String> {
    let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let consists_of = |more: &str| address.chars().all(|c| c.is_ascii_digit() || more.contains(c));
    let is_v4 = consists_of(".") && address.contains('.');
    let is_v6 = consists_of("abcdefABCDEF:.") && address.contains(':');
    match prefix {
        Some(prefix) if !prefix.is_empty() && prefix.chars().all(|c| c.is_ascii_digit()) && (is_v4 || is_v6) => {
            check_network(text).err()
        }
        // Treat a string without a prefix length as an address only if it has three dots or contains `::`. Versions
        // also contain dots, and MAC addresses also contain colons.
        None if is_v4 && address.matches('.').count() == 3 || is_v6 && address.contains("::") => {
            let expected = "this is not an IP address; write one such as 192.0.2.10 or 2001:db8::10";
            address.parse::<IpAddr>().is_err().then(|| expected.to_owned())
        }
        _ => None,
    }
}

/// Reports overlapping networks.
///
/// `features` contains the settings of features from presets and from the spec; `written` contains only what the user
/// wrote in the spec. An overlap is an error only if the user wrote both networks. An overlap with a network of a
/// preset or of the cluster is only a warning, because an existing cloud with this overlap can work, as long as its
/// pods send no packets to the network of the preset or the cluster.
fn overlaps(features: &Values, written: &Values, cluster_info: &ClusterInfo) -> Vec<Finding> {
    let (mut networks, written) = (networks(features), networks(written));
    // `features` does not contain features whose settings violate their schema, but `written` contains every feature as
    // the user wrote it. So add the networks that only `written` contains.
    let refused = written.iter().filter(|(own, ..)| !networks.iter().any(|(field, ..)| field == own)).cloned();
    let refused: Vec<_> = refused.collect();
    networks.extend(refused);
    let is_written = |field: &String| written.iter().any(|(written, ..)| written == field);
    let of_cluster = cluster_networks(cluster_info);
    let mut found = Vec::new();
    for (index, (field, text, network)) in networks.iter().enumerate() {
        let overlapping = || networks[..index].iter().filter(|(_, _, other)| overlap(network, other));
        let overlapped = overlapping().find(|(other, ..)| is_written(other)).or_else(|| overlapping().next());
        found.extend(overlapped.map(|(other, other_text, _)| {
            let message = format!(
                "{text} overlaps {other_text} of {other}: packets for one would go to the other; choose another range"
            );
            let level = if is_written(field) && is_written(other) { Level::Error } else { Level::Warning };
            Finding { level, ..Finding::warning("address", field.clone(), message) }
        }));
        let overlapped = of_cluster.iter().find(|(other, _)| overlap(network, other));
        found.extend(overlapped.map(|(_, range)| {
            let message = format!(
                "{text} overlaps {}, so pods of the cloud can reach only one of the two networks; choose another range",
                describe(range, cluster_info)
            );
            Finding::warning("address", field.clone(), message)
        }));
    }
    found
}

fn walk_map<'a>(map: &'a Values, field: &str, is_allowed: bool, found: &mut Vec<Text<'a>>) {
    for (key, value) in map {
        let is_allowed = is_allowed || ALLOWED.contains(&key.as_str());
        walk(value, field_path(field, key), is_allowed, found);
    }
}

fn walk<'a>(value: &'a Value, field: String, is_allowed: bool, found: &mut Vec<Text<'a>>) {
    match value {
        Value::Object(map) => walk_map(map, &field, is_allowed, found),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, item)| walk(item, format!("{field}[{index}]"), is_allowed, found));
        }
        Value::String(text) => found.push(Text { field, value: text, is_allowed }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
