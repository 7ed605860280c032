use serde_json::json;

use super::super::partial::{Job, Partial};
use super::*;

fn job(name: &str, failed: i32) -> Partial<Job> {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "n", "labels": {"release_group": "nova"}}, "status": {"failed": failed}}))
        .unwrap()
}

/// Keeps the first letter of jobs whose name is longer than one.
fn read(job: &Partial<Job>) -> Option<char> {
    job.metadata.name.as_ref().filter(|name| name.len() > 1).and_then(|name| name.chars().next())
}

fn names(shard: &Shard<char>) -> String {
    shard.entries().map(|(_, letter)| *letter).collect()
}

#[test]
fn a_shard_shows_what_was_listed_once_the_list_is_whole() {
    let mut shard = Shard::default();
    assert!(!shard.take(Event::Init, read));
    assert!(!shard.take(Event::InitApply(job("one", 0)), read));
    assert!(!shard.is_listed());
    assert_eq!(names(&shard), "");
    assert!(shard.take::<Partial<Job>>(Event::InitDone, read));
    assert!(shard.is_listed());
    assert_eq!(names(&shard), "o");
}

#[test]
fn an_empty_list_is_news_the_first_time_only() {
    let mut shard = Shard::<char>::default();
    assert!(shard.take::<Partial<Job>>(Event::InitDone, read));
    shard.take::<Partial<Job>>(Event::Init, read);
    assert!(!shard.take::<Partial<Job>>(Event::InitDone, read));
}

#[test]
fn what_changes_nothing_that_counts_is_no_news() {
    let mut shard = Shard::default();
    shard.take::<Partial<Job>>(Event::InitDone, read);
    assert!(shard.take(Event::Apply(job("one", 0)), read));
    assert!(!shard.take(Event::Apply(job("one", 5)), read));
    assert!(!shard.take(Event::Apply(job("x", 0)), read));
    assert!(!shard.take(Event::Delete(job("x", 0)), read));
    assert!(shard.take(Event::Delete(job("one", 0)), read));
}

#[test]
fn while_it_lists_anew_the_old_values_stay_and_what_went_meanwhile_goes_with_them() {
    let mut shard = Shard::default();
    shard.take::<Partial<Job>>(Event::InitDone, read);
    shard.take(Event::Apply(job("one", 0)), read);
    shard.take::<Partial<Job>>(Event::Init, read);
    shard.take(Event::InitApply(job("two", 0)), read);
    assert_eq!(names(&shard), "o");
    assert!(shard.take::<Partial<Job>>(Event::InitDone, read));
    assert_eq!(names(&shard), "t");
}
