//! Tests of locks and chart sources: the errors about invalid texts, and how osdpl parses and writes valid texts.

use crate::charts::{InvalidSource, Lock, LockEntry, Source};

const DIGEST: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

#[test]
fn rejected_locks_say_where_and_why() {
    for (text, expected) in [
        (
            "charts:\n  demo: {version: 1.0.0, digset: x}\n",
            "values/lock.yaml:2:26: unknown field `digset`, expected one of version, digest, repository",
        ),
        ("chart: {}\n", "values/lock.yaml:1:1: unknown field `chart`, expected one of charts"),
        ("charts:\n  demo: {digest: null}\n", "values/lock.yaml:2:10: missing field `version`"),
        ("charts:\n  demo: 1.0.0\n", "values/lock.yaml:2:9: expected a map, found something else"),
        (
            "charts:\n  demo: {version: 1.0.0, digest: md5:123}\n",
            "values/lock.yaml:2:34: \"md5:123\" is not a digest: a digest is `sha256:` followed by 64 lower-case hexadecimal digits",
        ),
        (
            "charts:\n  demo: {version: 1.0.0}\n  demo: {version: 2.0.0}\n",
            "values/lock.yaml:3:3: duplicate mapping key: demo",
        ),
        (
            "charts:\n  demo: {version: newest}\n",
            "values/lock.yaml: charts.demo.version: \"newest\" is not a version such as 2026.1.7+0ee5ade",
        ),
        ("charts:\n  ../demo: {version: 1.0.0}\n", "values/lock.yaml: charts: \"../demo\" is not a chart name"),
        (
            "charts:\n  demo: {version: 1.0.0, repository: 'ftp://x'}\n",
            "values/lock.yaml: charts.demo.repository: \"ftp://x\" is not the address of a repository; use an https:// or oci:// address; --charts also accepts a folder",
        ),
        ("charts: [\n", "values/lock.yaml:1:9: expected a map, found something else"),
    ] {
        let error = Lock::parse("values/lock.yaml", text).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{expected}; correct the lock, or delete it and write a new one with `osdpl charts lock`"),
            "{text}"
        );
    }
}

#[test]
fn rejected_sources_say_why() {
    for (text, expected) in [
        (
            "",
            "charts: the source of charts is empty; name a folder or a repository such as https://tarballs.opendev.org/openstack/openstack-helm",
        ),
        (
            "ftp://charts.example",
            "\"ftp://charts.example\" is not the address of a repository; use an https:// or oci:// address; --charts also accepts a folder",
        ),
        (
            "https://me:word@charts.example/x",
            "charts: the repository address with the host \"charts.example\" contains credentials, which would show in process lists and logs; download the charts into a folder with `helm pull`, and name that folder with --charts (the chart value `charts`) instead of the repository",
        ),
        (
            "https://charts.example/?token=word",
            "charts: \"https://charts.example/?token=word\" is not a repository address: it has no host, or contains a space, a quote, a backslash, a '?', a '#' or an '@'; write it like https://tarballs.opendev.org/openstack/openstack-helm",
        ),
        (
            "https:///charts",
            "charts: \"https:///charts\" is not a repository address: it has no host, or contains a space, a quote, a backslash, a '?', a '#' or an '@'; write it like https://tarballs.opendev.org/openstack/openstack-helm",
        ),
    ] {
        assert_eq!(text.parse::<Source>().unwrap_err().to_string(), expected);
    }
    let http = |digest: &str| {
        let text = format!("charts:\n  demo: {{version: 1.0.0, repository: 'http://charts.example'{digest}}}\n");
        Lock::parse("lock.yaml", &text).map_err(|error| error.to_string())
    };
    let refused = http("").unwrap_err();
    assert!(
        refused.contains("charts.demo.repository: charts: \"http://charts.example\" is not encrypted"),
        "{refused}"
    );
    let locked = http(&format!(", digest: '{DIGEST}'")).expect("a digest protects the chart");
    let refused = locked.check_encrypted("lock.yaml").unwrap_err().to_string();
    let expected = "lock.yaml: charts.demo.repository: charts: \"http://charts.example\" is not encrypted";
    assert!(refused.starts_with(expected) && refused.contains("--allow-http-charts"), "{refused}");
    assert_eq!(Lock::built_in().unwrap().check_encrypted("lock.yaml"), Ok(()));
    let error: InvalidSource = "oci://me:word@registry.example".parse::<Source>().unwrap_err();
    assert!(!format!("{error:?}").contains("word"));
}

#[test]
fn a_text_without_a_scheme_is_a_folder() {
    assert_eq!("charts".parse(), Ok(Source::Folder("charts".into())));
    assert_eq!(
        "oci://registry.example/charts/".parse(),
        Ok(Source::Repository { url: "oci://registry.example/charts".into() })
    );
}

#[test]
fn reads_back_a_written_lock() {
    let mut lock = Lock::default();
    let digest = Some(DIGEST.parse().unwrap());
    let repository = Some("https://charts.example/x".to_owned());
    lock.charts.insert("nova".into(), LockEntry { version: "2026.1".into(), digest, repository });
    lock.charts
        .insert("keystone".into(), LockEntry { version: "2026.1.7+0ee5ade".into(), digest: None, repository: None });
    let text = lock.to_yaml();
    assert_eq!(Lock::parse("x", &text).unwrap(), lock, "{text}");
    assert_eq!(Lock::parse("x", &Lock::default().to_yaml()).unwrap(), Lock::default());
    assert_eq!(Lock::parse("x", "").unwrap(), Lock::default());
}

#[test]
fn the_shipped_lock_is_valid_and_canonical() {
    let lock = Lock::built_in().unwrap();
    assert!(lock.charts.len() >= 14);
    let shipped = include_str!("../../../../values/lock.yaml");
    let body = |text: &str| text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(body(&lock.to_yaml()), body(shipped));
}
