//! Checks certificates: whether they match their private key and hosts, are signed by a trusted CA, and are valid now.

mod chain;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::cloud::Cloud;
use crate::manifests::{self, ObjectName};
use osdpl_core::catalog::CertificateKeys;
use osdpl_core::desired::Certificate;
use osdpl_core::finding::Finding;
use osdpl_values::{CollectSorted, Path};

/// The keys under which the values of upstream's charts contain a certificate, its private key and its CA
/// (helm-toolkit's `manifests.secret_ingress_tls`).
const IN_VALUES: [&str; 3] = ["crt", "key", "ca"];

/// The entries of a Secret by name, such as `tls.crt`; entries that are not text are left out.
pub type SecretTexts = BTreeMap<String, String>;

/// The result of checking a certificate; [`Self::problems`] returns the problems at a given time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateCheck {
    /// All problems that do not depend on the time, such as a private key that does not match the certificate.
    problems: Vec<String>,
    /// When the certificate and its CA become valid, each with the name of its entry in the Secret, such as `ca.crt`.
    from: Vec<(Timestamp, String)>,
    /// When the certificate and its CA expire, each with the name of its entry in the Secret, such as `ca.crt`.
    until: Vec<(Timestamp, String)>,
}

impl CertificateCheck {
    /// Returns messages about the problems of the certificate at the time `now`. The messages never contain private key
    /// data.
    ///
    /// The message about a problem does not contain `now`. So the message stays the same while the problem lasts, and
    /// osdpl reports the problem only once.
    pub fn problems(&self, now: Timestamp) -> Vec<String> {
        let not_yet_valid = self.from.iter().filter(|(from, _)| now < *from);
        let not_yet_valid = not_yet_valid.map(|(from, key)| {
            format!(
                "{key} is not valid before {from}: clients refuse it until then; check the clocks, or use a certificate that is valid now"
            )
        });
        let expired = self.until.iter().filter(|(until, _)| now > *until);
        let expired = expired.map(|(until, key)| {
            format!(
                "{key} expired at {until}: clients refuse it; replace it, and restart the pods that use the old one"
            )
        });
        self.problems.iter().cloned().chain(not_yet_valid).chain(expired).collect()
    }

    /// Returns the problems of the certificate at the time `now`. Without `now`, returns only the problems that do not
    /// depend on the time.
    fn problems_at(&self, now: Option<Timestamp>) -> Vec<String> {
        now.map_or_else(|| self.problems.clone(), |now| self.problems(now))
    }

    /// Returns the first time after `now` at which the result of [`Self::problems`] changes; `None` if the result never
    /// changes.
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let second = SignedDuration::from_secs(1);
        let ends = self.until.iter().filter_map(|(until, _)| until.checked_add(second).ok());
        self.from.iter().map(|(from, _)| *from).chain(ends).filter(|time| *time > now).min()
    }
}

/// Checks each certificate whose Secret is in `manifests`, the objects that the user applies together with a cloud.
///
/// `namespace` is the namespace of the cloud, and also of each manifest that names no namespace. The function checks
/// the expiry of certificates only if `now` is given.
pub(crate) fn check_secrets(
    certificates: &[Certificate],
    namespace: &str,
    manifests: &[Value],
    now: Option<Timestamp>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for certificate in certificates {
        let secret = ObjectName { kind: "Secret", namespace: &certificate.namespace, name: &certificate.name };
        let Some(secret) = manifests::find_in(&secret, namespace, manifests) else { continue };
        let keys = &certificate.keys;
        let keys = [&keys.certificate, &keys.key, &keys.authority].into_iter().flatten();
        let texts = keys.filter_map(|key| Some((key.clone(), manifests::text(secret, key).ok()?))).collect_map();
        let problems = check_certificate(certificate, &texts).problems_at(now);
        let finding = |problem: String| {
            Finding::error("certificate", &certificate.field, describe_problem(certificate, &problem))
        };
        found.extend(problems.into_iter().map(finding));
    }
    found
}

/// Checks the certificates in the values of releases.
///
/// Upstream's charts read a certificate from `endpoints.*.host_fqdn_override.*.tls` in the values. The findings never
/// contain a certificate or key.
pub(super) fn check_values(cloud: &Cloud<'_>, now: Option<Timestamp>) -> BTreeSet<Finding> {
    let mut found = BTreeSet::new();
    for (release, values) in &cloud.values {
        let endpoints = values.get("endpoints").and_then(Value::as_object).into_iter().flatten();
        let hosts = endpoints.flat_map(|(endpoint, entry)| {
            let interfaces = entry["host_fqdn_override"].as_object().into_iter().flatten();
            interfaces.map(move |(interface, host)| {
                (["endpoints", endpoint.as_str(), "host_fqdn_override", interface.as_str()], host)
            })
        });
        for (keys, host) in hosts {
            found.extend(check_endpoint(cloud, release, &keys.into_iter().collect(), host, now));
        }
    }
    found
}

/// Checks the certificate of one host name of an endpoint. Ignores a certificate that neither the user nor an addition
/// sets.
///
/// `entry` is the map at `path` in the values of the release. The map contains the host name and, under `tls`, the
/// certificate.
fn check_endpoint(
    cloud: &Cloud<'_>,
    release: &str,
    path: &Path,
    entry: &Value,
    now: Option<Timestamp>,
) -> Vec<Finding> {
    let tls = entry["tls"].as_object().into_iter().flatten();
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    let texts: SecretTexts = tls.filter_map(text).filter(|(_, text)| !text.is_empty()).collect_map();
    let existing = |key: &str| texts.contains_key(key).then(|| key.to_owned());
    // The charts create the TLS Secret only if the values set both the certificate and its private key. So report a
    // certificate without a private key, and a private key without a certificate.
    let (certificate, key) = (existing(IN_VALUES[0]), existing(IN_VALUES[1]));
    let Some(first) = certificate.as_ref().or(key.as_ref()) else { return Vec::new() };
    let tls_path = path.child("tls").child(first);
    if cloud.value_location(release, &tls_path).is_none() {
        return Vec::new();
    }
    let is_secret = cloud.is_secret(release, &path.child("host"));
    let host = entry["host"].as_str().filter(|host| !is_secret && !host.is_empty());
    let field = cloud.field(release, &tls_path);
    let certificate = Certificate {
        field: field.clone(),
        namespace: String::new(),
        name: String::new(),
        hosts: host.into_iter().map(str::to_owned).collect(),
        keys: CertificateKeys {
            certificate: Some(IN_VALUES[0].to_owned()),
            key: Some(IN_VALUES[1].to_owned()),
            authority: existing(IN_VALUES[2]),
        },
        user_provided: true,
    };
    let problems = check_certificate(&certificate, &texts).problems_at(now);
    let prefix = cloud.message_prefix(release, &tls_path);
    problems
        .into_iter()
        .map(|problem| Finding::warning("certificate", field.clone(), format!("{prefix}{problem}")))
        .collect()
}

/// Returns a message about a problem of a certificate. The message names the Secret that contains the certificate.
pub fn describe_problem(certificate: &Certificate, problem: &str) -> String {
    format!("Secret {}/{}: {problem}", certificate.namespace, certificate.name)
}

/// Checks a certificate; `texts` contains the entries of its Secret.
pub fn check_certificate(certificate: &Certificate, texts: &SecretTexts) -> CertificateCheck {
    let mut check = CertificateCheck::default();
    let keys = &certificate.keys;
    let mut read = |key: &Option<String>| {
        let key = key.as_ref()?;
        let read = texts
            .get(key)
            .ok_or_else(|| format!("the entry {key} is missing; add it"))
            .and_then(|text| chain::read(key, text));
        read.map_err(|problem| check.problems.push(problem)).ok()
    };
    let (authorities, chain) = (read(&keys.authority), read(&keys.certificate));
    if let (Some(key), Some(chain)) = (&keys.key, &chain) {
        match texts.get(key) {
            None => check.problems.push(format!("the entry {key} is missing; add it")),
            Some(text) => check.problems.extend(chain.key_problem(key, text)),
        }
    }
    if let Some(chain) = &chain {
        check.problems.extend(chain.host_problem(&certificate.hosts));
        check.problems.extend(authorities.as_ref().and_then(|authorities| chain.trust_problem(authorities)));
    }
    // One valid CA in a Secret is enough: while the user replaces a CA, the Secret contains the old and the new CA. So
    // check only the CA that expires last.
    let validities = authorities.iter().map(|authorities| (authorities.latest_validity(), &authorities.name));
    let validities = validities.chain(chain.iter().map(|chain| (chain.validity(authorities.as_ref()), &chain.name)));
    for ((from, until), name) in validities {
        check.from.extend(from.map(|from| (from, name.clone())));
        check.until.extend(until.map(|until| (until, name.clone())));
    }
    check
}

#[cfg(test)]
mod tests;
