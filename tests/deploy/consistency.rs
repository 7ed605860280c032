//! Checks that all commands treat a file in the same way: they report the same findings and locations, accept the same
//! values, and have the same exit codes.

use serde_json::Value;

use super::offline::{HEAD, run, text};

/// Returns the text of a file with an `OpenStackDeployment` and a `ConfigMap`. The `OpenStackDeployment` uses a preset
/// that the `ConfigMap` adds to the catalogue.
fn with_preset(values: &str) -> String {
    let preset = format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: edge}}\ndata:\n  presets.edge.yaml: |\n    preset: edge\n    \
         description: One.\n    fragments:\n    - releases: {{keystone: {{values: {values}}}}}\n"
    );
    HEAD.replace("[core]", "[core, edge]\n  catalog: [{name: edge}]") + &preset
}

fn json(text: &str, arguments: &[&str]) -> Value {
    let output = run(text, arguments, None);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", self::text(&output.stderr)))
}

/// Returns the findings in a command's JSON output, sorted, so that the test can compare the findings of different
/// commands.
fn reported(findings: &Value) -> Vec<Value> {
    let mut all = findings.as_array().unwrap().clone();
    all.sort_by_key(ToString::to_string);
    all
}

#[test]
fn plan_and_validate_report_the_same_findings() {
    for spec in [
        "  publicDomain: cloud.local\n  services: {glance: {releases: {glance: {values: {storag: x}}}}}\n",
        "  paused: maybe\n",
    ] {
        let file = format!("{HEAD}{spec}");
        let plan = json(&file, &["plan", "--offline", "-f", "cloud.yaml", "-o", "json"]);
        let validated = json(&file, &["validate", "cloud.yaml", "-o", "json"]);
        assert!(!reported(&plan["findings"]).is_empty(), "{plan}");
        assert_eq!(reported(&plan["findings"]), reported(&validated["findings"]));
    }
    let file = format!("{HEAD}  services: {{glance: {{releases: {{glance: {{values: {{storag: x}}}}}}}}}}\n");
    let compared = json(&file, &["preset", "diff", "single", "core", "-f", "cloud.yaml", "-o", "json"]);
    let finding = &compared["findings"][0];
    assert_eq!((&finding["file"], finding["line"].as_u64()), (&"cloud.yaml".into(), Some(7)), "{compared}");
}

#[test]
fn reports_unusable_file_as_json() {
    let file = with_preset("{a: '${spec +}'}");
    let validated = json(&file, &["validate", "cloud.yaml", "-o", "json"]);
    assert_eq!(validated["findings"][1]["resource"], "ConfigMap openstack/edge", "{validated}");
    for arguments in [
        &["explain", "-f", "cloud.yaml", "nova", "pod", "-o", "json"][..],
        &["plan", "--offline", "-f", "cloud.yaml", "-o", "json"],
    ] {
        let output = run(&file, arguments, None);
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(reported(&printed["findings"]), reported(&validated["findings"]), "{arguments:?}");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(text(&output.stderr).contains("ConfigMap openstack/edge: key \"presets.edge.yaml\""), "{arguments:?}");
    }
}

#[test]
fn reports_invalid_expression_of_added_preset() {
    for (expression, expected) in [
        (
            "${spec +}",
            "`spec +` is not a valid CEL expression: column 7: a value is missing after `+`; write one, or remove `+`",
        ),
        ("${spec.a = 1}", "`spec.a = 1` is not a valid CEL expression: column 8: `=` is not a comparison; write =="),
        ("${size(spec}", "`size(spec` is not a valid CEL expression: column 5: `(` is not closed; add the missing )"),
    ] {
        let output = run(&with_preset(&format!("{{a: '{expression}'}}")), &["validate", "cloud.yaml"], None);
        let printed = text(&output.stdout);
        assert!(output.status.code() == Some(1) && printed.contains(expected), "{expected}\n{printed}");
        assert!(!printed.contains("mismatched") && !printed.contains("Syntax error"), "{printed}");
    }
}

#[test]
fn integer_with_a_decimal_point_is_accepted() {
    let spec = "  nodes: {rollout: {pauseSeconds: 60.0}}\n  services: {mariadb: {external: {host: db, port: 3306.0}, credentials: {root: {name: a, key: b}}}}\n";
    let file = format!("{HEAD}{spec}");
    for arguments in [
        &["validate", "cloud.yaml"][..],
        &["plan", "--offline", "-f", "cloud.yaml"],
        &["render", "-f", "cloud.yaml", "keystone"],
        &["explain", "-f", "cloud.yaml", "keystone", "endpoints.oslo_db.port.mysql.default"],
        &["preset", "diff", "core", "compute", "-f", "cloud.yaml"],
    ] {
        let output = run(&file, arguments, None);
        assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    }
    let half = file.replace("60.0", "60.5");
    let expected = "cloud.yaml:7: error: spec.nodes.rollout.pauseSeconds: 60.5 is ";
    for arguments in [&["validate", "cloud.yaml"][..], &["plan", "--offline", "-f", "cloud.yaml"]] {
        let output = run(&half, arguments, None);
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.code() == Some(1) && printed.contains(expected), "{arguments:?}: {printed}");
    }
}

#[test]
fn ignores_fields_that_others_write() {
    let dumped = "metadata: {name: cloud, creationTimestamp: never, generation: x, ownerReferences: [1], uid: 5}";
    let file = HEAD.replace("metadata: {name: cloud}", dumped) + "status: {phase: 5}\n";
    for arguments in [&["validate", "cloud.yaml"][..], &["plan", "--offline", "-f", "cloud.yaml"]] {
        let output = run(&file, arguments, None);
        assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    }
}

#[test]
fn unreadable_input_exits_with_code_2() {
    let no_file = "there is no such file; name an existing one";
    for (arguments, expected) in [
        (&["plan", "--offline", "-f", "cloud.yaml", "--catalog", "nowhere"][..], "nowhere/values: "),
        (&["render", "-f", "cloud.yaml", "--catalog", "nowhere"], "nowhere/values: "),
        (&["explain", "-f", "cloud.yaml", "nova", "pod", "--catalog", "nowhere"], "nowhere/values: "),
        (&["catalog", "--catalog", "nowhere"], "nowhere/values: "),
        (&["crd", "--catalog", "nowhere"], "nowhere/values: "),
        (&["plan", "-f", "cloud.yaml", "--kubeconfig", "nowhere"], no_file),
        (&["status", "--kubeconfig", "nowhere"], no_file),
        (&["adopt", "--kubeconfig", "nowhere"], no_file),
        (&["charts", "list", "--charts", ".", "--lock", "nowhere"], no_file),
        (&["plan", "--offline", "-f", "cloud.yaml", "--charts", ".", "--lock", "nowhere"], no_file),
    ] {
        let output = run(HEAD, arguments, None);
        let stderr = text(&output.stderr);
        assert!(
            output.status.code() == Some(2) && stderr.contains(expected),
            "{arguments:?}: {:?} {stderr}",
            output.status
        );
    }
    for command in ["why", "wait"] {
        let output = run(HEAD, &[command, "--kubeconfig", "nowhere"], None);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{command}: an error must exit with 1, because 2 means that the cloud is not ready"
        );
    }
}
