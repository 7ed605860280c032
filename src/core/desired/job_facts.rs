//! Job facts: strings such as UUIDs that a Job of a release stores in a ConfigMap. The catalogue's CEL expressions read
//! these facts.
//!
//! If a Job stores a new fact, the inputs of the releases whose values use the fact change. osdpl upgrades these
//! releases without a further approval: the digest of the inputs that a person approves does not contain the facts.
//! Jobs store facts while osdpl carries out an approved change, and the approval must stay valid.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Facts, Selection, Unavailable};
use crate::catalog::{Catalog, releases_of_facts};
use crate::observed::ReleaseKey;
use osdpl_values::{CollectSorted, Values};

/// The facts that the Jobs of one release have stored, by the key in the ConfigMap's data.
pub type JobFacts = BTreeMap<String, String>;

/// Returns the `ConfigMap`s in which Jobs of the desired releases store facts, by the release's catalogue name.
pub fn fact_config_maps(catalog: &Catalog, selection: &Selection) -> BTreeMap<String, ReleaseKey> {
    let config_map = |(release, key): (&String, &ReleaseKey)| {
        let name = catalog.release(release)?.1.facts.as_ref()?;
        Some((release.clone(), ReleaseKey::new(key.namespace.clone(), name.clone())))
    };
    selection.releases.iter().filter_map(config_map).collect_map()
}

/// Returns the variable `facts` of CEL expressions: the job facts by release.
///
/// If a release's Job has not stored facts yet, the release has an empty map. If osdpl can't read the facts of a
/// release, the variable has no entry for the release, so that expressions with these facts fail. With an empty map,
/// the expressions would silently return the values that they have without facts.
pub(super) fn variable(catalog: &Catalog, facts: &Facts) -> Values {
    let releases = catalog.services.values().flat_map(|service| &service.releases);
    let known = releases.filter(|(_, release)| release.facts.is_some()).filter_map(|(name, _)| {
        let facts = match facts.job_facts.get(name) {
            Some(Ok(facts)) => json!(facts),
            Some(Err(_)) => return None,
            None => json!({}),
        };
        Some((name.clone(), facts))
    });
    known.collect()
}

/// Returns a release whose facts `expression` needs but osdpl can't read, with the reason; `None` if there is no such
/// release.
pub(super) fn unreadable<'a>(expression: &str, facts: &'a Facts) -> Option<(&'a str, &'a Unavailable)> {
    let is_used = |release: &str| releases_of_facts(expression).any(|name| name == release);
    let failed =
        facts.job_facts.iter().filter_map(|(release, result)| Some((release.as_str(), result.as_ref().err()?)));
    failed.into_iter().find(|(release, _)| is_used(release))
}

#[cfg(test)]
mod tests {
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
        for desired in [&before, &empty, &after] {
            assert_eq!(
                desired.releases["store"].approved_inputs(),
                before.releases["store"].inputs,
                "an approval stays valid when a Job stores facts"
            );
        }
        assert_eq!(before.releases["front"].inputs, after.releases["front"].inputs);
        assert!(
            after.releases["store"].secret.iter().all(|path| path.to_string() != "network"),
            "a fact is not a secret"
        );
    }

    #[test]
    fn unreadable_facts_block_the_release() {
        let problem = Unavailable::Unusable("ConfigMap openstack/store-made can't be read: forbidden".into());
        let desired = resolved(Some(Err(problem)));
        let blocked = desired.releases["store"].blocked.clone().unwrap();
        assert_eq!(
            blocked.message,
            "the facts of release store: ConfigMap openstack/store-made can't be read: forbidden"
        );
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
}
