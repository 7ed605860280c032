use super::*;

/// Returns the problems after the given failures of watches. Each failure consists of the plural name of the watched
/// kind, and the time of the failure in seconds after `start`.
fn problems_at(start: Instant, failures: &[(&str, u64)]) -> Problems {
    let problems = Problems::default();
    for (object, second) in failures {
        let time = start + Duration::from_secs(*second);
        problems.record(("watching", (*object).to_owned()), "connection refused".into(), false, time);
    }
    problems
}

fn list(problems: &Problems, start: Instant, second: u64) -> Vec<String> {
    problems.list_at(start + Duration::from_secs(second))
}

#[test]
fn reports_lasting_failures_until_they_expire() {
    let start = Instant::now();
    let nothing = [""; 0];
    let line = ["watching pods: connection refused"];
    for (failures, second, expected) in [
        (&[("pods", 0)][..], 1, &nothing[..]),
        // While the API server restarts, watches fail for a shorter time than `GRACE`, so the list does not contain
        // these failures.
        (&[("pods", 0), ("pods", 4)], 5, &nothing),
        (&[("pods", 0), ("pods", 6)], 6, &line),
        (&[("pods", 0), ("pods", 6)], 17, &line),
        (&[("pods", 0), ("pods", 6)], 18, &nothing),
    ] {
        assert_eq!(list(&problems_at(start, failures), start, second), expected, "{failures:?} at {second}");
    }
}

#[test]
fn joins_objects_with_the_same_failure() {
    let start = Instant::now();
    let failures = [("pods", 0), ("jobs", 0), ("pods", 6), ("jobs", 6)];
    assert_eq!(list(&problems_at(start, &failures), start, 6), ["watching jobs, pods: connection refused"]);
}

#[test]
fn forgets_a_failure_after_a_success() {
    let start = Instant::now();
    let problems = problems_at(start, &[("pods", 0), ("pods", 6)]);
    problems.report_success("watching", "pods");
    assert_eq!(list(&problems, start, 6), [""; 0]);
}

#[test]
fn reports_events_at_once() {
    let problems = Problems::default();
    problems.report_event("running", "health", "the task panicked".into());
    assert_eq!(problems.list(), ["running health: the task panicked"]);
}
