//! The third step of a pass: does what the plan says. Beside the helm runner and the status, this is the only code that writes to the cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::SignedDuration;
use kube::ResourceExt;

use super::charts::Ready;
use super::memory::Memory;
use super::read::NO_HOOKS;
use super::{Context, now};
use crate::cluster::{Error, Evicted, Made};
use crate::helm::{ApplyMode, Job, JobRejection, StopReason, Uninstall, Upgrade, Verb};
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::desired::DesiredRelease;
use osdpl_core::observed::{Fix, ObservedRelease, ReleaseKey, Repaired};
use osdpl_core::plan::{self, Reason, Step, backoff_delay, count_repairs};
use osdpl_core::release::{
    ADOPTED, ATTEMPT_LABEL, CATALOG_LABEL, IMAGES_LABEL, INPUTS_LABEL, INSTANCES_LABEL, RELEASE_LABEL, SPLIT_LABEL,
    Status,
};
use osdpl_decide::{AGAIN, Action, Approval, Hold, Plan, Planned, Read, Refusal, eviction_held};

/// The wall deadline of a whole run, as a multiple of the time that one hook may take.
const HOOKS: u32 = 8;

/// How long an uninstall waits for the objects' end and for each hook.
const UNINSTALL: Duration = Duration::from_mins(5);

/// What came of a plan.
#[derive(Default)]
pub struct Outcome {
    /// The releases at which helm was to be started: whether it was, or waits for its turn.
    pub begun: BTreeMap<String, bool>,
    /// Whether the next pass follows at once, because it sees something else.
    pub again: bool,
    /// Whether the next pass reports, because what came of this one is not what the plan says.
    pub untrue: bool,
}

/// What came of one action.
enum Done {
    /// It was done.
    Yes,
    /// It was not, and the next pass decides anew.
    No,
    /// The API server refused.
    Refused(String),
}

impl Context {
    /// Does what the plan says, in its order. An action that prepares the rest ends the pass when it fails; other refusals are remembered and
    /// reported.
    pub(super) async fn apply(
        &self,
        deployment: &OpenStackDeployment,
        plan: &Plan,
        memory: &mut Memory,
    ) -> Result<Outcome, Error> {
        log(plan);
        let mut outcome = Outcome::default();
        let mut evicted = Vec::new();
        for planned in plan.actions.iter().filter(|planned| planned.approval != Approval::Missing) {
            if let (Action::Evict(_), true) = (&planned.action, outcome.untrue) {
                continue;
            }
            let id = planned.action.id();
            match self.one(deployment, plan, planned, memory, &mut outcome).await? {
                Done::Yes => {
                    memory.kept.refused.remove(&id);
                    // Events of the end were recorded before it.
                    if !matches!(planned.action, Action::RemoveFinalizer) {
                        self.cluster.tell(deployment, planned.events.clone()).await;
                    }
                    if let Action::Evict(pod) = &planned.action {
                        evicted.push(pod.node.clone());
                    }
                }
                Done::No => {}
                Done::Refused(message) => {
                    tracing::warn!(action = %planned.action, message, "refused");
                    let rest = Self::rest(&planned.action, memory);
                    let refusal = Refusal::again(memory.kept.refused.get(&id), message, now(), rest);
                    if let Action::Evict(pod) = &planned.action {
                        outcome.untrue = true;
                        let rollouts = memory.kept.rollouts.iter_mut().flatten();
                        for (_, rollout) in rollouts.filter(|(name, _)| planned.reason.ends_with(name.as_str())) {
                            eviction_held(rollout, evicted.clone(), pod, &refusal);
                        }
                    }
                    memory.kept.refused.insert(id, refusal);
                    outcome.again = true;
                }
            }
        }
        let answered = plan.requests.reads.iter().filter_map(|read| match read {
            Read::Jobs(release) if memory.answers.contains_key(read) => Some(release.clone()),
            _ => None,
        });
        let answered: Vec<ReleaseKey> = answered.collect();
        memory.uninstalled.retain(|release| !answered.contains(release));
        if plan.actions.iter().any(|planned| is_read_back(&planned.action)) {
            memory.answers.retain(|read, _| {
                matches!(
                    read,
                    Read::Values { .. } | Read::Source { .. } | Read::Addresses(..) | Read::ServiceNetworks(_)
                )
            });
        }
        Ok(outcome)
    }

    /// How long an action rests that was refused.
    fn rest(action: &Action, memory: &Memory) -> SignedDuration {
        let Action::CleanUp { release, .. } = action else { return AGAIN };
        let count = memory.kept.refused.get(&action.id()).map_or(0, |before| before.count) + 1;
        backoff_delay(release, count, Fix::Manual).unwrap_or(SignedDuration::MAX)
    }

    /// Does one action. An error ends the pass.
    async fn one(
        &self,
        deployment: &OpenStackDeployment,
        plan: &Plan,
        planned: &Planned,
        memory: &mut Memory,
        outcome: &mut Outcome,
    ) -> Result<Done, Error> {
        let name = deployment.name_any();
        match &planned.action {
            Action::AddFinalizer => self.cluster.set_finalizer(deployment, true).await.map(drop)?,
            Action::RemoveFinalizer => self.finish(deployment, plan, planned, memory).await?,
            Action::StoreCredentials(write) => {
                outcome.again = true;
                self.cluster.store_credentials(write, &self.inputs).await?;
            }
            Action::WriteObject(object) => self.cluster.write_object(&name, object, &self.inputs).await?,
            Action::Delete { kind, key } => {
                outcome.again = true;
                self.cluster.delete(*kind, key, &self.inputs).await?;
            }
            Action::ReleaseStore { store, uid } => self.cluster.release_store(store, uid.as_deref()).await?,
            Action::PublishService { external, .. } => {
                outcome.again = true;
                return Ok(refusable(self.cluster.publish_service(&name, external).await));
            }
            Action::PublishEndpoints { external, addresses, .. } => {
                outcome.again = true;
                return Ok(refusable(self.cluster.publish_endpoints(&name, external, addresses).await));
            }
            Action::ApplyRook { namespace, manifest } => {
                return refused(self.cluster.apply_rook(&name, namespace, manifest).await);
            }
            Action::ConfigureStore { store, uid, settings } => {
                return refused(self.cluster.configure_store(&name, store, uid, settings).await);
            }
            Action::LabelNode { name, change } => {
                return Ok(refusable(self.cluster.label_node(name, &change.uid, &change.labels).await));
            }
            Action::SetStrategy(strategy) => {
                return Ok(match self.cluster.set_strategy(strategy).await {
                    Ok(true) => {
                        memory.kept.strategies.insert(strategy.clone());
                        Done::Yes
                    }
                    Ok(false) => {
                        memory.kept.unguarded.insert(strategy.clone());
                        outcome.again = true;
                        Done::No
                    }
                    Err(error) => Done::Refused(error.to_string()),
                });
            }
            Action::CleanUp { release, sweep, others } => {
                return Ok(match self.cluster.sweep(release, sweep, others).await {
                    Ok(removed) => {
                        if !removed.is_empty() {
                            let removed = removed.join(", ");
                            tracing::info!(%release, removed, "removed what failed revisions left behind");
                        }
                        Done::Yes
                    }
                    Err(error) => Done::Refused(error.to_string()),
                });
            }
            Action::Release { name, key, action } => {
                self.release(plan, (name, key, action), memory, outcome).await;
            }
            Action::Evict(pod) => {
                return Ok(match self.cluster.evict(pod).await {
                    Ok(Evicted::Going) => {
                        memory.kept.evicted.insert(pod.uid.clone());
                        Done::Yes
                    }
                    Ok(Evicted::Refused(why)) => Done::Refused(why),
                    Err(error) => Done::Refused(error.to_string()),
                });
            }
            Action::RunCron { cron, job, mapping } => {
                return Ok(match self.cluster.run_cron(&cron.namespace, &cron.name, job).await {
                    Ok(Made::Nothing) => Done::No,
                    Ok(made) => {
                        memory.kept.mapping = Some(mapping.clone());
                        if made == Made::Now { Done::Yes } else { Done::No }
                    }
                    Err(error) => Done::Refused(error.to_string()),
                });
            }
            // The task that asks Nova does it: the question names the nodes.
            Action::ForgetHosts(_) => {}
            Action::Annotate(annotations) => {
                return Ok(match self.cluster.annotate(deployment, annotations).await {
                    Ok(true) => Done::Yes,
                    // Someone changed the resource meanwhile, which triggers a pass.
                    Ok(false) => Done::No,
                    Err(error) => Done::Refused(self.scrubber.borrow().scrub(&error.to_string())),
                });
            }
        }
        Ok(Done::Yes)
    }

    /// Removes our finalizer; the resource is done with from then on.
    async fn finish(
        &self,
        deployment: &OpenStackDeployment,
        plan: &Plan,
        planned: &Planned,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        if plan.older.is_some() {
            return self.cluster.set_finalizer(deployment, false).await.map(drop);
        }
        if plan.forget_secrets {
            self.forget_all_secrets(memory);
        }
        // The resource must still exist when its events are recorded.
        self.cluster.tell(deployment, planned.events.clone()).await;
        memory.failures.clear();
        self.cluster.set_finalizer(deployment, false).await?;
        self.metrics.remove_cloud(&deployment.name_any());
        self.unsettle();
        self.over.lock().unwrap_or_else(PoisonError::into_inner).extend(deployment.uid());
        self.poke.notify_one();
        Ok(())
    }

    /// Does the step of a release; a failure is remembered, and the release tried again later.
    async fn release(
        &self,
        plan: &Plan,
        (name, key, action): (&str, &ReleaseKey, &plan::Action),
        memory: &mut Memory,
        outcome: &mut Outcome,
    ) {
        let why = plan.releases.decisions.get(name).and_then(|decision| match &decision.step {
            Step::Do(_, why) => Some(why),
            _ => None,
        });
        let taken = self.step(plan, (name, key, action), memory, outcome).await;
        let is_upgrade = outcome.begun.get(name) == Some(&true) && matches!(action, plan::Action::Upgrade { .. });
        if is_upgrade {
            if plan.repairs.contains(name) {
                memory.kept.repairing.insert(name.to_owned());
            }
            if why == Some(&Reason::Drift) {
                memory.repaired(key);
            }
        }
        if let Err(error) = taken {
            memory.fail(key, action, plan.desired.releases.get(name), error.to_string());
        }
    }

    /// Takes a step; returns whether it began.
    async fn step(
        &self,
        plan: &Plan,
        (name, key, action): (&str, &ReleaseKey, &plan::Action),
        memory: &mut Memory,
        outcome: &mut Outcome,
    ) -> Result<bool, Error> {
        let seen = plan.observed.releases.get(key);
        let revision = seen.map_or(0, |seen| seen.revision);
        match action {
            plan::Action::Stop => {
                self.runner.stop(key, StopReason::Requested);
            }
            plan::Action::Unlock => {
                let done = self.cluster.unlock(key, revision).await?;
                tracing::info!(release = %key, done, "recovered");
            }
            plan::Action::Unmanage => {
                let records = self.cluster.unlabel_records(key).await?;
                tracing::info!(release = %key, records, "let go");
            }
            plan::Action::Adopt { in_sync } => {
                let Some(release) = plan.desired.releases.get(name) else { return Ok(false) };
                // What others' failed revisions left is theirs to remove.
                for past in seen.into_iter().filter(|seen| !seen.is_ours()).flat_map(failed) {
                    self.cluster.mark_swept(key, past).await?;
                }
                let labels = self.labels(name, release, revision, *in_sync);
                let done = self.cluster.label_record(key, revision, &labels).await?;
                tracing::info!(release = %key, revision, in_sync, done, "taken over");
            }
            plan::Action::Upgrade { delete_jobs } => {
                let Some(release) = plan.desired.releases.get(name) else { return Ok(false) };
                // A chart that changed since the values were made for it is another target: the next pass decides about it.
                let digest = release.chart_digest.as_deref().unwrap_or_default();
                let Some(chart) = self.charts.chart(name, digest) else { return Ok(false) };
                self.cluster.delete_jobs(&key.namespace, delete_jobs).await?;
                let began = self.upgrade((name, release, chart), revision, memory).await?;
                return Ok(note(outcome, name, began));
            }
            plan::Action::Uninstall { skip_hooks } => {
                let uninstall = Uninstall { timeout: UNINSTALL, hooks: !skip_hooks };
                let began = self.start(key, Verb::Uninstall(uninstall), revision, UNINSTALL * HOOKS);
                if began == Some(true) && *skip_hooks {
                    memory.started.insert(key.clone(), NO_HOOKS.to_owned());
                }
                return Ok(note(outcome, name, began));
            }
        }
        Ok(true)
    }

    /// The labels by which a revision that others made counts as ours: as one of the desired inputs, or of none that we know.
    fn labels(
        &self,
        name: &str,
        release: &DesiredRelease,
        revision: i64,
        in_sync: bool,
    ) -> BTreeMap<&'static str, Option<String>> {
        let of = |digest: &String| Some(if in_sync { digest.clone() } else { ADOPTED.to_owned() });
        let split = release.split.as_ref().map(|split| split.digest.clone());
        let attempt = self.runner.instance().attempt(0, u32::try_from(revision).unwrap_or(u32::MAX));
        BTreeMap::from([
            (INPUTS_LABEL, of(&release.inputs)),
            (CATALOG_LABEL, of(&release.catalog)),
            (RELEASE_LABEL, Some(name.to_owned())),
            (IMAGES_LABEL, Some(release.images.clone()).filter(|_| in_sync)),
            (INSTANCES_LABEL, release.guests.clone().filter(|_| in_sync)),
            (SPLIT_LABEL, split.filter(|_| in_sync)),
            (ATTEMPT_LABEL, Some(attempt.to_string())),
        ])
    }

    async fn upgrade(
        &self,
        (name, release, chart): (&str, &DesiredRelease, Ready),
        revision: i64,
        memory: &mut Memory,
    ) -> Result<Option<bool>, Error> {
        self.cluster.ensure_namespace(&release.key.namespace).await?;
        if revision == 0 {
            self.cluster.inherit_crds(&release.key).await?;
        }
        for manifest in chart.crds.iter() {
            self.cluster.apply_crd(manifest).await?;
        }
        let upgrade = upgrade(name, release, chart.path);
        let hook_timeout = upgrade.hook_timeout;
        let began = self.start(&release.key, Verb::Upgrade(upgrade), revision + 1, hook_timeout * HOOKS);
        if began == Some(true) {
            memory.started.insert(release.key.clone(), release.inputs.clone());
        }
        Ok(began)
    }

    /// Starts helm: whether it began, or waits for its turn; `None` where it can't be started.
    fn start(&self, key: &ReleaseKey, verb: Verb, revision: i64, deadline: Duration) -> Option<bool> {
        let word = verb.name();
        let revision = u32::try_from(revision).unwrap_or(u32::MAX);
        let scrubber = Arc::clone(&self.scrubber.borrow());
        match self.runner.start(Job { release: key.clone(), verb, revision, deadline, scrubber }) {
            Ok(attempt) => {
                tracing::info!(release = %key, verb = word, %attempt, "helm started");
                Some(true)
            }
            Err(JobRejection::Busy | JobRejection::Full | JobRejection::Closing) => Some(false),
            Err(refused @ JobRejection::Values) => {
                tracing::error!(release = %key, %refused, "helm not started");
                None
            }
        }
    }
}

/// Writes the plan into the log: what is done, why, and to which objects.
fn log(plan: &Plan) {
    for planned in plan.actions.iter().filter(|planned| planned.approval != Approval::Missing) {
        let objects = planned.action.objects(&plan.observed);
        let objects: Vec<String> =
            objects.iter().map(|(kind, namespace, name)| format!("{kind} {namespace}/{name}")).collect();
        tracing::info!(action = %planned.action, reason = planned.reason, objects = objects.join(", "), "planned");
    }
}

/// Notes whether helm began at a release.
fn note(outcome: &mut Outcome, name: &str, began: Option<bool>) -> bool {
    if let Some(began) = began {
        outcome.begun.insert(name.to_owned(), began);
    }
    began == Some(true)
}

/// Takes every error for a refusal.
fn refusable(answer: Result<(), Error>) -> Done {
    answer.map_or_else(|error| Done::Refused(error.to_string()), |()| Done::Yes)
}

/// Takes the API server's own words for a refusal: where it does not answer, the pass ends.
fn refused(answer: Result<(), Error>) -> Result<Done, Error> {
    match answer {
        Err(Error::Object(message)) => Ok(Done::Refused(message)),
        other => other.map(|()| Done::Yes),
    }
}

/// Whether the next pass reads what an action has changed.
fn is_read_back(action: &Action) -> bool {
    matches!(
        action,
        Action::StoreCredentials(_)
            | Action::PublishService { .. }
            | Action::PublishEndpoints { .. }
            | Action::WriteObject(_)
            | Action::ApplyRook { .. }
            | Action::ConfigureStore { .. }
            | Action::Delete { .. }
            | Action::ReleaseStore { .. }
            | Action::Annotate(_)
    )
}

/// What helm is given for a release, of this chart.
pub fn upgrade(name: &str, release: &DesiredRelease, chart: PathBuf) -> Upgrade {
    Upgrade {
        chart,
        values: serde_json::Value::Object(release.values.clone()),
        hook_timeout: Duration::from_secs(release.timeout.into()),
        apply: if release.server_side { ApplyMode::Server } else { ApplyMode::Client },
        inputs: release.inputs.clone(),
        catalog: release.catalog.clone(),
        images: release.images.clone(),
        instances: release.guests.clone(),
        split: release.split.as_ref().map(|split| split.digest.clone()),
        catalog_name: name.to_owned(),
    }
}

/// The failed revisions that helm remembers.
fn failed(seen: &ObservedRelease) -> impl Iterator<Item = u32> {
    seen.history.iter().filter(|past| past.status == Status::Failed).map(|past| past.revision)
}

impl Memory {
    /// Counts a repair that the spec asked for.
    fn repaired(&mut self, key: &ReleaseKey) {
        let now = now();
        let count = count_repairs(self.repairs.get(key), now);
        self.repairs.insert(key.clone(), Repaired { count, last_started_at: now });
    }

    /// Keeps what a plan leaves for the next one.
    pub(super) fn keep(&mut self, plan: &Plan) {
        self.kept = plan.kept.clone();
        if plan.hold != Some(Hold::Objects) {
            self.reads.clone_from(&plan.requests.reads);
        }
    }
}
