//! Tests of the removal of unreferenced archives.

use std::fs;
use std::time::{Duration, SystemTime};

use super::{Site, chart, demo};

const DAY: Duration = Duration::from_hours(24);

fn archives_of(site: &Site) -> Vec<String> {
    let entries = fs::read_dir(site.cache.path().join("archives")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn age_archives(site: &Site) {
    for name in archives_of(site) {
        let file = fs::File::options().write(true).open(site.cache.path().join("archives").join(name)).unwrap();
        file.set_modified(SystemTime::now() - DAY).unwrap();
    }
}

fn lock(digest: &str) -> String {
    format!("charts:\n  demo: {{version: 1.0.0, digest: '{digest}'}}\n")
}

#[tokio::test]
async fn removes_old_unreferenced_archives() {
    let site = Site::new();
    site.put("demo-1.0.0.tgz", chart("1.0.0", "before"));
    let before = demo(&site.store("")).await.unwrap();
    site.put("demo-1.0.0.tgz", chart("1.0.0", "after"));
    let after = demo(&site.store("")).await.unwrap();
    let store = site.store(&lock(&after.digest.to_string()));
    assert_eq!(store.prune().unwrap(), Vec::<String>::new(), "archives that were just written are kept");
    age_archives(&site);
    let name = |path: &std::path::Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(store.prune().unwrap(), [name(&before.path)]);
    assert_eq!(archives_of(&site), [name(&after.path)], "the locked archive is kept");
}

#[tokio::test]
async fn keeps_first_pulls_and_files_of_the_user() {
    let site = Site::new();
    let repository = super::repository::Repository::with(Ok(chart("1.0.0", "pulled")));
    let store = super::repository::store(&site, &repository, super::repository::LOCK);
    demo(&store).await.unwrap();
    let archives = site.cache.path().join("archives");
    fs::write(archives.join("README.tgz"), "mine").unwrap();
    fs::write(archives.join(".tmpAbCdEf"), "half").unwrap();
    age_archives(&site);
    assert_eq!(store.prune().unwrap(), [".tmpAbCdEf"]);
    assert_eq!(archives_of(&site).len(), 2);
}

#[tokio::test]
async fn removes_nothing_while_a_record_is_unreadable() {
    let site = Site::new();
    site.put("demo-1.0.0.tgz", chart("1.0.0", "x"));
    let store = site.store("");
    demo(&store).await.unwrap();
    age_archives(&site);
    let trusted = site.cache.path().join("trusted");
    fs::create_dir_all(&trusted).unwrap();
    fs::write(trusted.join("demo-1.0.0-x.json"), "{").unwrap();
    let error = store.prune().unwrap_err();
    assert!(site.message(&error).contains("CACHE/trusted/demo-1.0.0-x.json"), "{error}");
    assert_eq!(archives_of(&site).len(), 1);
}
