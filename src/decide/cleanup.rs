//! Plans the cleanup after failed revisions of a release: which objects osdpl deletes, because only these revisions
//! contain them.
//!
//! To find these objects, the operator decodes release records. It does so only if a plan requests it, so a pass
//! without a cleanup saves this work.

use std::collections::BTreeSet;

use osdpl_values::CollectSorted;

use super::action::{Action, Planned};
use super::draft::Draft;
use super::requests::{Read, Response};
use osdpl_core::observed::{Observed, ReleaseKey};
use osdpl_core::release::{Cleanup, Status};

/// Plans a cleanup of a release. If the snapshot does not contain the objects to delete, the function requests them for
/// the next snapshot.
pub(crate) fn plan(draft: &mut Draft<'_>, release: &ReleaseKey, cleanup: &Cleanup, observed: &Observed) {
    let action = |leftovers| Action::CleanUp { release: release.clone(), cleanup: cleanup.clone(), leftovers };
    let refusal = draft.refusal(&action(Vec::new()));
    if draft.must_wait(refusal) {
        return;
    }
    let others = others(release, observed);
    let read = Read::Leftovers { release: release.clone(), cleanup: cleanup.clone(), others };
    match draft.read(read).map(|received| &received.response) {
        Some(Response::Leftovers(Ok(Some(leftovers)))) => {
            let reason = "failed revisions may have left objects behind";
            draft.add(Planned::new(action(leftovers.clone()), reason));
        }
        Some(Response::Leftovers(Err(message))) => draft.postpone(&action(Vec::new()), message.clone()),
        _ => {}
    }
}

/// Returns the newest and the deployed revisions of each release that osdpl manages, except for the release `key`.
///
/// A cleanup of `key` must keep every object that one of the returned revisions contains.
fn others(key: &ReleaseKey, observed: &Observed) -> Vec<(ReleaseKey, u32)> {
    let ours = observed.releases.iter().filter(|(other, existing)| *other != key && existing.is_ours());
    let revisions = ours.flat_map(|(other, existing)| {
        let newest = existing.history.iter().map(|past| past.revision).max();
        let deployed = existing.history.iter().filter(|past| past.status == Status::Deployed);
        let all: BTreeSet<u32> = deployed.map(|past| past.revision).chain(newest).collect_set();
        all.into_iter().map(|revision| (other.clone(), revision))
    });
    revisions.collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ApiResource;
    use osdpl_core::observed::PastRevision;
    use osdpl_core::testing::observed_release;
    use serde_json::json;

    use super::super::requests::{Leftover, Received};
    use super::super::tests::{complete, snapshot};
    use super::super::{Hold, Plan, Snapshot, decide};
    use super::*;

    fn store() -> ReleaseKey {
        ReleaseKey::new("openstack", "store")
    }

    /// Returns a snapshot in which the release `store` has revisions with these statuses. osdpl has already cleaned up
    /// after revision 1, if it failed.
    fn with_history(statuses: &[Status]) -> Snapshot {
        let mut snapshot = snapshot(json!({}));
        let plan = complete(&mut snapshot);
        let past =
            |(revision, status): (u32, &Status)| PastRevision { revision, status: *status, cleaned_up: revision == 1 };
        let mut record = observed_release(*statuses.last().unwrap());
        let desired = &plan.desired.releases["store"];
        record.inputs = Some(desired.inputs.clone());
        record.catalog = Some(desired.catalog.clone());
        record.baseline = desired.baseline;
        record.revision = i64::try_from(statuses.len()).unwrap();
        record.attempt.as_mut().unwrap().revision = record.revision;
        record.history = (1..).zip(statuses).map(past).collect();
        snapshot.observed.releases.insert(store(), record);
        snapshot
    }

    /// Returns the reads of leftovers that a plan requests.
    fn reads(plan: &Plan) -> Vec<&Read> {
        plan.requests.reads.iter().filter(|read| matches!(read, Read::Leftovers { .. })).collect()
    }

    /// Decides the next plan, and adds to the snapshot the response to the one read of leftovers that this plan
    /// requests.
    fn respond(snapshot: &mut Snapshot, response: Result<Option<Vec<Leftover>>, String>) {
        let plan = decide(snapshot);
        let [read] = reads(&plan)[..] else { panic!("{:?}", plan.requests.reads) };
        let received = Received { response: Response::Leftovers(response), at: snapshot.now, fresh: true };
        snapshot.responses.insert(read.clone(), received);
    }

    fn leftover() -> Leftover {
        let resource = ApiResource::erase::<ConfigMap>(&());
        Leftover {
            resource,
            namespace: Some("openstack".into()),
            name: "left".into(),
            uid: "seen".into(),
            resource_version: None,
        }
    }

    fn actions(plan: &Plan) -> Vec<String> {
        plan.actions.iter().map(|planned| planned.action.to_string()).collect()
    }

    #[test]
    fn the_plan_names_the_objects_to_delete() {
        let mut snapshot = with_history(&[Status::Superseded, Status::Failed, Status::Deployed]);
        let first = decide(&snapshot);
        assert!(first.actions.is_empty() && first.hold == Some(Hold::Reads), "{:?}", actions(&first));
        let cleanup = Cleanup { revisions: [2].into(), kept: [3].into(), newest: 3 };
        assert_eq!(reads(&first), [&Read::Leftovers { release: store(), cleanup, others: Vec::new() }]);
        respond(&mut snapshot, Ok(Some(vec![leftover()])));
        let plan = complete(&mut snapshot);
        assert_eq!(
            actions(&plan),
            ["clean up after failed revisions 2 of openstack/store: delete ConfigMap openstack/left"]
        );
        let object = |kind: &str, name: &str| (kind.to_owned(), "openstack".to_owned(), name.to_owned());
        let expected = [object("ConfigMap", "left"), object("Secret", "sh.helm.release.v1.store.v2")];
        assert_eq!(plan.actions[0].action.objects(&plan.observed), expected);
        respond(&mut snapshot, Ok(None));
        assert_eq!(actions(&complete(&mut snapshot)), [""; 0], "helm has made a newer revision");
    }

    #[test]
    fn the_cleanup_precedes_the_upgrade() {
        let mut snapshot = with_history(&[Status::Deployed, Status::Failed, Status::Failed]);
        respond(&mut snapshot, Ok(Some(vec![leftover()])));
        let actions = actions(&complete(&mut snapshot));
        assert_eq!(actions.len(), 2, "{actions:?}");
        assert!(actions[0].starts_with("clean up") && actions[1].starts_with("store: helm upgrade"), "{actions:?}");
    }

    #[test]
    fn passes_without_a_cleanup_read_no_records() {
        for statuses in [&[Status::Superseded, Status::Deployed][..], &[Status::Failed, Status::Deployed]] {
            let plan = complete(&mut with_history(statuses));
            assert_eq!((reads(&plan).len(), actions(&plan)), (0, vec![]), "{statuses:?}");
        }
    }

    #[test]
    fn waits_after_a_failed_read() {
        let mut snapshot = with_history(&[Status::Superseded, Status::Failed, Status::Deployed]);
        respond(&mut snapshot, Err("timeout".into()));
        let plan = complete(&mut snapshot);
        assert_eq!(actions(&plan), [""; 0]);
        let refusals: Vec<_> = plan.kept.refused.iter().collect();
        let [(id, refusal)] = refusals[..] else { panic!("{refusals:?}") };
        assert_eq!((id.as_str(), refusal.count), ("clean up after failed revisions 2 of openstack/store", 1));
        assert_eq!(plan.requeue_at, Some(refusal.until));
        snapshot.kept = plan.kept.clone();
        let waiting = complete(&mut snapshot);
        assert_eq!((reads(&waiting).len(), waiting.requeue_at), (0, Some(refusal.until)));
        snapshot.now = refusal.until;
        assert_eq!(reads(&decide(&snapshot)).len(), 1);
    }
}
