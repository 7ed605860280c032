//! Certificates: whether they belong to their key, speak for their hosts, were signed by who is trusted, and still count.

mod chain;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Cloud, Judged, beside};
use osdpl_core::catalog::CertificateKeys;
use osdpl_core::desired::Certificate;
use osdpl_values::Path;

/// The certificate, its key and its authorities in the values of upstream's charts (helm-toolkit's `manifests.secret_ingress_tls`).
const IN_VALUES: [&str; 3] = ["crt", "key", "ca"];

/// What a Secret holds, by key; without what is no text.
pub type Held = BTreeMap<String, String>;

/// What a certificate comes to, whenever it is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// What is wrong with it at any time.
    problems: Vec<String>,
    /// Each time at which something begins to count, with the key that it stands under.
    from: Vec<(Timestamp, String)>,
    /// Each time at which something ends to count.
    until: Vec<(Timestamp, String)>,
}

impl Examined {
    /// What is wrong with it now, in the same words until that is something else: nobody is to be told again because time passes. Never says a word of
    /// the key.
    pub fn problems(&self, now: Timestamp) -> Vec<String> {
        let early = self.from.iter().filter(|(from, _)| now < *from);
        let early = early.map(|(from, key)| {
            format!(
                "{key} counts from {from} on: until then clients refuse it; see to the clocks, or put in one that counts by now"
            )
        });
        let late = self.until.iter().filter(|(until, _)| now > *until);
        let late = late.map(|(until, key)| {
            format!("{key} ran out at {until}: clients refuse it; put in a new one, and make the pods anew that have the old one")
        });
        self.problems.iter().cloned().chain(early).chain(late).collect()
    }

    /// When that changes by itself.
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let second = SignedDuration::from_secs(1);
        let ends = self.until.iter().filter_map(|(until, _)| until.checked_add(second).ok());
        self.from.iter().map(|(from, _)| *from).chain(ends).filter(|time| *time > now).min()
    }
}

/// What is wrong with the certificates whose Secrets are `beside` a resource of this namespace; without a word of what has run out where it is not known
/// what time it is.
pub(super) fn judge(
    certificates: &[Certificate],
    namespace: &str,
    beside: &[Value],
    now: Option<Timestamp>,
) -> Vec<Judged> {
    let mut found = Vec::new();
    for certificate in certificates {
        let Some(secret) = beside::find_in(("Secret", &certificate.name), (&certificate.namespace, namespace), beside)
        else {
            continue;
        };
        let keys = &certificate.keys;
        let keys = [&keys.certificate, &keys.key, &keys.authority].into_iter().flatten();
        let held = keys.filter_map(|key| Some((key.clone(), beside::text(secret, key).ok()?))).collect();
        let examined = examine(certificate, &held);
        let problems = now.map_or_else(|| examined.problems.clone(), |now| examined.problems(now));
        let told = |problem: String| Judged::error("certificate", &certificate.field, told(certificate, &problem));
        found.extend(problems.into_iter().map(told));
    }
    found
}

/// What is wrong with the certificates that someone has written into values, in upstream's own place for those of an endpoint: never a word of them.
pub(super) fn written(cloud: &Cloud<'_>, now: Option<Timestamp>) -> BTreeSet<Judged> {
    let mut found = BTreeSet::new();
    for (release, values) in &cloud.values {
        let endpoints = values.get("endpoints").and_then(Value::as_object).into_iter().flatten();
        let named = endpoints.flat_map(|(endpoint, said)| {
            let sides = said["host_fqdn_override"].as_object().into_iter().flatten();
            sides.map(move |(side, named)| {
                (["endpoints", endpoint.as_str(), "host_fqdn_override", side.as_str()], named)
            })
        });
        for (keys, named) in named {
            found.extend(of_endpoint(cloud, release, &keys.into_iter().collect(), named, now));
        }
    }
    found
}

/// The same of one name of an endpoint, at this path.
fn of_endpoint(cloud: &Cloud<'_>, release: &str, at: &Path, named: &Value, now: Option<Timestamp>) -> Vec<Judged> {
    let tls = named["tls"].as_object().into_iter().flatten();
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    let held: Held = tls.filter_map(text).filter(|(_, text)| !text.is_empty()).collect();
    let holds = |key: &str| held.contains_key(key).then(|| key.to_owned());
    // Both or none: charts make a Secret of them where they have the two, and leave a name without one alone.
    let (certificate, key) = (holds(IN_VALUES[0]), holds(IN_VALUES[1]));
    let Some(first) = certificate.as_ref().or(key.as_ref()) else { return Vec::new() };
    let path = at.child("tls").child(first);
    if cloud.spot_of(release, &path).is_none() {
        return Vec::new();
    }
    let is_shown = !cloud.decided(release, &at.child("host")).1;
    let host = named["host"].as_str().filter(|host| is_shown && !host.is_empty());
    let field = cloud.field(release, &path);
    let certificate = Certificate {
        field: field.clone(),
        namespace: String::new(),
        name: String::new(),
        hosts: host.into_iter().map(str::to_owned).collect(),
        keys: CertificateKeys {
            certificate: Some(IN_VALUES[0].to_owned()),
            key: Some(IN_VALUES[1].to_owned()),
            authority: holds(IN_VALUES[2]),
        },
        brought: true,
    };
    let examined = examine(&certificate, &held);
    let problems = now.map_or_else(|| examined.problems.clone(), |now| examined.problems(now));
    let before = cloud.before(release, &path);
    problems
        .into_iter()
        .map(|problem| Judged::warning("certificate", field.clone(), format!("{before}{problem}")))
        .collect()
}

/// What is wrong with a certificate, with the Secret that it is in.
pub fn told(certificate: &Certificate, problem: &str) -> String {
    format!("Secret {}/{}: {problem}", certificate.namespace, certificate.name)
}

/// What a certificate comes to whose Secret holds this.
pub fn examine(certificate: &Certificate, held: &Held) -> Examined {
    let mut examined = Examined::default();
    let keys = &certificate.keys;
    let mut read = |key: &Option<String>| {
        let key = key.as_ref()?;
        let read = held
            .get(key)
            .ok_or_else(|| format!("there is no {key} in it; add it"))
            .and_then(|text| chain::read(key, text));
        read.map_err(|problem| examined.problems.push(problem)).ok()
    };
    let (authorities, shown) = (read(&keys.authority), read(&keys.certificate));
    if let (Some(key), Some(shown)) = (&keys.key, &shown) {
        match held.get(key) {
            None => examined.problems.push(format!("there is no {key} in it; add it")),
            Some(text) => examined.problems.extend(shown.key_problem(key, text)),
        }
    }
    if let Some(shown) = &shown {
        examined.problems.extend(shown.host_problem(&certificate.hosts));
        examined.problems.extend(authorities.as_ref().and_then(|authorities| shown.trust_problem(authorities)));
    }
    // Of several authorities, such as an old one and its successor, one that counts is enough.
    let spans = authorities.iter().map(|authorities| (authorities.best(), &authorities.name));
    for ((from, until), name) in spans.chain(shown.iter().map(|shown| (shown.whole(authorities.as_ref()), &shown.name)))
    {
        examined.from.extend(from.map(|from| (from, name.clone())));
        examined.until.extend(until.map(|until| (until, name.clone())));
    }
    examined
}

#[cfg(test)]
mod tests;
