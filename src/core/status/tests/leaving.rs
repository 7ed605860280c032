//! Releases that are let go, and those that are gone.

use super::*;

#[test]
fn a_release_is_said_to_be_gone_when_it_is_and_one_that_is_let_go_is_not() {
    let spec = OpenStackDeploymentSpec { openstack_release: "2026.1".into(), ..Default::default() };
    let mut observed = recorded("deployed");
    observed.releases.values_mut().for_each(|seen| seen.release = Some("front".into()));
    let (ready, _) = reported_of(None, &plan(&[("front", Step::Ready)]), &spec, &observed, &[], NOW);
    let rest = "helm is at openstack/x: it is let go when that has ended";
    let during = |plan: &Plan, observed: &Observed| {
        let (status, events) = reported_while(Some(rest), Some(&ready), plan, &spec, observed, &[], LATER);
        (status.message, events.iter().filter(|event| event.reason == "Uninstalled").count())
    };
    let letting_go = plan(&[("front", Step::Do(Action::LetGo, Why::Unmanaged))]);
    assert_eq!(during(&letting_go, &observed), (rest.to_owned(), 0));
    assert_eq!(during(&Plan::default(), &observed).1, 0, "nothing is decided of it, and it stands");
    assert_eq!(during(&Plan::default(), &recorded("uninstalled")).1, 1);
    assert_eq!(during(&Plan::default(), &Observed::default()).1, 1);
    let elsewhere = |seen: ReleaseSeen| {
        let seen = ReleaseSeen { release: Some("front".into()), status: "deployed".into(), ..seen };
        Observed { releases: [(Key::new("shop", "front"), seen)].into(), ..Observed::default() }
    };
    assert_eq!(during(&Plan::default(), &elsewhere(ReleaseSeen::default())).1, 1, "that one is another's");
    let ours = ReleaseSeen { own_inputs: Some("old".into()), ..ReleaseSeen::default() };
    assert_eq!(during(&Plan::default(), &elsewhere(ours)).1, 0);
}
