use serde_json::{Value, json};

use super::super::{Desired, resolve, select};
use super::*;

const STORE: &str = "service: store\ndescription: A database.\ngroup: infra\ncredentials: {admin: {}}\nreleases:\n  store:\n    facts: store-made\n\
    \x20   components: {store/server: StatefulSet}\n    values: {mode: waiting}\n    fragments:\n    - when: has(facts.store.network)\n\
    \x20     values: {mode: ready, network: '${facts.store.network}'}\n";

fn catalog() -> Catalog {
    let files = crate::testing::files(&[("values/services/store.yaml", STORE)]);
    Catalog::load(&files).unwrap()
}

fn resolved(job_facts: Option<Result<JobFacts, Unavailable>>) -> Desired {
    let catalog = catalog();
    let spec = json!({"openstackRelease": "2026.1", "presets": ["small"]});
    let spec = serde_json::from_value(spec).unwrap();
    let selection = select("cloud", "openstack", &spec, &catalog);
    let credentials = json!({"store": {"admin": "s3cret"}, "front": {"user": "pa55"}});
    let credentials = serde_json::from_value(credentials).unwrap();
    let job_facts = job_facts.into_iter().map(|facts| ("store".to_owned(), facts)).collect();
    resolve(&spec, &catalog, &selection, &Facts { credentials, job_facts, helm_major: 4, ..Facts::default() })
}

fn facts(pairs: &[(&str, &str)]) -> JobFacts {
    pairs.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn a_new_fact_changes_values_without_approval() {
    let (before, empty, after) =
        (resolved(None), resolved(Some(Ok(facts(&[])))), resolved(Some(Ok(facts(&[("network", "n-1")])))));
    let values = |desired: &Desired| Value::Object(desired.releases["store"].values.clone());
    assert_eq!(values(&before)["mode"], "waiting");
    assert_eq!(values(&before), values(&empty));
    assert_eq!((values(&after)["mode"].clone(), values(&after)["network"].clone()), (json!("ready"), json!("n-1")));
    assert_ne!(before.releases["store"].inputs, after.releases["store"].inputs);
    assert_eq!(before.releases["store"].catalog, after.releases["store"].catalog);
    assert_eq!(before.releases["front"].inputs, after.releases["front"].inputs);
    assert!(after.releases["store"].secret.iter().all(|path| path.to_string() != "network"), "a fact is not a secret");
}

#[test]
fn unreadable_facts_block_the_release() {
    let problem = Unavailable::Unusable("ConfigMap openstack/store-made can't be read: forbidden".into());
    let desired = resolved(Some(Err(problem)));
    let blocked = desired.releases["store"].blocked.clone().unwrap();
    assert_eq!(blocked.message, "the facts of release store: ConfigMap openstack/store-made can't be read: forbidden");
    assert_eq!(desired.releases["front"].blocked, None);
}

#[test]
fn facts_are_in_the_namespace_of_the_release() {
    let catalog = catalog();
    let spec = json!({"openstackRelease": "2026.1", "presets": ["small"],
                      "services": {"store": {"releases": {"store": {"namespace": "data"}}}}});
    let selection = select("cloud", "openstack", &serde_json::from_value(spec).unwrap(), &catalog);
    assert_eq!(
        fact_config_maps(&catalog, &selection),
        [("store".into(), ReleaseKey::new("data", "store-made"))].into()
    );
}
