//! Tests of the adoption of releases that someone else installed.

use super::*;
use crate::api::Approval;
use crate::observed::{ComparisonResult, ManifestComparison};
use crate::release::ADOPTED;

fn differs() -> ComparisonResult {
    ComparisonResult::Differs { chart: None, paths: vec!["pod.replicas".into()] }
}

fn theirs() -> ObservedRelease {
    ObservedRelease {
        attempt: None,
        own_inputs: None,
        inputs: None,
        catalog: None,
        ..observed_release(Status::Deployed)
    }
}

/// Returns a cloud whose release `store` has the record `record`, which someone else made. osdpl has compared the
/// record's revision with the desired state; `result` is the result of this comparison.
fn compared(record: ObservedRelease, result: ComparisonResult) -> Fixture {
    let comparison = ManifestComparison { revision: 3, inputs: "new".into(), result, until: None };
    let known = move |fixture: &mut Fixture| {
        drop(fixture.observed.comparisons.insert(ReleaseKey::new("openstack", "store"), comparison));
    };
    fixture().with_release("store", record).with(known)
}

fn adoption(record: ObservedRelease, result: ComparisonResult) -> String {
    compared(record, result).with(|fixture| _ = fixture.policy.adopt.insert("store".into())).describe_step("store")
}

#[test]
fn reports_changes_before_adoption() {
    let message = |result| compared(theirs(), result).describe_step("store");
    let same = message(ComparisonResult::Same);
    assert!(same.contains("adopt it (osdpl adopt <release>): nothing would change. Or"), "{same}");
    let differs = message(differs());
    assert!(differs.contains("and approve the upgrade: it would change pod.replicas. Or uninstall it"), "{differs}");
    let owned = message(ComparisonResult::Owned("Flux drives it".into()));
    assert!(owned.contains("did not install; Flux drives it. Or uninstall it"), "{owned}");
}

#[test]
fn adopts_requested_releases_without_other_manager() {
    assert_eq!(
        adoption(theirs(), ComparisonResult::Same),
        "label the record, because its newest revision already equals the desired state"
    );
    assert_eq!(adoption(theirs(), differs()), "label the record, because its adoption was requested");
    assert_eq!(adoption(theirs(), ComparisonResult::Owned("Flux drives it".into())), "Flux drives it");
    let failed = adoption(ObservedRelease { status: Status::Failed, ..theirs() }, ComparisonResult::Same);
    assert!(failed.starts_with("revision 3 is failed: osdpl adopts only deployed releases"), "{failed}");
    let older = ObservedRelease { revision: 2, ..theirs() };
    assert_eq!(
        adoption(older, ComparisonResult::Same),
        "settles: osdpl is still comparing the newest revision with the desired state"
    );
    let all = |fixture: &mut Fixture| {
        fixture.policy.paused = true;
        fixture.policy.adopt.insert("all".into());
    };
    let paused = compared(theirs(), ComparisonResult::Same).with(all).describe_step("store");
    assert_eq!(
        paused, "label the record, because its newest revision already equals the desired state",
        "osdpl adopts a paused release, because labels restart no pods"
    );
}

#[test]
fn changes_adopted_releases_only_after_approval() {
    let adopted = || {
        let labels = (Some(ADOPTED.to_owned()), Some(ADOPTED.to_owned()), None);
        let mut record = observed_release(Status::Deployed);
        (record.inputs, record.catalog, record.images) = labels;
        compared(record, differs())
    };
    let waits = "it was adopted and differs from the desired state: waits for approval (osdpl approve)";
    assert_eq!(adopted().describe_step("store"), waits);
    let automatic = adopted().with(|fixture| fixture.policy.approval = Approval::Automatic);
    assert_eq!(automatic.describe_step("store"), waits);
    let hash = adopted().plan().hash;
    let approved = adopted().with(|fixture| fixture.policy.approved = Some(hash));
    assert!(
        approved
            .describe_step("store")
            .starts_with("delete Jobs store-setup, helm upgrade --install, because it was adopted")
    );
}

#[test]
fn manual_upgrade_to_desired_state_is_in_sync() {
    let by_hand = || {
        let mut record = observed_release(Status::Deployed);
        record.attempt.as_mut().unwrap().revision = 2;
        record
    };
    let labelled = "label the record, because its newest revision already equals the desired state";
    assert_eq!(compared(by_hand(), ComparisonResult::Same).describe_step("store"), labelled);
    let paused = |fixture: &mut Fixture| fixture.desired.releases.get_mut("store").unwrap().paused = true;
    let step = compared(by_hand(), ComparisonResult::Same).with(paused).describe_step("store");
    assert_eq!(
        step, "paused; set `paused: false` to resume",
        "osdpl labels the record of a paused release only if a person requested the adoption"
    );
    let other = compared(by_hand(), differs()).describe_step("store");
    assert!(other.starts_with("osdpl did not make revision 3"), "{other}");
}

#[test]
fn unmanages_releases_and_counts_them_as_ready() {
    let step_of = |record: ObservedRelease| {
        let unmanage = |fixture: &mut Fixture| fixture.desired.releases.get_mut("store").unwrap().managed = false;
        fixture().with_release("store", record).with(unmanage).describe_step("store")
    };
    let expected = "remove osdpl's labels from its records, because the spec sets managed: false for it";
    for record in [
        observed_release(Status::Deployed),
        observed_release(Status::Failed),
        ObservedRelease { inputs: Some("old".into()), ..observed_release(Status::Deployed) },
    ] {
        assert_eq!(step_of(record), expected);
    }
    assert_eq!(step_of(theirs()), "ready", "osdpl does nothing to an unmanaged release without labels of osdpl");
    assert!(step_of(observed_release(Status::PendingUpgrade)).starts_with("unlock the record"));
}
