//! Confirms suspected drift: reads an object that looks changed from the API server, and then checks whether helm
//! itself could have made the change.

#![allow(clippy::disallowed_methods, reason = "uses the clock to time retries")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use kube::Client;
use osdpl_values::CollectSorted;

use super::store::is_deployed;
use super::{Found, RECHECK_INTERVAL, Suspect, head, record};
use crate::tasks::problems::Problems;
use crate::tasks::watch::describe_error;
use osdpl_core::drift::{DriftedObject, ExpectedFields, ObjectId, ToleratedChanges, WriterTrace, detect_drift};
use osdpl_core::observed::{ObservedDrift, ObservedRelease, ReleaseKey};

/// The description of the task's work in a check. [`Problems`] shows this text if the check fails.
const READING: &str = "reading objects of releases";

/// A check of one object that looks changed: has it drifted from its release?
struct Check {
    /// The change that this check confirms or refutes. If the watch reports another change of the object later, the
    /// task must check the object again.
    suspect: Suspect,
    revision: i64,
    state: CheckState,
}

enum CheckState {
    Pending,
    /// The check has ended with a result: the field managers of the object according to the API server, or `None` if
    /// the object does not exist.
    Read(Option<WriterTrace>),
    /// The check ended at this time without a result, so the task must repeat the check. Either a read failed, or helm
    /// has started an upgrade or uninstall that the watch on records has not reported yet.
    Unsettled(Instant),
}

/// An object, and the result of the check whether it has drifted from its release.
pub(super) struct CheckResult(ObjectId, CheckState);

/// The last check of each object that looks changed: has the object drifted from its release?
///
/// The task keeps the checks, so that it reads an object only once for each change. After a restart of the operator,
/// the task checks all objects that look changed again, before it publishes its first result.
pub(super) struct Checks {
    client: Client,
    tolerated: Arc<ToleratedChanges>,
    problems: Problems,
    by_object: BTreeMap<ObjectId, Check>,
}

impl Checks {
    pub(super) fn new(client: Client, tolerated: Arc<ToleratedChanges>, problems: Problems) -> Self {
        Self { client, tolerated, problems, by_object: BTreeMap::new() }
    }

    /// Whether any check has ended without a result, so that the task must repeat it later.
    pub(super) fn is_unsettled(&self) -> bool {
        self.by_object.values().any(|check| matches!(check.state, CheckState::Unsettled(_)))
    }

    /// Returns the confirmed drift of each release, and the checks that the caller must run now (at most `limit`).
    ///
    /// An object that looks changed needs a check in each of these cases:
    /// * The task has not checked the object yet.
    /// * The last check had no result.
    /// * Since the last check, the watch has reported another change of the object, or the release has got a new
    ///   revision.
    pub(super) fn found(
        &mut self,
        releases: &[(&ReleaseKey, &ObservedRelease)],
        suspects: &[Suspect],
        limit: usize,
    ) -> (Found, Vec<impl Future<Output = CheckResult> + Send + use<>>) {
        self.by_object.retain(|id, check| {
            matches!(check.state, CheckState::Pending) || suspects.iter().any(|suspect| suspect.id == *id)
        });
        let deployed = releases.iter().filter(|(_, release)| is_deployed(release));
        let empty = |(key, release): &(&ReleaseKey, &ObservedRelease)| {
            ((*key).clone(), ObservedDrift { revision: release.revision, objects: Vec::new() })
        };
        let mut found: Found = deployed.map(empty).collect_map();
        let mut checks = Vec::new();
        for suspect in suspects {
            let Some((_, release)) = releases.iter().find(|(key, _)| **key == suspect.release) else { continue };
            if checks.len() < limit && self.needs_check(suspect, release.revision) {
                checks.push(self.read(suspect, release));
            }
            if let (Some(drifted), Some(found)) = (self.drift_of(suspect, release), found.get_mut(&suspect.release)) {
                found.objects.push(drifted);
            }
        }
        (found, checks)
    }

    /// Whether the task must check the object now. If so, the function marks the check as pending.
    fn needs_check(&mut self, suspect: &Suspect, revision: i64) -> bool {
        let known = self.by_object.get(&suspect.id);
        let needed = known.is_none_or(|check| {
            let is_another = check.suspect != *suspect || check.revision != revision;
            match &check.state {
                CheckState::Pending => false,
                CheckState::Read(_) => is_another,
                CheckState::Unsettled(since) => is_another || since.elapsed() >= RECHECK_INTERVAL,
            }
        });
        if needed {
            let check = Check { suspect: suspect.clone(), revision, state: CheckState::Pending };
            self.by_object.insert(suspect.id.clone(), check);
        }
        needed
    }

    fn drift_of(&self, suspect: &Suspect, release: &ObservedRelease) -> Option<DriftedObject> {
        let check = self.by_object.get(&suspect.id).filter(|check| check.revision == release.revision)?;
        let CheckState::Read(trace) = &check.state else { return None };
        let left = release.body.as_ref()?.applied_objects.get(&suspect.id)?;
        let change = detect_drift(release.created_at, left, trace.as_ref())?;
        Some(DriftedObject { id: suspect.id.clone(), change })
    }

    fn read(&self, suspect: &Suspect, observed: &ObservedRelease) -> impl Future<Output = CheckResult> + Send + use<> {
        let (client, release, id) = (self.client.clone(), suspect.release.clone(), suspect.id.clone());
        let (tolerated, problems) = (Arc::clone(&self.tolerated), self.problems.clone());
        let (began, revision) = (observed.created_at, observed.revision);
        let left = observed.body.as_ref().map(|body| Arc::clone(&body.applied_objects));
        async move {
            let what = format!("{} {}/{}", id.kind.kind, id.namespace, id.name);
            let read = async {
                let head = head::api(id.kind, &id.namespace, &client).get_opt(&id.name).await?;
                let trace = head.map(|head| WriterTrace::read(&head.writers, &tolerated));
                let left = left.as_ref().and_then(|left| left.get(&id));
                let is_changed = |left: &ExpectedFields| detect_drift(began, left, trace.as_ref()).is_some();
                // Read helm's records only if the object that was just read differs from the release's manifest.
                // Otherwise, there is no drift to confirm.
                let settled =
                    !left.is_some_and(is_changed) || record::is_newest_deployed(&client, &release, revision).await?;
                Ok(if settled { CheckState::Read(trace) } else { CheckState::Unsettled(Instant::now()) })
            };
            let state = match read.await {
                Ok(state) => {
                    problems.report_success(READING, &what);
                    state
                }
                Err(error) => {
                    problems.report_failure(READING, &what, describe_error(&error));
                    CheckState::Unsettled(Instant::now())
                }
            };
            CheckResult(id, state)
        }
    }

    /// Stores the result of the check of an object.
    pub(super) fn store_result(&mut self, CheckResult(id, state): CheckResult) {
        if let Some(check) = self.by_object.get_mut(&id) {
            check.state = state;
        }
    }
}

#[cfg(test)]
mod tests;
