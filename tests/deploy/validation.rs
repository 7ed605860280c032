//! Checks that every command that reads a file reports the same errors in the file as `osdpl validate`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

use serde_json::Value;

use super::offline::{HEAD, run, text};

/// A kubeconfig of a cluster that does not respond.
const SILENT: &str = "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: a, user: {}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n";

#[test]
fn every_command_reports_invalid_files_like_validate() {
    let file = HEAD.replace("v1alpha1", "v1").replace("[core]", "[corr]")
        + "  foo: 1\n  approval: maybe\n  services: {novaa: {}}\n";
    let lines = |output: &str| -> Vec<String> {
        let of_file = output.lines().filter(|line| line.contains("cloud.yaml:"));
        of_file.map(|line| line.split(" [").next().unwrap_or_default().trim().to_owned()).collect()
    };
    let validated = run(&file, &["validate", "cloud.yaml"], None);
    let known = lines(&text(&validated.stdout));
    assert_eq!((known.len(), validated.status.code()), (5, Some(1)), "{known:?}");
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("config");
    std::fs::write(&kubeconfig, SILENT).unwrap();
    let commands: [(&[&str], Option<&str>); 3] = [
        (&["plan", "-f", "cloud.yaml"], kubeconfig.to_str()),
        (&["diff", "-f", "cloud.yaml"], kubeconfig.to_str()),
        (&["preset", "diff", "-f", "cloud.yaml", "core", "compute"], None),
    ];
    for (arguments, kubeconfig) in commands {
        let output = run(&file, arguments, kubeconfig);
        let printed = lines(&text(&output.stderr));
        assert_eq!(printed, known, "{arguments:?}");
        assert!(!output.status.success(), "{arguments:?}");
    }
    let cases = "file: cloud.yaml\ncases:\n- name: it is\n  expect: [{release: nova, wanted: true}]\n";
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("cloud.yaml"), &file).unwrap();
    std::fs::write(home.path().join("cases.yaml"), cases).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    let output = command.current_dir(home.path()).args(["test", "cases.yaml"]).output().unwrap();
    let printed = text(&output.stdout);
    assert!(output.status.code() == Some(2) && known.iter().all(|line| printed.contains(line)), "{printed}");
}

#[test]
fn explain_reports_invalid_files_as_json() {
    let file = format!("{HEAD}  paused: maybe\n");
    let output = run(&file, &["explain", "-f", "cloud.yaml", "nova", "pod", "-o", "json"], None);
    let validated = run(&file, &["validate", "cloud.yaml", "-o", "json"], None);
    let [printed, known] = [&output, &validated].map(|output| serde_json::from_slice::<Value>(&output.stdout).unwrap());
    assert_eq!((&printed, output.status.code()), (&known, validated.status.code()));
    assert_eq!(printed["findings"][0]["field"], "spec.paused");
    let unread = run("a: [\n", &["explain", "-f", "cloud.yaml", "nova", "pod", "-o", "json"], None);
    let printed: Value = serde_json::from_slice(&unread.stdout).unwrap();
    assert_eq!((&printed["findings"][0]["rule"], unread.status.code()), (&"yaml".into(), Some(1)), "{printed}");
}

#[test]
fn plan_of_a_new_cloud_knows_chart_images() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let file = HEAD.replace("  presets: [core]\n", "  services: {keystone: {enabled: true}}\n")
        + &format!("  images: {{digests: {{'quay.io/airshipit/keystone:2062.1': '{digest}'}}}}\n");
    let charts = crate::path("tests/charts").display().to_string();
    let output = run(&file, &["plan", "--offline", "-f", "cloud.yaml", "--charts", &charts], None);
    let stderr = text(&output.stderr);
    let expected = "cloud.yaml:7: warning: spec.images.digests[quay.io/airshipit/keystone:2062.1]: has no effect: no release has the image quay.io/airshipit/keystone:2062.1 (did you mean";
    assert!(output.status.success() && stderr.contains(expected), "{stderr}");
    let known = run(
        &file.replace("2062.1", "2026.1-ubuntu_noble"),
        &["plan", "--offline", "-f", "cloud.yaml", "--charts", &charts],
        None,
    );
    assert!(known.status.success() && !text(&known.stderr).contains("has no effect"), "{}", text(&known.stderr));
}

#[test]
fn help_fits_the_terminal_and_suggests_commands() {
    let home = tempfile::tempdir().unwrap();
    let help = |columns: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
        let output = command.current_dir(home.path()).args(arguments).env("COLUMNS", columns).output().unwrap();
        text(&output.stdout) + &text(&output.stderr)
    };
    let widest = |columns| help(columns, &["help", "render"]).lines().map(|line| line.chars().count()).max();
    assert!(widest("60") < widest("100"), "{:?}", widest("60"));
    for arguments in [&["help", "validat"][..], &["validat"]] {
        let printed = help("100", arguments);
        assert!(printed.contains("a similar subcommand exists: 'validate'"), "{printed}");
    }
    // If an argument is not UTF-8, osdpl can't suggest a similar command, but it must not panic.
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    let output = command.args(["help".as_ref(), OsStr::from_bytes(b"\xff")]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let printed = help("100", &["help", "preset", "dif"]);
    assert!(printed.contains("a similar subcommand exists: 'diff'"), "{printed}");
}

#[test]
fn plan_lists_each_unknown_key_on_a_line() {
    let values = "  services:\n    keystone:\n      releases:\n        keystone:\n          valuesFrom: [{kind: ConfigMap, name: more}]\n          values:\n            pod:\n              \
                  replicass: 1\n            jbs: {}\n";
    let more = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\ndata: {values.yaml: 'lables: {a: b}'}\n";
    let file = format!("{HEAD}{values}{more}");
    let output = run(&file, &["plan", "--offline", "-f", "cloud.yaml"], None);
    let stderr = text(&output.stderr);
    let own = "spec.services.keystone.releases.keystone";
    for expected in [
        format!(
            "cloud.yaml:11: warning: {own}.valuesFrom[0].lables: the values of chart keystone have no lables (did you mean \"labels\"?): "
        ),
        format!(
            "cloud.yaml:14: warning: {own}.values.pod.replicass: the values of chart keystone have no pod.replicass (did you mean \"replicas\"?): "
        ),
        format!(
            "cloud.yaml:15: warning: {own}.values.jbs: the values of chart keystone have no jbs (did you mean \"jobs\"?): "
        ),
    ] {
        assert!(stderr.contains(&expected), "{expected}\n{stderr}");
    }
    let output = run(&file, &["plan", "--offline", "-f", "cloud.yaml", "-o", "json"], None);
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let fields = plan["findings"].as_array().unwrap().iter().filter_map(|finding| finding["field"].as_str());
    assert!(fields.into_iter().any(|field| field == format!("{own}.values.pod.replicass")), "{plan}");
}

#[test]
fn every_command_checks_the_deployed_release() {
    let file = format!("{HEAD}status: {{openstackRelease: {{deployed: '2024.1'}}}}\n");
    for arguments in [
        &["plan", "--offline", "-f", "cloud.yaml"][..],
        &["render", "-f", "cloud.yaml", "--placeholders", "keystone"],
        &["validate", "cloud.yaml"],
    ] {
        let output = run(&file, arguments, None);
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert!(
            printed.contains("2024.1 is deployed, and osdpl does not support upgrades of OpenStack yet"),
            "{arguments:?}: {printed}"
        );
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
}
