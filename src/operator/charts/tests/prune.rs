//! Tests which archives the store removes from its cache.

use std::fs;
use std::time::{Duration, SystemTime};

use super::{Fixture, chart, demo};

const DAY: Duration = Duration::from_hours(24);

fn archives_of(fixture: &Fixture) -> Vec<String> {
    let entries = fs::read_dir(fixture.cache.path().join("archives")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn age_archives(fixture: &Fixture) {
    for name in archives_of(fixture) {
        let file = fs::File::options().write(true).open(fixture.cache.path().join("archives").join(name)).unwrap();
        file.set_modified(SystemTime::now() - DAY).unwrap();
    }
}

fn lock(digest: &str) -> String {
    format!("charts:\n  demo: {{version: 1.0.0, digest: '{digest}'}}\n")
}

#[tokio::test]
async fn removes_old_unreferenced_archives() {
    let fixture = Fixture::new();
    fixture.put("demo-1.0.0.tgz", chart("1.0.0", "before"));
    let before = demo(&fixture.store("")).await.unwrap();
    fixture.put("demo-1.0.0.tgz", chart("1.0.0", "after"));
    let after = demo(&fixture.store("")).await.unwrap();
    let store = fixture.store(&lock(&after.digest.to_string()));
    assert_eq!(store.prune().unwrap(), Vec::<String>::new(), "archives that were just written are kept");
    age_archives(&fixture);
    let name = |path: &std::path::Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(store.prune().unwrap(), [name(&before.path)]);
    assert_eq!(archives_of(&fixture), [name(&after.path)], "the locked archive is kept");
}

#[tokio::test]
async fn keeps_first_pulls_and_files_of_the_user() {
    let fixture = Fixture::new();
    let repository = super::repository::Repository::with(Ok(chart("1.0.0", "pulled")));
    let store = super::repository::store(&fixture, &repository, super::repository::LOCK);
    demo(&store).await.unwrap();
    let archives = fixture.cache.path().join("archives");
    fs::write(archives.join("README.tgz"), "mine").unwrap();
    fs::write(archives.join(".tmpAbCdEf"), "half").unwrap();
    age_archives(&fixture);
    assert_eq!(store.prune().unwrap(), [".tmpAbCdEf"]);
    assert_eq!(archives_of(&fixture).len(), 2);
}

#[tokio::test]
async fn removes_nothing_while_a_record_is_unreadable() {
    let fixture = Fixture::new();
    fixture.put("demo-1.0.0.tgz", chart("1.0.0", "x"));
    let store = fixture.store("");
    demo(&store).await.unwrap();
    age_archives(&fixture);
    let trusted = fixture.cache.path().join("trusted");
    fs::create_dir_all(&trusted).unwrap();
    fs::write(trusted.join("demo-1.0.0-x.json"), "{").unwrap();
    let error = store.prune().unwrap_err();
    let message = fixture.message(&error);
    let expected = "the record of the first pull of chart demo in CACHE/trusted/demo-1.0.0-x.json is damaged: ";
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(archives_of(&fixture).len(), 1);
}
