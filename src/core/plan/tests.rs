use k8s_openapi::jiff::SignedDuration;

use super::*;
use crate::desired::{Blocked, VersionSource};
use crate::observed::{Attempt, Failed, Liveness, ObservedRelease, PastRevision, RecordBody, RetryCondition};
use crate::release::{ChartIdentity, Status, Verb};

mod adopting;
mod always;
mod drifting;
mod hooks;
mod instances;
mod leaving;
mod settling;
mod splitting;

use crate::testing::*;

#[test]
fn installs_providers_before_their_dependents() {
    let fixture = fixture();
    assert_eq!(fixture.describe_step("store"), "helm upgrade --install, because it is not installed");
    assert_eq!(fixture.describe_step("front"), "waits for store/server");
    let fixture = fixture.with(|fixture| fixture.observed.workloads.push(available("store", "store/server", 1)));
    assert_eq!(fixture.describe_step("front"), "helm upgrade --install, because it is not installed");
}

#[test]
fn changed_additions_hold_back_new_inputs_until_approved() {
    let changed = || fixture().with(|fixture| fixture.policy.changed_additions = ["edge".to_owned()].into());
    let wait = "the content of ConfigMaps in spec.catalog changed: edge: waits for approval (osdpl approve)";
    assert_eq!(changed().describe_step("store"), wait, "an install waits for approval, as an upgrade does");
    let record = |change: fn(&mut ObservedRelease)| {
        let mut record = observed_release(Status::Deployed);
        change(&mut record);
        changed().with_release("store", record)
    };
    let outdated = record(|record| record.inputs = Some("old".into()));
    assert_eq!(outdated.describe_step("store"), wait);
    let failed = record(|record| (record.inputs, record.status) = (Some("old".into()), Status::Failed));
    assert_eq!(failed.describe_step("store"), wait);
    let retried = record(|record| record.status = Status::Failed).describe_step("store");
    assert!(retried.contains("because the last attempt failed"), "a retry has no new inputs: {retried}");
    assert_eq!(record(|_| {}).describe_step("store"), "ready");
    let hash = outdated.plan().hash;
    let approved = outdated.with(|fixture| fixture.policy.approved = Some(hash.clone()));
    assert!(approved.describe_step("store").ends_with("because its inputs changed"));
    let other = approved.with(|fixture| {
        fixture.catalog.additions.insert("edge".into(), "sha256:new".into());
    });
    assert_ne!(other.plan().hash, hash);
    assert_eq!(other.describe_step("store"), wait, "an approval does not cover later content");
}

#[test]
fn maps_each_state_to_its_step() {
    let with_attempt = |revision, owner| {
        let mut record = observed_release(Status::PendingUpgrade);
        record.attempt = Some(Attempt { label: "x".into(), revision, owner });
        record
    };
    let changed = |change: fn(&mut ObservedRelease)| {
        let mut record = observed_release(Status::Deployed);
        change(&mut record);
        record
    };
    for (record, expected) in [
        (observed_release(Status::Deployed), "ready"),
        (
            changed(|s| s.inputs = Some("old".into())),
            "delete Jobs store-setup, helm upgrade --install, because its inputs changed",
        ),
        (
            changed(|s| {
                s.inputs = Some("old".into());
                s.catalog = Some("older".into());
            }),
            "the operator or its catalogue changed: waits for approval (osdpl approve)",
        ),
        (
            changed(|s| (s.inputs, s.instances) = (Some("old".into()), Some("older key".into()))),
            "Ceph's key for instances changed: running instances keep the old key until they are migrated or restarted (no node runs libvirt or nova-compute now): waits for approval (osdpl approve)",
        ),
        (
            changed(|s| (s.inputs, s.instances) = (Some("old".into()), Some(crate::release::NO_INSTANCES.into()))),
            "delete Jobs store-setup, helm upgrade --install, because its inputs changed",
        ),
        (
            observed_release(Status::Failed),
            "delete Jobs store-setup, helm upgrade --install, because the last attempt failed",
        ),
        (
            observed_release(Status::PendingInstall),
            "unlock the record, because an interrupted helm operation left it in the status pending-install",
        ),
        (
            with_attempt(3, Liveness::Dead),
            "unlock the record, because an interrupted helm operation left it in the status pending-upgrade",
        ),
        (
            with_attempt(3, Liveness::Alive),
            "revision 3 is pending-upgrade, so osdpl waits for another operator process, which may still run helm",
        ),
        (
            with_attempt(2, Liveness::Us),
            "revision 3 is pending-upgrade, so osdpl waits for a helm process, probably started without osdpl (its lock expires at 2027-01-15T08:30:00Z)",
        ),
        (uninstalling(Some(false)), "helm uninstall, because an earlier uninstall did not finish"),
        (uninstalling(Some(true)), "helm uninstall --no-hooks, because an earlier uninstall did not finish"),
        (uninstalling(None), "osdpl is still reading the release record"),
        (
            changed(|s| s.attempt.as_mut().unwrap().revision = 2),
            "osdpl did not make revision 3 (helm upgrade or rollback by hand at 2027-01-15T08:00:00Z); to overwrite it, change the spec, or annotate the OpenStackDeployment with osdpl.dev/repair=<release>",
        ),
        (
            changed(|s| {
                s.attempt.as_mut().unwrap().revision = 2;
                s.own_inputs = Some("old".into());
            }),
            "delete Jobs store-setup, helm upgrade --install, because its inputs changed",
        ),
        (
            changed(|s| (s.attempt, s.own_inputs) = (None, None)),
            "a release of this name exists that osdpl did not install; adopt it (osdpl adopt <release>). Or uninstall it, or set another name for the release in services.<service>.releases.<release>.name",
        ),
        (changed(|s| s.undecodable = Some("no gzip".into())), "osdpl can't read the release record: no gzip"),
        (changed(|s| s.body = None), "settles: osdpl is still reading the release record"),
    ] {
        assert_eq!(fixture().with_release("store", record).describe_step("store"), expected);
    }
}

#[test]
fn changed_content_of_a_chart_waits_for_approval() {
    let step = |before: Option<&str>, requested: &str, source: VersionSource| {
        let mut record = observed_release(Status::Deployed);
        record.inputs = Some("old".into());
        record.chart = before.map(|version| ChartIdentity::new(version, None, "sha256:aa"));
        let mut fixture = fixture().with_release("store", record);
        let release = fixture.desired.releases.get_mut("store").unwrap();
        release.chart_identity = Some(ChartIdentity::new(requested, None, "sha256:bb"));
        release.version_source = source;
        fixture.describe_step("store")
    };
    for source in [VersionSource::Spec, VersionSource::Catalog] {
        assert_eq!(
            step(Some("1.0.0"), "1.0.0", source),
            "the content of its chart changed under the same version: waits for approval (osdpl approve)"
        );
    }
    for (before, requested) in [(Some("1.0.0"), "1.0.1"), (None, "1.0.0")] {
        let requested_by_spec = step(before, requested, VersionSource::Spec);
        assert!(requested_by_spec.ends_with("because its inputs changed"), "{before:?} {requested}");
        assert_eq!(
            step(before, requested, VersionSource::Catalog),
            "the operator or its catalogue changed: waits for approval (osdpl approve)",
            "{before:?} {requested}"
        );
    }
}

#[test]
fn requeues_for_expiring_locks_only() {
    let locked = |revision, owner| {
        let mut record = observed_release(Status::PendingUpgrade);
        record.attempt = Some(Attempt { label: "x".into(), revision, owner });
        fixture().with_release("store", record).plan().requeue_at
    };
    let until = NOW.checked_add(SignedDuration::from_mins(30)).unwrap();
    assert_eq!(
        locked(2, Liveness::Us),
        Some(until),
        "the plan contains the time when the lock expires, because no watch reports this time"
    );
    assert_eq!(locked(3, Liveness::Alive), None);
}

#[test]
fn a_foreign_lock_expires_after_the_last_observed_change() {
    let step = |minutes| {
        let mut record = observed_release(Status::PendingUpgrade);
        record.attempt = Some(Attempt { label: "x".into(), revision: 2, owner: Liveness::Us });
        // A pending record locks the release until the record has been unchanged for 30 minutes. The age of the record
        // does not matter: this record is five hours old, but helm may have changed it since.
        record.created_at = Some(NOW.checked_sub(SignedDuration::from_hours(5)).unwrap());
        let release = fixture().with_release("store", record).with(|fixture| {
            let key = ReleaseKey::new("openstack", "store");
            fixture.observed.unchanged.insert(key, SignedDuration::from_mins(minutes));
        });
        release.describe_step("store")
    };
    assert!(step(29).contains("(its lock expires at 2027-01-15T08:01:00Z)"), "{}", step(29));
    assert!(step(30).starts_with("unlock the record"), "{}", step(30));
}

#[test]
fn stops_helm_only_if_outdated_and_stuck() {
    let key = ReleaseKey::new("openstack", "store");
    let running = |inputs: &str, failures: i32| {
        fixture().with(|fixture| {
            hook(fixture, failures);
            fixture.observed.running.insert(key.clone(), running_helm(inputs));
        })
    };
    assert_eq!(running("new", 0).describe_step("store"), "helm upgrade runs: post-upgrade Job store-init");
    assert_eq!(
        running("new", 2).describe_step("store"),
        "helm upgrade runs: post-upgrade Job store-init: exit code 1: access denied"
    );
    assert_eq!(running("old", 0).describe_step("store"), "helm upgrade runs: post-upgrade Job store-init");
    assert_eq!(
        running("old", 2).describe_step("store"),
        "stop helm, because the running helm operation is outdated, and waits for the hook post-upgrade Job store-init: exit code 1: access denied"
    );
}

#[test]
fn keeps_helm_running_if_nothing_can_replace_it() {
    let key = || ReleaseKey::new("openstack", "store");
    let step_of = |change: &dyn Fn(&mut Fixture)| {
        let fixture = fixture().with(|fixture| {
            hook(fixture, 2);
            fixture.observed.running.insert(key(), running_helm("old"));
        });
        fixture.with(change).describe_step("store")
    };
    assert!(step_of(&|_| {}).starts_with("stop helm"));
    let continues = "helm upgrade runs: post-upgrade Job store-init: exit code 1: access denied";
    for reason in ["ChartUnavailable", "ChartPending", "InputsMissing", "InvalidSpec"] {
        let blocked = Some(Blocked { reason: reason.into(), message: "x".into() });
        let step = step_of(&|fixture| fixture.desired.releases.get_mut("store").unwrap().blocked.clone_from(&blocked));
        assert_eq!(step, continues, "{reason}");
    }
    assert_eq!(step_of(&|fixture| fixture.desired.releases.get_mut("store").unwrap().paused = true), continues);
    assert_eq!(step_of(&|fixture| fixture.policy.paused = true), continues);
    let unapproved = |fixture: &mut Fixture| {
        let record = fixture.observed.releases.get_mut(&key()).unwrap();
        (record.inputs, record.catalog) = (Some("old".into()), Some("older".into()));
    };
    assert_eq!(
        step_of(&unapproved),
        continues,
        "osdpl lets helm run, because the next upgrade would wait for approval"
    );
    let unwanted = |fixture: &mut Fixture| drop(fixture.desired.releases.remove("store"));
    assert_eq!(
        step_of(&unwanted),
        continues,
        "osdpl lets helm run, because the uninstall of store would wait for approval"
    );
    let deleting = |fixture: &mut Fixture| {
        fixture.desired.releases.clear();
        fixture.policy.deleting = true;
    };
    assert!(
        step_of(&deleting).starts_with("stop helm"),
        "osdpl stops helm, because the uninstalls of a deleted cloud need no approval"
    );
}

#[test]
fn retries_failures_after_backoff_and_new_inputs_at_once() {
    let failed = |inputs: &str, fix: RetryCondition| {
        fixture().with_release("store", observed_release(Status::Failed)).with(|fixture| {
            let failed = Failed {
                verb: Verb::Upgrade,
                inputs: inputs.into(),
                at: NOW,
                count: 2,
                message: "hook failed".into(),
                fix,
                is_reported: false,
            };
            fixture.observed.failures.insert(ReleaseKey::new("openstack", "store"), failed);
        })
    };
    let soon = "failed 2 times in a row, next try at 2027-01-15T08:00:2";
    assert!(failed("new", RetryCondition::Time).describe_step("store").starts_with(soon));
    assert!(failed("new", RetryCondition::Time).plan().requeue_at.is_some_and(|wake| wake > NOW));
    let later = failed("new", RetryCondition::Manual).describe_step("store");
    assert!(later.starts_with("failed 2 times in a row, next try at 2027-01-15T08:04:"), "{later}");
    assert_eq!(failed("new", RetryCondition::Inputs).describe_step("store"), "hook failed");
    assert_eq!(failed("new", RetryCondition::Inputs).plan().requeue_at, None);
    for fix in [RetryCondition::Time, RetryCondition::Manual, RetryCondition::Inputs] {
        assert!(
            failed("old", fix).describe_step("store").starts_with("delete Jobs store-setup, helm upgrade --install")
        );
        let repair_requested = failed("new", fix).with(|fixture| _ = fixture.policy.repair.insert("store".into()));
        assert!(repair_requested.describe_step("store").starts_with(soon), "a repair request shortens the backoff");
    }
}

#[test]
fn approval_holds_until_target_is_reached() {
    let old = || {
        let mut record = observed_release(Status::Deployed);
        (record.inputs, record.catalog) = (Some("old".into()), Some("older".into()));
        record
    };
    let fixture = fixture().with_release("store", old()).with_release("front", old());
    assert_eq!(fixture.plan().awaiting_approval().count(), 2);
    let hash = fixture.plan().hash;
    let fixture = fixture.with(|fixture| fixture.policy.approved = Some(hash));
    assert!(fixture.describe_step("store").starts_with("delete Jobs store-setup, helm upgrade"));
    let fixture = fixture.with_release("store", observed_release(Status::Deployed));
    assert_eq!(
        fixture.describe_step("front"),
        "waits for store/server",
        "the approval of both upgrades remains valid after the upgrade of store"
    );
}

#[test]
fn approval_covers_only_the_known_removals_of_labels() {
    let before = fixture();
    let hash = before.plan().hash;
    let after = before.with(|fixture| {
        fixture.observed.label_losses.insert("compute-7".into(), "openvswitch".into());
    });
    let new = after.plan().hash;
    assert_ne!(new, hash, "an earlier approval must not cover the removal of labels");
    let other = after.with(|fixture| {
        fixture.observed.label_losses.insert("compute-7".into(), "openstack-compute-node".into());
    });
    assert!(![hash, new].contains(&other.plan().hash), "an approval covers only the labels that the plan showed");
}

#[test]
fn approval_covers_removals_until_the_last_one() {
    let both = fixture()
        .with_release("store", observed_release(Status::Deployed))
        .with_release("front", observed_release(Status::Deployed));
    let kept = both.plan().hash;
    let removed = both.with(|fixture| fixture.desired.releases.clear());
    let hash = removed.plan().hash;
    assert_ne!(hash, kept, "an earlier approval must not cover a removal");
    let mut half = removed.with(|fixture| fixture.policy.approved = Some(hash.clone()));
    let owned = owned(&half.desired, &half.observed, &half.plan());
    half.observed.releases.remove(&ReleaseKey::new("openstack", "front"));
    half.observed.owned = owned;
    assert_eq!(half.plan().hash, hash, "the approval of both uninstalls remains valid after front is uninstalled");
    assert_eq!(half.describe_step("store"), "helm uninstall, because it is no longer desired");
}

#[test]
fn release_that_the_status_does_not_name_is_removed_only_after_approval() {
    let mut forged = fixture().with_release("store", observed_release(Status::Deployed));
    forged.desired.releases.clear();
    forged.observed.owned.clear();
    forged.policy.approval = Approval::Automatic;
    for deleting in [false, true] {
        forged.policy.deleting = deleting;
        let step = &forged.plan().decisions["store"].step;
        assert_eq!(*step, Step::Wait(Wait::Approval(Reason::NotOwned)), "deleting: {deleting}");
        assert!(
            !owned(&forged.desired, &forged.observed, &forged.plan()).contains(&forged.plan().decisions["store"].key)
        );
    }
    let key = ReleaseKey::new("openstack", "store");
    (forged.observed.owned, forged.observed.recognized) = ([key.clone()].into(), [key].into());
    let step = &forged.plan().decisions["store"].step;
    assert_eq!(
        *step,
        Step::Wait(Wait::Approval(Reason::NotOwned)),
        "only the labels of its record say that the release belongs to the cloud"
    );
    forged.observed.recognized.clear();
    assert!(matches!(forged.plan().decisions["store"].step, Step::Do(Action::Uninstall { .. }, _)));
    forged.observed.owned.clear();
    forged.policy.approved = Some(forged.plan().hash);
    let plan = forged.plan();
    assert!(matches!(plan.decisions["store"].step, Step::Do(Action::Uninstall { .. }, _)), "{plan:?}");
    assert!(owned(&forged.desired, &forged.observed, &plan).contains(&plan.decisions["store"].key));
}

#[test]
fn status_names_a_release_from_its_first_helm_run() {
    let key = |name| ReleaseKey::new("openstack", name);
    let owned = |fixture: &Fixture, plan: &Plan| owned(&fixture.desired, &fixture.observed, plan);
    let new = fixture();
    let mut plan = new.plan();
    assert_eq!(owned(&new, &plan), [key("store")].into(), "helm never ran for front: any record of it is forged");
    plan.decisions.get_mut("store").unwrap().step =
        Step::Wait(Wait::Helm { verb: Verb::Upgrade, queued: true, hook: None });
    assert_eq!(owned(&new, &plan), [key("store")].into(), "osdpl is about to start helm for store");
    let paused = fixture().with(|fixture| fixture.policy.paused = true);
    assert_eq!(owned(&paused, &paused.plan()), BTreeSet::new());
    let installed = paused.with_release("store", observed_release(Status::Deployed));
    assert_eq!(owned(&installed, &installed.plan()), [key("store")].into());
    let vanished = installed.with(|fixture| fixture.observed.releases.clear());
    assert_eq!(owned(&vanished, &vanished.plan()), [key("store")].into(), "a person may restore the record of store");
    let unmanaged = vanished.with(|fixture| fixture.desired.releases.get_mut("store").unwrap().managed = false);
    assert_eq!(owned(&unmanaged, &unmanaged.plan()), BTreeSet::new());
    let labelled = unmanaged.with_release("store", observed_release(Status::Deployed));
    assert_eq!(
        owned(&labelled, &labelled.plan()),
        [key("store")].into(),
        "osdpl must still remove its labels from the record"
    );
}

#[test]
fn forged_release_does_not_delay_other_removals() {
    let mut removed = fixture()
        .with_release("store", observed_release(Status::Deployed))
        .with_release("front", observed_release(Status::Deployed));
    removed.desired.releases.clear();
    removed.policy.deleting = true;
    assert_eq!(removed.describe_step("store"), "waits until front is uninstalled");
    removed.observed.owned.remove(&ReleaseKey::new("openstack", "front"));
    assert_eq!(removed.describe_step("store"), "helm uninstall, because it is no longer desired");
}

#[test]
fn paused_blocked_and_terminating_releases_wait() {
    let paused = fixture().with(|fixture| fixture.policy.paused = true);
    assert_eq!(paused.describe_step("store"), "paused; set `paused: false` to resume");
    let blocked = fixture().with(|fixture| {
        let blocked = crate::desired::Blocked { reason: "ChartMissing".into(), message: "no chart".into() };
        fixture.desired.releases.get_mut("store").unwrap().blocked = Some(blocked);
    });
    assert_eq!(blocked.describe_step("store"), "no chart");
    let terminating = fixture().with(|fixture| _ = fixture.observed.terminating.insert("openstack".into()));
    assert_eq!(
        terminating.describe_step("store"),
        "namespace openstack is being deleted, so Kubernetes creates no objects in it"
    );
}

#[test]
fn deletes_hook_jobs_only_if_images_change() {
    let hooks = |images: Option<&str>, change: fn(&mut ObservedRelease)| {
        let mut body = RecordBody::default();
        body.hook_jobs.extend(["store-setup", "store-sync"].map(|name| ("openstack".to_owned(), name.to_owned())));
        body.hook_jobs.insert(("elsewhere".into(), "store-far".into()));
        let mut record =
            ObservedRelease { images: images.map(Into::into), body: Some(body), ..observed_release(Status::Deployed) };
        record.inputs = Some("old".into());
        change(&mut record);
        fixture().with_release("store", record).describe_step("store")
    };
    let with = "delete Jobs store-setup, store-sync, helm upgrade --install, because its inputs changed";
    let without = "delete Jobs store-setup, helm upgrade --install, because its inputs changed";
    assert_eq!(hooks(Some("images"), |_| {}), without);
    assert_eq!(hooks(Some("others"), |_| {}), with);
    assert_eq!(
        hooks(None, |_| {}),
        with,
        "osdpl deletes hook Jobs if the record has no images label, because the revision's images are unknown"
    );
    assert_eq!(
        hooks(Some("images"), |record| record.status = Status::Failed),
        without,
        "osdpl keeps hook Jobs if the failed attempt had the desired images"
    );
    let foreign = |record: &mut ObservedRelease| {
        record.attempt.as_mut().unwrap().revision = 2;
        record.own_inputs = Some("old".into());
    };
    assert_eq!(
        hooks(Some("images"), foreign),
        with,
        "osdpl deletes hook Jobs if someone else made the newest revision, because the revision's images are unknown"
    );
    assert_eq!(hooks(Some("others"), |record| record.body = None), "osdpl is still reading the release record");
}

#[test]
fn cleans_up_failed_revisions() {
    let past = |revision, status| PastRevision { revision, status, cleaned_up: false };
    let cleaned_up = |newest, change: fn(&mut Fixture)| {
        let mut record = observed_release(newest);
        let before = if newest == Status::Deployed { Status::Superseded } else { Status::Deployed };
        record.history = vec![past(1, before), past(2, Status::Failed), past(3, newest)];
        let fixture = fixture().with_release("store", record).with(change);
        let cleanup = fixture.plan().decisions.remove("store").unwrap().cleanup;
        cleanup.map(|cleanup| {
            (cleanup.revisions.into_iter().collect::<Vec<_>>(), cleanup.kept.into_iter().collect::<Vec<_>>())
        })
    };
    assert_eq!(cleaned_up(Status::Deployed, |_| {}), Some((vec![2], vec![3])));
    assert_eq!(cleaned_up(Status::Deployed, |fixture| fixture.policy.paused = true), None);
    assert_eq!(
        cleaned_up(Status::Deployed, |fixture| fixture.desired.releases.get_mut("store").unwrap().paused = true),
        None
    );
    assert_eq!(cleaned_up(Status::Failed, |_| {}), Some((vec![2], vec![1, 3])));
    let waits = |fixture: &mut Fixture| {
        let failed = Failed {
            verb: Verb::Upgrade,
            inputs: "new".into(),
            at: NOW,
            count: 1,
            message: String::new(),
            fix: RetryCondition::Time,
            is_reported: false,
        };
        fixture.observed.failures.insert(ReleaseKey::new("openstack", "store"), failed);
    };
    assert_eq!(
        cleaned_up(Status::Failed, waits),
        None,
        "during the backoff, no upgrade starts, so helm drops no record and no cleanup is due"
    );
    let leaves = |fixture: &mut Fixture| {
        fixture.desired.releases.clear();
        fixture.policy.deleting = true;
    };
    assert_eq!(
        cleaned_up(Status::Failed, leaves),
        Some((vec![1, 2], vec![3])),
        "before an uninstall, osdpl removes the objects that older revisions left behind"
    );
    assert_eq!(cleaned_up(Status::Deployed, leaves), Some((vec![2], vec![3])));
}
