use super::*;
use osdpl_core::plan::{Decision, Reason};

fn plan(steps: &[(&str, Step)]) -> Plan {
    let decision = |name: &str, step: &Step| {
        (
            name.to_owned(),
            Decision { key: ReleaseKey::new("cloud", name), step: step.clone(), sweep: None, mending: None },
        )
    };
    Plan { decisions: steps.iter().map(|(name, step)| decision(name, step)).collect(), ..Plan::default() }
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_repair_of_all_is_over_when_the_rest_waits_for_another_word() {
    let all = set(&[ALL]);
    let with = |step: Step| left(&all, &BTreeSet::new(), &plan(&[("nova", Step::Ready), ("heat", step)]));
    for over in [Wait::Unmanaged(None), Wait::Paused, Wait::Approval(Reason::Catalog), Wait::Undecodable("x".into())] {
        assert_eq!(with(Step::Wait(over)), set(&[]));
    }
    let helm = Wait::Helm { verb: "upgrade".into(), queued: true, hook: None };
    let blocked = |reason: &str| Wait::Blocked { reason: reason.into(), message: "x".into() };
    assert_eq!(with(Step::Wait(blocked(reason::INPUTS))), set(&[]));
    let locked = Wait::Locked { until: None, message: "held by a helm that is not ours".into() };
    let dependents = Wait::Dependents(vec!["nova".into()]);
    for open in [helm, Wait::Needs(Vec::new()), locked, blocked(reason::CHART), Wait::ReleaseRecord, dependents] {
        assert_eq!(with(Step::Wait(open)), all);
    }
}

#[test]
fn what_could_not_be_taken_away_is_tried_again_after_a_while_and_told_in_other_words_at_a_pace() {
    let at = |seconds| Timestamp::UNIX_EPOCH.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    let (spent, other) = (Spent::from([(REPAIR, None)]), Spent::from([(REPAIR, Some("nova".to_owned()))]));
    let refused = |before, spent, why: &str, now| Staying::refused(before, spent, why.to_owned(), now);
    let first = refused(None, &spent, "request 1 is refused", at(0));
    assert!(first.rests(&spent, at(9)) && !first.rests(&spent, at(10)));
    assert!(!first.rests(&other, at(9)), "that is asked for the first time");
    let second = refused(Some(first), &spent, "request 2 is refused", at(10));
    assert_eq!((second.problem.as_str(), second.again), ("request 1 is refused", at(20)));
    let third = refused(Some(second), &spent, "request 3 is refused", at(60));
    assert_eq!(third.problem, "request 3 is refused");
    let asked = |answer| Staying::asked(Some(refused(None, &spent, "no", at(0))), &spent, answer, at(10));
    let meanwhile = asked(Ok(false)).map(|staying| (staying.problem, staying.told));
    assert_eq!(meanwhile, Some(("no".to_owned(), at(0))), "someone changed the resource, and it stays");
    assert!(asked(Ok(true)).is_none() && asked(Err("still no".into())).is_some());
    assert_eq!(refused(Some(third), &other, "request 4 is refused", at(61)).problem, "request 4 is refused");
}

#[test]
fn an_annotation_that_a_person_took_out_is_not_told_of_while_nothing_else_is_asked_for() {
    let spent = Spent::from([(APPROVE, None), (REPAIR, Some("nova".to_owned()))]);
    let staying = Staying::refused(None, &spent, "no".into(), Timestamp::UNIX_EPOCH);
    let told = |annotations: &[(&str, &str)]| {
        let own = annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        staying.warnings(&own.collect()).into_iter().map(|finding| finding.location.field).collect::<Vec<_>>()
    };
    let [approve, repair] = [APPROVE, REPAIR].map(|annotation| format!("annotation {annotation}"));
    assert_eq!(told(&[(APPROVE, "abc"), (REPAIR, "heat,nova")]), [approve.clone(), repair]);
    assert_eq!(told(&[(APPROVE, "abc"), (REPAIR, "nova")]), [approve]);
    assert_eq!(told(&[]), [""; 0]);
}

#[test]
fn a_name_that_no_release_has_is_told_with_the_nearest_one() {
    let names = BTreeMap::from([(ReleaseKey::new("cloud", "keystone"), "keystone".to_owned())]);
    let mut observed = Observed::default();
    let seen = ObservedRelease { own_inputs: Some("old".into()), ..ObservedRelease::default() };
    observed.releases.insert(ReleaseKey::new("cloud", "heat"), seen);
    let told = |repair: &[&str]| {
        let policy = Policy { repair: set(repair), skip_hooks: set(&["heat"]), ..Policy::default() };
        nameless(&policy, &names, &observed).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(told(&["keystone", ALL]), [""; 0]);
    assert_eq!(
        told(&["keystoen"]),
        [
            "annotation osdpl.dev/repair: there is no release \"keystoen\", did you mean \"keystone\"?; nothing is done for it: correct it, or take it out"
        ]
    );
}

#[test]
fn a_repair_that_began_counts_once_even_when_its_annotation_stays_for_a_while() {
    let asked = || Policy { repair: set(&["nova", "heat"]), ..Policy::default() };
    let mut memory = Memory::default();
    assert_eq!(memory.unspent(asked()).repair, asked().repair);
    memory.repairing("nova", &asked());
    memory.repairing("glance", &asked());
    assert_eq!(memory.unspent(asked()).repair, set(&["heat"]));
    assert_eq!(memory.unspent(Policy::default()).repair, set(&[]));
    assert_eq!(memory.unspent(asked()).repair, asked().repair, "it is asked for anew");
}
