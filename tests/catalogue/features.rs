//! Checks the values that each feature sets, and its errors and warnings.

#[path = "features/agents.rs"]
mod agents;
#[path = "features/compute.rs"]
mod compute;
#[path = "features/images.rs"]
mod images;
#[path = "features/load_balancers.rs"]
mod load_balancers;
#[path = "features/network.rs"]
mod network;
#[path = "features/outside.rs"]
mod outside;
#[path = "features/services.rs"]
mod services;
#[path = "features/storage.rs"]
mod storage;

use osdpl_core::catalog::Catalog;
use osdpl_core::desired::Desired;
use serde_json::{Value, json};

use crate::clouds::{at, base_spec, catalogue, refusals, resolved};

/// A release, a path in its values and the expected value. Null means that osdpl removes the chart's default.
type Set = (&'static str, &'static str, Value);

/// Resolves a cloud with these features. If the storage backend is `ceph`, adds an external Ceph.
fn cloud(catalog: &Catalog, features: &Value) -> Desired {
    let mut features = features.clone();
    if features["storage"]["backend"] == "ceph" {
        features["storage"]["ceph"] = json!({"mode": "external", "secret": {"name": "ceph"}});
    }
    resolved(catalog, &base_spec(&json!({"features": features})))
}

/// Checks each case: osdpl must accept a cloud with the case's features, and set the expected values.
fn sets(cases: &[(Value, &[Set])]) {
    let catalog = catalogue();
    for (features, expected) in cases {
        let desired = cloud(catalog, features);
        assert_eq!(refusals(&desired), Vec::<String>::new(), "{features}");
        for (release, path, value) in *expected {
            let found = at(&desired.releases[*release].values, path);
            assert_eq!(found, Some(value), "{features}: {release}: {path}");
        }
    }
}

/// Checks each case, which consists of a change of the base spec, a field and texts: osdpl must report a finding at
/// this field, and the finding's message must contain all of the texts.
fn reports(cases: &[(Value, &str, &[&str])]) {
    let catalog = catalogue();
    for (change, field, parts) in cases {
        let desired = resolved(catalog, &base_spec(change));
        let reported: Vec<_> = desired.findings.iter().filter(|finding| finding.location.field == *field).collect();
        let fits = reported.iter().any(|finding| parts.iter().all(|part| finding.text().contains(part)));
        assert!(fits, "{change}: no finding at {field} contains {parts:?}: {:#?}", desired.findings);
    }
}

#[test]
fn every_feature_property_is_described_and_bounded() {
    fn walk(schema: &Value, path: &str, violations: &mut Vec<String>) {
        let kind = schema["type"].as_str().unwrap_or_default();
        let bounded = match kind {
            "array" => schema["maxItems"].is_u64(),
            "string" => schema["enum"].is_array() || schema["maxLength"].is_u64(),
            "integer" | "number" => schema["minimum"].is_number() && schema["maximum"].is_number(),
            "object" if schema["additionalProperties"].is_object() => schema["maxProperties"].is_u64(),
            kind => ["boolean", "object"].contains(&kind),
        };
        if !bounded {
            violations.push(format!("{path}: no bound"));
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if property["description"].as_str().is_none_or(str::is_empty) {
                violations.push(format!("{path}: no description"));
            }
            walk(property, &path, violations);
        }
        for below in ["items", "additionalProperties"] {
            if schema[below].is_object() {
                walk(&schema[below], &format!("{path}[]"), violations);
            }
        }
    }
    let mut violations = Vec::new();
    for name in
        ["bareMetal", "compute", "dnsService", "images", "instanceHa", "loadBalancer", "network", "shares", "volumes"]
    {
        walk(&catalogue().features[name].schema, name, &mut violations);
    }
    assert!(violations.is_empty(), "{violations:#?}");
}
