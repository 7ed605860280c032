//! Tests which folders the store refuses, and with which errors.

use std::fs;

use super::{CHART_YAML, Fixture, Setup, chart, demo, depends, done};

const ADVICE: &str = "; correct the chart, or package or pull it again, and install it only if you trust its origin";

/// Folders that the store refuses. Each entry contains a description of the defect, the function that creates the
/// defect in a folder, and the reason and message of the expected error.
const REFUSED: [(&str, Setup, &str, &str); 19] = [
    (
        "no such chart",
        |_| (),
        "ChartMissing",
        "chart demo is not in CHARTS: looked for demo-<version>.tgz and demo/Chart.yaml; add the chart, or name a folder or repository that has the chart",
    ),
    (
        "a chart with a longer name",
        |fixture| done(fixture.put("demo-extra-1.0.0.tgz", chart("1.0.0", "x"))),
        "ChartMissing",
        "chart demo is not in CHARTS: looked for demo-<version>.tgz and demo/Chart.yaml; add the chart, or name a folder or repository that has the chart",
    ),
    (
        "two versions",
        |fixture| done(fixture.put("demo-1.0.0.tgz", chart("1.0.0", "x")).put("demo-2.0.0.tgz", chart("2.0.0", "x"))),
        "ChartAmbiguous",
        "chart demo is in CHARTS more than once: demo-1.0.0.tgz (1.0.0), demo-2.0.0.tgz (2.0.0); keep only one of these charts; if their versions differ, you can also set a version, or lock a version with `osdpl charts lock --charts CHARTS demo@VERSION`",
    ),
    (
        "an archive and a directory",
        |fixture| done(fixture.put("demo-1.0.0.tgz", chart("1.0.0", "x")).put("demo/Chart.yaml", CHART_YAML)),
        "ChartAmbiguous",
        "chart demo is in CHARTS more than once: demo-1.0.0.tgz (1.0.0), demo (1.0.0); keep only one of these charts; if their versions differ, you can also set a version, or lock a version with `osdpl charts lock --charts CHARTS demo@VERSION`",
    ),
    (
        "no folder",
        |fixture| fs::remove_dir(fixture.folder.path()).and_then(|()| fs::write(fixture.folder.path(), "")).unwrap(),
        "ChartFolderUnreadable",
        "the chart folder CHARTS cannot be read: it is not a folder; name a folder of chart archives or chart directories that osdpl may read",
    ),
    (
        "a folder with the name of the archive",
        |fixture| fs::create_dir(fixture.path("demo-1.0.0.tgz")).unwrap(),
        "ChartUnreadable",
        "entry \"CHARTS/demo-1.0.0.tgz\" is not a regular file, but named like a chart archive; a chart may contain only regular files and folders",
    ),
    (
        "an archive that is a link out of the folder",
        |fixture| done(fixture.link("demo-1.0.0.tgz", "/etc/passwd")),
        "ChartUnreadable",
        "\"CHARTS/demo-1.0.0.tgz\" is outside of \"CHARTS\"; osdpl reads only files inside that folder",
    ),
    (
        "a link out of the folder",
        |fixture| done(fixture.put("demo/Chart.yaml", CHART_YAML).link("demo/secret", "/etc/passwd")),
        "ChartUnreadable",
        "\"CHARTS/demo/secret\" is outside of \"CHARTS\"; osdpl reads only files inside that folder",
    ),
    (
        "a link to nothing",
        |fixture| done(fixture.put("demo/Chart.yaml", CHART_YAML).link("demo/lost", "nowhere")),
        "ChartUnreadable",
        "\"lost\" cannot be read: No such file or directory (os error 2)",
    ),
    (
        "a link to a folder above",
        |fixture| done(fixture.put("demo/Chart.yaml", CHART_YAML).link("demo/files/again", "../../demo")),
        "ChartUnreadable",
        "\"files/again\" is part of a cycle of symbolic links or dependencies",
    ),
    (
        "a socket",
        |fixture| socket(fixture.put("demo/Chart.yaml", CHART_YAML), "demo/socket"),
        "ChartUnreadable",
        "entry \"socket\" is a device, a socket or a named pipe; a chart may contain only regular files and folders",
    ),
    (
        "a chart whose name differs from its folder's name",
        |fixture| done(fixture.put("demo/Chart.yaml", CHART_YAML.replace("demo", "other"))),
        "ChartUnreadable",
        "its Chart.yaml says it is chart \"other\", not \"demo\"",
    ),
    (
        "a Chart.yaml that is not YAML",
        |fixture| done(fixture.put("demo/Chart.yaml", "{")),
        "ChartUnreadable",
        "Chart.yaml:1:1: unclosed bracket '{'",
    ),
    (
        "a rule that helm refuses",
        |fixture| done(fixture.put("demo/Chart.yaml", CHART_YAML).put("demo/.helmignore", "# rules\n**/x\n")),
        "ChartUnreadable",
        ".helmignore line 2: \"**/x\" is not a valid rule for helm: ** is not supported",
    ),
    (
        "a dependency that only a remote repository has",
        |fixture| done(fixture.put("demo/Chart.yaml", depends("https://charts.example"))),
        "ChartUnreadable",
        "its dependency \"library\" (repository \"https://charts.example\") is not in its charts/ folder; run `helm dependency update` in the folder of the chart",
    ),
    (
        "a file:// dependency that does not exist",
        |fixture| done(fixture.put("demo/Chart.yaml", depends("file://../library"))),
        "ChartUnreadable",
        "its dependency \"file://../library\" is not usable: \"CHARTS/demo/../library\" cannot be read: No such file or directory (os error 2)",
    ),
    (
        "a file:// dependency outside of the folder of charts",
        |fixture| done(fixture.put("demo/Chart.yaml", depends("file:///etc"))),
        "ChartUnreadable",
        "\"/etc\" is outside of \"CHARTS\"; osdpl reads only files inside that folder",
    ),
    (
        "a file:// dependency with a different name",
        |fixture| {
            done(
                fixture.put("demo/Chart.yaml", depends("file://../x")).put("x/Chart.yaml", "name: x\nversion: 1.0.0\n"),
            );
        },
        "ChartUnreadable",
        "its Chart.yaml says it is chart \"x\", not \"library\"",
    ),
    (
        "charts that depend on each other",
        |fixture| {
            done(fixture.put("demo/Chart.yaml", depends("file://../library")).put(
                "library/Chart.yaml",
                "name: library\nversion: 1.0.0\ndependencies: [{name: demo, repository: file://../demo}]\n",
            ));
        },
        "ChartUnreadable",
        "\"CHARTS/demo\" is part of a cycle of symbolic links or dependencies",
    ),
];

fn socket(fixture: &Fixture, name: &str) {
    // Dropping the listener leaves the socket in the folder. The store can't read a socket.
    drop(std::os::unix::net::UnixListener::bind(fixture.path(name)).unwrap());
}

#[tokio::test]
async fn rejected_folders_say_why() {
    for (what, setup, reason, expected) in REFUSED {
        let fixture = Fixture::new();
        setup(&fixture);
        let error = demo(&fixture.store("")).await.expect_err(what);
        let archive = fixture.path("demo-1.0.0.tgz").symlink_metadata().is_ok();
        let location = if archive { "CHARTS/demo-1.0.0.tgz" } else { "CHARTS/demo" };
        let expected = match reason {
            "ChartUnreadable" => format!("chart demo at {location} is not usable: {expected}{ADVICE}"),
            _ => expected.to_owned(),
        };
        assert_eq!(fixture.message(&error), expected, "{what}");
        assert_eq!(error.reason(), reason, "{what}");
    }
}
