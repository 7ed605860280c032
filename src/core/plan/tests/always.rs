//! Tests of `approval: Always`, with which every change waits until a person approves the target hash of the plan.

use super::*;

fn always() -> Fixture {
    fixture().with(|fixture| fixture.policy.approval = Approval::Always)
}

fn approve(fixture: Fixture, hash: &str) -> Fixture {
    fixture.with(|fixture| fixture.policy.approved = Some(hash.to_owned()))
}

/// Returns the record of a revision that osdpl made with other inputs than the desired ones.
fn outdated(status: Status) -> ObservedRelease {
    let mut record = observed_release(status);
    (record.inputs, record.own_inputs) = (Some("old".into()), Some("old".into()));
    record
}

#[test]
fn first_install_waits_for_approval() {
    let waiting = always();
    assert_eq!(waiting.describe_step("store"), "it is not installed: waits for approval (osdpl approve)");
    assert_eq!(waiting.plan().awaiting_approval().count(), 2);
    let hash = waiting.plan().hash;
    let approved = approve(waiting, &hash);
    assert_eq!(approved.describe_step("store"), "helm upgrade --install, because it is not installed");
    let half = approved.with_release("store", observed_release(Status::Deployed));
    assert_eq!(half.describe_step("front"), "waits for store/server", "the approval covers the remaining steps");
    assert_eq!(half.plan().hash, hash);
}

#[test]
fn changes_of_the_spec_wait_for_approval() {
    let held = "its inputs changed: waits for approval (osdpl approve)";
    let mut never_deployed = outdated(Status::Failed);
    never_deployed.was_deployed = false;
    for record in [outdated(Status::Deployed), outdated(Status::Failed), never_deployed] {
        let waiting = always().with_release("store", record);
        assert_eq!(waiting.describe_step("store"), held);
        let hash = waiting.plan().hash;
        assert!(approve(waiting, &hash).describe_step("store").starts_with("delete Jobs store-setup, helm upgrade"));
    }
}

#[test]
fn repair_by_annotation_does_not_release_a_change() {
    let mut foreign = outdated(Status::Deployed);
    foreign.attempt.as_mut().unwrap().revision = 2;
    let repaired = |record| always().with_release("store", record).with(|f| _ = f.policy.repair.insert("store".into()));
    let waiting = repaired(foreign.clone());
    assert_eq!(waiting.describe_step("store"), "its inputs changed: waits for approval (osdpl approve)");
    foreign.own_inputs = Some("new".into());
    assert!(repaired(foreign).describe_step("store").ends_with("because a repair was requested"));
}

#[test]
fn approval_of_another_target_releases_nothing() {
    let hash = always().plan().hash;
    let changed = always().with(|fixture| fixture.desired.releases.get_mut("front").unwrap().inputs = "newer".into());
    let changed = approve(changed, &hash).with(|fixture| fixture.policy.approved_target = Some(hash.clone()));
    assert_eq!(changed.plan().awaiting_approval().count(), 2);
}

#[test]
fn hashes_are_too_long_for_a_search() {
    let fixture = always();
    let (target, objects) = (fixture.plan().hash, fixture.desired.object_digest());
    assert_eq!((target.len(), objects.len()), (32, 63));
    let policy = |digits: usize| Policy {
        approval: Approval::Always,
        approved: Some(target[..digits].to_owned()),
        approved_target: Some(target[..digits].to_owned()),
        approved_objects: Some(objects[..digits].to_owned()),
        ..Policy::default()
    };
    assert!(policy(32).approves_objects(&fixture.desired, &target));
    // Earlier versions of osdpl stored only 12 digits in the status. osdpl must ask for the approval again.
    assert!(!policy(12).approves_objects(&fixture.desired, &target));
    let approved = Policy { approved_objects: Some(objects.clone()), ..policy(12) };
    assert!(approved.approves_objects(&fixture.desired, &target), "the settings were approved with another target");
}

#[test]
fn earlier_approval_counts_only_with_always() {
    let installed = |approval| {
        fixture().with_release("store", outdated(Status::Deployed)).with(|fixture| {
            fixture.policy.approval = approval;
            fixture.observed.releases.values_mut().for_each(|record| record.catalog = Some("older".into()));
            fixture.policy.approved_target = Some(fixture.plan().hash);
        })
    };
    assert_eq!(installed(Approval::Always).plan().awaiting_approval().count(), 0);
    assert_eq!(installed(Approval::Manual).plan().awaiting_approval().count(), 1);
}

#[test]
fn interrupted_and_failed_operations_of_the_same_inputs_continue() {
    for (status, expected) in [
        (Status::Failed, "delete Jobs store-setup, helm upgrade --install, because the last attempt failed"),
        (
            Status::PendingInstall,
            "unlock the record, because an interrupted helm operation left it in the status pending-install",
        ),
    ] {
        assert_eq!(always().with_release("store", observed_release(status)).describe_step("store"), expected);
    }
}

#[test]
fn removals_wait_for_approval_and_a_deletion_does_not() {
    let removed = always().with_release("store", observed_release(Status::Deployed));
    let removed = removed.with(|fixture| fixture.desired.releases.clear());
    assert!(removed.describe_step("store").ends_with("waits for approval (osdpl approve)"));
    let deleted = removed.with(|fixture| fixture.policy.deleting = true);
    assert!(deleted.describe_step("store").starts_with("helm uninstall"));
}
