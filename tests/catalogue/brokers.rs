//! Brokers of a service's own (`features.messaging.dedicated`), beside the shared one that stays as it is.

use serde_json::{Value, json};

use crate::clouds::{at, catalogue, refusals, resolved};

fn spec(change: Value) -> Value {
    let mut spec = json!({"openstackRelease": "2026.1", "presets": ["compute"]});
    let Value::Object(change) = change else { unreachable!("written here as a map") };
    spec.as_object_mut().unwrap().extend(change);
    spec
}

#[test]
fn a_service_with_a_broker_of_its_own_knows_it_and_the_others_the_shared_one() {
    let features = json!({"messaging": {"dedicated": ["nova", "magnum"]}});
    let services = json!({"rabbitmq": {"releases": {"rabbitmq-nova": {"name": "mq-nova", "namespace": "brokers"}}}});
    let desired = resolved(&catalogue(), &spec(json!({"features": features, "services": services})));
    assert_eq!(refusals(&desired), Vec::<String>::new());
    let brokers: Vec<_> = desired.releases.keys().filter(|name| name.starts_with("rabbitmq")).collect();
    assert_eq!(brokers, ["rabbitmq", "rabbitmq-nova"], "magnum is not part of the cloud");

    let broker = &desired.releases["rabbitmq-nova"];
    assert_eq!(broker.chart, "rabbitmq");
    assert_eq!(at(&broker.values, "endpoints.oslo_messaging.hosts.default"), Some(&json!("mq-nova")));
    let messaging = |release: &str, path: &str| {
        at(&desired.releases[release].values, &format!("endpoints.oslo_messaging.{path}")).cloned()
    };
    assert_eq!(messaging("nova", "hosts.default"), Some(json!("mq-nova")));
    assert_eq!(messaging("nova", "namespace"), Some(json!("brokers")));
    assert_eq!(messaging("nova", "statefulset.name"), Some(json!("mq-nova-rabbitmq")));
    assert_eq!(messaging("neutron", "hosts.default"), None, "the chart's own");
    assert_eq!(messaging("neutron", "statefulset.name"), Some(json!("rabbitmq-rabbitmq")));
}

#[test]
fn the_shared_broker_is_given_the_same_whether_or_not_others_have_their_own() {
    let catalogue = catalogue();
    let shared = |dedicated: Value| {
        let cloud = spec(json!({"features": {"messaging": {"dedicated": dedicated}}}));
        resolved(&catalogue, &cloud).releases["rabbitmq"].values.clone()
    };
    assert_eq!(shared(json!([])), shared(json!(["nova", "neutron"])));
}

#[test]
fn what_features_give_the_shared_broker_they_give_every_other() {
    let catalogue = catalogue();
    // `messaging` is about the others themselves, and says what `storage` and `tls` mean for them.
    let features =
        catalogue.features.iter().filter(|(name, _)| !["messaging", "storage", "tls"].contains(&name.as_str()));
    for (name, feature) in features {
        for fragment in feature.fragments.iter().filter(|fragment| fragment.named.contains_key("rabbitmq")) {
            let left =
                catalogue.services["rabbitmq"].releases.keys().filter(|broker| !fragment.named.contains_key(*broker));
            assert_eq!(left.collect::<Vec<_>>(), Vec::<&String>::new(), "{name}: {}", fragment.field);
        }
    }
}

#[test]
fn every_broker_has_the_members_that_its_consumers_count_on_and_a_budget_for_its_own_pods() {
    let features = json!({"messaging": {"dedicated": ["nova"]}});
    let desired = resolved(&catalogue(), &spec(json!({"presets": ["compute", "ha"], "features": features})));
    let selector = "extraObjects.disruption_budget_server.spec.selector.matchLabels.release_group";
    for broker in ["rabbitmq", "rabbitmq-nova"] {
        let values = &desired.releases[broker].values;
        assert_eq!(at(values, "pod.replicas.server"), Some(&json!(3)), "{broker}");
        assert_eq!(at(values, selector), Some(&json!(broker)));
    }
    let count = "endpoints.oslo_messaging.statefulset.replicas";
    assert_eq!(at(&desired.releases["nova"].values, count), Some(&json!(3)));
}

#[test]
fn dedicated_brokers_beside_one_outside_or_none_are_refused() {
    let features = json!({"messaging": {"dedicated": ["nova"]}});
    let key = json!({"name": "outside", "key": "password"});
    let outside = json!({"rabbitmq": {"external": {"host": "mq.example.org"}, "credentials": {"admin": key}}});
    let refused = |services: Value| {
        refusals(&resolved(&catalogue(), &spec(json!({"features": features, "services": services})))).join("\n")
    };
    let place = "spec.features.messaging.dedicated: dedicated brokers";
    assert!(refused(outside).contains("spec.features.messaging.dedicated: rabbitmq is external"));
    assert!(refused(json!({"rabbitmq": {"enabled": false}})).contains(place));
}
