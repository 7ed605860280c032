//! Checks the dedicated RabbitMQ brokers of services (`features.messaging.dedicated`). They must not change the values
//! of the shared broker.

use osdpl_core::desired::Facts;
use serde_json::{Value, json};

use crate::clouds::{at, catalogue, refusals, resolved, resolved_from};

fn spec(change: Value) -> Value {
    let mut spec = json!({"openstackRelease": "2026.1", "presets": ["compute"]});
    let Value::Object(change) = change else { unreachable!("every test passes a map") };
    spec.as_object_mut().unwrap().extend(change);
    spec
}

#[test]
fn dedicated_broker_is_used_by_its_service_only() {
    let features = json!({"messaging": {"dedicated": ["nova", "magnum"]}});
    let services = json!({"rabbitmq": {"releases": {"rabbitmq-nova": {"name": "mq-nova", "namespace": "brokers"}}}});
    let desired = resolved(catalogue(), &spec(json!({"features": features, "services": services})));
    assert_eq!(refusals(&desired), Vec::<String>::new());
    let brokers: Vec<_> = desired.releases.keys().filter(|name| name.starts_with("rabbitmq")).collect();
    assert_eq!(
        brokers,
        ["rabbitmq", "rabbitmq-nova"],
        "nova must get a dedicated broker, but magnum must not, because this cloud has no magnum"
    );

    let broker = &desired.releases["rabbitmq-nova"];
    assert_eq!(broker.chart, "rabbitmq");
    assert_eq!(at(&broker.values, "endpoints.oslo_messaging.hosts.default"), Some(&json!("mq-nova")));
    let messaging = |release: &str, path: &str| {
        at(&desired.releases[release].values, &format!("endpoints.oslo_messaging.{path}")).cloned()
    };
    assert_eq!(messaging("nova", "hosts.default"), Some(json!("mq-nova")));
    assert_eq!(messaging("nova", "namespace"), Some(json!("brokers")));
    assert_eq!(messaging("nova", "statefulset.name"), Some(json!("mq-nova-rabbitmq")));
    assert_eq!(
        messaging("neutron", "hosts.default"),
        None,
        "neutron's values must set no broker, because the chart's default is the shared broker"
    );
    assert_eq!(messaging("neutron", "statefulset.name"), Some(json!("rabbitmq-rabbitmq")));
}

#[test]
fn shared_broker_ignores_dedicated_ones() {
    let catalogue = catalogue();
    let shared = |dedicated: Value| {
        let cloud = spec(json!({"features": {"messaging": {"dedicated": dedicated}}}));
        resolved(catalogue, &cloud).releases["rabbitmq"].values.clone()
    };
    assert_eq!(shared(json!([])), shared(json!(["nova", "neutron"])));
}

#[test]
fn features_apply_to_all_brokers() {
    let catalogue = catalogue();
    // Skip `storage` and `tls`, which have fragments that do not name all brokers. Also skip `messaging`, whose
    // fragments set the same values for the brokers that `storage` and `tls` do not name.
    let features =
        catalogue.features.iter().filter(|(name, _)| !["messaging", "storage", "tls"].contains(&name.as_str()));
    for (name, feature) in features {
        for fragment in feature.fragments.iter().filter(|fragment| fragment.named.contains_key("rabbitmq")) {
            let missing =
                catalogue.services["rabbitmq"].releases.keys().filter(|broker| !fragment.named.contains_key(*broker));
            assert_eq!(missing.collect::<Vec<_>>(), Vec::<&String>::new(), "{name}: {}", fragment.field);
        }
    }
}

#[test]
fn broker_members_and_budgets_match_their_consumers() {
    let features = json!({"messaging": {"dedicated": ["nova"]}});
    let desired = resolved(catalogue(), &spec(json!({"presets": ["compute", "ha"], "features": features})));
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
fn refuses_dedicated_brokers_without_a_shared_one() {
    let features = json!({"messaging": {"dedicated": ["nova"]}});
    let key = json!({"name": "outside", "key": "password"});
    let outside = json!({"rabbitmq": {"external": {"host": "mq.example.org"}, "credentials": {"admin": key}}});
    let refused = |services: Value| {
        refusals(&resolved(catalogue(), &spec(json!({"features": features, "services": services})))).join("\n")
    };
    let prefix = "spec.features.messaging.dedicated: dedicated brokers";
    assert!(refused(outside).contains("spec.features.messaging.dedicated: rabbitmq is external"));
    assert!(refused(json!({"rabbitmq": {"enabled": false}})).contains(prefix));
}

/// ceilometer has one option for the type of queues, but reads notifications from virtual hosts of services with quorum
/// queues and of services without them. The broker refuses to declare a queue with another type.
#[test]
fn ceilometer_declares_queues_of_each_service_type() {
    let baselines = [("keystone".to_owned(), 0), ("nova".to_owned(), 1)].into();
    let facts = Facts { helm_major: 4, baselines, ..Facts::default() };
    let services = json!({"ceilometer": {"enabled": true}});
    let desired = resolved_from(catalogue(), &spec(json!({"services": services})), facts);
    let urls = "conf.ceilometer.notification.messaging_urls.values";
    let urls = at(&desired.releases["ceilometer"].values, urls).unwrap().as_array().unwrap();
    for end in ["/keystone?rabbit_quorum_queue=false", "/nova-quorum?rabbit_quorum_queue=true"] {
        assert!(urls.iter().any(|url| url.as_str().unwrap().ends_with(end)), "{end}: {urls:?}");
    }
}
