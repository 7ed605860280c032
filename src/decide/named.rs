//! The objects that a spec names: references to them, their contents, and the certificates in them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

use super::requests::Reference;
use super::snapshot::Objects;
use osdpl_core::api::{OpenStackDeploymentSpec, ValuesFrom, ValuesKind};
use osdpl_core::catalog::{Catalog, Level, SecretField};
use osdpl_core::desired::{self, Certificate, Finding, JobFacts, Selection, Unavailable};
use osdpl_core::observed::ReleaseKey;
use osdpl_lint::rule::{self, CertificateCheck, SecretTexts};
use osdpl_values::{Values, digest, yaml};

/// Returns the objects that a spec names, and the `ConfigMap`s that Jobs of releases write facts into.
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
    let features = desired::list_feature_secrets(spec, catalog).into_iter().map(|field| secret(namespace, &field.name));
    let credentials = credentials.map(|key| secret(namespace, &key.name)).chain(features);
    let certificates = selection.certificates.iter().map(|one| secret(&one.namespace, &one.name));
    let facts = desired::fact_config_maps(catalog, selection).into_values().map(config_map);
    values.chain(credentials).chain(certificates).chain(facts).chain(super::ceph::references(spec, namespace)).collect()
}

/// Returns the values in the objects that `valuesFrom` names, by kind, name and key.
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
            let text = String::from_utf8(bytes).map_err(|_| format!("{location}: is no UTF-8 text; store YAML"));
            let values = text.and_then(|text| {
                let values: Result<Option<Values>, _> = yaml::parse(&location, &text);
                values.map_err(|error| format!("{error}; it must be a YAML map"))
            });
            values.map(Option::unwrap_or_default).map_err(Unavailable::Unusable)
        });
        ((source.kind, source.name.clone(), key), values)
    };
    sources.map(read).collect()
}

/// Returns the texts in the keys of Secrets that features name, by name and key.
pub(crate) fn feature_secrets(
    objects: &Objects,
    selection: &Selection,
) -> BTreeMap<(String, String), Result<String, Unavailable>> {
    let read = |field: &SecretField| {
        let reference = secret(&selection.namespace, &field.name);
        let text = objects.get(&reference, &field.key).and_then(|bytes| {
            let location = format!("{reference}, key {:?}", field.key);
            String::from_utf8(bytes)
                .map_err(|_| Unavailable::Unusable(format!("{location}: is no UTF-8 text; store text")))
        });
        ((field.name.clone(), field.key.clone()), text)
    };
    selection.secrets.iter().map(read).collect()
}

/// Returns the facts that Jobs of releases have written; empty while the `ConfigMap` does not exist.
pub(crate) fn written(
    objects: &Objects,
    catalog: &Catalog,
    selection: &Selection,
) -> BTreeMap<String, Result<JobFacts, Unavailable>> {
    let read = |(release, key)| {
        let text = |(key, bytes): (String, Vec<u8>)| (key, String::from_utf8_lossy(&bytes).into_owned());
        let facts = match objects.all(&config_map(key)) {
            Ok(data) => Ok(data.into_iter().map(text).collect()),
            Err(Unavailable::Missing(_)) => Ok(JobFacts::new()),
            Err(problem) => Err(problem),
        };
        (release, facts)
    };
    desired::fact_config_maps(catalog, selection).into_iter().map(read).collect()
}

fn config_map(key: ReleaseKey) -> Reference {
    Reference { kind: ValuesKind::ConfigMap, namespace: key.namespace, name: key.name }
}

/// Returns a reference to a Secret.
pub(crate) fn secret(namespace: &str, name: &str) -> Reference {
    Reference { kind: ValuesKind::Secret, namespace: namespace.to_owned(), name: name.to_owned() }
}

/// The parsed certificates, with the digests of their Secrets.
///
/// A certificate is parsed when it is new.
#[derive(Clone, Default)]
pub(crate) struct Certificates(BTreeMap<Certificate, (String, CertificateCheck)>);

impl Certificates {
    /// Returns warnings about a selection's certificates, and when these change by the passage of time.
    ///
    /// Problems are only warnings, because an expired certificate must not stop a running cloud. Secrets that can't be
    /// read are skipped.
    pub(crate) fn check(
        &mut self,
        objects: &Objects,
        selection: &Selection,
        now: Timestamp,
    ) -> (Vec<Finding>, Option<Timestamp>) {
        let (mut findings, mut next_check) = (Vec::new(), None::<Timestamp>);
        let mut warn = |certificate: &Certificate, message: String| {
            findings.push(Finding::new(Level::Warning, certificate.field.clone(), message));
        };
        self.0.retain(|certificate, _| selection.certificates.contains(certificate));
        for certificate in &selection.certificates {
            let texts = match objects.all(&secret(&certificate.namespace, &certificate.name)) {
                Ok(data) => data.into_iter().filter_map(|(key, value)| Some((key, String::from_utf8(value).ok()?))),
                Err(Unavailable::Missing(missing)) if certificate.user_provided => {
                    warn(certificate, missing);
                    continue;
                }
                Err(_) => continue,
            };
            let check = self.parsed(certificate, &texts.collect());
            for problem in check.problems(now) {
                warn(certificate, rule::describe_problem(certificate, &problem));
            }
            next_check = next_check.into_iter().chain(check.next_change(now)).min();
        }
        (findings, next_check)
    }

    fn parsed(&mut self, certificate: &Certificate, texts: &SecretTexts) -> &CertificateCheck {
        let current = digest(texts.iter().flat_map(|(key, text)| [key.as_str(), text.as_str()]));
        let known = self.0.entry(certificate.clone()).or_default();
        if known.0 != current {
            *known = (current, rule::check_certificate(certificate, texts));
        }
        &known.1
    }
}
