//! Decides what a reconcile pass does: a pure function from a [`Snapshot`] of the cluster to a [`Plan`] of all actions.
//!
//! [`decide`] uses no client, no async runtime and no clock: the time and the responses of Nova are part of the
//! snapshot. [`decide`] generates no passwords either: the plan lists the passwords to generate, and the operator
//! generates them when it applies the plan. After the decision nothing changes the plan.
//!
//! The plan for a refused spec only adds the finalizer and updates the Endpoints of external hosts. A deletion does not
//! require a valid spec. The plan for a paused cloud only adds the finalizer, and adopts releases at a person's
//! request. It also shows the actions that wait for approval, but the operator does not execute these actions.
//!
//! ```text
//! read(requests of the last plan) ─► Snapshot ─► decide ─► Plan ─► apply(actions) ─► report ─► status, events
//!          ▲                                                │
//!          └──────────── requests, kept ────────────────────┘
//! ```
//!
//! A plan *requests* the data that the next decision needs, such as an object that the spec names, a chart or a record.
//! The operator adds the data to the next snapshots. A decision never waits for data: if essential data is missing, the
//! plan is incomplete ([`Hold`]), and a later pass decides again.
//!
//! | modules | contents |
//! |---|---|
//! | `cloud`, `deletion` | the order of all decisions |
//! | `draft`, `plan`, `action`, `objects`, `requests`, `snapshot`, `kept` | the data |
//! | `additions`, `selection`, `resource`, `spec_references`, `lookups`, `credentials`, `certificates`, `charts`, `ceph`, `external`, `namespaces`, `nodes` | decisions that come before the steps of releases |
//! | `comparison`, `releases`, `changes`, `crds`, `cleanup`, `rollouts`, `hosts`, `instances`, `annotations` | the steps of releases, and what follows from them |
//! | `ownership`, `needed`, `leftovers` | what belongs to the cloud, and what stays when osdpl deletes |
//! | `assumptions` | what `osdpl plan` assumes about missing data |

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start programs, read files and use the clock"))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(unreachable_pub)]

mod action;
mod additions;
mod annotations;
mod assumptions;
mod ceph;
mod certificates;
mod changes;
mod charts;
mod cleanup;
mod cloud;
mod comparison;
mod crds;
mod credentials;
mod deletion;
mod draft;
mod external;
mod hosts;
mod instances;
mod kept;
mod leftovers;
mod lookups;
mod namespaces;
mod needed;
mod nodes;
mod objects;
mod ownership;
mod plan;
mod releases;
mod requests;
mod resource;
mod rollouts;
mod selection;
mod snapshot;
mod spec_references;
#[cfg(test)]
mod tests;

use kube::ResourceExt;

pub use action::{Action, Approval, Kind, Planned, SecretWrite};
pub use ceph::{CEPH_COMPONENT, OBJECT_STORE};
pub use charts::{chart_request, known_charts, retry_chart_at};
pub use deletion::labels_after_deletion;
pub use draft::next_refusal;
pub use external::HOST_ANNOTATION;
pub use instances::{NO_PASSWORD, access_releases, advise, may_delete_instances};
pub use kept::{Kept, Refusal};
pub use namespaces::find_outside;
pub use nodes::cluster_info;
pub use objects::{Data, ObjectState, Objects};
pub use ownership::owned_releases;
pub use plan::{Hold, Plan};
pub use releases::RENDER_LIMIT;
pub use requests::{
    AbandonedCrd, ChartRequest, Crds, DigestSource, ExpectedDigest, Leftover, Published, Read, Received, Recorded,
    Reference, Requests, Response, Responses, Stored, Watches,
};
pub use resource::{Target, find_older, is_finalized, policy, target};
pub use rollouts::report_refused_eviction;
pub use selection::{release_names, selection};
pub use snapshot::{Assumed, ChartState, Charts, Helm, Snapshot};

use draft::Draft;
use osdpl_core::api::{FINALIZER, OpenStackDeployment};
use osdpl_core::status::Ignored;

/// The time for which osdpl remembers that the API server refused a write, counted from the time at which osdpl may
/// retry the write.
const REFUSAL_LIFETIME: k8s_openapi::jiff::SignedDuration = k8s_openapi::jiff::SignedDuration::from_mins(5);

/// Returns the plan of a pass for a snapshot.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let mut draft = Draft::new(snapshot);
    draft.kept.refused.retain(|_, refusal| snapshot.now.duration_since(refusal.until) < REFUSAL_LIFETIME);
    let deployment = &snapshot.deployment;
    if deployment.metadata.deletion_timestamp.is_some() {
        return deletion::decide(draft);
    }
    if !deployment.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
        draft.actions.push(Planned::new(Action::AddFinalizer, "osdpl must clean up before the resource is deleted"));
        return draft.hold(Hold::Watch);
    }
    cloud::decide(draft)
}

/// Returns the plan for an OpenStackDeployment that osdpl ignores.
///
/// osdpl ignores an OpenStackDeployment in two cases:
///
/// * An older OpenStackDeployment exists. osdpl runs one cloud per cluster.
/// * The operator has no rights in the namespace of the OpenStackDeployment.
///
/// If the OpenStackDeployment is being deleted, the plan removes the finalizer in the first case. In the second case,
/// the finalizer stays, because the cloud could still be running there.
pub fn decide_ignored(deployment: &OpenStackDeployment, ignored: Ignored) -> Plan {
    let mut plan = Plan::default();
    if let Ignored::Older { other, .. } = &ignored
        && deployment.metadata.deletion_timestamp.is_some()
    {
        let reason = format!("osdpl ignores this resource, because {other} is older");
        let removal = Planned::new(Action::RemoveFinalizer, reason);
        plan.actions.extend((!is_finalized(deployment)).then_some(removal));
        plan.hold = Some(Hold::Watch);
    }
    Plan { ignored: Some(ignored), ..plan }
}
