//! Evaluates a spec: returns the desired state and all findings about the spec.
//!
//! The operator, the webhook and the commands evaluate the specs of users only with this module. The evaluation needs
//! facts, such as the contents of Secrets. With a cluster, the caller calls [`Input::select`], reads the facts for the
//! selected releases from the cluster, and passes them to [`Input::resolve`]. Without a cluster,
//! [`Input::evaluate_offline`] takes the facts from manifests in files.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::Value;

use crate::cloud::Cloud;
use crate::{facts, rule};
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentSpec};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{self, Desired, Facts, Selection};
use osdpl_core::finding::Finding;
use osdpl_core::observed::ClusterInfo;

/// The input of an evaluation: a spec, metadata of the `OpenStackDeployment` that contains the spec, and the catalogue.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The resource's name.
    pub(crate) name: &'a str,
    /// The resource's namespace.
    pub(crate) namespace: &'a str,
    /// The spec to evaluate.
    pub(crate) spec: &'a OpenStackDeploymentSpec,
    /// The catalogue, including the additions that the spec references in `spec.catalog`.
    pub(crate) catalog: &'a Catalog,
    /// The OpenStack release that is deployed now; `None` if it is not known.
    pub(crate) deployed: Option<&'a str>,
    /// The annotation `kubectl.kubernetes.io/last-applied-configuration` of the resource; `None` if the resource has
    /// none.
    pub(crate) last_applied: Option<&'a str>,
    /// The current time; `None` if osdpl must not check the expiry of certificates.
    pub(crate) now: Option<Timestamp>,
}

/// The result of evaluating a spec offline.
pub struct Evaluation {
    /// The services, features and releases that the spec selects.
    pub selection: Selection,
    /// The facts that the evaluation used. Facts that osdpl can't know without a cluster are placeholders.
    pub facts: Facts,
    /// Descriptions of the facts that osdpl lacks without a cluster. In the values that commands print, placeholders
    /// replace these facts, or osdpl leaves out the values that need them.
    pub placeholders: Vec<String>,
    /// The desired state with all findings.
    pub desired: Desired,
}

impl<'a> Input<'a> {
    /// Creates the input for a spec that belongs to no resource.
    ///
    /// The evaluation uses the name `cloud` and the namespace `openstack`.
    pub fn of_spec(spec: &'a OpenStackDeploymentSpec, catalog: &'a Catalog) -> Self {
        let (name, namespace) = ("cloud", "openstack");
        Self { name, namespace, spec, catalog, deployed: None, last_applied: None, now: None }
    }

    /// Creates the input for evaluating `spec` as the spec of the resource `deployment`.
    ///
    /// The function ignores `deployment.spec` and takes all other data, such as the name, from `deployment`.
    pub fn of_resource(
        deployment: &'a OpenStackDeployment,
        spec: &'a OpenStackDeploymentSpec,
        catalog: &'a Catalog,
    ) -> Self {
        let metadata = &deployment.metadata;
        let deployed = deployment.status.as_ref().and_then(|status| status.openstack_release.deployed.as_deref());
        let applied = deployment.annotations().get("kubectl.kubernetes.io/last-applied-configuration");
        Self {
            name: metadata.name.as_deref().unwrap_or("cloud"),
            namespace: metadata.namespace.as_deref().unwrap_or("openstack"),
            deployed,
            last_applied: applied.map(String::as_str),
            ..Self::of_spec(spec, catalog)
        }
    }

    /// Selects the services, features and releases that the spec requests.
    pub fn select(&self) -> Selection {
        let mut selection = desired::select(self.name, self.namespace, self.spec, self.catalog);
        let release_move = self.deployed.map(|deployed| rule::check_release_move(deployed, self.spec, self.catalog));
        selection.findings.extend(release_move.into_iter().flatten());
        let lost_nulls = self.last_applied.map(|text| desired::find_lost_nulls(text, self.spec));
        selection.findings.extend(lost_nulls.into_iter().flatten());
        selection
    }

    /// Returns the desired state with all findings.
    ///
    /// `selection` is the result of [`Input::select`]; `facts` are the facts of the cluster.
    pub fn resolve(&self, selection: &Selection, facts: &Facts) -> Desired {
        self.resolve_with_problems(selection, facts).0
    }

    /// Evaluates the spec without a cluster.
    ///
    /// `manifests` are the objects that the user applies together with the resource, such as Secrets. The function
    /// takes facts from `manifests` and `cluster_info`, and uses placeholders for all other facts.
    pub fn evaluate_offline(&self, manifests: &[Value], cluster_info: &ClusterInfo) -> Evaluation {
        let selection = self.select();
        let facts = facts::facts(self.spec, self.catalog, &selection, manifests);
        let facts = Facts { cluster_info: cluster_info.clone(), ..facts };
        let (mut desired, problems) = self.resolve_with_problems(&selection, &facts);
        if !selection.is_refused() {
            // Without a cluster, report missing objects as findings. With a cluster, a missing object is no finding,
            // because the releases that need the object wait until the object exists.
            desired.findings.extend(problems.iter().map(|problem| with_credential_field(self.spec, problem)));
        }
        let certificates = &selection.certificates;
        desired.findings.extend(rule::check_certificate_secrets(
            certificates,
            &selection.namespace,
            manifests,
            self.now,
        ));
        let placeholders = facts::describe_placeholders(self.spec, self.catalog, &selection, manifests);
        Evaluation { selection, facts, placeholders, desired }
    }

    /// Returns the desired state with all findings, and the problems that make releases wait, such as a missing Secret.
    fn resolve_with_problems(&self, selection: &Selection, facts: &Facts) -> (Desired, Vec<Finding>) {
        let Self { spec, catalog, now, .. } = *self;
        let mut layered = desired::resolve_with_layers(spec, catalog, selection, facts);
        let mut found = rule::check(&Cloud::new(spec, catalog, selection, facts, &layered), now);
        if let Some(deployed) = self.deployed {
            found.extend(rule::pinned_in_values_from(deployed, spec, &facts.values_from));
        }
        layered.desired.findings.extend(found);
        (layered.desired, layered.problems.into_iter().collect())
    }
}

/// If a problem is about a credential for which the spec names a Secret, returns the problem with the field that names
/// this Secret, because the user must correct this field or the Secret. Returns any other problem unchanged.
fn with_credential_field(spec: &OpenStackDeploymentSpec, problem: &Finding) -> Finding {
    let credential = problem.field().strip_prefix("credential ").and_then(|credential| credential.split_once('.'));
    let reference = credential.filter(|(service, name)| {
        spec.services.get(*service).is_some_and(|service| service.credentials.contains_key(*name))
    });
    match reference {
        Some((service, name)) => problem.clone().at_field(format!("spec.services.{service}.credentials.{name}")),
        None => problem.clone(),
    }
}
