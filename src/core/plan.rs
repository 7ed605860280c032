//! Decides the next step of each release: a helm operation, a wait with its reason, or nothing.
//!
//! Pure module (no I/O). [`plan()`] classifies each release into one [`State`], and maps each state to one step. The
//! module stores nothing between reconcile passes: helm's release records contain the history of each release.

mod adopt;
mod approval;
mod drift;
mod messages;
mod next_step;
mod prepare;
mod settle;
mod state;
mod step;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

pub use drift::count_repairs;
pub use prepare::{backoff_delay, jobs_to_delete};
pub(crate) use settle::component_available;
pub use settle::settle_step;
pub use state::{State, classify};
pub use step::{Action, Decision, DriftAction, Reason, Step, Wait};

use crate::api::{Approval, HookPolicy};
use crate::catalog::{Catalog, Component};
use crate::desired::{Desired, Provider};
use crate::observed::{Observed, ReleaseKey};
use osdpl_values::{CollectSorted, digest};

/// The number of hexadecimal digits of a target hash ([`Plan::hash`]).
///
/// With fewer digits, an editor without the verb `approve` could search for a harmful spec that has the hash of a
/// harmless one, and ask a person to approve the harmless one.
pub const HASH_DIGITS: usize = 32;

/// The rules that decide which changes osdpl may make in this pass. They come from the spec, the annotations and the
/// status of the `OpenStackDeployment`.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The policy for the changes that wait for a person's approval.
    pub approval: Approval,
    /// The target hash ([`Plan::hash`]) that a person approved with an annotation on the OpenStackDeployment.
    pub approved: Option<String>,
    /// The target hash that a person approved in an earlier pass, as the status of the OpenStackDeployment stores it.
    /// osdpl uses this field only with [`Approval::Always`].
    pub approved_target: Option<String>,
    /// The digest ([`Desired::object_digest`]) of the last approved settings for objects outside of releases, as the
    /// status stores it. osdpl uses this field only with [`Approval::Always`].
    pub approved_objects: Option<String>,
    /// The names of existing releases that osdpl may adopt, as an annotation lists them; `all` stands for every
    /// release.
    pub adopt: BTreeSet<String>,
    /// The names of releases whose repair a person requested; `all` stands for every release that needs a repair. A
    /// repair is a helm upgrade that overwrites drift, or that replaces a revision which osdpl did not make. osdpl also
    /// upgrades a named release that needs no repair.
    pub repair: BTreeSet<String>,
    /// The names of releases that osdpl uninstalls without hooks, because a person requested that; `all` stands for
    /// every release.
    pub skip_hooks: BTreeSet<String>,
    /// Whether an upgrade always runs the hooks of a release, or skips hooks that would only repeat their work.
    pub hooks: HookPolicy,
    /// Whether the whole cloud is paused.
    pub paused: bool,
    /// The names of paused releases, including releases that are no longer desired.
    pub paused_releases: BTreeSet<String>,
    /// Whether the OpenStackDeployment is being deleted. If so, uninstalls of the cloud's releases need no approval.
    pub deleting: bool,
    /// The names of the additions to the catalogue whose content differs from the approved content. Until the new
    /// content is approved, osdpl installs no release, and upgrades no release whose inputs changed.
    pub changed_additions: BTreeSet<String>,
}

impl Policy {
    /// Whether osdpl may start a change that needs approval by default: the spec sets `approval: Automatic`, or a
    /// person approved the target hash `hash`.
    pub fn approves(&self, hash: &str) -> bool {
        self.approval == Approval::Automatic || self.approved.as_deref() == Some(hash) || self.is_approved_earlier(hash)
    }

    /// Whether a change that the spec requested may start: the spec does not set `approval: Always`, or a person
    /// approved the target hash `hash`.
    pub(crate) fn approves_spec_change(&self, hash: &str) -> bool {
        self.approval != Approval::Always || self.approves(hash)
    }

    /// Whether osdpl may apply the settings in `desired` for objects outside of releases, such as node labels. `hash`
    /// is the target hash.
    ///
    /// If a person approved these settings earlier, osdpl applies them even while changes of releases wait for
    /// approval. So, for example, a new node of a role gets the role's labels.
    pub fn approves_objects(&self, desired: &Desired, hash: &str) -> bool {
        self.approves_spec_change(hash) || self.approved_objects.as_deref() == Some(&desired.object_digest())
    }

    /// Whether the spec sets `approval: Always` and a person approved `hash` in an earlier pass. The status stores this
    /// approval, because osdpl has already removed the annotation with which the person gave it.
    fn is_approved_earlier(&self, hash: &str) -> bool {
        self.approval == Approval::Always && self.approved_target.as_deref() == Some(hash)
    }

    /// Whether `set`, the list of release names in an annotation, contains the name `release` or the word `all`.
    pub fn selects(set: &BTreeSet<String>, release: &str) -> bool {
        set.contains(release) || set.contains("all")
    }
}

/// The next step of every release, and the target hash that a person must approve if a step waits for approval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The decision about each release. The key is the release's name in the catalogue, or its name in helm if the
    /// catalogue does not have the release. If another release in the map already has this key, a release that is no
    /// longer desired has the key `namespace/name`.
    pub decisions: BTreeMap<String, Decision>,
    /// The target hash, which identifies the desired inputs of all releases. An approval of this hash applies to every
    /// step until all releases have these inputs.
    pub hash: String,
    /// Whether a person approved this plan's target hash, in this pass or in an earlier one.
    pub approved: bool,
    /// The time at which the operator must start the next pass even without an event; `None` if no release waits until
    /// a known time.
    pub requeue_at: Option<Timestamp>,
}

impl Plan {
    /// Returns the releases that wait for approval of a change, each with the reason for the change.
    pub fn awaiting_approval(&self) -> impl Iterator<Item = (&str, &Reason)> {
        self.decisions.iter().filter_map(|(name, decision)| match &decision.step {
            Step::Wait(Wait::Approval(why)) => Some((name.as_str(), why)),
            _ => None,
        })
    }

    /// Whether no release needs a helm run: every release has the desired inputs, or osdpl does not manage it. The
    /// workloads and Jobs of the releases may not be ready yet.
    pub fn is_idle(&self) -> bool {
        self.decisions.values().all(|decision| matches!(decision.step, Step::Ready | Step::Settling(_)))
    }

    /// Whether every release has the desired inputs and is ready, or is not managed by osdpl.
    pub fn is_ready(&self) -> bool {
        self.decisions.values().all(|decision| decision.step == Step::Ready)
    }
}

/// Decides the next step of every desired release, and of every release that osdpl manages although it is no longer
/// desired.
pub fn plan(desired: &Desired, observed: &Observed, catalog: &Catalog, policy: &Policy, now: Timestamp) -> Plan {
    let hash = hash(desired, observed, catalog);
    let context = Context { desired, observed, catalog, policy, now, hash: &hash };
    let mut decisions = BTreeMap::new();
    for (name, release) in &desired.releases {
        let state = classify(Some(release), &release.key, observed, now);
        let step = context.desired_step(name, release, state);
        let cleanup = context.cleanup(&state, &step).filter(|_| !release.paused);
        let drift_action = context.drift_action(name, release).filter(|_| matches!(state, State::InSync(_)));
        decisions.insert(name.clone(), Decision { key: release.key.clone(), step, cleanup, drift_action });
    }
    let wanted: BTreeSet<&ReleaseKey> = desired.releases.values().map(|release| &release.key).collect_set();
    let unwanted = context.ours().filter(|(key, _)| !wanted.contains(key)).collect::<Vec<_>>();
    for (key, name) in unwanted {
        let state = classify(None, key, observed, now);
        let label = if decisions.contains_key(&name) { key.to_string() } else { name.clone() };
        let step = context.removal_step(&name, key, state);
        let cleanup = context.cleanup(&state, &step);
        decisions.insert(label, Decision { key: key.clone(), step, cleanup, drift_action: None });
    }
    let requeue_at = decisions.values().filter_map(Decision::requeue_at).min();
    let approved = context.is_approved() || policy.is_approved_earlier(&hash);
    Plan { decisions, hash, approved, requeue_at }
}

/// Returns the target hash. It is a digest of:
///
/// * the desired inputs of all releases, which include the content of the charts
/// * the releases to remove, and the labels to remove from nodes
/// * the additions to the catalogue
/// * the parts of the spec on which objects outside of releases depend
///
/// The hash must stay the same while osdpl carries out the plan. So the status lists all releases to remove until the
/// last one is uninstalled (see [`owned`]), and all labels to remove until the last node has lost them.
fn hash(desired: &Desired, observed: &Observed, catalog: &Catalog) -> String {
    let wanted: BTreeSet<&ReleaseKey> = desired.releases.values().map(|release| &release.key).collect_set();
    let ours = observed.releases.iter().filter(|(_, record)| record.is_ours()).map(|(key, _)| key);
    let removed: BTreeSet<&ReleaseKey> = ours.chain(&observed.owned).filter(|key| !wanted.contains(*key)).collect_set();
    let inputs = desired.releases.values().map(|release| format!("{} {}", release.key, release.approved_inputs()));
    let losses = observed.label_losses.iter().map(|(node, labels)| format!("{node} loses {labels}"));
    // The hash includes the digests of the additions, because an addition affects more than the inputs of releases: for
    // example, the order in which osdpl upgrades the releases.
    let additions = catalog.additions.iter().map(|(name, digest)| format!("addition {name} {digest}"));
    let removed = removed.iter().map(|key| format!("{key} removed"));
    let objects = desired.object_settings.iter().cloned();
    let parts: Vec<String> = inputs.chain(removed).chain(losses).chain(additions).chain(objects).collect();
    let mut hash = digest(parts.iter().map(String::as_str));
    hash.truncate(HASH_DIGITS);
    hash
}

/// Returns the releases that the next status of the OpenStackDeployment lists as releases of the cloud.
///
/// The list contains the releases in the previous status, and the releases that osdpl adopts or starts helm for in this
/// pass. It contains no other desired release: if helm has a record of such a release, somebody else wrote the record.
///
/// An unmanaged release (`managed: false`) stays in the list until the release's records have lost osdpl's labels. All
/// releases to remove stay in the list until the last of them is removed, so that the target hash stays the same.
pub fn owned(desired: &Desired, observed: &Observed, plan: &Plan) -> BTreeSet<ReleaseKey> {
    let wanted: BTreeMap<&ReleaseKey, bool> =
        desired.releases.values().map(|release| (&release.key, release.managed)).collect_map();
    let starts = |step: &Step| match step {
        Step::Do(action, _) => {
            matches!(action, Action::Upgrade { .. } | Action::Uninstall { .. } | Action::Adopt { .. })
        }
        Step::Wait(wait) => matches!(wait, Wait::Helm { .. }),
        Step::Settling(_) | Step::Ready => false,
    };
    let is_owned = |Decision { key, step, .. }: &&Decision| match wanted.get(key) {
        Some(false) => observed.owned.contains(key) && *step != Step::Ready,
        _ => observed.owned.contains(key) || starts(step),
    };
    let decided = plan.decisions.values().filter(is_owned).map(|decision| decision.key.clone());
    let has_removals = plan.decisions.values().any(|decision| !wanted.contains_key(&decision.key));
    let removed = observed.owned.iter().filter(|key| has_removals && !wanted.contains_key(key)).cloned();
    decided.chain(removed).collect_set()
}

struct Context<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
    catalog: &'a Catalog,
    policy: &'a Policy,
    now: Timestamp,
    hash: &'a str,
}

impl Context<'_> {
    /// Returns the releases that osdpl manages, with their names in the catalogue. osdpl manages a release if it made
    /// one of the release's revisions, or runs helm for the release now.
    fn ours(&self) -> impl Iterator<Item = (&ReleaseKey, String)> {
        let recorded = self.observed.releases.iter().filter(|(_, record)| record.is_ours());
        let recorded = recorded.map(|(key, record)| (key, record.release.clone().unwrap_or_else(|| key.name.clone())));
        let running = self.observed.running.keys().filter(|key| !self.observed.releases.contains_key(*key));
        recorded.chain(running.map(|key| (key, key.name.clone())))
    }

    /// Whether a change that the spec did not request may start: a person approved the target hash, or the spec sets
    /// `approval: Automatic`.
    fn approved(&self) -> bool {
        self.policy.approves(self.hash)
    }

    /// Whether a change that the spec requested may start: the spec does not set `approval: Always`, or a person
    /// approved the target hash.
    fn approved_by_spec(&self) -> bool {
        self.policy.approves_spec_change(self.hash)
    }

    /// Whether the OpenStackDeployment has an annotation with which a person approved the target hash of this plan.
    fn is_approved(&self) -> bool {
        self.policy.approved.as_deref() == Some(self.hash)
    }

    /// Returns the components that the release needs and that are not available yet.
    fn unmet_needs(&self, release: &crate::desired::DesiredRelease) -> Vec<Component> {
        let unmet = release.needs.iter().filter(|(component, provider)| match provider {
            Provider::External(service) => !self.observed.external_ready.contains(service),
            Provider::Release(name) => {
                let key = self.desired.releases.get(name).map(|release| &release.key);
                !key.is_some_and(|key| component_available(component, key, self.observed))
            }
        });
        unmet.map(|(component, _)| component.clone()).collect()
    }

    /// Returns the names of the cloud's existing releases that depend on the release `name`, sorted.
    fn dependents(&self, name: &str) -> Vec<String> {
        let provided: BTreeSet<&Component> =
            self.catalog.release(name).into_iter().flat_map(|(_, release)| release.components.keys()).collect_set();
        let mut names: Vec<_> = self
            .ours()
            .filter(|(key, _)| self.observed.owned.contains(*key) || self.observed.running.contains_key(*key))
            .filter(|(key, other)| other != name && self.depends_on(key, other, name, &provided))
            .map(|(_, other)| other)
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Whether the release `other` (with the namespace and name `key`), as it is installed now, depends on the release
    /// `name`. `provided` contains the components of `name`.
    ///
    /// The function checks the desired needs of `other`. If the newest revision of `other` does not have the desired
    /// inputs, the function also checks every need that the catalogue lists for `other`, because that revision may
    /// still have these needs.
    ///
    /// The function ignores a need of `other` if, in the desired state, an external service meets this need instead of
    /// `name`. osdpl publishes that service only after it has uninstalled `name`, and the upgrade of `other` waits for
    /// the service. If the uninstall of `name` waited for `other`, neither could start.
    fn depends_on(&self, key: &ReleaseKey, other: &str, name: &str, provided: &BTreeSet<&Component>) -> bool {
        let wanted = self.desired.releases.get(other).filter(|wanted| wanted.key == *key);
        let is_release = |provider: &Provider| *provider == Provider::Release(name.to_owned());
        if wanted.is_some_and(|wanted| wanted.needs.values().any(is_release)) {
            return true;
        }
        let in_sync = wanted
            .is_some_and(|wanted| matches!(classify(Some(wanted), key, self.observed, self.now), State::InSync(_)));
        let outside = |component: &Component| {
            wanted.is_some_and(|wanted| matches!(wanted.needs.get(component), Some(Provider::External(_))))
        };
        let catalogued = self.catalog.release(other).map(|(_, release)| &release.needs);
        let mut needs = catalogued.into_iter().flatten().map(|need| &need.component);
        !in_sync && needs.any(|component| provided.contains(component) && !outside(component))
    }
}

#[cfg(test)]
mod tests;
