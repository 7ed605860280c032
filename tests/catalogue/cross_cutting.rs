//! Checks the features that affect many services with the cases in `cross_cutting.yaml`: the values that they set, the
//! secrets in these values that osdpl redacts, and the findings that osdpl reports.

use std::collections::BTreeMap;

use osdpl_core::desired::redact;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::clouds::{at, base_spec, catalogue, refusals, resolved, resolved_reading};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    sets: Vec<Sets>,
    secrets: Vec<Secret>,
    says: Vec<Reported>,
}

/// A case of `sets` in `cross_cutting.yaml`. In a cloud with these features and services, the values of each release in
/// `releases` must contain the expected value at each path.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sets {
    features: Value,
    #[serde(default)]
    services: Map<String, Value>,
    releases: BTreeMap<String, BTreeMap<String, Value>>,
}

/// A case of `secrets` in `cross_cutting.yaml`. In a cloud with these features and services, the values of `release`
/// must contain the secret `text`, and osdpl must redact this secret in its output.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Secret {
    features: Value,
    #[serde(default)]
    services: Map<String, Value>,
    release: String,
    text: String,
}

/// A case of `says` in `cross_cutting.yaml`. For a cloud with these features and services, osdpl must report a finding
/// that begins with `text`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reported {
    features: Value,
    #[serde(default)]
    services: Map<String, Value>,
    text: String,
}

fn table() -> Table {
    osdpl_values::yaml::parse("cross_cutting.yaml", include_str!("cross_cutting.yaml")).unwrap()
}

/// Returns the spec of a cloud with public endpoints, these features and these services.
fn public(features: &Value, services: &Map<String, Value>) -> Value {
    let gateway = json!({"name": "gate", "namespace": "gateways"});
    let mut all = json!({"publicEndpoints": {"enabled": true, "gateway": gateway}});
    all.as_object_mut().unwrap().extend(features.as_object().unwrap().clone());
    base_spec(&json!({"publicDomain": "example.org", "features": all, "services": services}))
}

#[test]
fn each_feature_sets_its_values() {
    let catalog = catalogue();
    for Sets { features, services, releases } in table().sets {
        let desired = resolved(catalog, &public(&features, &services));
        assert_eq!(refusals(&desired), Vec::<String>::new(), "{features}");
        for (release, paths) in releases {
            for (path, expected) in paths {
                let found = at(&desired.releases[&release].values, &path);
                assert_eq!(found, Some(&expected), "{features}: {release} {path}");
            }
        }
    }
}

#[test]
fn unset_features_set_nothing() {
    let catalog = catalogue();
    for Sets { features, services, releases } in table().sets {
        let desired = resolved(catalog, &public(&json!({}), &services));
        for (name, paths) in releases {
            let Some(release) = desired.releases.get(&name) else { continue };
            let differs = paths.iter().any(|(path, value)| at(&release.values, path) != Some(value));
            assert!(differs, "{features} {name}");
        }
    }
}

#[test]
fn secrets_are_never_shown() {
    let catalog = catalogue();
    for Secret { features, services, release, text } in table().secrets {
        let desired = resolved(catalog, &public(&features, &services));
        let release = &desired.releases[&release];
        assert!(Value::Object(release.values.clone()).to_string().contains(&text), "{features}");
        assert!(!Value::Object(redact(&release.values, &release.secret)).to_string().contains(&text), "{features}");
    }
}

#[test]
fn each_check_reports_a_finding() {
    let catalog = catalogue();
    let mut wrong = Vec::new();
    for Reported { features, services, text } in table().says {
        let spec = base_spec(&json!({"features": features, "services": services}));
        let findings: Vec<String> = resolved(catalog, &spec).findings.iter().map(ToString::to_string).collect();
        if !findings.iter().any(|finding| finding.starts_with(&text)) {
            wrong.push(format!("{features}: {text}\n{findings:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Two parsers read the password in clouds.yaml: first helm's template engine, then a YAML parser. Neither parser may
/// change the password.
#[test]
fn clouds_yaml_password_survives_templates_and_yaml() {
    let cloud = json!({"secretName": "orc", "username": "bob", "passwordSecret": {"name": "bob", "key": "password"}});
    let spec = base_spec(&json!({"features": {"serviceAccounts": {"clouds": [cloud]}}}));
    for password in ["plain", "a\\b\\n", "a\"b: c", "{{ .Values }}{{{", "two\nlines", "`e` '{"] {
        let desired = resolved_reading(catalogue(), &spec, "bob", "password", password);
        assert_eq!(refusals(&desired), Vec::<String>::new());
        let objects = at(&desired.releases["keystone"].values, "extraObjects").unwrap().as_object().unwrap();
        let text = objects.values().find_map(|object| object["stringData"]["clouds.yaml"].as_str()).unwrap();
        // Render the template by hand: its only expression prints `{{`.
        let parts: Vec<&str> = text.split("{{`{{`}}").collect();
        assert!(!parts.concat().contains("{{"), "{text}");
        let read: Value = osdpl_values::yaml::parse("clouds.yaml", &parts.join("{{")).unwrap();
        assert_eq!(read["clouds"]["openstack"]["auth"]["password"], password);
    }
}
