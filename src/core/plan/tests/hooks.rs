//! Tests of the cases in which an upgrade skips the hooks of a release.

use super::*;
use crate::api::HookPolicy;
use crate::observed::ObservedJob;

const SKIPPED: &str = "delete Jobs store-setup, helm upgrade --install --no-hooks, because its inputs changed";
const RUN: &str = "delete Jobs store-setup, helm upgrade --install, because its inputs changed";

/// Returns a cloud whose release `store` needs an upgrade, because inputs changed that no hook reads. The Job of the
/// only hook is complete. At the end, the function lets `change` modify this cloud and the newest record of `store`.
fn upgraded(change: impl FnOnce(&mut Fixture, &mut ObservedRelease)) -> Fixture {
    let job = ("openstack".to_owned(), "store-sync".to_owned());
    let mut record = observed_release(Status::Deployed);
    record.inputs = Some("old".into());
    record.hooks = Some("hooks".into());
    record.body = Some(RecordBody { hook_jobs: [job].into(), ..RecordBody::default() });
    let mut fixture = fixture();
    fixture.desired.releases.get_mut("store").unwrap().hooks = Some("hooks".into());
    fixture.observed.jobs.push(ObservedJob {
        namespace: "openstack".into(),
        name: "store-sync".into(),
        release: "store".into(),
        complete: true,
        failed: false,
        failures: 0,
        trouble: None,
    });
    change(&mut fixture, &mut record);
    fixture.with_release("store", record)
}

#[test]
fn skips_hooks_that_would_repeat_their_work() {
    assert_eq!(upgraded(|_, _| {}).describe_step("store"), SKIPPED);
    let unread = upgraded(|_, record| record.body = None);
    assert_eq!(unread.plan().decisions["store"].step, Step::Wait(Wait::ReleaseRecord));
}

#[test]
fn runs_hooks_if_they_may_have_work() {
    let step = |change: fn(&mut Fixture, &mut ObservedRelease)| upgraded(change).describe_step("store");
    assert_eq!(step(|_, record| record.hooks = Some("others".into())), RUN);
    assert_eq!(step(|_, record| record.hooks = None), RUN);
    let unlisted = step(|fixture, record| {
        record.hooks = None;
        fixture.desired.releases.get_mut("store").unwrap().hooks = None;
    });
    assert_eq!(unlisted, RUN, "the hooks of a release may read everything if the catalogue lists no unread values");
    assert_eq!(step(|fixture, _| fixture.policy.hooks = HookPolicy::Always), RUN);
    assert_eq!(step(|fixture, _| fixture.observed.jobs.clear()), RUN, "new pods would wait for the missing Job");
    assert_eq!(step(|fixture, _| fixture.observed.jobs[0].complete = false), RUN);
    let images = step(|_, record| record.images = Some("others".into()));
    assert!(images.starts_with("delete Jobs store-setup, store-sync, helm upgrade --install, "), "{images}");
}

#[test]
fn runs_hooks_after_a_failure_and_in_a_repair() {
    let failed = upgraded(|_, record| record.status = Status::Failed).describe_step("store");
    assert_eq!(failed, RUN);
    let repair = upgraded(|fixture, record| {
        record.inputs = Some("new".into());
        fixture.policy.repair = ["store".to_owned()].into();
    });
    assert!(!repair.describe_step("store").contains("--no-hooks"), "{}", repair.describe_step("store"));
}
