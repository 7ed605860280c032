//! Tests which archives the store refuses, and with which errors.

use tar::EntryType;

use super::{CHART_YAML, Fixture, Tarball, chart, demo, gzip, tgz, with};
use crate::charts::problem::{MAX_CHART_SIZE, MAX_ENTRIES, MAX_FILE_SIZE};

const ADVICE: &str = "; correct the chart, or package or pull it again, and install it only if you trust its origin";

fn with_entry(path: &[u8], kind: EntryType) -> Vec<u8> {
    let mut archive = Tarball::with_chart();
    archive.entry(path, kind, b"");
    archive.finish()
}

fn nested(levels: usize) -> Vec<u8> {
    let mut archive = tgz(&[("inner/Chart.yaml", "name: inner\nversion: 1.0.0\n")]);
    for level in 0..levels {
        let mut outer = Tarball::new();
        let top = if level + 1 == levels { "demo" } else { "inner" };
        outer.file(&format!("{top}/Chart.yaml"), format!("name: {top}\nversion: 1.0.0\n"));
        outer.file(&format!("{top}/charts/inner-1.0.0.tgz"), archive);
        archive = outer.finish();
    }
    archive
}

fn bomb() -> Vec<u8> {
    let mut archive = Tarball::with_chart();
    let zeros = vec![0; usize::try_from(MAX_FILE_SIZE).unwrap()];
    for index in 0..=MAX_CHART_SIZE / MAX_FILE_SIZE {
        archive.file(&format!("demo/{index}"), &zeros);
    }
    archive.finish()
}

/// Returns a small archive with more entries than osdpl allows. Entries without content take almost no space when
/// compressed.
fn bomb_of_headers() -> Vec<u8> {
    let mut archive = Tarball::with_chart();
    for _ in 0..=MAX_ENTRIES {
        archive.entry(b"demo/templates/", EntryType::Directory, b"");
    }
    archive.finish()
}

fn truncated() -> Vec<u8> {
    let mut archive = chart("1.0.0", "x");
    archive.truncate(archive.len() / 2);
    archive
}

/// Returns an archive that lacks the last byte of the compressed stream. A tar reader stops before this byte, so it
/// does not notice the loss.
fn without_last() -> Vec<u8> {
    let mut archive = chart("1.0.0", "x");
    archive.pop();
    archive
}

fn wrong_checksum() -> Vec<u8> {
    let mut archive = chart("1.0.0", "x");
    let checksum = archive.len() - 8;
    archive[checksum] ^= 1;
    archive
}

/// Checks that the store refuses an archive of the chart demo, with a message.
async fn check_rejection(what: &str, archive: Vec<u8>, expected: &str) {
    let fixture = Fixture::new();
    fixture.put("demo-1.0.0.tgz", archive);
    let error = demo(&fixture.store("")).await.expect_err(what);
    let expected = format!("chart demo at CHARTS/demo-1.0.0.tgz is not usable: {expected}{ADVICE}");
    assert_eq!(fixture.message(&error), expected, "{what}");
    assert_eq!(error.reason(), "ChartUnreadable", "{what}");
}

#[tokio::test]
async fn rejected_paths_say_why() {
    for (what, archive, expected) in [
        (
            "absolute path",
            with_entry(b"/etc/passwd", EntryType::Regular),
            "entry \"/etc/passwd\" has an absolute path; all entries must be below one folder, and their paths must have no empty, `.` or `..` part, no backslash and no control character",
        ),
        (
            "parent",
            with_entry(b"demo/../../etc/passwd", EntryType::Regular),
            "entry \"demo/../../etc/passwd\" points outside of the chart; all entries must be below one folder, and their paths must have no empty, `.` or `..` part, no backslash and no control character",
        ),
        (
            "empty part",
            with_entry(b"demo//values.yaml", EntryType::Regular),
            "entry \"demo//values.yaml\" has an empty or `.` part in its path; all entries must be below one folder, and their paths must have no empty, `.` or `..` part, no backslash and no control character",
        ),
        (
            "backslash",
            with_entry(b"demo\\values.yaml", EntryType::Regular),
            "entry \"demo\\\\values.yaml\" has a backslash or a control character in its path; all entries must be below one folder, and their paths must have no empty, `.` or `..` part, no backslash and no control character",
        ),
        (
            "control character",
            with_entry(b"demo/a\x1b[2Jb", EntryType::Regular),
            "entry \"demo/a\\u{1b}[2Jb\" has a backslash or a control character in its path; all entries must be below one folder, and their paths must have no empty, `.` or `..` part, no backslash and no control character",
        ),
        (
            "beside the folder",
            with_entry(b"values.yaml", EntryType::Regular),
            "it has two top-level entries, \"demo\" and \"values.yaml\"; an archive must contain one chart in one folder",
        ),
        (
            "no folder",
            tgz(&[("Chart.yaml", CHART_YAML)]),
            "entry \"Chart.yaml\" is a file at the top level of the archive; all entries must be below one folder, and their paths must have no empty, `.` or `..` part, no backslash and no control character",
        ),
        (
            "two folders",
            with(&[("other/values.yaml", "")]),
            "it has two top-level entries, \"demo\" and \"other\"; an archive must contain one chart in one folder",
        ),
        ("no UTF-8", with_entry(b"demo/\xff", EntryType::Regular), "the path of entry \"demo/\u{fffd}\" is not UTF-8"),
        (
            "a path twice",
            with(&[("demo/values.yaml", "a: 1"), ("demo/values.yaml", "a: 2")]),
            "\"values.yaml\" exists twice",
        ),
    ] {
        check_rejection(what, archive, expected).await;
    }
}

#[tokio::test]
async fn rejected_kinds_of_entries_say_why() {
    for (what, archive, expected) in [
        (
            "symbolic link",
            with_entry(b"demo/x", EntryType::Symlink),
            "entry \"demo/x\" is a symbolic link; a chart may contain only regular files and folders",
        ),
        (
            "hard link",
            with_entry(b"demo/x", EntryType::Link),
            "entry \"demo/x\" is a hard link; a chart may contain only regular files and folders",
        ),
        (
            "device",
            with_entry(b"demo/x", EntryType::Char),
            "entry \"demo/x\" is a device; a chart may contain only regular files and folders",
        ),
        (
            "named pipe",
            with_entry(b"demo/x", EntryType::Fifo),
            "entry \"demo/x\" is a named pipe; a chart may contain only regular files and folders",
        ),
        (
            "unknown kind",
            with_entry(b"demo/x", EntryType::new(b'V')),
            "entry \"demo/x\" is of a kind unknown to helm; a chart may contain only regular files and folders",
        ),
    ] {
        check_rejection(what, archive, expected).await;
    }
}

#[tokio::test]
async fn rejected_charts_say_why() {
    let large = vec![b'x'; usize::try_from(MAX_FILE_SIZE).unwrap() + 1];
    let mut too_large = Tarball::with_chart();
    too_large.file("demo/large", large);
    let other_name = tgz(&[("demo/Chart.yaml", &CHART_YAML.replace("demo", "other"))]);
    let other_version = tgz(&[("demo/Chart.yaml", &CHART_YAML.replace("1.0.0", "2.0.0"))]);
    let bad_name = tgz(&[("demo/Chart.yaml", "name: ../../etc\nversion: 1.0.0\n")]);
    let bad_version = tgz(&[("demo/Chart.yaml", "name: demo\nversion: 1.0.0/../..\n")]);
    let inner_link = {
        let mut inner = Tarball::new();
        inner.file("inner/Chart.yaml", "name: inner\nversion: 1.0.0\n").entry(b"inner/x", EntryType::Symlink, b"");
        let mut outer = Tarball::with_chart();
        outer.file("demo/charts/inner-1.0.0.tgz", inner.finish());
        outer.finish()
    };
    for (what, archive, expected) in [
        ("large file", too_large.finish(), "\"large\" is larger than 5 MiB, helm's limit for a file"),
        ("no Chart.yaml", tgz(&[("demo/values.yaml", "")]), "it has no Chart.yaml at its top"),
        ("other chart", other_name, "its Chart.yaml says it is chart \"other\", not \"demo\""),
        ("other version", other_version, "its Chart.yaml says version 2.0.0, not 1.0.0"),
        (
            "name that is a path",
            bad_name,
            "its Chart.yaml has name \"../../etc\", which is not a chart name: only letters, digits, '-', '_' and '.' are allowed",
        ),
        (
            "version that is a path",
            bad_version,
            "its Chart.yaml has version \"1.0.0/../..\", which is not a version such as 1.2.3 or 2026.1.7+0ee5ade",
        ),
        (
            "no YAML",
            tgz(&[("demo/Chart.yaml", "name: demo\n  version: [\n")]),
            "Chart.yaml:2:10: mapping values are not allowed in this context",
        ),
        ("no name", tgz(&[("demo/Chart.yaml", "version: 1.0.0\n")]), "Chart.yaml:1:1: missing field `name`"),
        (
            "link in a chart within",
            inner_link,
            "its dependency \"charts/inner-1.0.0.tgz\" is not usable: entry \"inner/x\" is a symbolic link; a chart may contain only regular files and folders",
        ),
        (
            "too deep",
            nested(6),
            "its dependency \"charts/inner-1.0.0.tgz\" is not usable: its dependency \"charts/inner-1.0.0.tgz\" is not usable: its dependency \"charts/inner-1.0.0.tgz\" is not usable: its dependency \"charts/inner-1.0.0.tgz\" is not usable: \"charts/inner-1.0.0.tgz\": charts are nested too deeply (more than 4 levels)",
        ),
    ] {
        check_rejection(what, archive, expected).await;
    }
}

#[tokio::test]
async fn damaged_archives_say_why() {
    for (what, archive, expected) in [
        ("a decompression bomb", bomb(), "it unpacks to more than 20 MiB"),
        ("a decompression bomb that consists of tar headers", bomb_of_headers(), "it has more than 10000 entries"),
        (
            "a decompression bomb after a broken header",
            gzip(&vec![b'x'; 64 << 20]),
            "it is not a complete gzip-compressed tar archive (numeric field was not a number: xxxxxxxx when getting cksum for xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx)",
        ),
        ("no gzip", b"name: demo\n".to_vec(), "it is not a complete gzip-compressed tar archive (invalid gzip header)"),
        ("an empty file", Vec::new(), "it is not a complete gzip-compressed tar archive (unexpected end of file)"),
        ("an archive without entries", Tarball::new().finish(), "it has no Chart.yaml at its top"),
        (
            "something behind the end",
            [chart("1.0.0", "x"), b"something else".to_vec()].concat(),
            "it is not a complete gzip-compressed tar archive (invalid gzip header)",
        ),
        ("truncated", truncated(), "it is not a complete gzip-compressed tar archive (incomplete deflate stream)"),
        (
            "a wrong checksum",
            wrong_checksum(),
            "it is not a complete gzip-compressed tar archive (corrupt gzip stream does not have a matching checksum)",
        ),
        (
            "without its last byte",
            without_last(),
            "it is not a complete gzip-compressed tar archive (unexpected end of file)",
        ),
    ] {
        check_rejection(what, archive, expected).await;
    }
}
