//! Tests of stores with a folder: which chart the store chooses, and how it packs directories.

use std::fs;

use super::{CHART_YAML, Fixture, Setup, chart, demo, depends, done, tgz};
use crate::charts::{ChartRequest, LockState};

#[tokio::test]
async fn rejects_names_and_versions_that_may_be_paths() {
    let fixture = Fixture::new();
    let store = fixture.store("");
    for (wanted, expected) in [
        (
            ChartRequest::locked("../demo"),
            "\"../demo\" is not a chart name; correct it in the spec or in the catalogue",
        ),
        (
            ChartRequest { version: Some("--help".into()), ..ChartRequest::locked("demo") },
            "\"--help\" is not a chart version; correct it in the spec or in the catalogue",
        ),
        (
            ChartRequest {
                repository: Some("https://user:word@charts.example/x".into()),
                ..ChartRequest::locked("demo")
            },
            "charts: the repository address with the host \"charts.example\" contains credentials, which would show in process lists and logs; download the charts into a folder with `helm pull`, and name that folder with --charts (the chart value `charts`) instead of the repository",
        ),
    ] {
        let error = store.obtain(&wanted).await.unwrap_err();
        assert_eq!((error.to_string().as_str(), error.reason()), (expected, "ChartInvalid"));
    }
}

#[tokio::test]
async fn prefers_the_requested_version_then_the_locked_one() {
    let fixture = Fixture::new();
    fixture.put("demo-1.0.0.tgz", chart("1.0.0", "x")).put("demo-2.0.0.tgz", chart("2.0.0", "x"));
    let locked = fixture.store("charts: {demo: {version: 2.0.0}}");
    let chart = demo(&locked).await.unwrap();
    assert_eq!((chart.version.as_str(), chart.pin), ("2.0.0", LockState::VersionOnly));
    let requested =
        locked.obtain(&ChartRequest { version: Some("1.0.0".into()), ..ChartRequest::locked("demo") }).await.unwrap();
    assert_eq!(
        (requested.version.as_str(), requested.pin.to_string().as_str()),
        ("1.0.0", "not the locked version 2.0.0")
    );
    let error = locked
        .obtain(&ChartRequest { version: Some("3.0.0".into()), ..ChartRequest::locked("demo") })
        .await
        .unwrap_err();
    let expected =
        "chart demo 3.0.0 is not in CHARTS: it has 1.0.0, 2.0.0; request an existing version, or add this version";
    assert_eq!((fixture.message(&error).as_str(), error.reason()), (expected, "ChartVersionMissing"));
    fs::remove_file(fixture.path("demo-2.0.0.tgz")).unwrap();
    let chart = demo(&locked).await.unwrap();
    assert_eq!((chart.version.as_str(), chart.pin), ("1.0.0", LockState::Unpinned { locked: Some("2.0.0".into()) }));
}

#[tokio::test]
async fn checks_a_locked_digest_only_for_its_version() {
    let fixture = Fixture::new();
    fixture.put("demo-1.0.0.tgz", chart("1.0.0", "x"));
    let digest = demo(&fixture.store("")).await.unwrap().digest;
    let pinned = fixture.store(&format!("charts: {{demo: {{version: 1.0.0, digest: '{digest}'}}}}"));
    assert_eq!(demo(&pinned).await.unwrap().pin, LockState::Pinned);
    fixture.put("demo-1.0.0.tgz", chart("1.0.0", "changed"));
    let error = demo(&pinned).await.unwrap_err();
    let found = demo(&fixture.store("")).await.unwrap().digest;
    let expected = format!(
        "chart demo 1.0.0 from CHARTS has digest {found}, but the lock has {digest}: its content is not the expected content of this version; use the chart with the locked digest; or, if you trust the new content, lock it with `osdpl charts lock --charts CHARTS demo`"
    );
    assert_eq!((fixture.message(&error), error.reason()), (expected, "ChartDigestMismatch"));
    fixture.put("demo-1.1.0.tgz", chart("1.1.0", "x"));
    fs::remove_file(fixture.path("demo-1.0.0.tgz")).unwrap();
    assert_eq!(demo(&pinned).await.unwrap().pin, LockState::Unpinned { locked: Some("1.0.0".into()) });
}

#[tokio::test]
async fn packs_a_directory_like_helm() {
    let fixture = Fixture::new();
    fixture
        .put("demo/Chart.yaml", depends("file://../library"))
        .put("demo/.helmignore", "values_overrides\n*.swp\n")
        .put("demo/values.yaml", "key: x\n")
        .put("demo/templates/a.yaml", "kind: A\n")
        .put("demo/templates/.a.yaml.swp", "")
        .put("demo/values_overrides/y.yaml", "")
        .put("demo/notes.swp", "")
        .put("shared/b.yaml", "kind: B\n")
        .link("demo/templates/b.yaml", "../../shared/b.yaml")
        .put("library/Chart.yaml", "name: library\nversion: 1.0.0\ntype: library\n")
        .put("library/templates/_helpers.tpl", "x");
    let packed = demo(&fixture.store("")).await.unwrap();
    let by_hand = Fixture::new();
    let chart_yaml = depends("file://../library");
    by_hand.put(
        "demo-1.0.0.tgz",
        tgz(&[
            ("demo/Chart.yaml", &chart_yaml),
            ("demo/.helmignore", "values_overrides\n*.swp\n"),
            ("demo/values.yaml", "key: x\n"),
            ("demo/templates/a.yaml", "kind: A\n"),
            ("demo/templates/b.yaml", "kind: B\n"),
            ("demo/charts/library/Chart.yaml", "name: library\nversion: 1.0.0\ntype: library\n"),
            ("demo/charts/library/templates/_helpers.tpl", "x"),
        ]),
    );
    assert_eq!(packed.digest, demo(&by_hand.store("")).await.unwrap().digest);
    let bytes = fs::read(&packed.path).unwrap();
    fs::remove_file(&packed.path).unwrap();
    let repacked = demo(&fixture.store("")).await.unwrap();
    assert_eq!(
        (repacked.path.as_path(), fs::read(&repacked.path).unwrap()),
        (packed.path.as_path(), bytes),
        "packing a directory twice results in the same bytes"
    );
}

#[tokio::test]
async fn uses_a_library_that_is_linked_into_charts() {
    let fixture = Fixture::new();
    fixture
        .put("demo/Chart.yaml", depends("file://../library"))
        .put("library/Chart.yaml", "name: library\nversion: 1.0.0\n")
        .put("library/templates/_x.tpl", "x");
    let from_neighbour = demo(&fixture.store("")).await.unwrap().digest;
    fixture.link("demo/charts/library", "../../library");
    assert_eq!(demo(&fixture.store("")).await.unwrap().digest, from_neighbour);
}

#[tokio::test]
async fn notices_edits_of_all_files() {
    let fixture = Fixture::new();
    fixture
        .put("demo/Chart.yaml", depends("file://../library"))
        .put("demo/values.yaml", "key: x\n")
        .put("library/Chart.yaml", "name: library\nversion: 1.0.0\n");
    let store = fixture.store("");
    let mut digests = vec![demo(&store).await.unwrap().digest];
    assert_eq!(demo(&store).await.unwrap().digest, digests[0], "the digest is the same while no file changes");
    let edits: [(&str, Setup); 4] = [
        ("a file with the same size and other content", |fixture| done(fixture.put("demo/values.yaml", "key: y\n"))),
        ("a new file", |fixture| done(fixture.put("demo/templates/a.yaml", "kind: A\n"))),
        ("a new file of the dependency", |fixture| done(fixture.put("library/templates/_x.tpl", "x"))),
        ("a new rule in .helmignore", |fixture| done(fixture.put("demo/.helmignore", "templates\n"))),
    ];
    for (what, edit) in edits {
        edit(&fixture);
        let digest = demo(&store).await.unwrap().digest;
        assert!(!digests.contains(&digest), "{what}");
        digests.push(digest);
    }
}

#[tokio::test]
async fn notices_edits_of_a_helmignore_that_ignores_itself() {
    let fixture = Fixture::new();
    fixture
        .put("demo/Chart.yaml", CHART_YAML)
        .put("demo/values.yaml", "key: x\n")
        .put("demo/notes.txt", "x")
        .put("demo/.helmignore", ".*\n");
    let store = fixture.store("");
    let before = demo(&store).await.unwrap().digest;
    fixture.put("demo/.helmignore", ".*\nnotes.txt\n");
    assert_ne!(demo(&store).await.unwrap().digest, before);
}

#[tokio::test]
async fn reports_an_archive_that_was_deleted_from_the_cache() {
    let fixture = Fixture::new();
    fixture.put("demo-1.0.0.tgz", chart("1.0.0", "x"));
    let chart = demo(&fixture.store("")).await.unwrap();
    fs::remove_file(&chart.path).unwrap();
    let error = chart.default_values().unwrap_err();
    let expected = "the archive of chart demo was deleted from the chart cache (CACHE/archives/demo-1.0.0-";
    assert!(fixture.message(&error).starts_with(expected), "{error}");
    assert_eq!(error.reason(), "ChartArchiveMissing");
}

#[tokio::test]
async fn rewrites_damaged_or_missing_archives_in_the_cache() {
    let fixture = Fixture::new();
    fixture.put("demo-1.0.0.tgz", chart("1.0.0", "x"));
    let store = fixture.store("");
    let path = demo(&store).await.unwrap().path;
    let complete = fs::read(&path).unwrap();
    fs::write(&path, &complete[..10]).unwrap();
    demo(&store).await.unwrap();
    assert_eq!(fs::read(&path).unwrap(), complete);
    fs::remove_dir_all(fixture.cache.path()).unwrap();
    demo(&store).await.unwrap();
    assert_eq!(fs::read(&path).unwrap(), complete);
}

#[tokio::test]
async fn a_failing_chart_does_not_affect_others() {
    let fixture = Fixture::new();
    fixture
        .put("demo-1.0.0.tgz", "broken")
        .put("other-1.0.0.tgz", tgz(&[("other/Chart.yaml", "name: other\nversion: 1.0.0\n")]));
    let store = fixture.store("");
    assert!(demo(&store).await.is_err());
    assert_eq!(store.obtain(&ChartRequest::locked("other")).await.unwrap().version, "1.0.0");
    let offered: Vec<_> = store.list_charts().unwrap();
    assert_eq!(offered, [("demo".to_owned(), true), ("other".to_owned(), true)]);
}
