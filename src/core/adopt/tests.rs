use serde_json::{Value, json};

use super::*;
use crate::catalog::{Catalog, Level};
use crate::desired::{Facts, Selection};
use crate::observed::{ComparisonResult, ReleaseKey};
use crate::release::{Chart, RevisionSource};

fn catalog() -> Catalog {
    Catalog::load(&crate::testing::files(&[])).unwrap()
}

fn found(name: &str, chart: &str, defaults: Value, config: Value) -> InstalledRelease {
    let map = |value: Value| serde_json::from_value(value).unwrap();
    let chart = Chart { name: chart.into(), version: "1.0.0".into(), app_version: String::new() };
    let source = RevisionSource { config: map(config), chart, defaults: map(defaults), fingerprint: String::new() };
    InstalledRelease::new(ReleaseKey::new("cloud", name), 3, source)
}

/// Returns releases that a person installed with helm: `front`, `store` (as the helm release `db`), and `blog`. The
/// catalogue contains `front` and `store`, but not `blog`.
fn by_hand() -> Vec<InstalledRelease> {
    let images = json!({"tags": {"api": "example.org/front:t1"}});
    let defaults = json!({"conf": {"region": "RegionOne", "debug": false, "old": 1}, "auth": {"admin": "password"}, "images": images});
    let front = json!({
        "conf": {"region": "R2", "password": "theirs", "colour": "blue", "debug": true, "old": null},
        "auth": {"admin": "s3cret"}, "tls": {"key": "-----BEGIN PRIVATE KEY-----"},
    });
    vec![
        found("front", "front", defaults, front),
        found("db", "store", json!({"auth": {"admin": "password"}}), json!({"auth": {"admin": "s3cret"}, "size": 5})),
        found("blog", "wordpress", json!({}), json!({})),
    ]
}

fn described(found: &[InstalledRelease]) -> Description {
    let catalog = catalog();
    let known = identify_releases(found, &catalog);
    let provide_facts = |_: &Selection| Facts { helm_major: 4, ..Facts::default() };
    CloudInventory::new("cloud", "nimbus", &known, &catalog, &provide_facts).describe()
}

#[test]
fn describes_a_cloud_by_presets_and_overrides() {
    let Description { spec, secrets, compared, findings, installs, .. } = described(&by_hand());
    assert_eq!(installs, [""; 0]);
    assert!(findings.iter().all(|finding| finding.level != Level::Error), "{findings:?}");
    let expected = json!({
        "openstackRelease": "2026.1", "presets": ["small"], "region": "R2", "paused": true,
        "features": {"colour": {"name": "blue"}},
        "services": {
            "front": {
                "credentials": {"user": {"name": "nimbus-adopted-credentials-front", "key": "user"}},
                "releases": {"front": {
                    "values": {"conf": {"debug": true}}, "unset": ["conf.old"],
                    "valuesFrom": [{"kind": "Secret", "name": "nimbus-adopted-front"}],
                }},
            },
            "store": {
                "credentials": {"admin": {"name": "nimbus-adopted-credentials-store", "key": "admin"}},
                "releases": {"store": {"name": "db", "values": {"size": 5}}},
            },
        },
    });
    let mut spec = serde_json::to_value(&spec).unwrap();
    for field in ["common", "nodes", "charts", "images"] {
        spec.as_object_mut().unwrap().remove(field);
    }
    assert_eq!(spec, expected);
    assert!(
        compared.values().all(|compared| compared.result == ComparisonResult::Same),
        "an upgrade after the adoption changes no value"
    );
    let SecretContent::Text(admin) = &secrets["nimbus-adopted-credentials-store"]["admin"] else {
        panic!("the Secret contains no credential")
    };
    assert_eq!(admin, "s3cret", "the Secret contains the password that the release uses");
    let SecretContent::Values(tls) = &secrets["nimbus-adopted-front"]["values.yaml"] else {
        panic!("the Secret contains no helm values")
    };
    assert_eq!(Value::Object(tls.clone()), json!({"tls": {"key": "-----BEGIN PRIVATE KEY-----"}}));
}

#[test]
fn pauses_dependencies_that_do_not_run() {
    let Description { spec, installs, .. } = described(&by_hand()[..1]);
    assert_eq!(installs, ["store"]);
    assert!(
        spec.services["store"].releases["store"].paused,
        "the spec pauses the release `store`, because `store` does not run in this cluster"
    );
}

#[test]
fn keeps_credentials_of_absent_services_in_the_values() {
    let other = "service: other\ndescription: Another.\ngroup: openstack\nreleases:\n  other:\n    values: {conf: {password: '${credentials.front.user}'}}\n";
    let catalog = Catalog::load(&crate::testing::files(&[("values/services/other.yaml", other)])).unwrap();
    let found = [found("other", "other", json!({}), json!({"conf": {"password": "theirs"}}))];
    let known = identify_releases(&found, &catalog);
    let credentials = || [("front".to_owned(), [("user".to_owned(), "placeholder".to_owned())].into())].into();
    let provide_facts = |_: &Selection| Facts { helm_major: 4, credentials: credentials(), ..Facts::default() };
    let Description { spec, secrets, compared, .. } =
        CloudInventory::new("cloud", "nimbus", &known, &catalog, &provide_facts).describe();
    assert!(
        !spec.services.contains_key("front"),
        "the spec has no entry for the service front, because front is not part of the cloud"
    );
    let SecretContent::Values(values) = &secrets["nimbus-adopted-other"]["values.yaml"] else {
        panic!("the Secret contains no helm values")
    };
    assert_eq!(Value::Object(values.clone()), json!({"conf": {"password": "theirs"}}));
    assert_eq!(compared["other"].result, ComparisonResult::Same);
}

#[test]
fn the_description_does_not_depend_on_the_order() {
    let mut found = by_hand();
    let one = described(&found);
    found.reverse();
    let two = described(&found);
    assert_eq!(one.spec, two.spec);
    assert!(one.secrets == two.secrets);
}

#[test]
fn reports_releases_that_the_catalogue_does_not_know() {
    let found = by_hand();
    let known = identify_releases(&found, &catalog());
    let unknown: Vec<_> = known.unknown.iter().map(|(key, why)| format!("{key}: {why}")).collect();
    assert_eq!(unknown, ["cloud/blog: the catalogue has no release of chart wordpress"]);
    assert_eq!(main_namespace(&found, &catalog()).as_deref(), Some("cloud"));
    assert_eq!(main_namespace(&[], &catalog()), None);
}

#[test]
fn prefers_the_release_with_the_catalogue_name() {
    let one = |name: &str| found(name, "store", json!({}), json!({}));
    let found = [one("another"), one("store")];
    let known = identify_releases(&found, &catalog());
    assert_eq!(known.releases["store"].key.name, "store");
    assert_eq!(known.unknown.keys().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["another"]);
}

#[test]
fn finds_upstream_default_passwords() {
    let catalog = catalog();
    let found_in = |found: &[InstalledRelease]| {
        let all = find_default_credentials(&identify_releases(found, &catalog), &catalog);
        all.into_iter()
            .map(|((service, name), (release, path))| format!("{service} {name}: {release} {path}"))
            .collect::<Vec<_>>()
    };
    let store = |config: Value| found("db", "store", json!({"auth": {"admin": "a-default"}}), config);
    let admin = ["store admin: store auth.admin"];
    assert_eq!(found_in(&[store(json!({}))]), admin, "finds the chart's default if the release does not override it");
    assert_eq!(
        found_in(&[store(json!({"auth": {"admin": "a-default"}}))]),
        admin,
        "finds the chart's default if the release's values repeat it"
    );
    assert_eq!(
        found_in(&[store(json!({"auth": {"admin": "changeme"}}))]),
        admin,
        "finds a well-known password that is not the default of the release's chart"
    );
    assert_eq!(found_in(&[store(json!({"auth": {"admin": "s3cret"}}))]), [""; 0]);
    let front = found("front", "front", json!({"auth": {"admin": "a-default"}}), json!({}));
    assert_eq!(found_in(std::slice::from_ref(&front)), ["store admin: front auth.admin"]);
    assert_eq!(found_in(&[front, store(json!({}))]), admin);
}
