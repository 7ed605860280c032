//! Releases that others made, or upgraded.

use super::*;
use crate::api::Approval;
use crate::observed::{Likeness, Verdict};
use crate::release::ADOPTED;

fn differs() -> Verdict {
    Verdict::Differs { chart: None, paths: vec!["pod.replicas".into()] }
}

fn theirs() -> ReleaseSeen {
    ReleaseSeen { attempt: None, own_inputs: None, inputs: None, catalog: None, ..seen("deployed") }
}

/// The store as someone else made it, compared.
fn compared(seen: ReleaseSeen, verdict: Verdict) -> World {
    let likeness = Likeness { revision: 3, inputs: "new".into(), verdict, until: None };
    let known = move |world: &mut World| {
        drop(world.observed.likeness.insert(Key::new("openstack", "store"), likeness));
    };
    world().see("store", seen).with(known)
}

fn asked(seen: ReleaseSeen, verdict: Verdict) -> String {
    compared(seen, verdict).with(|world| _ = world.policy.adopt.insert("store".into())).says("store")
}

#[test]
fn what_taking_a_release_over_would_change_is_told_before_anybody_asks_for_it() {
    let told = |verdict| compared(theirs(), verdict).says("store");
    let same = told(Verdict::Same);
    assert!(same.contains("take it over (osdpl adopt <release>): nothing would change. Or"), "{same}");
    let differs = told(differs());
    assert!(differs.contains("it would change pod.replicas, once that is approved"), "{differs}");
    let owned = told(Verdict::Owned("Flux manages it".into()));
    assert!(owned.contains("did not make; Flux manages it. Or uninstall it"), "{owned}");
}

#[test]
fn a_release_is_taken_over_where_it_was_asked_for_and_nobody_else_drives_it() {
    assert_eq!(asked(theirs(), Verdict::Same), "label the record, because it was made by others just as it is wanted");
    assert_eq!(asked(theirs(), differs()), "label the record, because taking it over was asked for");
    assert_eq!(asked(theirs(), Verdict::Owned("Flux manages it".into())), "Flux manages it");
    let failed = asked(ReleaseSeen { status: "failed".into(), ..theirs() }, Verdict::Same);
    assert!(failed.starts_with("revision 3 is failed: only what helm has deployed is taken over"), "{failed}");
    let older = ReleaseSeen { revision: 2, ..theirs() };
    assert_eq!(asked(older, Verdict::Same), "settles: its release record is being compared with what is wanted");
    let all = |world: &mut World| {
        world.policy.paused = true;
        world.policy.adopt.insert("all".into());
    };
    let paused = compared(theirs(), Verdict::Same).with(all).says("store");
    assert_eq!(paused, "label the record, because it was made by others just as it is wanted", "labels start nothing");
}

#[test]
fn what_was_taken_over_is_changed_only_once_a_person_has_approved_it() {
    let adopted = || {
        let labels = (Some(ADOPTED.to_owned()), Some(ADOPTED.to_owned()), None);
        let mut seen = seen("deployed");
        (seen.inputs, seen.catalog, seen.images) = labels;
        compared(seen, differs())
    };
    let waits = "it was taken over as others made it, which is not as it is wanted: waits for approval (osdpl approve)";
    assert_eq!(adopted().says("store"), waits);
    let automatic = adopted().with(|world| world.policy.approval = Approval::Automatic);
    assert_eq!(automatic.says("store"), waits);
    let hash = adopted().plan().hash;
    let approved = adopted().with(|world| world.policy.approved = Some(hash));
    assert!(
        approved.says("store").starts_with("delete Jobs store-setup, helm upgrade --install, because it was taken")
    );
}

#[test]
fn an_upgrade_by_hand_to_just_what_is_wanted_is_in_sync_and_restarts_nothing() {
    let by_hand = || {
        let mut seen = seen("deployed");
        seen.attempt.as_mut().unwrap().revision = 2;
        seen
    };
    let alike = "label the record, because it was made by others just as it is wanted";
    assert_eq!(compared(by_hand(), Verdict::Same).says("store"), alike);
    let paused = |world: &mut World| world.desired.releases.get_mut("store").unwrap().paused = true;
    assert_eq!(compared(by_hand(), Verdict::Same).with(paused).says("store"), alike);
    let other = compared(by_hand(), differs()).says("store");
    assert!(other.starts_with("revision 3 was not made by osdpl"), "{other}");
}

#[test]
fn a_release_that_the_spec_lets_go_is_nobodys_and_counts_as_ready() {
    let says = |seen: ReleaseSeen| {
        let go = |world: &mut World| world.desired.releases.get_mut("store").unwrap().managed = false;
        world().see("store", seen).with(go).says("store")
    };
    let goes = "take our labels from its records, because the spec lets it go";
    for seen in [seen("deployed"), seen("failed"), ReleaseSeen { inputs: Some("old".into()), ..seen("deployed") }] {
        assert_eq!(says(seen), goes);
    }
    assert_eq!(says(theirs()), "ready", "whatever it runs with");
    assert!(says(seen("pending-upgrade")).starts_with("unlock the record"));
}
