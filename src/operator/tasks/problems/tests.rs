use super::*;

/// A board on which watching these fails, at each of these seconds.
fn board(start: Instant, failures: &[(&str, u64)]) -> Problems {
    let problems = Problems::default();
    for (what, second) in failures {
        let at = start + Duration::from_secs(*second);
        problems.note(("watching", (*what).to_owned()), "connection refused".into(), false, at);
    }
    problems
}

fn told(problems: &Problems, start: Instant, second: u64) -> Vec<String> {
    problems.list_at(start + Duration::from_secs(second))
}

#[test]
fn a_failure_is_told_once_it_lasts_and_until_it_is_over() {
    let start = Instant::now();
    let nothing = [""; 0];
    let line = ["watching pods: connection refused"];
    for (failures, second, expected) in [
        (&[("pods", 0)][..], 1, &nothing[..]),
        // An API server that restarts.
        (&[("pods", 0), ("pods", 4)], 5, &nothing),
        (&[("pods", 0), ("pods", 6)], 6, &line),
        (&[("pods", 0), ("pods", 6)], 17, &line),
        (&[("pods", 0), ("pods", 6)], 18, &nothing),
    ] {
        assert_eq!(told(&board(start, failures), start, second), expected, "{failures:?} at {second}");
    }
}

#[test]
fn what_has_one_cause_is_one_line() {
    let start = Instant::now();
    let failures = [("pods", 0), ("jobs", 0), ("pods", 6), ("jobs", 6)];
    assert_eq!(told(&board(start, &failures), start, 6), ["watching jobs, pods: connection refused"]);
}

#[test]
fn what_works_again_is_forgotten_at_once() {
    let start = Instant::now();
    let problems = board(start, &[("pods", 0), ("pods", 6)]);
    problems.works("watching", "pods");
    assert_eq!(told(&problems, start, 6), [""; 0]);
}

#[test]
fn what_happened_once_is_told_at_once() {
    let problems = Problems::default();
    problems.happened("running", "health", "the task panicked".into());
    assert_eq!(problems.list(), ["running health: the task panicked"]);
}
