//! The content of files: several documents, lists, kinds, duplicate names, `ConfigMap`s of the catalogue; and how files
//! are found.

use super::command::{SOUND, folder, validate};

/// Returns a `ConfigMap` with this label value that adds a preset.
fn addition(label: &str, preset: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: edge\n  labels: {{osdpl.dev/catalog: {label}}}\ndata:\n  presets.edge.yaml: |\n{preset}"
    )
}

#[test]
fn refuses_text_after_a_document_marker() {
    let (code, said, _) =
        validate(&[], &format!("{SOUND}--- {{kind: OpenStackDeployment, apiVersion: osdpl.dev/v1alpha1}}\n"));
    assert_eq!(code, 1, "{said}");
    assert!(
        said.starts_with(
            "stdin:5: error: there is text after ---, where kubectl accepts only a comment: move it to the next line; "
        ),
        "{said}"
    );
    assert_eq!(validate(&[], &format!("--- # mine\n{SOUND}---\n--- \n")).0, 0);
}

#[test]
fn suggests_fixes_for_almost_matching_documents() {
    let wrong = SOUND.replace("kind: OpenStackDeployment", "kind: OpenstackDeployment");
    let (code, said, _) = validate(&[], &format!("{SOUND}---\n{wrong}"));
    let kind = "stdin:7: error: kind: there is no kind \"OpenstackDeployment\" of osdpl, did you mean \"OpenStackDeployment\"?; there are OpenStackDeployment and NodeMaintenance: correct it [resource]\n";
    assert!(code == 1 && said.starts_with(kind), "{said}");
    let unversioned = SOUND.replace("apiVersion: osdpl.dev/v1alpha1\n", "").replace("[core]", "[core], regoin: x");
    let (code, said, _) = validate(&[], &unversioned);
    let version = "stdin:1: error: apiVersion: there is none, so that nobody knows what this is; write apiVersion: osdpl.dev/v1alpha1 [schema]\n";
    assert!(code == 1 && said.starts_with(version) && said.contains("regoin"), "the rest is judged as well: {said}");
    assert!(said.contains("1 resource validated: 2 errors"), "{said}");
}

#[test]
fn whole_number_with_a_point_is_valid() {
    let text = SOUND.replace("[core]", "[core, nope], nodes: {rollout: {pauseSeconds: 60.0}}");
    let (code, said, _) = validate(&[], &text);
    assert!(code == 1 && said.contains("there is no preset \"nope\"") && said.contains(": 1 error"), "{said}");
}

#[test]
fn checks_list_items_with_their_lines() {
    let list = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: osdpl.dev/v1alpha1\n  kind: OpenStackDeployment\n  metadata: {name: cloud}\n  spec:\n    openstackRelease: '2026.1'\n    presets: [core]\n    regoin: x\n";
    let (code, said, _) = validate(&[], list);
    assert!(
        code == 1 && said.starts_with("stdin:10: error: spec.regoin: ") && said.contains("1 resource validated"),
        "{said}"
    );
}

#[test]
fn reports_duplicate_names() {
    let (code, said, _) = validate(&[], &format!("{SOUND}---\n{SOUND}"));
    let told = "stdin:8: error: metadata.name: OpenStackDeployment cloud is already defined on line 3, and ";
    assert!(code == 1 && said.starts_with(told), "{said}");
    assert_eq!(validate(&[], &format!("{SOUND}---\n{}", SOUND.replace("cloud", "other"))).0, 0);
}

#[test]
fn locates_errors_in_config_maps() {
    let cloud = SOUND.replace("[core]", "[core], regoin: x");
    let (code, said, _) =
        validate(&[], &format!("{cloud}{}", addition("'true'", "    preset: edge\n    presset: x\n")));
    assert!(code == 1 && said.contains("stdin:4: error: spec.regoin: "), "{said}");
    assert!(said.contains("stdin:14: error: data.\"presets.edge.yaml\": key \"presets.edge.yaml\":2:"), "{said}");
    let (_, said, _) =
        validate(&["-o", "json"], &format!("{cloud}{}", addition("'true'", "    preset: edge\n    presset: x\n")));
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["findings"].as_array().unwrap().len(), 2, "{said}");
    let none = format!("{cloud}{}", addition("'true'", "    preset: edge\n"))
        .replace(": |\n    preset: edge", ": {preset: edge}");
    let (code, said, _) = validate(&[], &none);
    assert!(code == 1 && said.contains("stdin:4: error: spec.regoin: "), "{said}");
    assert!(
        said.contains("stdin:12: error: data.\"presets.edge.yaml\": must be a text; write `|` behind the key"),
        "{said}"
    );
}

#[test]
fn rule_findings_of_added_presets_have_locations() {
    let cloud = SOUND.replace("[core]", "[core, edge]");
    let values = "keystone: {values: {jobs: {fernet_rotate: {cron: one}, credential_rotate: {cron: two}}, pod: {replicas: {api: -3}}}}";
    let preset = format!(
        "    preset: edge\n    description: One.\n    fragments:\n    - releases:\n        {values}\n        mariadb: {{values: {{pod: {{replicas: {{server: 4}}}}}}}}\n"
    );
    let (code, said, _) = validate(&[], &format!("{cloud}{}", addition("'true'", &preset)));
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
        assert!(said.contains(&expected), "{expected}: {said}");
    }
    assert_eq!(code, 1, "{said}");
}

#[test]
fn checks_every_schedule_of_a_feature() {
    let cloud = SOUND.replace("[core]", "[core], features: {mine: {schedule: bad, name: x}}");
    let feature = "    feature: mine\n    description: Mine.\n    schema: {type: object, properties: {schedule: {type: string, maxLength: 20}, name: {type: string, maxLength: 9}}}\n    default: {schedule: '@daily', name: one}\n    fragments:\n    - releases:\n        keystone: {values: {jobs: {fernet_rotate: {cron: '${features.mine.schedule}'}, credential_rotate: {cron: worse}}}}\n";
    let addition = addition("'true'", feature).replace("presets.edge.yaml", "features.mine.yaml");
    let (_, said, _) = validate(&[], &format!("{cloud}{addition}"));
    let told: Vec<&str> = said.lines().filter(|line| line.ends_with("[cron]")).collect();
    assert_eq!(told.len(), 2, "{said}");
    let own = "stdin:4: error: spec.features.mine: ConfigMap openstack/edge, key features.mine.yaml (fragments[0]), jobs.credential_rotate.cron of keystone: \"worse\" is ";
    assert!(told[0].starts_with(own), "{said}");
    assert!(told[1].starts_with("stdin:4: error: spec.features.mine.schedule: \"bad\" is not a schedule: "), "{said}");
}

#[test]
fn reports_a_label_that_excludes_a_config_map() {
    let preset = "    preset: edge\n    description: One.\n";
    for label in ["true", "'yes'"] {
        let (code, said, _) = validate(&[], &format!("{SOUND}{}", addition(label, preset)));
        assert!(
            code == 1
                && said
                    .contains("stdin:10: error: metadata.labels.\"osdpl.dev/catalog\": must be \"true\", in quotes: "),
            "{said}"
        );
    }
    assert_eq!(validate(&[], &format!("{SOUND}{}", addition("'false'", preset))).0, 0);
}

#[test]
fn notes_missing_references_only() {
    let cloud = SOUND
        .replace("[core]", "[core], services: {nova: {releases: {nova: {valuesFrom: [{kind: Secret, name: more}]}}}}");
    let (code, said, _) = validate(&[], &cloud);
    let note = "note: stdin:1: not validated: Secret more, key values.yaml, which spec.services.nova.releases.nova.valuesFrom[0] names, is not in the file: its values are unknown\n";
    assert!(code == 0 && said.contains(note), "{said}");
    let secret = |name: &str| {
        format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{values.yaml: ''}}\n")
    };
    let (_, said, _) = validate(&[], &format!("{cloud}{}{}", secret("more"), secret("other")));
    assert!(said.starts_with("note: stdin:11: Secret is not validated\n1 resource validated"), "{said}");
}

#[test]
fn unreadable_files_fail_a_folder() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n";
    let (_folder, place) = folder(&[("chart.yaml", "{{ if .Values.x }}\na: [1\n"), ("map.yaml", map)]);
    let (code, said, _) = validate(&[&place], "");
    assert!(code == 1 && said.contains(&format!("{place}:1: error: there is no resource of osdpl")), "{said}");
}

#[test]
fn follows_links_once_and_reports_binary_files() {
    let (_folder, place) = folder(&[("a/cloud.yaml", SOUND), ("latin.txt", "")]);
    for link in ["b", "a/c"] {
        std::os::unix::fs::symlink(&place, format!("{place}/{link}")).unwrap();
    }
    let (code, said, _) = validate(&[&place], "");
    assert_eq!((code, said.as_str()), (0, "1 resource validated: 0 errors, 0 warnings\n"));
    std::fs::write(format!("{place}/latin.txt"), b"a: \xe9\n").unwrap();
    let (code, said, _) = validate(&[&format!("{place}/latin.txt")], "");
    assert!(code == 2 && said.contains(": it is not UTF-8 text; save it as UTF-8 [resource]\n"), "{said}");
}

#[test]
fn images_of_extra_objects_stay_in_a_moved_release() {
    let own = "services: {keystone: {releases: {keystone: {valuesFrom: [{kind: ConfigMap, name: pins}]}}}}}\nstatus: {openstackRelease: {deployed: '2025.2'}}";
    let cloud = SOUND.replace("[core]}", &format!("[core], {own}"));
    let map = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: pins}\ndata: {values.yaml: 'images: {tags: {keystone_api: a/b:c}}'}\n";
    let (code, said, _) = validate(&[], &format!("{cloud}{map}"));
    let told = "warning: spec.services.keystone.releases.keystone.valuesFrom[0]: the images of keystone_api in it are pinned, so that they do not change when spec.openstackRelease moves from 2025.2 to 2026.1; ";
    assert!(code == 1 && said.contains(told), "{said}");
    let (_, said, _) = validate(&[], &format!("{cloud}{}", map.replace("images:", "other:")));
    assert!(!said.contains("named outright"), "{said}");
}
