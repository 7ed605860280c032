use serde_json::json;

use super::super::partial::{Job, Partial};
use super::*;

fn job(name: &str, failed: i32) -> Partial<Job> {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "n", "labels": {"release_group": "nova"}}, "status": {"failed": failed}}))
        .unwrap()
}

/// Returns the value to cache for a Job: the first letter of its name. The cache ignores Jobs with names of one letter.
fn read(job: &Partial<Job>) -> Option<char> {
    job.metadata.name.as_ref().filter(|name| name.len() > 1).and_then(|name| name.chars().next())
}

fn names(cache: &WatchCache<char>) -> String {
    cache.entries().map(|(_, letter)| *letter).collect()
}

#[test]
fn shows_values_once_the_list_is_complete() {
    let mut cache = WatchCache::default();
    assert!(!cache.apply(Event::Init, read));
    assert!(!cache.apply(Event::InitApply(job("one", 0)), read));
    assert!(!cache.is_listed());
    assert_eq!(names(&cache), "");
    assert!(cache.apply::<Partial<Job>>(Event::InitDone, read));
    assert!(cache.is_listed());
    assert_eq!(names(&cache), "o");
}

#[test]
fn an_empty_list_is_a_change_only_the_first_time() {
    let mut cache = WatchCache::<char>::default();
    assert!(cache.apply::<Partial<Job>>(Event::InitDone, read));
    cache.apply::<Partial<Job>>(Event::Init, read);
    assert!(!cache.apply::<Partial<Job>>(Event::InitDone, read));
}

#[test]
fn ignores_events_that_change_no_value() {
    let mut cache = WatchCache::default();
    cache.apply::<Partial<Job>>(Event::InitDone, read);
    assert!(cache.apply(Event::Apply(job("one", 0)), read));
    assert!(!cache.apply(Event::Apply(job("one", 5)), read));
    assert!(!cache.apply(Event::Apply(job("x", 0)), read));
    assert!(!cache.apply(Event::Delete(job("x", 0)), read));
    assert!(cache.apply(Event::Delete(job("one", 0)), read));
}

#[test]
fn keeps_old_values_until_a_new_list_is_complete() {
    let mut cache = WatchCache::default();
    cache.apply::<Partial<Job>>(Event::InitDone, read);
    cache.apply(Event::Apply(job("one", 0)), read);
    cache.apply::<Partial<Job>>(Event::Init, read);
    cache.apply(Event::InitApply(job("two", 0)), read);
    assert_eq!(names(&cache), "o");
    assert!(cache.apply::<Partial<Job>>(Event::InitDone, read));
    assert_eq!(names(&cache), "t");
}
