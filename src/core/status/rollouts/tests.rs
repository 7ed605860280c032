use super::*;

fn rollouts(phase: RolloutPhase, updated: i32, batch: &[&str]) -> Rollouts {
    let batch: Vec<String> = batch.iter().map(|node| (*node).to_owned()).collect();
    let message = if phase == RolloutPhase::Rolling { format!("batch {}", batch.join(", ")) } else { "why".into() };
    let status =
        RolloutStatus { phase, updated, total: 50, batch, message, revision: "r2".into(), ..RolloutStatus::default() };
    [("nova/compute".to_owned(), status)].into()
}

#[test]
fn most_severe_rollout_leads() {
    assert_eq!((condition(&Rollouts::new()), first(&Rollouts::new())), (None, None));
    assert_eq!(condition(&rollouts(RolloutPhase::Pending, 0, &[])), None);
    assert_eq!(condition(&rollouts(RolloutPhase::Complete, 50, &[])), Some((true, (reason::NONE, String::new()))));
    let mut two = rollouts(RolloutPhase::Rolling, 12, &["n13"]);
    let (reason, phase, line) = first(&two).unwrap();
    assert_eq!(
        (reason, phase, line.as_str()),
        (reason::ROLLING, Phase::Updating, "nova/compute 12/50 updated: batch n13")
    );
    two.insert(
        "ovn/ovn-controller".into(),
        rollouts(RolloutPhase::AwaitingApproval, 0, &[]).remove("nova/compute").unwrap(),
    );
    assert_eq!(first(&two).unwrap().1, Phase::AwaitingApproval);
    let message = "nova/compute 12/50 updated: batch n13; ovn/ovn-controller: why".to_owned();
    assert_eq!(condition(&two), Some((false, (reason::APPROVAL, message))));
    assert_eq!(first(&rollouts(RolloutPhase::Stopped, 12, &["n13"])).unwrap().1, Phase::Degraded);
}

#[test]
fn reports_each_batch_once() {
    let steps = [
        (rollouts(RolloutPhase::AwaitingApproval, 0, &[]), Some("AwaitingApproval")),
        (rollouts(RolloutPhase::Rolling, 0, &["n1", "n2"]), Some("RolloutBatch")),
        (rollouts(RolloutPhase::Rolling, 1, &["n2"]), None),
        (rollouts(RolloutPhase::Pausing, 2, &[]), None),
        (rollouts(RolloutPhase::Rolling, 2, &["n3", "n4"]), Some("RolloutBatch")),
        (rollouts(RolloutPhase::Stopped, 3, &["n4"]), Some("RolloutStopped")),
        (rollouts(RolloutPhase::Rolling, 3, &["n4"]), None),
        (rollouts(RolloutPhase::Complete, 50, &[]), Some("RolledOut")),
    ];
    let mut before = Rollouts::new();
    for (now, expected) in steps {
        let reasons: Vec<_> = events(&before, &now).iter().map(|event| event.reason).collect();
        assert_eq!(reasons, expected.into_iter().collect::<Vec<_>>(), "{now:?}");
        assert_eq!(events(&now, &now), []);
        before = now;
    }
}
