//! Certificates in Secrets that the cloud takes: examined when one is new, judged by the time in each pass.
//!
//! What is wrong with one is a warning: a cloud that runs is not to be stopped by a certificate that has run out.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use super::named::secret;
use crate::cluster::Inputs;
use osdpl_core::catalog::Level;
use osdpl_core::desired::{Certificate, Finding, Selection, Unavailable};
use osdpl_lint::rule::{self, CertificateCheck, Held};
use osdpl_values::digest;

/// What certificates came to, with a digest of what their Secrets held.
#[derive(Default)]
pub struct Certificates(BTreeMap<Certificate, (String, CertificateCheck)>);

impl Certificates {
    /// What is wrong with those of a selection now, and when that changes by itself. Of Secrets that can't be read nothing is said.
    pub fn judge(
        &mut self,
        inputs: &Inputs,
        selection: &Selection,
        now: Timestamp,
    ) -> (Vec<Finding>, Option<Timestamp>) {
        let (mut findings, mut again) = (Vec::new(), None::<Timestamp>);
        let mut warn = |certificate: &Certificate, message: String| {
            findings.push(Finding::new(Level::Warning, certificate.field.clone(), message));
        };
        self.0.retain(|certificate, _| selection.certificates.contains(certificate));
        for certificate in &selection.certificates {
            let held = match inputs.all(&secret(&certificate.namespace, &certificate.name)) {
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
