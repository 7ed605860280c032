//! Checks which files and documents `osdpl validate` reads, and what it reports about wrong kinds, duplicate names, and
//! `ConfigMap`s that add to the catalogue.

use super::command::{VALID, folder, validate};

/// Returns the `ConfigMap` edge with a preset. If a resource names this `ConfigMap` in `spec.catalog`, the preset
/// becomes a part of the catalogue.
fn addition(preset: &str) -> String {
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: edge\ndata:\n  presets.edge.yaml: |\n{preset}")
}

/// Returns [`VALID`] with a `spec.catalog` that names the `ConfigMap` edge. The text `spec` follows `[core` in the list
/// of presets. So `spec` must contain the closing bracket of this list, and may contain further fields of the spec
/// after it.
fn naming_edge(spec: &str) -> String {
    VALID.replace("[core]", &format!("[core{spec}, catalog: [{{name: edge}}]"))
}

#[test]
fn refuses_text_after_a_document_marker() {
    let (code, stdout, _) =
        validate(&[], &format!("{VALID}--- {{kind: OpenStackDeployment, apiVersion: osdpl.dev/v1alpha1}}\n"));
    assert_eq!(code, 1, "{stdout}");
    assert!(
        stdout.starts_with(
            "stdin:5: error: there is text after ---, where kubectl accepts only a comment: move it to the next line; "
        ),
        "{stdout}"
    );
    assert_eq!(validate(&[], &format!("--- # mine\n{VALID}---\n--- \n")).0, 0);
}

#[test]
fn suggests_fixes_for_almost_matching_documents() {
    let wrong = VALID.replace("kind: OpenStackDeployment", "kind: OpenstackDeployment");
    let (code, stdout, _) = validate(&[], &format!("{VALID}---\n{wrong}"));
    let kind = "stdin:7: error: kind: there is no kind \"OpenstackDeployment\" of osdpl (did you mean \"OpenStackDeployment\"?); choose from OpenStackDeployment and NodeMaintenance [resource]\n";
    assert!(code == 1 && stdout.starts_with(kind), "{stdout}");
    let unversioned = VALID.replace("apiVersion: osdpl.dev/v1alpha1\n", "").replace("[core]", "[core], regoin: x");
    let (code, stdout, _) = validate(&[], &unversioned);
    let version = "stdin:1: error: apiVersion: is required; write apiVersion: osdpl.dev/v1alpha1 [schema]\n";
    assert!(
        code == 1 && stdout.starts_with(version) && stdout.contains("regoin"),
        "osdpl must validate the spec even if the resource has no apiVersion: {stdout}"
    );
    assert!(stdout.contains("1 resource validated: 2 errors"), "{stdout}");
}

#[test]
fn whole_number_with_a_point_is_valid() {
    let text = VALID.replace("[core]", "[core, nope], nodes: {rollout: {pauseSeconds: 60.0}}");
    let (code, stdout, _) = validate(&[], &text);
    assert!(code == 1 && stdout.contains("there is no preset \"nope\"") && stdout.contains(": 1 error"), "{stdout}");
}

#[test]
fn checks_list_items_with_their_lines() {
    let list = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: osdpl.dev/v1alpha1\n  kind: OpenStackDeployment\n  metadata: {name: cloud}\n  spec:\n    openstackRelease: '2026.1'\n    presets: [core]\n    regoin: x\n";
    let (code, stdout, _) = validate(&[], list);
    assert!(
        code == 1 && stdout.starts_with("stdin:10: error: spec.regoin: ") && stdout.contains("1 resource validated"),
        "{stdout}"
    );
}

#[test]
fn reports_duplicate_names() {
    let (code, stdout, _) = validate(&[], &format!("{VALID}---\n{VALID}"));
    let expected = "stdin:8: error: metadata.name: OpenStackDeployment cloud is already defined on line 3, and ";
    assert!(code == 1 && stdout.starts_with(expected), "{stdout}");
    assert_eq!(validate(&[], &format!("{VALID}---\n{}", VALID.replace("cloud", "other"))).0, 0);
}

#[test]
fn locates_errors_in_config_maps() {
    let cloud = naming_edge("], regoin: x");
    let (code, stdout, _) = validate(&[], &format!("{cloud}{}", addition("    preset: edge\n    presset: x\n")));
    assert!(code == 1 && stdout.contains("stdin:4: error: spec.regoin: "), "{stdout}");
    assert!(stdout.contains("stdin:13: error: data.\"presets.edge.yaml\": key \"presets.edge.yaml\":2:"), "{stdout}");
    let (_, stdout, _) =
        validate(&["-o", "json"], &format!("{cloud}{}", addition("    preset: edge\n    presset: x\n")));
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["findings"].as_array().unwrap().len(), 2, "{stdout}");
    let none =
        format!("{cloud}{}", addition("    preset: edge\n")).replace(": |\n    preset: edge", ": {preset: edge}");
    let (code, stdout, _) = validate(&[], &none);
    assert!(code == 1 && stdout.contains("stdin:4: error: spec.regoin: "), "{stdout}");
    assert!(
        stdout.contains(
            "stdin:4: error: spec.catalog[0].name: ConfigMap openstack/edge can't be read: key \"presets.edge.yaml\" \
             must be a string; write `|` after the key"
        ),
        "{stdout}"
    );
}

#[test]
fn rule_findings_of_added_presets_have_locations() {
    let cloud = naming_edge(", edge]");
    let values = "keystone: {values: {jobs: {fernet_rotate: {cron: one}, credential_rotate: {cron: two}}, pod: {replicas: {api: -3}}}}";
    let preset = format!(
        "    preset: edge\n    description: One.\n    fragments:\n    - releases:\n        {values}\n        mariadb: {{values: {{pod: {{replicas: {{server: 4}}}}}}}}\n"
    );
    let (code, stdout, _) = validate(&[], &format!("{cloud}{}", addition(&preset)));
    let at = ": spec.presets: ConfigMap openstack/edge, key presets.edge.yaml (fragments[0])";
    for expected in [
        format!(
            "stdin:4: error{at}, jobs.fernet_rotate.cron of keystone: \"one\" is not a schedule: it has 1 fields, not 5; "
        ),
        format!(
            "stdin:4: error{at}, jobs.credential_rotate.cron of keystone: \"two\" is not a schedule: it has 1 fields, not 5; "
        ),
        format!("stdin:4: error{at}, pod.replicas.api of keystone: -3 is not a number of pods: "),
        format!("stdin:4: warning{at}: pod.replicas.server of mariadb is 4: an even number of database servers "),
    ] {
        assert!(stdout.contains(&expected), "{expected}: {stdout}");
    }
    assert_eq!(code, 1, "{stdout}");
}

#[test]
fn checks_every_schedule_of_a_feature() {
    let cloud = naming_edge("], features: {mine: {schedule: bad, name: x}}");
    let feature = "    feature: mine\n    description: Mine.\n    schema: {type: object, properties: {schedule: {type: string, maxLength: 20}, name: {type: string, maxLength: 9}}}\n    default: {schedule: '@daily', name: one}\n    fragments:\n    - releases:\n        keystone: {values: {jobs: {fernet_rotate: {cron: '${features.mine.schedule}'}, credential_rotate: {cron: worse}}}}\n";
    let addition = addition(feature).replace("presets.edge.yaml", "features.mine.yaml");
    let (_, stdout, _) = validate(&[], &format!("{cloud}{addition}"));
    let findings: Vec<&str> = stdout.lines().filter(|line| line.ends_with("[cron]")).collect();
    assert_eq!(findings.len(), 2, "{stdout}");
    let own = "stdin:4: error: spec.features.mine: ConfigMap openstack/edge, key features.mine.yaml (fragments[0]), jobs.credential_rotate.cron of keystone: \"worse\" is ";
    assert!(findings[0].starts_with(own), "{stdout}");
    assert!(
        findings[1].starts_with("stdin:4: error: spec.features.mine.schedule: \"bad\" is not a schedule: "),
        "{stdout}"
    );
}

#[test]
fn only_named_config_maps_add_to_the_catalogue() {
    let map = addition("    preset: edge\n    description: One.\n");
    assert_eq!(validate(&["--strict"], &format!("{}{map}", naming_edge(", edge]"))).0, 0);
    let (code, stdout, _) = validate(&["--strict"], &format!("{VALID}{map}"));
    let warning = "stdin:9: warning: metadata.name: no resource names this ConfigMap, so it adds nothing to the catalogue; add {name: edge} to spec.catalog of the resource, or remove the ConfigMap [catalogue]\n";
    assert!(code == 1 && stdout.starts_with(warning), "{stdout}");
    let (code, stdout, _) = validate(&[], &format!("{}{map}", VALID.replace("[core]", "[core, edge]")));
    assert!(code == 1 && stdout.contains("there is no preset \"edge\""), "{stdout}");
    let note = "note: stdin:1: ConfigMap openstack/edge, which spec.catalog[0].name references, is not in the file, so its content is not known\n";
    let (code, stdout, _) = validate(&[], &naming_edge("]"));
    assert!(code == 0 && stdout.contains(note), "{stdout}");
    let elsewhere = map.replace("  name: edge\n", "  name: edge\n  namespace: other\n");
    let (_, stdout, _) = validate(&[], &format!("{}{elsewhere}", naming_edge("]")));
    assert!(stdout.contains(note), "osdpl must ignore a ConfigMap in another namespace: {stdout}");
}

#[test]
fn each_resource_has_only_the_additions_that_it_names() {
    let map = addition("    preset: edge\n    description: One.\n");
    let (named, unnamed) = (naming_edge(", edge]"), VALID.replace("cloud", "other").replace("[core]", "[core, edge]"));
    let (code, stdout, _) = validate(&[], &format!("{named}---\n{unnamed}{map}"));
    let error = "stdin:9: error: spec.presets[1]: there is no preset \"edge\"";
    assert!(code == 1 && stdout.starts_with(error) && stdout.contains(": 1 error, "), "{stdout}");
}

#[test]
fn digest_must_match_the_content() {
    let map = addition("    preset: edge\n    description: One.\n");
    let with = |digest: &str| {
        let cloud = naming_edge("]").replace("{name: edge}", &format!("{{name: edge, digest: '{digest}'}}"));
        validate(&[], &format!("{cloud}{map}"))
    };
    let (code, stdout, _) = with(&format!("sha256:{}", "0".repeat(64)));
    let error = "stdin:4: error: spec.catalog[0].digest: ConfigMap openstack/edge has the digest ";
    assert!(code == 1 && stdout.starts_with(error), "{stdout}");
    let found = stdout.strip_prefix(error).and_then(|rest| rest.split(',').next()).unwrap();
    assert_eq!(with(found).0, 0, "{found}");
}

#[test]
fn notes_missing_references_only() {
    let cloud = VALID
        .replace("[core]", "[core], services: {nova: {releases: {nova: {valuesFrom: [{kind: Secret, name: more}]}}}}");
    let (code, stdout, _) = validate(&[], &cloud);
    let note = "note: stdin:1: Secret more, key values.yaml, which spec.services.nova.releases.nova.valuesFrom[0] references, is not in the file, so its values are not validated\n";
    assert!(code == 0 && stdout.contains(note), "{stdout}");
    let secret = |name: &str| {
        format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{values.yaml: ''}}\n")
    };
    let (_, stdout, _) = validate(&[], &format!("{cloud}{}{}", secret("more"), secret("other")));
    assert!(stdout.starts_with("note: stdin:11: Secret is not validated\n1 resource validated"), "{stdout}");
}

#[test]
fn unreadable_files_fail_a_folder() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n";
    let (_folder, path) = folder(&[("chart.yaml", "{{ if .Values.x }}\na: [1\n"), ("map.yaml", map)]);
    let (code, stdout, _) = validate(&[&path], "");
    assert!(code == 1 && stdout.contains(&format!("{path}:1: error: there is no resource of osdpl")), "{stdout}");
}

#[test]
fn follows_links_once_and_reports_binary_files() {
    let (_folder, path) = folder(&[("a/cloud.yaml", VALID), ("latin.txt", "")]);
    for link in ["b", "a/c"] {
        std::os::unix::fs::symlink(&path, format!("{path}/{link}")).unwrap();
    }
    let (code, stdout, _) = validate(&[&path], "");
    assert_eq!((code, stdout.as_str()), (0, "1 resource validated: 0 errors, 0 warnings\n"));
    std::fs::write(format!("{path}/latin.txt"), b"a: \xe9\n").unwrap();
    let (code, stdout, _) = validate(&[&format!("{path}/latin.txt")], "");
    assert!(code == 2 && stdout.contains(": it is not UTF-8 text; save it as UTF-8 [resource]\n"), "{stdout}");
}

#[test]
fn warns_about_pinned_images_in_config_maps() {
    let own = "services: {keystone: {releases: {keystone: {valuesFrom: [{kind: ConfigMap, name: pins}]}}}}}\nstatus: {openstackRelease: {deployed: '2025.2'}}";
    let cloud = VALID.replace("[core]}", &format!("[core], {own}"));
    let map = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: pins}\ndata: {values.yaml: 'images: {tags: {keystone_api: a/b:c}}'}\n";
    let (code, stdout, _) = validate(&[], &format!("{cloud}{map}"));
    let expected = "warning: spec.services.keystone.releases.keystone.valuesFrom[0]: the images of keystone_api in this object are pinned, so they do not change when spec.openstackRelease moves from 2025.2 to 2026.1; ";
    assert!(code == 1 && stdout.contains(expected), "{stdout}");
    let (_, stdout, _) = validate(&[], &format!("{cloud}{}", map.replace("images:", "other:")));
    assert!(!stdout.contains("are pinned"), "{stdout}");
}
