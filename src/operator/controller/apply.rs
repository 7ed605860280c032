//! The third step of a pass (read, decide, apply, report): executes the actions of a plan.
//!
//! For a cloud, the operator writes only through the actions of plans and the record in the status that precedes them
//! ([`Context::record_trusted`]), helm, the report (`publish`, or `pass_failures` after a failed pass), and the
//! background task `hosts` ([`crate::tasks`]). The controller of `NodeMaintenance` resources and the commands of
//! `osdpl` write outside of passes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use osdpl_values::CollectSorted;

use super::apply_release::ReleaseStep;
use super::memory::{Memory, WrittenStatus};
use super::{Context, now};
use crate::cluster::{Error, EvictionResult, JobCreation};
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::observed::ReleaseKey;
use osdpl_core::openstack::Mapping;
use osdpl_core::rollout::{Eviction, Strategy};
use osdpl_decide::{Action, Approval, Hold, Plan, Planned, Read, next_refusal, report_refused_eviction};

/// The data about the execution of a plan's actions that the report and the next pass need.
#[derive(Default)]
pub(super) struct Outcome {
    /// The releases for which the plan starts helm, by name: `true` if helm runs, `false` if the release waits, usually
    /// because the maximum number of helm processes is running.
    pub(super) helm_started: BTreeMap<String, bool>,
    /// Whether the next pass must follow immediately: this pass changed data that decisions use, or the next decision
    /// must take a refused action into account.
    pub(super) requeue: bool,
    /// Whether this pass must not write the status, because the plan is outdated: it does not know that the API server
    /// refused an eviction, or that someone changed the `OpenStackDeployment` after this pass had read it.
    pub(super) skip_report: bool,
    /// The error of each namespace that this pass could not create. An action in one of these namespaces fails with the
    /// namespace's error.
    failed_namespaces: BTreeMap<String, String>,
    /// The error of each release whose CRDs this pass could not write. The pass does not upgrade such a release, and
    /// the status contains the error.
    failed_crds: BTreeMap<ReleaseKey, String>,
}

impl Outcome {
    /// Returns an error if this pass could not create `namespace`.
    fn check_namespace(&self, namespace: &str) -> Result<(), Error> {
        self.failed_namespaces.get(namespace).map_or(Ok(()), |error| Err(Error::Object(error.clone())))
    }

    /// Returns an error if this pass could not create the namespace of a release, or could not write the release's
    /// CRDs.
    fn check_prerequisites(&self, release: &ReleaseKey) -> Result<(), Error> {
        self.check_namespace(&release.namespace)?;
        self.failed_crds.get(release).map_or(Ok(()), |error| Err(Error::Object(error.clone())))
    }

    /// Executes `write`, the write of a CRD that a release needs. Skips it if this pass could not create the release's
    /// namespace.
    ///
    /// If the write fails, this function stores the error in `failed_crds`, so that this pass does not upgrade the
    /// release.
    async fn prepare(&mut self, release: &ReleaseKey, write: impl Future<Output = Result<(), Error>>) -> ActionResult {
        match self.check_namespace(&release.namespace) {
            Ok(()) => skipped_if_error(write.await, release, &mut self.failed_crds),
            Err(_) => ActionResult::Skipped,
        }
    }
}

/// The result of executing one action of a plan.
enum ActionResult {
    Done,
    /// The action was no longer necessary or possible, or a namespace or CRD could not be written. In the latter case
    /// [`Outcome`] contains the error, and the releases that need the namespace or CRD wait. The next pass decides
    /// about the action again.
    Skipped,
    /// Any other failure after which the pass continues, for example because the API server refused the action.
    /// Contains the error message, which osdpl remembers for the next decision.
    Refused(String),
}

impl Context {
    /// Executes the actions of a plan in order.
    ///
    /// # Errors
    /// Returns an error if an action fails and the pass can't continue without it. If any other action fails, the pass
    /// continues: the status reports the failure, and later passes retry the action.
    pub(super) async fn apply(
        &self,
        deployment: &OpenStackDeployment,
        plan: &Plan,
        memory: &mut Memory,
    ) -> Result<Outcome, Error> {
        log_actions(plan);
        let mut outcome = Outcome::default();
        let mut are_recorded = false;
        let mut evicted_nodes = Vec::new();
        for planned in plan.actions.iter().filter(|planned| planned.approval != Approval::Missing) {
            if let (Action::Evict(_), true) = (&planned.action, outcome.skip_report) {
                continue;
            }
            if uses_chart(&planned.action) && !are_recorded {
                match self.record_trusted(deployment, plan, memory).await {
                    Ok(()) => are_recorded = true,
                    // Someone changed the `OpenStackDeployment` after this pass had read it. Take no further action:
                    // the next pass decides with the new content.
                    Err(error) if error.is_conflict() => {
                        outcome.skip_report = true;
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
            outcome.requeue |= changes_decision(&planned.action);
            match self.execute(deployment, plan, planned, memory, &mut outcome).await? {
                ActionResult::Done => {
                    memory.kept.refused.remove(&planned.action.id());
                    // Record no events of the action `RemoveFinalizer`: `finalize` has already recorded them, because
                    // the resource may be gone after its finalizer is removed.
                    if !matches!(planned.action, Action::RemoveFinalizer) {
                        self.cluster.record_events(deployment, planned.events.clone()).await;
                    }
                    if let Action::Evict(pod) = &planned.action {
                        evicted_nodes.push(pod.node.clone());
                    }
                }
                ActionResult::Skipped => {}
                ActionResult::Refused(message) => {
                    memory.remember_refusal(planned, message, &evicted_nodes);
                    outcome.skip_report |= matches!(planned.action, Action::Evict(_));
                    outcome.requeue = true;
                }
            }
        }
        memory.forget_reads(plan);
        Ok(outcome)
    }

    /// Writes three things to the status, unless the status already contains them: the releases that belong to the
    /// cloud, the digests of the cloud's charts, and the digests of the approved additions to the catalogue.
    ///
    /// osdpl must write them before helm runs and before it writes a CRD of a chart, because it needs them afterwards:
    ///
    /// * osdpl uninstalls a release without approval only if the status names the release.
    /// * osdpl demands approval for a changed addition only if the status has the digest of the addition.
    /// * After a restart, osdpl refuses a chart with changed content only if the status has the digest of the chart.
    async fn record_trusted(
        &self,
        deployment: &OpenStackDeployment,
        plan: &Plan,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let Some(owned) = &plan.owned else { return Ok(()) };
        let mut status = deployment.status.clone().unwrap_or_default();
        let mut owned: BTreeSet<String> = owned.iter().map(ToString::to_string).collect_set();
        owned.extend(status.owned_releases.into_iter().flatten());
        status.owned_releases = Some(owned.into_iter().collect());
        status.catalog = plan.additions.clone().unwrap_or(status.catalog);
        if let Some(charts) = &plan.charts {
            status.charts.clone_from(charts);
        }
        if deployment.status.as_ref() == Some(&status) {
            return Ok(());
        }
        if let Some(resource) = self.cluster.publish_status(deployment, status, Vec::new()).await? {
            // Keep the time of the last report. osdpl uses this time to limit the rate of reports, and this write is
            // not a report.
            let at = memory.written.as_ref().map_or(Timestamp::UNIX_EPOCH, |written| written.at);
            memory.written = Some(WrittenStatus::new(resource, at));
        }
        Ok(())
    }

    /// Executes one action of a plan.
    ///
    /// # Errors
    /// Returns an error if the action fails and the pass can't continue without it.
    async fn execute(
        &self,
        deployment: &OpenStackDeployment,
        plan: &Plan,
        planned: &Planned,
        memory: &mut Memory,
        outcome: &mut Outcome,
    ) -> Result<ActionResult, Error> {
        let (cluster, inputs, owner) = (&self.cluster, &self.inputs, deployment.owner_label());
        match &planned.action {
            Action::AddFinalizer => done(cluster.set_finalizer(deployment, true).await),
            Action::RemoveFinalizer => done(self.finalize(deployment, plan, planned, memory).await),
            Action::Annotate(annotations) => Ok(self.annotate(deployment, annotations).await),
            Action::StoreCredentials(write) => done(cluster.store_credentials(write, inputs).await),
            Action::WriteObject(object) => {
                outcome.check_namespace(&object.namespace)?;
                done(cluster.apply_ceph_object(&owner, object, inputs).await)
            }
            Action::Delete { kind, key, uid } => done(cluster.delete(*kind, key, uid, inputs).await),
            Action::PublishService { external, .. } => match outcome.check_namespace(&external.namespace) {
                Ok(()) => Ok(refused_if_error(cluster.publish_service(&owner, external).await)),
                error => Ok(refused_if_error(error)),
            },
            Action::PublishEndpoints { external, addresses, .. } => {
                Ok(refused_if_error(cluster.publish_endpoints(&owner, external, addresses).await))
            }
            Action::ApplyRook { namespace, manifest } => {
                refused_if_object_error(cluster.apply_rook(&owner, namespace, manifest).await)
            }
            Action::ConfigureStore { store, uid, settings } => {
                refused_if_object_error(cluster.configure_store(&owner, store, uid, settings).await)
            }
            Action::ReleaseStore { store, uid } => done(cluster.release_store(store, uid).await),
            Action::CreateNamespace(namespace) => {
                let created = cluster.create_namespace(namespace).await;
                Ok(skipped_if_error(created, namespace, &mut outcome.failed_namespaces))
            }
            Action::TransferCrd { definition, release } => {
                Ok(outcome.prepare(release, cluster.transfer_crd(definition, release)).await)
            }
            Action::ApplyCrd { definition, release } => {
                Ok(outcome.prepare(release, cluster.apply_crd(definition)).await)
            }
            Action::Release { name, key, action } => {
                let step = ReleaseStep { name, key, action };
                let is_started = self.take_step(plan, step, outcome.check_prerequisites(key), memory).await;
                outcome.helm_started.extend(is_started.map(|is_started| (name.clone(), is_started)));
                Ok(ActionResult::Done)
            }
            Action::CleanUp { release, cleanup, leftovers } => {
                Ok(skipped_if_outdated(cluster.clean_up(release, cleanup, leftovers).await))
            }
            Action::LabelNode { name, change } => Ok(refused_if_error(cluster.label_node(name, change).await)),
            Action::SetStrategy(strategy) => Ok(self.set_strategy(strategy, memory, outcome).await),
            Action::Evict(pod) => Ok(self.evict(pod, memory).await),
            Action::RunCron { cron, job, mapping } => Ok(self.run_cron_job(cron, job, mapping, memory).await),
            Action::ForgetHosts(nodes) => {
                self.tasks.forget_hosts(nodes);
                Ok(ActionResult::Done)
            }
        }
    }

    async fn annotate(
        &self,
        deployment: &OpenStackDeployment,
        annotations: &BTreeMap<&'static str, Option<String>>,
    ) -> ActionResult {
        match self.cluster.annotate(deployment, annotations).await {
            Ok(true) => ActionResult::Done,
            // Someone changed the `OpenStackDeployment` concurrently, so osdpl has not written the annotations. The
            // change triggers a pass.
            Ok(false) => ActionResult::Skipped,
            Err(error) => ActionResult::Refused(self.scrubber.borrow().scrub(&error.to_string())),
        }
    }

    async fn set_strategy(&self, strategy: &Strategy, memory: &mut Memory, outcome: &mut Outcome) -> ActionResult {
        match self.cluster.set_strategy(strategy).await {
            Ok(true) => {
                memory.kept.strategies.insert(strategy.clone());
                ActionResult::Done
            }
            Ok(false) => {
                memory.kept.refused_strategies.insert(strategy.clone());
                outcome.requeue = true;
                ActionResult::Skipped
            }
            Err(error) => ActionResult::Refused(error.to_string()),
        }
    }

    async fn evict(&self, pod: &Eviction, memory: &mut Memory) -> ActionResult {
        match self.cluster.evict(pod).await {
            Ok(EvictionResult::Evicted) => {
                memory.kept.evicted.insert(pod.uid.clone());
                ActionResult::Done
            }
            Ok(EvictionResult::Refused(message)) => ActionResult::Refused(message),
            Err(error) => ActionResult::Refused(error.to_string()),
        }
    }

    async fn run_cron_job(&self, cron: &ReleaseKey, job: &str, mapping: &Mapping, memory: &mut Memory) -> ActionResult {
        match self.cluster.run_cron_job(cron, job).await {
            Ok(JobCreation::NoCronJob) => ActionResult::Skipped,
            Ok(creation) => {
                memory.kept.mapping = Some(mapping.clone());
                if creation == JobCreation::Created { ActionResult::Done } else { ActionResult::Skipped }
            }
            Err(error) => ActionResult::Refused(error.to_string()),
        }
    }

    /// Removes osdpl's finalizer from the resource, and forgets the cloud's failures, metrics and maintenance settings.
    /// If the plan allows it, also forgets the cloud's secrets.
    ///
    /// If osdpl ignores the resource, for example because an older one exists, the function only removes the finalizer.
    async fn finalize(
        &self,
        deployment: &OpenStackDeployment,
        plan: &Plan,
        planned: &Planned,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        if plan.ignored.is_some() {
            return self.cluster.set_finalizer(deployment, false).await;
        }
        if plan.forget_secrets {
            self.forget_all_secrets(memory);
        }
        // Record the events before removing the finalizer: afterwards, the resource may no longer exist.
        self.cluster.record_events(deployment, planned.events.clone()).await;
        memory.failures.clear();
        self.cluster.set_finalizer(deployment, false).await?;
        self.metrics.remove_cloud(&deployment.name_any());
        self.clear_maintenance_setting();
        self.finalized.lock().unwrap_or_else(PoisonError::into_inner).extend(deployment.uid());
        self.trigger.notify_one();
        Ok(())
    }
}

impl Memory {
    /// Stores what the next pass needs from this plan: the state that the decision keeps, and the reads that the plan
    /// requests.
    pub(super) fn keep(&mut self, plan: &Plan) {
        self.kept = plan.kept.clone();
        // A plan that waits for objects does not contain all reads yet. Keep the reads of the plan before it, so that
        // osdpl keeps their responses.
        if plan.hold != Some(Hold::Objects) {
            self.reads.clone_from(&plan.requests.reads);
            self.desired.clone_from(&plan.requests.desired);
        }
    }

    /// Remembers that an action was refused or failed, so that later passes retry the action and the status reports it.
    fn remember_refusal(&mut self, planned: &Planned, message: String, evicted_nodes: &[String]) {
        tracing::warn!(action = %planned.action, message, "the action failed or was refused; osdpl retries it later");
        let id = planned.action.id();
        let refusal = next_refusal(&planned.action, self.kept.refused.get(&id), message, now());
        if let Action::Evict(pod) = &planned.action {
            let rollouts = self.kept.rollouts.iter_mut().flatten();
            for (_, rollout) in rollouts.filter(|(name, _)| planned.reason.ends_with(name.as_str())) {
                report_refused_eviction(rollout, evicted_nodes.to_vec(), pod, &refusal);
            }
        }
        self.kept.refused.insert(id, refusal);
    }

    /// Forgets the responses of those [`Read`]s whose data the plan's actions may have changed.
    ///
    /// Also removes from [`Memory::uninstalled`] each release whose Jobs the operator has read ([`Read::Jobs`]), because
    /// this pass has deleted these Jobs.
    fn forget_reads(&mut self, plan: &Plan) {
        let with_jobs = plan.requests.reads.iter().filter_map(|read| match read {
            Read::Jobs(release) if self.responses.contains_key(read) => Some(release),
            _ => None,
        });
        let with_jobs: Vec<&ReleaseKey> = with_jobs.collect();
        self.uninstalled.retain(|release| !with_jobs.contains(&release));
        if plan.actions.iter().any(|planned| is_read_back(&planned.action)) {
            self.responses.retain(|read, _| {
                matches!(
                    read,
                    Read::Values { .. }
                        | Read::Source { .. }
                        | Read::Addresses(..)
                        | Read::ServiceNetworks(_)
                        | Read::RenderedCrds { .. }
                )
            });
        }
    }
}

/// Logs the actions that the pass will execute, with their reasons and objects.
fn log_actions(plan: &Plan) {
    for planned in plan.actions.iter().filter(|planned| planned.approval != Approval::Missing) {
        let objects = planned.action.objects(&plan.observed);
        let objects: Vec<String> =
            objects.iter().map(|(kind, namespace, name)| format!("{kind} {namespace}/{name}")).collect();
        tracing::info!(action = %planned.action, reason = planned.reason, objects = objects.join(", "), "planned");
    }
}

/// Converts the result of an action without which the pass can't continue: an error ends the pass.
fn done(result: Result<(), Error>) -> Result<ActionResult, Error> {
    result.map(|()| ActionResult::Done)
}

/// Converts the result of a cleanup: `false` means that helm has made a newer revision, so that nothing was deleted.
fn skipped_if_outdated(result: Result<bool, Error>) -> ActionResult {
    match result {
        Ok(true) => ActionResult::Done,
        Ok(false) => ActionResult::Skipped,
        Err(error) => ActionResult::Refused(error.to_string()),
    }
}

/// Converts the result of an action on which other actions depend. If the action failed, the function stores the error
/// in `failed` under the key `needed_by`, and returns `Skipped`.
///
/// The key is the namespace that could not be created, or the release whose CRD could not be written. Later actions of
/// this pass in this namespace or for this release find the error, and do not run.
fn skipped_if_error<K: Ord + Clone>(
    result: Result<(), Error>,
    needed_by: &K,
    failed: &mut BTreeMap<K, String>,
) -> ActionResult {
    match result {
        Ok(()) => ActionResult::Done,
        Err(error) => {
            failed.entry(needed_by.clone()).or_insert_with(|| error.to_string());
            ActionResult::Skipped
        }
    }
}

/// Converts the result of an action: every error counts as a refusal, so that the pass continues.
fn refused_if_error(result: Result<(), Error>) -> ActionResult {
    result.map_or_else(|error| ActionResult::Refused(error.to_string()), |()| ActionResult::Done)
}

/// Converts the result of an action on a Rook object. If the API server refused the object ([`Error::Object`]), the
/// result is `Refused`, and the pass continues. Any other error, such as a lost connection, ends the pass.
fn refused_if_object_error(result: Result<(), Error>) -> Result<ActionResult, Error> {
    match result {
        Err(Error::Object(message)) => Ok(ActionResult::Refused(message)),
        other => done(other),
    }
}

/// Whether an action writes the content of a chart: it starts helm, or writes a CRD.
fn uses_chart(action: &Action) -> bool {
    matches!(action, Action::Release { .. } | Action::TransferCrd { .. } | Action::ApplyCrd { .. })
}

/// Whether the next pass must follow at once: the next decision depends on what the action changes, and no watch would
/// report this change.
fn changes_decision(action: &Action) -> bool {
    matches!(
        action,
        Action::StoreCredentials(_)
            | Action::Delete { .. }
            | Action::PublishService { .. }
            | Action::PublishEndpoints { .. }
    )
}

/// Whether an action may change the response to a `Read` of the plan, so that the next pass must repeat the read.
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
            | Action::TransferCrd { .. }
            | Action::ApplyCrd { .. }
            | Action::CleanUp { .. }
            | Action::Annotate(_)
    )
}
