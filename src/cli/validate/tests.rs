use serde_json::json;

use super::*;
use osdpl_core::observed::ClusterInfo;
use osdpl_lint::validate::split_documents;

const TWO: &str = "# a comment\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n---\napiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\n\
                   metadata:\n  name: cloud\nspec:\n  openstackRelease: \"2026.1\"\n  presets: [core, hA]\n  regoin: RegionOne\n--- # the next\n\
                   apiVersion: osdpl.dev/v1alpha1\nkind: NodeMaintenance\nmetadata: {name: one}\nspec:\n  node: n1\n  parallelMigrations: 99\n\
                   ---\nkind: OpenStackDeployment\napiVersion: osdpl.dev/v1alpha1\nspec: {a: 1, a: 2}\n";

fn reported(text: &str) -> Report {
    let option = CatalogOption { catalog: None };
    option.validate(&split_documents("two.yaml", text), &ClusterInfo::default()).unwrap()
}

#[test]
fn validates_every_document_and_notes_other_kinds() {
    let text = text::format(&reported(TWO));
    let lines: Vec<&str> = text.lines().collect();
    let begins = [
        "two.yaml:12: error: spec.presets[1]: there is no preset \"hA\" (did you mean \"ha\"?)",
        "two.yaml:13: error: spec.regoin: there is no such field (did you mean \"region\"?); correct it, or remove it [field]",
        "two.yaml:20: error: spec.parallelMigrations: 99 is too large; write a whole number from 1 to 32 [schema]",
        "two.yaml:24: error: duplicate mapping key: a; correct the YAML [yaml]",
        "note: two.yaml:1: ConfigMap is not validated",
        "2 resources validated: 4 errors, 0 warnings",
    ];
    assert_eq!(lines.len(), begins.len(), "{text}");
    for (line, begin) in lines.iter().zip(begins) {
        assert!(line.starts_with(begin), "{line}\n{begin}");
    }
}

#[test]
fn json_has_rule_and_location_of_findings() {
    let report = serde_json::to_value(reported(TWO)).unwrap();
    assert_eq!(report["summary"], json!({"resources": 2, "errors": 4, "warnings": 0}));
    let second = json!({"file": "two.yaml", "line": 13, "level": "error", "rule": "field", "resource": "OpenStackDeployment cloud",
                        "field": "spec.regoin", "message": "there is no such field (did you mean \"region\"?)", "remedy": "correct it, or remove it"});
    assert_eq!(report["findings"][1], second);
}

#[test]
fn sarif_describes_rules_and_escapes_file_names() {
    let mut report = reported(TWO);
    report.findings[0].location.source.as_mut().unwrap().file = "./my cloud.yaml".into();
    let log = sarif::log(&report);
    let run = &log["runs"][0];
    assert_eq!((&log["version"], &run["tool"]["driver"]["name"]), (&json!("2.1.0"), &json!("osdpl")));
    for result in run["results"].as_array().unwrap() {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(run["tool"]["driver"]["rules"][index]["id"], result["ruleId"]);
    }
    let location = &run["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(*location, json!({"artifactLocation": {"uri": "my%20cloud.yaml"}, "region": {"startLine": 12}}));
}

#[test]
fn reports_nothing_for_a_valid_resource() {
    let text = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud}\nspec: {openstackRelease: '2026.1', presets: [core]}\n";
    assert_eq!(text::format(&reported(text)), "1 resource validated: 0 errors, 0 warnings\n");
}
