use super::*;
use osdpl_core::endpoint::{Login, Url};
use osdpl_values::Values;

const PERIOD: Duration = Duration::from_mins(1);

fn target(type_: &str, ready: i32) -> Target {
    let login: Values = serde_json::from_value(
        serde_json::json!({"endpoints": {"identity": {"auth": {"admin": {"password": "secret"}}}}}),
    )
    .unwrap();
    Target {
        application: type_.into(),
        service: format!("{type_}-api"),
        url: Url { tls: false, host: type_.into(), port: 80, path: "/".into() },
        accept: vec![200],
        versions: false,
        type_: type_.into(),
        registered: true,
        login: Login::from_values(&login).filter(|_| type_ == "identity"),
        state: vec![(1, ready)],
    }
}

fn wanted(targets: &[Target]) -> Wanted {
    targets.iter().map(|target| (ReleaseKey::new("n", &target.type_), target.clone())).collect()
}

fn failure() -> ProbeResult {
    ProbeResult::Bad("503".into())
}

struct Fixture {
    schedule: ProbeSchedule,
    now: Instant,
}

impl Fixture {
    fn new(targets: &[Target]) -> Self {
        let mut schedule = ProbeSchedule::new(PERIOD);
        let now = Instant::now();
        schedule.set_targets(&wanted(targets), now);
        Self { schedule, now }
    }

    /// Runs all probes that are due, each with the result `result`. Returns the names of the probed APIs; a `+` after a
    /// name means that the probe requested the service catalogue.
    fn round(&mut self, result: &ProbeResult, types: Option<&[&str]>) -> Vec<String> {
        let due = self.schedule.due(self.now, 9);
        assert!(self.schedule.due(self.now, 9).is_empty(), "probed twice at a time");
        let mut probed = Vec::new();
        for DueProbe { key, target, catalogue } in due {
            let wants = catalogue && target.login.is_some();
            probed.push(format!("{}{}", key.name, if wants { "+" } else { "" }));
            let types = types.filter(|_| wants).map(|types| types.iter().map(|type_| (*type_).to_owned()).collect());
            self.schedule.store_result(FinishedProbe { key, target, result: result.clone(), types }, self.now);
        }
        probed
    }

    fn after(&mut self, pause: Duration) -> &mut Self {
        self.now += pause;
        self
    }

    fn reported(&self) -> Vec<(String, Option<String>)> {
        self.schedule.found().into_iter().map(|(key, probe)| (key.name, probe.trouble)).collect()
    }
}

#[test]
fn reports_the_second_consecutive_fault_until_recovery() {
    let mut fixture = Fixture::new(&[target("image", 1)]);
    assert_eq!(fixture.round(&failure(), None), ["image"]);
    assert_eq!((fixture.reported(), fixture.round(&ProbeResult::Unreachable, None)), (vec![], vec![]));
    assert_eq!(fixture.after(RETRY_PERIOD).round(&failure(), None), ["image"]);
    assert_eq!(fixture.reported(), [("image".into(), Some("503".into()))]);
    assert_eq!(fixture.after(RETRY_PERIOD).round(&ProbeResult::Healthy, None), ["image"]);
    assert_eq!(fixture.reported(), [("image".into(), None)]);
    assert_eq!(
        fixture.after(RETRY_PERIOD).round(&ProbeResult::Healthy, None),
        [""; 0],
        "a healthy API is not probed again before the period has passed"
    );
    assert_eq!(fixture.after(PERIOD).round(&ProbeResult::Healthy, None), ["image"]);
}

#[test]
fn does_not_assess_unreachable_apis() {
    let mut fixture = Fixture::new(&[target("image", 1)]);
    fixture.round(&ProbeResult::Healthy, None);
    assert_eq!(fixture.reported().len(), 1);
    fixture.after(PERIOD).round(&ProbeResult::Unreachable, None);
    assert_eq!(fixture.reported(), []);
}

#[test]
fn probes_changed_targets_at_once_and_drops_removed_ones() {
    let mut fixture = Fixture::new(&[target("image", 1)]);
    fixture.round(&ProbeResult::Healthy, None);
    fixture.schedule.set_targets(&wanted(&[target("image", 2)]), fixture.now);
    assert_eq!(fixture.reported().len(), 1, "the old result stays until the changed target was probed");
    assert_eq!(fixture.round(&ProbeResult::Healthy, None), ["image"]);
    fixture.schedule.set_targets(&wanted(&[]), fixture.now);
    assert_eq!((fixture.reported(), fixture.schedule.next_due()), (vec![], None));
}

#[test]
fn ignores_results_of_outdated_targets() {
    let mut fixture = Fixture::new(&[target("image", 1)]);
    let DueProbe { key, target: old, .. } = fixture.schedule.due(fixture.now, 9).remove(0);
    fixture.schedule.set_targets(&wanted(&[target("image", 2)]), fixture.now);
    fixture
        .schedule
        .store_result(FinishedProbe { key, target: old, result: ProbeResult::Healthy, types: None }, fixture.now);
    assert_eq!(fixture.reported(), []);
    assert_eq!(fixture.round(&ProbeResult::Healthy, None), ["image"]);
}

#[test]
fn refreshes_the_catalogue_when_registrations_change() {
    let identity = || target("identity", 1);
    let mut fixture = Fixture::new(&[identity()]);
    assert_eq!(fixture.round(&ProbeResult::Healthy, Some(&["identity"])), ["identity+"]);
    assert_eq!(fixture.after(PERIOD).round(&ProbeResult::Healthy, None), ["identity"]);
    fixture.schedule.set_targets(&wanted(&[identity(), target("image", 1)]), fixture.now);
    assert_eq!(fixture.round(&ProbeResult::Healthy, Some(&["identity"])), ["identity+", "image"]);
    let lacks = "Keystone's catalogue has no endpoint of type \"image\"";
    assert_eq!(fixture.reported(), [("identity".into(), None), ("image".into(), Some(lacks.into()))]);
    assert_eq!(
        fixture.after(PERIOD).round(&ProbeResult::Healthy, Some(&["identity", "image"])),
        ["identity+", "image"]
    );
    assert_eq!(fixture.reported(), [("identity".into(), None), ("image".into(), None)]);
    assert_eq!(fixture.after(PERIOD).round(&ProbeResult::Healthy, None), ["identity", "image"]);
    assert_eq!(fixture.after(CATALOGUE_TTL).round(&ProbeResult::Healthy, None), ["identity+", "image"]);
}
