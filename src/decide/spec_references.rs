//! Lists the objects that a spec names, and reads the values, secrets and facts in them.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::Objects;
use super::requests::Reference;
use osdpl_core::api::{OpenStackDeploymentSpec, ValuesFrom, ValuesKind};
use osdpl_core::catalog::{Catalog, SecretField};
use osdpl_core::desired::{self, JobFacts, Selection, Unavailable};
use osdpl_core::observed::ReleaseKey;
use osdpl_values::{CollectSorted, Values, yaml};

/// Returns references to the objects that a spec names, and to the `ConfigMap`s into which Jobs of releases write
/// facts.
pub(crate) fn references(
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
    selection: &Selection,
) -> BTreeSet<Reference> {
    let namespace = selection.namespace.as_str();
    let reference = |kind, name: &String| Reference { kind, namespace: namespace.to_owned(), name: name.clone() };
    let services = spec.services.values();
    let values =
        services.clone().flat_map(|service| service.releases.values().flat_map(|release| &release.values_from));
    let values = values.map(|source| reference(source.kind, &source.name));
    let credentials = services.flat_map(|service| service.credentials.values());
    let features =
        desired::list_feature_secrets(spec, catalog).into_iter().map(|field| Reference::secret(namespace, &field.name));
    let credentials = credentials.map(|key| Reference::secret(namespace, &key.name)).chain(features);
    let certificates = selection.certificates.iter().map(|one| Reference::secret(&one.namespace, &one.name));
    let facts = desired::fact_config_maps(catalog, selection).into_values().map(config_map);
    values
        .chain(credentials)
        .chain(certificates)
        .chain(facts)
        .chain(super::ceph::references(spec, namespace))
        .collect_set()
}

/// Returns the values in the objects that `valuesFrom` names, by the object's kind, its name and the key in its data.
pub(crate) fn values_from(
    objects: &Objects,
    spec: &OpenStackDeploymentSpec,
    namespace: &str,
) -> BTreeMap<(ValuesKind, String, String), Result<Values, Unavailable>> {
    let releases = spec.services.values().flat_map(|service| service.releases.values());
    let sources = releases.flat_map(|release| &release.values_from);
    let read = |source: &ValuesFrom| {
        let key = source.key.clone().unwrap_or_else(|| "values.yaml".into());
        let reference = Reference { kind: source.kind, namespace: namespace.into(), name: source.name.clone() };
        let values = objects.get(&reference, &key).and_then(|bytes| {
            let location = format!("{reference}, key {key}");
            let text =
                String::from_utf8(bytes).map_err(|_| format!("{location}: the value is not UTF-8 text; store YAML"));
            let values = text.and_then(|text| {
                let values: Result<Option<Values>, _> = yaml::parse(&location, &text);
                values.map_err(|error| format!("{error}; it must be a YAML map"))
            });
            values.map(Option::unwrap_or_default).map_err(Unavailable::Unusable)
        });
        ((source.kind, source.name.clone(), key), values)
    };
    sources.map(read).collect_map()
}

/// Returns the texts in Secrets that the settings of features reference, by the Secret's name and the key in its data.
pub(crate) fn feature_secrets(
    objects: &Objects,
    selection: &Selection,
) -> BTreeMap<(String, String), Result<String, Unavailable>> {
    let read = |field: &SecretField| {
        let reference = Reference::secret(&selection.namespace, &field.name);
        let text = objects.get(&reference, &field.key).and_then(|bytes| {
            let location = format!("{reference}, key {:?}", field.key);
            String::from_utf8(bytes).map_err(|_| {
                Unavailable::Unusable(format!("{location}: the value is not UTF-8 text; store text, not binary data"))
            })
        });
        ((field.name.clone(), field.key.clone()), text)
    };
    selection.secrets.iter().map(read).collect_map()
}

/// Returns the facts that Jobs of releases have written into `ConfigMap`s, by release.
///
/// A release has no facts until its Job has created the `ConfigMap`.
pub(crate) fn written(
    objects: &Objects,
    catalog: &Catalog,
    selection: &Selection,
) -> BTreeMap<String, Result<JobFacts, Unavailable>> {
    let read = |(release, key)| {
        let text = |(key, bytes): (String, Vec<u8>)| (key, String::from_utf8_lossy(&bytes).into_owned());
        let facts = match objects.all(&config_map(key)) {
            Ok(data) => Ok(data.into_iter().map(text).collect_map()),
            Err(Unavailable::Missing(_)) => Ok(JobFacts::new()),
            Err(problem) => Err(problem),
        };
        (release, facts)
    };
    desired::fact_config_maps(catalog, selection).into_iter().map(read).collect_map()
}

fn config_map(key: ReleaseKey) -> Reference {
    Reference { kind: ValuesKind::ConfigMap, namespace: key.namespace, name: key.name }
}
