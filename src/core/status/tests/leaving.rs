//! Tests the events about releases that osdpl uninstalled. A release that osdpl only stopped managing gets no such
//! event.

use super::*;

#[test]
fn reports_removed_but_not_unmanaged_releases() {
    let spec = OpenStackDeploymentSpec { openstack_release: "2026.1".into(), ..Default::default() };
    let mut observed = recorded(Status::Deployed);
    observed.releases.values_mut().for_each(|record| record.release = Some("front".into()));
    let (ready, _) = reported_of(None, &plan(&[("front", Step::Ready)]), &spec, &observed, &[], NOW);
    let remaining = "helm runs for openstack/x; osdpl unmanages the release after helm ends";
    let during = |plan: &Plan, observed: &Observed| {
        let (status, events) = reported_while(Some(remaining), Some(&ready), plan, &spec, observed, &[], LATER);
        (status.message, events.iter().filter(|event| event.reason == "Uninstalled").count())
    };
    let unmanaging = plan(&[("front", Step::Do(Action::Unmanage, Reason::Unmanaged))]);
    assert_eq!(during(&unmanaging, &observed), (remaining.to_owned(), 0));
    assert_eq!(
        during(&Plan::default(), &observed).1,
        0,
        "a release whose record still exists is not reported as removed"
    );
    assert_eq!(during(&Plan::default(), &recorded(Status::Uninstalled)).1, 1);
    assert_eq!(during(&Plan::default(), &Observed::default()).1, 1);
    let elsewhere = |record: ObservedRelease| {
        let record = ObservedRelease { release: Some("front".into()), status: Status::Deployed, ..record };
        Observed { releases: [(ReleaseKey::new("shop", "front"), record)].into(), ..Observed::default() }
    };
    assert_eq!(
        during(&Plan::default(), &elsewhere(ObservedRelease::default())).1,
        1,
        "a release of the same name in another namespace does not hide the removal if osdpl did not make that release"
    );
    let ours = ObservedRelease { own_inputs: Some("old".into()), ..ObservedRelease::default() };
    assert_eq!(during(&Plan::default(), &elsewhere(ours)).1, 0);
}
