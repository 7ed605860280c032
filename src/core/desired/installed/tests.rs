use serde_json::{Value, json};

use super::*;
use crate::desired::select;
use crate::observed::{AttemptSeen, BodySeen, Owner};

fn catalog() -> Catalog {
    Catalog::load(&crate::testing::files(&[])).unwrap()
}

/// A release of ours, labelled or not, of this chart.
fn seen(label: Option<&str>, chart: &str) -> ReleaseSeen {
    ReleaseSeen {
        status: "deployed".into(),
        revision: 1,
        release: label.map(Into::into),
        attempt: Some(AttemptSeen { instance: "me".into(), revision: 1, owner: Owner::Us }),
        body: Some(BodySeen { chart: chart.into(), ..BodySeen::default() }),
        ..ReleaseSeen::default()
    }
}

fn key(text: &str) -> Key {
    let (namespace, name) = text.split_once('/').unwrap();
    Key::new(namespace, name)
}

/// What is refused where these releases are installed, and where each release then is.
fn judged(services: &Value, installed: &[(&str, &str)]) -> (BTreeMap<String, String>, BTreeMap<String, Key>) {
    let spec = json!({"openstackRelease": "2026.1", "presets": ["small"], "services": services});
    let (spec, catalog) = (serde_json::from_value(spec).unwrap(), catalog());
    let selection = select("cloud", "openstack", &spec, &catalog);
    let releases = installed.iter().map(|(at, release)| (key(at), seen(Some(release), release)));
    let observed = Observed { releases: releases.collect(), ..Observed::default() };
    let Some(anchored) = anchored(&selection, &spec, &catalog, &observed) else {
        return (BTreeMap::new(), selection.releases);
    };
    let selection = select("cloud", "openstack", &anchored.spec, &catalog);
    (anchored.refused.into_iter().map(|(name, blocked)| (name, blocked.message)).collect(), selection.releases)
}

#[test]
fn an_installed_release_is_known_by_label_then_chart_then_spec_then_its_own_name() {
    let catalog = catalog();
    let names = BTreeMap::from([(key("openstack/one"), "front".to_owned())]);
    let identify = |at: &str, seen: ReleaseSeen| identify(&key(at), &seen, &names, &catalog).unwrap_or_default();
    assert_eq!(identify("openstack/one", seen(Some("store"), "front")), "store");
    assert_eq!(identify("openstack/one", seen(Some("of-another-catalogue"), "store")), "store");
    assert_eq!(identify("openstack/one", seen(None, "unknown")), "front");
    assert_eq!(identify("edge/store", seen(None, "unknown")), "store");
    assert_eq!(identify("edge/three", seen(None, "unknown")), "");
}

#[test]
fn an_installed_release_stays_where_it_is_and_the_others_find_it_there() {
    let installed = [("openstack/store", "store"), ("openstack/front", "front")];
    assert_eq!(judged(&json!({}), &installed).0, BTreeMap::new());
    let (refused, releases) = judged(&json!({"store": {"releases": {"store": {"name": "base"}}}}), &installed);
    assert_eq!(refused.keys().collect::<Vec<_>>(), ["store"]);
    assert_eq!(releases["store"], key("openstack/store"));
    let told = &refused["store"];
    assert!(told.starts_with("spec.services.store.releases.store.name: store is installed as"), "{told}");
    assert!(told.contains("openstack/store and can't become openstack/base") && told.contains("remove name"), "{told}");
    let both = json!({"store": {"releases": {"store": {"name": "base", "namespace": "data"}}}});
    assert!(judged(&both, &installed).0["store"].contains("remove namespace and remove name"));
}

#[test]
fn a_name_that_is_taken_back_or_changed_is_refused_as_well() {
    let installed = [("data/base", "store")];
    let told = &judged(&json!({}), &installed).0["store"];
    assert!(told.contains("set namespace to data and set name to base"), "{told}");
    let other = json!({"store": {"releases": {"store": {"name": "other", "namespace": "data"}}}});
    assert!(judged(&other, &installed).0["store"].contains("set name to base"));
    let same = json!({"store": {"releases": {"store": {"name": "base", "namespace": "data"}}}});
    assert_eq!(judged(&same, &installed).0, BTreeMap::new());
}

#[test]
fn a_release_is_where_the_catalogue_has_it_unless_the_spec_says_otherwise() {
    let store = crate::testing::files(&[])["values/services/store.yaml"].clone();
    let store = store.replace("  store:\n", "  store:\n    namespace: data\n");
    let catalog = Catalog::load(&crate::testing::files(&[("values/services/store.yaml", &store)])).unwrap();
    let selected = |services: Value| {
        let spec = json!({"openstackRelease": "2026.1", "presets": ["small"], "services": services});
        let spec: OpenStackDeploymentSpec = serde_json::from_value(spec).unwrap();
        let selection = select("cloud", "openstack", &spec, &catalog);
        (selection, spec)
    };
    let (selection, _) = selected(json!({}));
    assert_eq!(selection.releases["store"], key("data/store"));
    assert_eq!(selection.releases["front"], key("openstack/front"));
    assert_eq!(selection.scope.variable("releases").unwrap()["store"]["namespace"], "data");
    let (selection, spec) = selected(json!({"store": {"releases": {"store": {"namespace": "mine"}}}}));
    assert_eq!(selection.releases["store"], key("mine/store"));
    let releases = [(key("data/store"), seen(Some("store"), "store"))].into();
    let observed = Observed { releases, ..Observed::default() };
    let told = &anchored(&selection, &spec, &catalog, &observed).unwrap().refused["store"].message;
    assert!(told.contains("; remove namespace, or, to begin anew"), "{told}");
}

#[test]
fn what_is_not_installed_may_have_any_name_but_an_installed_ones() {
    let base = json!({"store": {"releases": {"store": {"name": "base"}}}});
    assert_eq!(judged(&base, &[("openstack/front", "front")]).0, BTreeMap::new());
    let over = json!({"store": {"enabled": false}, "front": {"releases": {"front": {"name": "store"}}}});
    let (refused, _) = judged(&over, &[("openstack/store", "store")]);
    assert!(refused["front"].contains("helm release openstack/store is installed for store"), "{refused:?}");
}

#[test]
fn releases_that_are_not_ours_or_gone_hold_nothing() {
    let spec = json!({"openstackRelease": "2026.1", "presets": ["small"]});
    let (spec, catalog) = (serde_json::from_value(spec).unwrap(), catalog());
    let selection = select("cloud", "openstack", &spec, &catalog);
    let foreign = ReleaseSeen { attempt: None, ..seen(Some("store"), "store") };
    let gone = ReleaseSeen { status: "uninstalled".into(), ..seen(Some("front"), "front") };
    let releases = [(key("data/store"), foreign), (key("data/front"), gone)].into();
    assert!(anchored(&selection, &spec, &catalog, &Observed { releases, ..Observed::default() }).is_none());
}
