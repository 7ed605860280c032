//! Networks and addresses that are none, and networks that overlap: packets for one of them go to the other.

use std::net::IpAddr;

use serde_json::Value;

use super::place::keys_of;
use super::{Cloud, Judged};
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::observed::{Range, Site};
use osdpl_values::Values;
use osdpl_values::expr::network::Network;

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
/// What a feature takes that nobody knows, nobody can tell.
fn is_free(field: &str, catalog: &Catalog) -> bool {
    let keys = keys_of(field);
    let Some((feature, below)) = keys.get(2..).and_then(<[String]>::split_first) else { return false };
    let Some(feature) = catalog.features.get(feature) else { return true };
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
    let (pods, services): (Vec<_>, Vec<_>) = own(site).into_iter().partition(|(_, range)| range.is_of_pods);
    let mut pairs = pods.iter().flat_map(|one| services.iter().map(move |other| (one, other)));
    let ((_, pods), (_, services)) = pairs.find(|((one, _), (other, _))| one.overlaps(other))?;
    let message = format!(
        "{} overlaps {} of {}: a pod and a Service get the same address, and one of the two can't be reached; give the cluster's pods and Services \
         networks of their own before a cloud is in it (they are chosen when the cluster is made), or correct what was said of them",
        called(pods, site),
        services.cidr,
        services.what
    );
    Some(Judged::warning("address", "", message))
}

/// The cluster's own networks, but for what is none.
fn own(site: &Site) -> Vec<(Network, &Range)> {
    site.networks.iter().filter_map(|range| Some((Network::parse(&range.cidr)?, range))).collect()
}

/// One of the cluster's own, for people. Nodes come and go: where each has a part of what pods get, none is named, or the words would be others each time.
fn called(range: &Range, site: &Site) -> String {
    if range.is_of_pods && site.networks.iter().filter(|other| other.is_of_pods).count() > 1 {
        return "a network of the cluster's pods".into();
    }
    format!("{} of {}", range.cidr, range.what)
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
    let own = own(site);
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
                "{text} overlaps {}: from pods of the cloud what is there can't be reached, or the cluster's own can't; choose another range",
                called(range, site)
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
mod tests;
