//! Tests with fake repositories: when the store pulls, which digests it trusts, and which errors it returns.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::repository::{LOCK, Repository, URL, store};
use super::{Fixture, chart, demo, tgz};
use crate::charts::pull::PullFailure;
use crate::charts::{ChartRequest, Lock, LockState, Pull, Source, Store};
use osdpl_decide::{DigestSource, ExpectedDigest};

#[tokio::test]
async fn failed_pulls_say_why_and_what_to_do() {
    let unreachable = "dial tcp: lookup charts.example: no such host".to_owned();
    for (failure, reason, expected) in [
        (
            PullFailure::Unreachable(unreachable),
            "RepositoryUnreachable",
            "chart demo 1.0.0 cannot be pulled from https://charts.example/x: dial tcp: lookup charts.example: no such host; check the address, the network and the proxy, or use a folder of charts, which `osdpl charts pull` or `helm pull` can fill (the operator retries automatically)",
        ),
        (
            PullFailure::Forbidden("403 Forbidden".to_owned()),
            "RepositoryForbidden",
            "chart demo 1.0.0 cannot be pulled from https://charts.example/x: the repository refuses access (403 Forbidden); download the charts into a folder with `helm pull`, and name that folder with --charts (the chart value `charts`) instead of the repository",
        ),
        (
            PullFailure::Full,
            "CacheFull",
            "the chart cache CACHE/incoming is full; free some space there or use another folder for the cache (the operator retries automatically)",
        ),
        (
            PullFailure::Unwritable("permission denied".to_owned()),
            "CacheUnwritable",
            "the chart cache CACHE/incoming cannot be used: permission denied; give osdpl a folder it may read and write",
        ),
        (
            PullFailure::Program("No such file or directory".to_owned()),
            "HelmUnusable",
            "chart demo cannot be pulled: No such file or directory; either install helm 3.17 or newer, or helm 4; or name a folder with --charts that contains the chart, and set no `repository` for the chart",
        ),
        (
            PullFailure::NotFound("not found".to_owned()),
            "ChartVersionMissing",
            "chart demo 1.0.0 is not in https://charts.example/x: the newest version is 1.0.0; request an existing version, or add this version",
        ),
    ] {
        let fixture = Fixture::new();
        let repository = Repository::with(Err(failure));
        let error = demo(&store(&fixture, &repository, LOCK)).await.unwrap_err();
        assert_eq!((fixture.message(&error).as_str(), error.reason()), (expected, reason));
        assert_eq!(
            fs::read_dir(fixture.cache.path().join("incoming")).unwrap().count(),
            0,
            "a failed pull leaves no files in the folder for pulls"
        );
    }
}

#[tokio::test]
async fn rejects_responses_with_another_chart() {
    let other = tgz(&[("other/Chart.yaml", "name: other\nversion: 1.0.0\n")]);
    for (response, reason, expected) in [
        (
            other,
            "ChartUnreadable",
            "chart demo at https://charts.example/x (version 1.0.0) is not usable: its Chart.yaml says it is chart \"other\", not \"demo\"; correct the chart, or package or pull it again, and install it only if you trust its origin",
        ),
        (
            chart("1.0.0+5", "x"),
            "ChartVersionMissing",
            "chart demo 1.0.0 is not in https://charts.example/x: the repository returned 1.0.0+5; request an existing version, or add this version",
        ),
        (
            b"<html>Log in first</html>".to_vec(),
            "ChartUnreadable",
            "chart demo at https://charts.example/x (version 1.0.0) is not usable: it is not a complete gzip-compressed tar archive (invalid gzip header); correct the chart, or package or pull it again, and install it only if you trust its origin",
        ),
    ] {
        let fixture = Fixture::new();
        let error = demo(&store(&fixture, &Repository::with(Ok(response)), LOCK)).await.unwrap_err();
        assert_eq!((error.to_string().as_str(), error.reason()), (expected, reason));
    }
}

#[tokio::test]
async fn a_chart_unknown_to_the_repository_is_missing() {
    let fixture = Fixture::new();
    let error = demo(&store(&fixture, &Repository::new(), LOCK)).await.unwrap_err();
    let expected = "chart demo is not in https://charts.example/x; add the chart, or name a folder or repository that has the chart";
    assert_eq!((error.to_string().as_str(), error.reason()), (expected, "ChartMissing"));
}

#[tokio::test]
async fn a_chart_is_not_missing_if_its_newest_version_is_unknown() {
    let fixture = Fixture::new();
    let repository = Repository::with(Err(PullFailure::NotFound("no chart version found".to_owned())));
    *repository.newest_failure.lock().unwrap() = Some(PullFailure::Unreachable("timeout".to_owned()));
    let error = demo(&store(&fixture, &repository, LOCK)).await.unwrap_err();
    let expected = "chart demo 1.0.0 is not in https://charts.example/x: no chart version found; request an existing version, or add this version";
    assert_eq!((error.to_string().as_str(), error.reason()), (expected, "ChartVersionMissing"));
}

#[tokio::test]
async fn a_store_without_repositories_says_so() {
    let wanted =
        ChartRequest { version: Some("1.0.0".into()), repository: Some(URL.into()), ..ChartRequest::locked("demo") };
    let error = Fixture::new().store("").obtain(&wanted).await.unwrap_err();
    let expected = "chart demo cannot be pulled from https://charts.example/x: osdpl pulls no charts, because --charts names a folder; either add the chart to this folder, and set no `repository` for the chart; or name a repository with --charts";
    assert_eq!((error.to_string().as_str(), error.reason()), (expected, "ChartPullDisabled"));
}

#[tokio::test]
async fn charts_of_repositories_need_a_version() {
    let fixture = Fixture::new();
    let repository = Repository::with(Ok(chart("1.0.0", "x")));
    let store = store(&fixture, &repository, "");
    let error = demo(&store).await.unwrap_err();
    let expected = "chart demo from https://charts.example/x has no version: the lock does not contain the chart; set a version, or lock a version with `osdpl charts lock --charts https://charts.example/x demo`";
    assert_eq!((error.to_string().as_str(), error.reason()), (expected, "ChartNotPinned"));
    let request = ChartRequest { version: Some("1.0.0".into()), ..ChartRequest::locked("demo") };
    assert_eq!(store.obtain(&request).await.unwrap().pin, LockState::Unpinned { locked: None });
}

#[tokio::test]
async fn pulls_a_chart_once_even_across_restarts() {
    let fixture = Fixture::new();
    let repository = Repository::with(Ok(chart("1.0.0", "x")));
    let first = store(&fixture, &repository, LOCK);
    let pulled = demo(&first).await.unwrap();
    assert_eq!((pulled.pin.clone(), pulled.origin.as_str()), (LockState::VersionOnly, URL));
    assert_eq!(demo(&first).await.unwrap(), pulled);
    assert_eq!(demo(&store(&fixture, &repository, LOCK)).await.unwrap(), pulled);
    assert_eq!(repository.pulls(), 1);
}

#[tokio::test]
async fn pulls_again_if_the_cache_is_damaged() {
    let fixture = Fixture::new();
    let repository = Repository::with(Ok(chart("1.0.0", "x")));
    let path = demo(&store(&fixture, &repository, LOCK)).await.unwrap().path;
    let complete = fs::read(&path).unwrap();
    for damaged in [&complete[..complete.len() - 9], b"".as_slice(), &chart("1.0.0", "y")] {
        fs::write(&path, damaged).unwrap();
        assert_eq!(demo(&store(&fixture, &repository, LOCK)).await.unwrap().path, path);
        assert_eq!(fs::read(&path).unwrap(), complete);
    }
    assert_eq!(repository.pulls(), 4);
}

#[tokio::test]
async fn rejects_changed_content_of_the_same_version() {
    let fixture = Fixture::new();
    let repository = Repository::with(Ok(chart("1.0.0", "x")));
    let before = demo(&store(&fixture, &repository, LOCK)).await.unwrap();
    fs::remove_file(&before.path).unwrap();
    repository.publish("demo", "1.0.0", Ok(chart("1.0.0", "changed")));
    let error = demo(&store(&fixture, &repository, LOCK)).await.unwrap_err();
    let records: Vec<_> =
        fs::read_dir(fixture.cache.path().join("trusted")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [record] = records.as_slice() else { panic!("{records:?}") };
    let after = {
        let fresh = Fixture::new();
        demo(&store(&fresh, &repository, LOCK)).await.unwrap().digest
    };
    let expected = format!(
        "chart demo 1.0.0 from {URL} has digest {after}, but the first pull had {}: its content is not the expected content of this version; find out why; if you trust the new content, remove {} to pull the chart again",
        before.digest,
        record.display()
    );
    assert_eq!((error.to_string(), error.reason()), (expected, "ChartDigestMismatch"));
    fs::remove_file(record).unwrap();
    assert_eq!(
        demo(&store(&fixture, &repository, LOCK)).await.unwrap().digest,
        after,
        "the store trusts the next pull after the record was removed"
    );
}

#[tokio::test]
async fn a_locked_digest_overrides_the_first_pull() {
    let fixture = Fixture::new();
    let repository = Repository::with(Ok(chart("1.0.0", "x")));
    let seen = demo(&store(&fixture, &repository, LOCK)).await.unwrap().digest;
    let other = format!("sha256:{}", "0".repeat(64));
    let error =
        demo(&store(&fixture, &repository, &format!("charts: {{demo: {{version: 1.0.0, digest: '{other}'}}}}")))
            .await
            .unwrap_err();
    let expected = format!(
        "chart demo 1.0.0 from {URL} has digest {seen}, but the lock has {other}: its content is not the expected content of this version; use the chart with the locked digest; or, if you trust the new content, lock it with `osdpl charts lock --charts {URL} demo`"
    );
    assert_eq!((error.to_string(), error.reason()), (expected, "ChartDigestMismatch"));
}

#[tokio::test]
async fn a_requested_digest_overrides_the_first_pull() {
    let fixture = Fixture::new();
    let repository = Repository::with(Ok(chart("1.0.0", "x")));
    let seen = demo(&store(&fixture, &repository, LOCK)).await.unwrap();
    fs::remove_file(&seen.path).unwrap();
    repository.publish("demo", "1.0.0", Ok(chart("1.0.0", "changed")));
    let with = |digest: &str, source| {
        let digest = Some(ExpectedDigest { digest: digest.to_owned(), source });
        ChartRequest { digest, ..ChartRequest::locked("demo") }
    };
    let obtain = async |request| store(&fixture, &repository, LOCK).obtain(&request).await;
    let first = seen.digest.to_string();
    let mut changed = String::new();
    for (source, remedy) in [
        (
            DigestSource::Spec,
            "the spec has {}: its content is not the expected content of this version; correct `digest`",
        ),
        (DigestSource::Addition, "the lock that was added to the catalogue has {}: its content is not the expected"),
        (
            DigestSource::Status,
            "the status has {}: its content is not the expected content of this version; find out why; if you",
        ),
    ] {
        let error = obtain(with(&first, source)).await.unwrap_err();
        assert_eq!(error.reason(), "ChartDigestMismatch");
        let message = error.to_string();
        assert!(message.contains(&remedy.replace("{}", &first)), "{message}");
        let (_, found) = message.split_once("has digest ").unwrap();
        found.split_once(',').unwrap().0.clone_into(&mut changed);
    }
    assert_eq!(obtain(with(&changed, DigestSource::Spec)).await.unwrap().digest.to_string(), changed);
    assert_eq!(obtain(with("sha256:1", DigestSource::Spec)).await.unwrap_err().reason(), "ChartInvalid");
}

#[tokio::test]
async fn the_lock_overrides_a_digest_in_the_status_but_not_in_the_spec() {
    let fixture = Fixture::new();
    let repository = Repository::with(Ok(chart("1.0.0", "x")));
    let seen = demo(&store(&fixture, &repository, LOCK)).await.unwrap().digest.to_string();
    let other = format!("sha256:{}", "0".repeat(64));
    let request = |digest: &str, source| {
        let digest = Some(ExpectedDigest { digest: digest.to_owned(), source });
        ChartRequest { digest, ..ChartRequest::locked("demo") }
    };
    let lock = |digest: &str| format!("charts: {{demo: {{version: 1.0.0, digest: '{digest}'}}}}");
    let locked = store(&fixture, &repository, &lock(&seen));
    assert_eq!(locked.obtain(&request(&other, DigestSource::Status)).await.unwrap().pin, LockState::Pinned);
    let locked = store(&fixture, &repository, &lock(&other));
    assert_eq!(locked.obtain(&request(&seen, DigestSource::Spec)).await.unwrap().pin, LockState::OtherDigest);
}

#[tokio::test]
async fn rejects_a_damaged_record_of_a_first_pull() {
    let fixture = Fixture::new();
    let repository = Repository::with(Ok(chart("1.0.0", "x")));
    demo(&store(&fixture, &repository, LOCK)).await.unwrap();
    let record = fs::read_dir(fixture.cache.path().join("trusted")).unwrap().next().unwrap().unwrap().path();
    fs::write(&record, "{").unwrap();
    let error = demo(&store(&fixture, &repository, LOCK)).await.unwrap_err();
    let expected = format!(
        "the record of the first pull of chart demo in {} is damaged: EOF while parsing an object at line 1 column 1; remove this file, so that osdpl trusts the next pull",
        record.display()
    );
    assert_eq!((error.to_string(), error.reason()), (expected, "ChartRecordDamaged"));
}

#[tokio::test]
async fn an_unusable_cache_fails_the_chart() {
    let fixture = Fixture::new();
    fixture.put("cache", "a file");
    let repository = Repository::with(Ok(chart("1.0.0", "x")));
    let lock = Lock::parse("x", LOCK).unwrap();
    let pull: Arc<dyn Pull> = Arc::<Repository>::clone(&repository);
    let store = Store::new(fixture.path("cache"), Source::Repository { url: URL.into() }, lock, pull);
    let error = demo(&store).await.unwrap_err();
    let message = fixture.message(&error);
    assert!(message.starts_with("the chart cache CHARTS/cache/trusted/demo-1.0.0-"), "{message}");
    assert!(
        message.ends_with(
            ".json cannot be used: Not a directory (os error 20); give osdpl a folder it may read and write"
        ),
        "{message}"
    );
    assert_eq!((error.reason(), repository.pulls()), ("CacheUnwritable", 0));
}

#[test]
fn distinguishes_a_full_disk_from_other_failures() {
    let error = |kind: std::io::ErrorKind| crate::charts::Error::cache(Path::new("x"), &kind.into()).reason();
    assert_eq!(error(std::io::ErrorKind::StorageFull), "CacheFull");
    assert_eq!(error(std::io::ErrorKind::QuotaExceeded), "CacheFull");
    assert_eq!(error(std::io::ErrorKind::PermissionDenied), "CacheUnwritable");
}

#[tokio::test]
async fn caches_the_error_of_a_failed_pull() {
    let fixture = Fixture::new();
    let repository = Repository::with(Err(PullFailure::Unreachable("down".to_owned())));
    let caching = store(&fixture, &repository, LOCK);
    let first = demo(&caching).await.unwrap_err();
    assert_eq!(demo(&caching).await.unwrap_err(), first);
    assert_eq!(repository.pulls(), 1);
    let retrying = store(&fixture, &repository, LOCK).with_retry(Duration::ZERO);
    assert!(demo(&retrying).await.is_err());
    repository.publish("demo", "1.0.0", Ok(chart("1.0.0", "x")));
    assert_eq!(demo(&retrying).await.unwrap().version, "1.0.0");
}

#[tokio::test]
async fn concurrent_requests_share_one_pull() {
    let fixture = Fixture::new();
    let repository = Repository::with(Ok(chart("1.0.0", "x")));
    repository.publish("other", "1.0.0", Ok(tgz(&[("other/Chart.yaml", "name: other\nversion: 1.0.0\n")])));
    let lock = "charts: {demo: {version: 1.0.0}, other: {version: 1.0.0}}";
    let store = store(&fixture, &repository, lock);
    repository.network.forget_permits(1000);
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            tokio::spawn({
                let store = store.clone();
                async move { demo(&store).await }
            })
        })
        .collect();
    while repository.pulls() == 0 {
        tokio::task::yield_now().await;
    }
    let other = tokio::spawn({
        let store = store.clone();
        async move { store.obtain(&ChartRequest::locked("other")).await }
    });
    while repository.pulls() == 1 {
        tokio::task::yield_now().await;
    }
    repository.network.add_permits(2);
    for pulled in waiting {
        assert_eq!(pulled.await.unwrap().unwrap().name, "demo");
    }
    assert_eq!(other.await.unwrap().unwrap().name, "other");
    assert_eq!(repository.pulls(), 2);
}

#[tokio::test]
async fn prefers_the_deployments_repository_then_the_charts() {
    let fixture = Fixture::new();
    let repository = Repository::with(Ok(chart("1.0.0", "x")));
    let store = store(&fixture, &repository, "charts: {demo: {version: 1.0.0, repository: 'https://own.example'}}");
    assert_eq!(demo(&store).await.unwrap().origin, "https://own.example");
    let wanted =
        ChartRequest { repository: Some("oci://mirror.example/charts/".into()), ..ChartRequest::locked("demo") };
    assert_eq!(store.obtain(&wanted).await.unwrap().origin, "oci://mirror.example/charts");
}

#[tokio::test]
async fn never_pulls_from_an_http_repository_of_the_spec_or_an_addition() {
    let fixture = Fixture::new();
    let repository = Repository::with(Ok(chart("1.0.0", "x")));
    let digest = demo(&store(&fixture, &repository, LOCK)).await.unwrap().digest.to_string();
    let fresh = Fixture::new();
    let store = store(&fresh, &repository, LOCK);
    for source in [DigestSource::Spec, DigestSource::Addition] {
        let wanted = ChartRequest {
            repository: Some("http://charts.example/x".into()),
            digest: Some(ExpectedDigest { digest: digest.clone(), source }),
            ..ChartRequest::locked("demo")
        };
        let error = store.obtain(&wanted).await.unwrap_err().to_string();
        assert!(error.contains("\"http://charts.example/x\" is not encrypted"), "{error}");
    }
    assert_eq!(repository.pulls(), 1, "only the pull from the https repository");
}
