use super::*;

fn said(phase: RolloutPhase, updated: i32, batch: &[&str]) -> Rollouts {
    let batch: Vec<String> = batch.iter().map(|node| (*node).to_owned()).collect();
    let message = if phase == RolloutPhase::Rolling { format!("batch {}", batch.join(", ")) } else { "why".into() };
    let said =
        RolloutStatus { phase, updated, total: 50, batch, message, revision: "r2".into(), ..RolloutStatus::default() };
    [("nova/compute".to_owned(), said)].into()
}

#[test]
fn the_gravest_rollout_leads_and_all_that_are_on_are_told() {
    assert_eq!((condition(&Rollouts::new()), first(&Rollouts::new())), (None, None));
    assert_eq!(condition(&said(RolloutPhase::Pending, 0, &[])), None);
    assert_eq!(condition(&said(RolloutPhase::Complete, 50, &[])), Some((true, (reason::NONE, String::new()))));
    let mut two = said(RolloutPhase::Rolling, 12, &["n13"]);
    let (reason, phase, line) = first(&two).unwrap();
    assert_eq!(
        (reason, phase, line.as_str()),
        (reason::ROLLING, Phase::Updating, "nova/compute 12/50 updated: batch n13")
    );
    two.insert(
        "ovn/ovn-controller".into(),
        said(RolloutPhase::AwaitingApproval, 0, &[]).remove("nova/compute").unwrap(),
    );
    assert_eq!(first(&two).unwrap().1, Phase::AwaitingApproval);
    let told = "nova/compute 12/50 updated: batch n13; ovn/ovn-controller: why".to_owned();
    assert_eq!(condition(&two), Some((false, (reason::APPROVAL, told))));
    assert_eq!(first(&said(RolloutPhase::Stopped, 12, &["n13"])).unwrap().1, Phase::Degraded);
}

#[test]
fn each_batch_is_an_event_and_none_is_told_twice() {
    let steps = [
        (said(RolloutPhase::AwaitingApproval, 0, &[]), Some("AwaitingApproval")),
        (said(RolloutPhase::Rolling, 0, &["n1", "n2"]), Some("RolloutBatch")),
        (said(RolloutPhase::Rolling, 1, &["n2"]), None),
        (said(RolloutPhase::Pausing, 2, &[]), None),
        (said(RolloutPhase::Rolling, 2, &["n3", "n4"]), Some("RolloutBatch")),
        (said(RolloutPhase::Stopped, 3, &["n4"]), Some("RolloutStopped")),
        (said(RolloutPhase::Rolling, 3, &["n4"]), None),
        (said(RolloutPhase::Complete, 50, &[]), Some("RolledOut")),
    ];
    let mut before = Rollouts::new();
    for (now, expected) in steps {
        let told: Vec<_> = events(&before, &now).iter().map(|event| event.reason).collect();
        assert_eq!(told, expected.into_iter().collect::<Vec<_>>(), "{now:?}");
        assert_eq!(events(&now, &now), []);
        before = now;
    }
}
