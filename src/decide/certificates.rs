//! Certificates in Secrets that the cloud uses: each is parsed when it is new, and checked against the time in each pass.
//!
//! A problem is only a warning: an expired certificate must not stop a cloud that runs.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use super::named::secret;
use super::snapshot::Objects;
use osdpl_core::catalog::Level;
use osdpl_core::desired::{Certificate, Finding, Selection, Unavailable};
use osdpl_lint::rule::{self, CertificateCheck, Held};
use osdpl_values::digest;

/// Parsed certificates, with the digest of their Secrets.
#[derive(Clone, Default)]
pub struct Certificates(BTreeMap<Certificate, (String, CertificateCheck)>);

impl Certificates {
    /// The problems of a selection's certificates now, and when that changes by itself. Secrets that can't be read are skipped.
    pub fn check(
        &mut self,
        objects: &Objects,
        selection: &Selection,
        now: Timestamp,
    ) -> (Vec<Finding>, Option<Timestamp>) {
        let (mut findings, mut again) = (Vec::new(), None::<Timestamp>);
        let mut warn = |certificate: &Certificate, message: String| {
            findings.push(Finding { level: Level::Warning, field: certificate.field.clone(), message });
        };
        self.0.retain(|certificate, _| selection.certificates.contains(certificate));
        for certificate in &selection.certificates {
            let held = match objects.all(&secret(&certificate.namespace, &certificate.name)) {
                Ok(data) => data.into_iter().filter_map(|(key, value)| Some((key, String::from_utf8(value).ok()?))),
                Err(Unavailable::Missing(missing)) if certificate.brought => {
                    warn(certificate, missing);
                    continue;
                }
                Err(_) => continue,
            };
            let examined = self.examined(certificate, &held.collect());
            for problem in examined.problems(now) {
                warn(certificate, rule::describe_problem(certificate, &problem));
            }
            again = again.into_iter().chain(examined.next(now)).min();
        }
        (findings, again)
    }

    fn examined(&mut self, certificate: &Certificate, held: &Held) -> &CertificateCheck {
        let now = digest(held.iter().flat_map(|(key, text)| [key.as_str(), text.as_str()]));
        let known = self.0.entry(certificate.clone()).or_default();
        if known.0 != now {
            *known = (now, rule::check_certificate(certificate, held));
        }
        &known.1
    }
}
