//! Rejected folders and their errors.

use std::fs;

use super::{CHART_YAML, Setup, Site, chart, demo, depends, done};

const ADVICE: &str = "; package or pull it again, and do not install it unless you trust its origin";

/// The problem, the setup, the reason, and the message.
const REFUSED: [(&str, Setup, &str, &str); 19] = [
    (
        "no such chart",
        |_| (),
        "ChartMissing",
        "chart demo is not in CHARTS: looked for demo-<version>.tgz and demo/Chart.yaml; add it there, or name a folder or repository that has it",
    ),
    (
        "a chart with a longer name",
        |site| done(site.put("demo-extra-1.0.0.tgz", chart("1.0.0", "x"))),
        "ChartMissing",
        "chart demo is not in CHARTS: looked for demo-<version>.tgz and demo/Chart.yaml; add it there, or name a folder or repository that has it",
    ),
    (
        "two versions",
        |site| done(site.put("demo-1.0.0.tgz", chart("1.0.0", "x")).put("demo-2.0.0.tgz", chart("2.0.0", "x"))),
        "ChartAmbiguous",
        "chart demo is in CHARTS more than once: demo-1.0.0.tgz (1.0.0), demo-2.0.0.tgz (2.0.0); remove all but one, name a version, or pin one with `osdpl charts lock`",
    ),
    (
        "an archive and a directory",
        |site| done(site.put("demo-1.0.0.tgz", chart("1.0.0", "x")).put("demo/Chart.yaml", CHART_YAML)),
        "ChartAmbiguous",
        "chart demo is in CHARTS more than once: demo-1.0.0.tgz (1.0.0), demo (1.0.0); remove all but one, name a version, or pin one with `osdpl charts lock`",
    ),
    (
        "no folder",
        |site| fs::remove_dir(site.folder.path()).and_then(|()| fs::write(site.folder.path(), "")).unwrap(),
        "ChartFolderUnreadable",
        "the chart folder CHARTS cannot be read: it is not a folder; name a folder of chart archives or chart directories that osdpl may read",
    ),
    (
        "a folder in place of the archive",
        |site| fs::create_dir(site.path("demo-1.0.0.tgz")).unwrap(),
        "ChartUnreadable",
        "entry \"CHARTS/demo-1.0.0.tgz\" is not a regular file; only files and folders are accepted",
    ),
    (
        "an archive that lies outside",
        |site| done(site.link("demo-1.0.0.tgz", "/etc/passwd")),
        "ChartUnreadable",
        "\"CHARTS/demo-1.0.0.tgz\" is outside of \"CHARTS\"; only files inside that folder are read",
    ),
    (
        "a link out of the folder",
        |site| done(site.put("demo/Chart.yaml", CHART_YAML).link("demo/secret", "/etc/passwd")),
        "ChartUnreadable",
        "\"CHARTS/demo/secret\" is outside of \"CHARTS\"; only files inside that folder are read",
    ),
    (
        "a link to nothing",
        |site| done(site.put("demo/Chart.yaml", CHART_YAML).link("demo/lost", "nowhere")),
        "ChartUnreadable",
        "\"lost\" cannot be read: No such file or directory (os error 2)",
    ),
    (
        "a link to a folder above",
        |site| done(site.put("demo/Chart.yaml", CHART_YAML).link("demo/files/again", "../../demo")),
        "ChartUnreadable",
        "\"files/again\" is part of a cycle",
    ),
    (
        "a socket",
        |site| socket(site.put("demo/Chart.yaml", CHART_YAML), "demo/socket"),
        "ChartUnreadable",
        "entry \"socket\" is a device, a socket or a named pipe; only files and folders are accepted",
    ),
    (
        "another name than its folder's",
        |site| done(site.put("demo/Chart.yaml", CHART_YAML.replace("demo", "other"))),
        "ChartUnreadable",
        "its Chart.yaml says it is chart \"other\", not \"demo\"",
    ),
    (
        "a Chart.yaml that is no YAML",
        |site| done(site.put("demo/Chart.yaml", "{")),
        "ChartUnreadable",
        "Chart.yaml:1:1: unclosed bracket '{'",
    ),
    (
        "a rule that helm refuses",
        |site| done(site.put("demo/Chart.yaml", CHART_YAML).put("demo/.helmignore", "# rules\n**/x\n")),
        "ChartUnreadable",
        ".helmignore line 2: \"**/x\" is not a valid rule for helm: ** is not supported",
    ),
    (
        "a dependency that is elsewhere",
        |site| done(site.put("demo/Chart.yaml", depends("https://charts.example"))),
        "ChartUnreadable",
        "its dependency \"library\" (repository \"https://charts.example\") is not in its charts/ folder; run `helm dependency update` on it first",
    ),
    (
        "a neighbour that is missing",
        |site| done(site.put("demo/Chart.yaml", depends("file://../library"))),
        "ChartUnreadable",
        "\"file://../library\", a chart within it: \"CHARTS/demo/../library\" cannot be read: No such file or directory (os error 2)",
    ),
    (
        "a neighbour outside",
        |site| done(site.put("demo/Chart.yaml", depends("file:///etc"))),
        "ChartUnreadable",
        "\"/etc\" is outside of \"CHARTS\"; only files inside that folder are read",
    ),
    (
        "a neighbour of another name",
        |site| {
            done(site.put("demo/Chart.yaml", depends("file://../x")).put("x/Chart.yaml", "name: x\nversion: 1.0.0\n"));
        },
        "ChartUnreadable",
        "its Chart.yaml says it is chart \"x\", not \"library\"",
    ),
    (
        "charts that depend on each other",
        |site| {
            done(site.put("demo/Chart.yaml", depends("file://../library")).put(
                "library/Chart.yaml",
                "name: library\nversion: 1.0.0\ndependencies: [{name: demo, repository: file://../demo}]\n",
            ));
        },
        "ChartUnreadable",
        "\"CHARTS/demo\" is part of a cycle",
    ),
];

fn socket(site: &Site, name: &str) {
    // The file of the socket remains after the listener is dropped.
    drop(std::os::unix::net::UnixListener::bind(site.path(name)).unwrap());
}

#[tokio::test]
async fn rejected_folders_say_why() {
    for (what, setup, reason, expected) in REFUSED {
        let site = Site::new();
        setup(&site);
        let error = demo(&site.store("")).await.expect_err(what);
        let archive = site.path("demo-1.0.0.tgz").symlink_metadata().is_ok();
        let place = if archive { "CHARTS/demo-1.0.0.tgz" } else { "CHARTS/demo" };
        let expected = match reason {
            "ChartUnreadable" => format!("chart demo at {place} is not usable: {expected}{ADVICE}"),
            _ => expected.to_owned(),
        };
        assert_eq!(site.message(&error), expected, "{what}");
        assert_eq!(error.reason(), reason, "{what}");
    }
}
