//! Evaluates a spec: the one path from a spec to the desired state and the findings.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::hazard::Cloud;
use crate::rule;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired::{self, Desired, Facts, Selection};
use osdpl_core::finding::{CATALOGUE, Finding};
use osdpl_core::observed::ClusterInfo;

/// A spec with its context.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The resource's name.
    pub name: &'a str,
    /// The resource's namespace.
    pub namespace: &'a str,
    /// The spec.
    pub spec: &'a OpenStackDeploymentSpec,
    /// The catalogue.
    pub catalog: &'a Catalog,
    /// The deployed OpenStack release, if it is known.
    pub deployed: Option<&'a str>,
    /// The annotation `kubectl.kubernetes.io/last-applied-configuration`, if there is one.
    pub last_applied: Option<&'a str>,
    /// The source of the facts that the spec does not contain.
    pub source: FactsSource<'a>,
    /// The current time; without it expiry is not checked.
    pub now: Option<Timestamp>,
}

/// The source of the facts that a spec does not contain.
#[derive(Clone, Copy)]
pub enum FactsSource<'a> {
    /// The facts were read from a cluster.
    Cluster(&'a Facts),
    /// Only files are known: facts that they lack are placeholders.
    Files {
        /// The Secrets and `ConfigMap`s that are applied together with the resource.
        objects: &'a [Value],
        /// The cluster, as far as it is known.
        site: &'a ClusterInfo,
    },
}

/// The result of evaluating a spec.
pub struct Evaluation {
    /// The services, features and releases that the spec selects.
    pub selection: Selection,
    /// The facts: those of the cluster, or those of the files with placeholders.
    pub facts: Facts,
    /// The desired state; its findings are in `findings`.
    pub desired: Desired,
    /// All findings.
    pub findings: Vec<Finding>,
}

impl Input<'_> {
    /// Selects the services, features and releases, from which the caller learns the facts to read.
    pub fn select(&self) -> Selection {
        let mut selection = desired::select(self.name, self.namespace, self.spec, self.catalog);
        let moved = self.deployed.map(|deployed| rule::check_release_move(deployed, self.spec, self.catalog));
        selection.findings.extend(moved.unwrap_or_default());
        selection
            .findings
            .extend(self.last_applied.map(|text| desired::find_lost_nulls(text, self.spec)).unwrap_or_default());
        selection
    }

    fn facts(&self, selection: &Selection) -> Facts {
        match self.source {
            FactsSource::Cluster(facts) => facts.clone(),
            FactsSource::Files { objects, site } => {
                let facts = rule::placeholder_facts_with(self.spec, self.catalog, selection, objects);
                Facts { site: site.clone(), ..facts }
            }
        }
    }
}

/// Evaluates a spec completely.
pub fn evaluate(input: &Input<'_>) -> Evaluation {
    evaluate_selection(input, input.select())
}

/// Evaluates a spec whose selection the caller has made with [`Input::select`].
pub fn evaluate_selection(input: &Input<'_>, selection: Selection) -> Evaluation {
    let Input { spec, catalog, .. } = *input;
    let facts = input.facts(&selection);
    let mut layered = desired::resolve_with_layers(spec, catalog, &selection, &facts);
    let mut findings = std::mem::take(&mut layered.desired.findings);
    if let FactsSource::Files { objects, .. } = input.source {
        // In a cluster, the releases are blocked for these problems until the objects exist.
        let is_refused = |finding: &Finding| finding.rule == CATALOGUE && finding.level == Level::Error;
        if !selection.findings.iter().any(is_refused) {
            findings.extend(layered.problems.iter().map(|finding| with_credential_field(spec, finding)));
        }
        findings.extend(rule::check_certificates(&selection.certificates, input.namespace, objects, input.now));
    }
    // Images in `valuesFrom` are pinned to the deployed OpenStack release.
    if let Some(deployed) = input.deployed {
        findings.extend(rule::pinned_in_values_from(deployed, spec, &facts.values_from));
    }
    findings.extend(rule::check(&Cloud::new(spec, catalog, &selection, &facts, &layered), input.now));
    let desired = layered.desired;
    Evaluation { selection, facts, desired, findings }
}

/// Moves a problem with a credential of the spec to the field that references it.
fn with_credential_field(spec: &OpenStackDeploymentSpec, problem: &Finding) -> Finding {
    let credential = problem.field().strip_prefix("credential ").and_then(|credential| credential.split_once('.'));
    match credential {
        Some((service, name))
            if spec.services.get(service).is_some_and(|service| service.credentials.contains_key(name)) =>
        {
            problem.clone().at_field(format!("spec.services.{service}.credentials.{name}"))
        }
        _ => problem.clone(),
    }
}
