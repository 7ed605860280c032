//! Tests of the uninstall of releases that are no longer desired.

use super::super::*;
use crate::observed::ObservedRelease;
use crate::release::Status;
use crate::testing::*;

#[test]
fn removes_dependents_first_after_approval() {
    let undesired = || {
        fixture()
            .with_release("store", observed_release(Status::Deployed))
            .with_release("front", observed_release(Status::Deployed))
            .with(|w| w.desired.releases.clear())
    };
    assert_eq!(undesired().describe_step("store"), "waits until front is uninstalled");
    assert_eq!(undesired().describe_step("front"), "it is no longer desired: waits for approval (osdpl approve)");
    let deleting = undesired().with(|fixture| fixture.policy.deleting = true);
    assert_eq!(deleting.describe_step("front"), "helm uninstall, because it is no longer desired");
    let again = undesired().with(|fixture| {
        fixture.policy.deleting = true;
        fixture.observed.releases.insert(ReleaseKey::new("openstack", "front"), uninstalling(Some(true)));
    });
    assert_eq!(again.describe_step("front"), "helm uninstall --no-hooks, because it is no longer desired");
    let skipping = deleting.with(|fixture| _ = fixture.policy.skip_hooks.insert("all".into()));
    assert_eq!(skipping.describe_step("front"), "helm uninstall --no-hooks, because it is no longer desired");
    let terminating = deleting_in("openstack");
    assert_eq!(terminating.describe_step("front"), "helm uninstall --no-hooks, because it is no longer desired");
    assert!(
        !fixture()
            .with_release(
                "other",
                ObservedRelease { attempt: None, own_inputs: None, ..observed_release(Status::Deployed) }
            )
            .plan()
            .decisions
            .contains_key("other")
    );
}

#[test]
fn finds_dependents_of_running_and_desired_revisions() {
    let store = || Component::parse("store/server").unwrap();
    let without = |change: fn(&mut Fixture)| {
        let fixture = fixture()
            .with_release("store", observed_release(Status::Deployed))
            .with_release("front", observed_release(Status::Deployed));
        let fixture = fixture.with(|fixture| _ = fixture.desired.releases.remove("store")).with(change);
        fixture.describe_step("store")
    };
    let approval = "it is no longer desired: waits for approval (osdpl approve)";
    let no_more = |fixture: &mut Fixture| fixture.desired.releases.get_mut("front").unwrap().needs.clear();
    assert_eq!(
        without(no_more),
        approval,
        "the uninstall of store waits only for approval, because the running revision of front does not need store"
    );
    let not_yet = |fixture: &mut Fixture| {
        let front = fixture.desired.releases.get_mut("front").unwrap();
        front.needs.clear();
        front.inputs = "newer".into();
    };
    assert_eq!(
        without(not_yet),
        "waits until front is uninstalled",
        "the uninstall of store waits, because the running revision of front may need store"
    );
    let outside = |fixture: &mut Fixture| {
        let front = fixture.desired.releases.get_mut("front").unwrap();
        front.needs.insert(Component::parse("store/server").unwrap(), Provider::External("store".into()));
        front.inputs = "newer".into();
    };
    assert_eq!(
        without(outside),
        approval,
        "store is uninstalled first, because osdpl publishes the external {} for front only after this uninstall",
        store()
    );
}

#[test]
fn keeps_paused_undesired_releases_even_during_a_deletion() {
    let paused = || {
        fixture().with_release("store", observed_release(Status::Deployed)).with(|fixture| {
            fixture.desired.releases.clear();
            fixture.policy.approval = Approval::Automatic;
            fixture.policy.paused_releases.insert("store".into());
        })
    };
    assert_eq!(paused().describe_step("store"), "paused; set `paused: false` to resume");
    let deleting = paused().with(|fixture| fixture.policy.deleting = true);
    assert_eq!(deleting.describe_step("store"), "paused; set `paused: false` to resume");
}

#[test]
fn reapplies_synced_releases_on_repair_by_name() {
    let repair_of = |name: &str| {
        fixture()
            .with_release("store", observed_release(Status::Deployed))
            .with(|fixture| _ = fixture.policy.repair.insert(name.into()))
    };
    assert_eq!(
        repair_of("all").describe_step("store"),
        "ready",
        "`all` repairs a release only if it has drift or if someone else made its newest revision"
    );
    assert_eq!(
        repair_of("store").describe_step("store"),
        "delete Jobs store-setup, helm upgrade --install, because a repair was requested"
    );
    let paused = repair_of("store").with(|fixture| fixture.policy.paused = true);
    assert_eq!(paused.describe_step("store"), "ready");
}

#[test]
fn unlabelled_revision_over_ours_is_foreign() {
    let nameless = || ObservedRelease { attempt: None, inputs: None, ..observed_release(Status::Deployed) };
    assert!(
        fixture().with_release("store", nameless()).describe_step("store").starts_with("osdpl did not make revision 3")
    );
    let never = ObservedRelease { own_inputs: None, ..nameless() };
    assert!(fixture().with_release("store", never).describe_step("store").contains("that osdpl did not install"));
}

fn deleting_in(namespace: &str) -> Fixture {
    let fixture = fixture().with_release("front", observed_release(Status::Deployed));
    fixture.with(|fixture| {
        fixture.desired.releases.clear();
        fixture.policy.deleting = true;
        fixture.observed.terminating.insert(namespace.into());
    })
}
