//! Checks the certificates in Secrets that a spec names.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use super::objects::Objects;
use super::requests::Reference;
use osdpl_core::catalog::Level;
use osdpl_core::desired::{Certificate, Finding, Selection, Unavailable};
use osdpl_lint::rule::{self, CertificateCheck, SecretTexts};
use osdpl_values::{CollectSorted, digest};

/// The parsed certificates, each with the digest of its Secret.
///
/// osdpl parses a certificate only when its Secret is new or has changed, because parsing is expensive.
#[derive(Clone, Default)]
pub(crate) struct Certificates(BTreeMap<Certificate, (String, CertificateCheck)>);

impl Certificates {
    /// Returns warnings about the certificates that the selected features use, and the time at which the next warning
    /// appears or changes.
    ///
    /// Problems are only warnings: an expired certificate must not stop a running cloud. If osdpl can't read a Secret,
    /// the function skips the Secret, except in one case: it warns if a Secret that the user must provide is missing.
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
            let texts = match objects.all(&Reference::secret(&certificate.namespace, &certificate.name)) {
                Ok(data) => data.into_iter().filter_map(|(key, value)| Some((key, String::from_utf8(value).ok()?))),
                Err(Unavailable::Missing(missing)) if certificate.user_provided => {
                    warn(certificate, missing);
                    continue;
                }
                Err(_) => continue,
            };
            let check = self.parsed(certificate, &texts.collect_map());
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
