//! What one command says another says alike: places of findings, whole numbers, exit codes, what is wrong with expressions.

use serde_json::Value;

use super::offline::{HEAD, run, text};

/// A preset that someone added, beside a resource that names it.
fn with_preset(values: &str) -> String {
    let preset = format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: edge, labels: {{osdpl.dev/catalog: 'true'}}}}\ndata:\n  presets.edge.yaml: |\n    preset: edge\n    \
         description: One.\n    fragments:\n    - releases: {{keystone: {{values: {values}}}}}\n"
    );
    HEAD.replace("[core]", "[core, edge]") + &preset
}

fn json(text: &str, arguments: &[&str]) -> Value {
    let output = run(text, arguments, None);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", self::text(&output.stderr)))
}

/// What programs are told of each finding by both `validate` and other commands.
fn told(findings: &Value) -> Vec<Value> {
    let known = ["file", "line", "level", "field", "message"];
    let told = |finding: &Value| known.map(|key| finding[key].clone()).into_iter().collect();
    let mut all: Vec<Value> = findings.as_array().unwrap().iter().map(told).collect();
    all.sort_by_key(ToString::to_string);
    all
}

#[test]
fn a_plan_tells_programs_of_each_finding_what_validate_tells() {
    for spec in [
        "  publicDomain: cloud.local\n  services: {glance: {releases: {glance: {values: {storag: x}}}}}\n",
        "  paused: maybe\n",
    ] {
        let file = format!("{HEAD}{spec}");
        let plan = json(&file, &["plan", "--offline", "-f", "cloud.yaml", "-o", "json"]);
        let validated = json(&file, &["validate", "cloud.yaml", "-o", "json"]);
        assert!(!told(&plan["findings"]).is_empty(), "{plan}");
        assert_eq!(told(&plan["findings"]), told(&validated["findings"]));
    }
    let file = format!("{HEAD}  services: {{glance: {{releases: {{glance: {{values: {{storag: x}}}}}}}}}}\n");
    let compared = json(&file, &["preset", "diff", "single", "core", "-f", "cloud.yaml", "-o", "json"]);
    let finding = &compared["findings"][0];
    assert_eq!((&finding["file"], finding["line"].as_u64()), (&"cloud.yaml".into(), Some(7)), "{compared}");
}

#[test]
fn a_file_of_which_nothing_can_be_made_is_told_programs_in_json() {
    let file = with_preset("{a: '${spec +}'}");
    let validated = json(&file, &["validate", "cloud.yaml", "-o", "json"]);
    assert_eq!(validated["findings"][1]["resource"], "ConfigMap openstack/edge", "{validated}");
    for arguments in [
        &["explain", "-f", "cloud.yaml", "nova", "pod", "-o", "json"][..],
        &["plan", "--offline", "-f", "cloud.yaml", "-o", "json"],
    ] {
        let output = run(&file, arguments, None);
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told(&said["findings"]), told(&validated["findings"]), "{arguments:?}");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(text(&output.stderr).contains("ConfigMap openstack/edge: key \"presets.edge.yaml\""), "{arguments:?}");
    }
}

#[test]
fn what_is_wrong_with_an_expression_of_an_added_preset_is_told_in_our_words() {
    for (expression, told) in [
        (
            "${spec +}",
            "`spec +` is not a valid CEL expression: column 7: a value is lacking after `+`; write one, or take `+` out",
        ),
        ("${spec.a = 1}", "`spec.a = 1` is not a valid CEL expression: column 8: `=` compares nothing; write =="),
        (
            "${size(spec}",
            "`size(spec` is not a valid CEL expression: column 5: `(` is not closed; write ) where it ends",
        ),
    ] {
        let output = run(&with_preset(&format!("{{a: '{expression}'}}")), &["validate", "cloud.yaml"], None);
        let said = text(&output.stdout);
        assert!(output.status.code() == Some(1) && said.contains(told), "{told}\n{said}");
        assert!(!said.contains("mismatched") && !said.contains("Syntax error"), "{said}");
    }
}

#[test]
fn a_whole_number_with_a_point_is_one_to_whatever_reads_a_file() {
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
    let told = "cloud.yaml:7: error: spec.nodes.rollout.pauseSeconds: 60.5 is ";
    for arguments in [&["validate", "cloud.yaml"][..], &["plan", "--offline", "-f", "cloud.yaml"]] {
        let output = run(&half, arguments, None);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(told), "{arguments:?}: {said}");
    }
}

#[test]
fn what_others_write_into_a_resource_is_nobodys_mistake() {
    let dumped = "metadata: {name: cloud, creationTimestamp: never, generation: x, ownerReferences: [1], uid: 5}";
    let file = HEAD.replace("metadata: {name: cloud}", dumped) + "status: {phase: 5}\n";
    for arguments in [&["validate", "cloud.yaml"][..], &["plan", "--offline", "-f", "cloud.yaml"]] {
        let output = run(&file, arguments, None);
        assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    }
}

#[test]
fn whatever_can_not_be_read_ends_a_command_with_a_code_of_its_own() {
    let no_file = "there is no such file; name an existing one";
    for (arguments, told) in [
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
        let why = text(&output.stderr);
        assert!(output.status.code() == Some(2) && why.contains(told), "{arguments:?}: {:?} {why}", output.status);
    }
    for command in ["why", "wait"] {
        let output = run(HEAD, &[command, "--kubeconfig", "nowhere"], None);
        assert_eq!(output.status.code(), Some(1), "code 2 says something of the cloud there");
    }
}
