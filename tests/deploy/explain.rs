//! `osdpl explain` of the samples, offline.

use std::process::Command;

use serde_json::{Value, json};

use crate::{path, read};

/// What it prints, and whether it succeeds.
fn explain(sample: &str, words: &[&str]) -> (String, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    command.current_dir(path("")).args(["explain", "-f", &format!("deploy/samples/{sample}.yaml")]).args(words);
    let output = command.env_remove("KUBECONFIG").output().unwrap();
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    (String::from_utf8(text).unwrap(), output.status.success())
}

/// The line of the file on which a text stands first after another one.
fn line(file: &str, after: &str, text: &str) -> usize {
    let all = read(file);
    let start = all.find(after).unwrap();
    all[..start + all[start..].find(text).unwrap()].matches('\n').count() + 1
}

#[test]
fn a_preset_shadows_the_catalogue_and_both_are_named_with_their_lines() {
    let (text, success) = explain("ha", &["rabbitmq", "pod.replicas.server"]);
    let place = format!("presets/ha.yaml:{} (fragments[0])", line("presets/ha.yaml", "    rabbitmq:", "replicas"));
    assert!(success && text.starts_with("rabbitmq pod.replicas.server = 3\n"), "{text}");
    assert!(
        text.contains(&format!("  from     {place}\n")) && text.contains("why Galera and RabbitMQ decide"),
        "{text}"
    );
    assert!(text.ends_with("  chart    rabbitmq has the key (number), its default is 2\n"), "{text}");
}

#[test]
fn a_secret_says_where_it_comes_from_and_never_what_it_is() {
    let (text, success) = explain("minimal", &["endpoints.identity.auth.nova.password", "-o", "json"]);
    assert!(success, "{text}");
    let answers: Vec<Value> = serde_json::from_str(&text).unwrap();
    let nova = answers.iter().find(|answer| answer["release"] == "nova").unwrap();
    assert_eq!((&nova["value"], &nova["layers"][0]["value"]), (&json!("<redacted>"), &json!("<redacted>")));
    assert_eq!(nova["layers"][0]["expression"], "${credentials.nova.identity}");
    assert_eq!(nova["layers"][0]["source"], "Secret cloud-credentials-nova, key identity, made by the operator");
}

#[test]
fn what_ceph_says_is_named_as_ceph() {
    let (text, success) = explain("rook", &["glance", "conf.glance.rbd.rbd_store_user"]);
    assert!(success && text.contains("by ${ceph.glance.user}\n"), "{text}");
    assert!(text.contains("of the Ceph of spec.features.storage.ceph\n"), "{text}");
}

#[test]
fn the_resources_own_field_is_named_with_its_line_and_shadows_the_catalogue() {
    let own = read("deploy/samples/minimal.yaml").trim_end().to_owned()
        + "\n  common:\n    openstack:\n      values:\n        endpoints:\n          identity:\n            auth: {admin: {region_name: Here}}\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cloud.yaml");
    std::fs::write(&file, &own).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    command.current_dir(folder.path()).args(["explain", "-f", "cloud.yaml", "nova"]);
    let output = command.arg("endpoints.identity.auth.admin.region_name").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let place = format!("cloud.yaml:{} (spec.common.openstack.values)", own.lines().count());
    assert!(text.starts_with("nova endpoints.identity.auth.admin.region_name = \"Here\"\n"), "{text}");
    assert!(text.contains(&format!("  from     {place}\n")), "{text}");
    assert!(text.contains("  shadows  values/shared/endpoints.yaml:") && text.contains(" = \"RegionOne\"\n"), "{text}");
}

#[test]
fn what_is_removed_has_the_line_that_removes_it_and_not_even_the_default_holds_below() {
    let own = read("deploy/samples/minimal.yaml").trim_end().to_owned()
        + "\n  common:\n    openstack:\n      unset:\n      - pod.mounts\n      - pod.lifecycle\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cloud.yaml");
    std::fs::write(&file, &own).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    command.current_dir(folder.path()).args([
        "explain",
        "-f",
        "cloud.yaml",
        "nova",
        "pod.lifecycle.upgrades.deployments",
    ]);
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(
        text.starts_with("nova pod.lifecycle.upgrades.deployments is removed with what is above it, and"),
        "{text}"
    );
    let place = format!("cloud.yaml:{} (spec.common.openstack.unset[1])", own.lines().count());
    assert!(text.contains(&format!("  from     {place}\n")) && !text.contains("default holds"), "{text}");
}

#[test]
fn with_the_charts_at_hand_their_defaults_are_told() {
    let (text, success) = explain("minimal", &["nova", "network.backend", "--charts", "tests/charts"]);
    assert!(success && text.contains("nova has the key (list), its default is [\"openvswitch\"]"), "{text}");
}

#[test]
fn what_a_secret_gives_is_hidden_and_nothing_beside_it() {
    let own = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud, namespace: openstack}\nspec:\n  \
               openstackRelease: \"2026.1\"\n  presets: [core]\n  services: {keystone: {releases: {keystone: {\n    values: {conf: {keystone: {DEFAULT: {debug: true}}}},\n    \
               valuesFrom: [{kind: Secret, name: extra, key: values.yaml}]}}}}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: extra, namespace: openstack}\n\
               stringData: {values.yaml: \"conf: {keystone: {mine: {size: hunter2}}}\"}\n";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cloud.yaml"), own).unwrap();
    let explain = |path: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
        command.current_dir(folder.path()).args(["explain", "-f", "cloud.yaml", "keystone", path]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(explain("conf.keystone.DEFAULT.debug").starts_with("keystone conf.keystone.DEFAULT.debug = true\n"));
    let whole = explain("conf.keystone");
    assert!(whole.contains("    mine:\n      size: <redacted>\n") && !whole.contains("hunter2"), "{whole}");
    assert!(whole.contains("  over     Secret extra, key values.yaml (") && !whole.contains("shadows"), "{whole}");
}

#[test]
fn a_value_is_explained_though_another_is_refused() {
    let cron = "keystone: {releases: {keystone: {values: {jobs: {fernet_rotate: {cron: '0 24 * * *'}}}}}}";
    let own = read("deploy/samples/minimal.yaml")
        .replace("heat: {enabled: true}", &format!("heat: {{enabled: true}}, {cron}"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cloud.yaml"), &own).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    command.current_dir(folder.path()).args(["explain", "-f", "cloud.yaml", "rabbitmq", "pod.replicas.server"]);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.starts_with("rabbitmq pod.replicas.server = 1\n"), "{text}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "note: the resource is refused: 1 error(s), which `osdpl validate` tells\n");
}

#[test]
fn a_short_default_of_the_chart_is_known_offline() {
    let (text, success) = explain("minimal", &["keystone", "conf.keystone.token.expiration"]);
    let default = "  chart    keystone has the key (number), its default is 43200\n";
    assert!(
        success && text.contains("is set by no layer: the chart's default holds\n") && text.ends_with(default),
        "{text}"
    );
}

#[test]
fn a_default_that_is_a_list_or_a_map_is_told_offline_as_far_as_it_is_known() {
    let default = |path: &str| {
        let (text, success) = explain("minimal", &["keystone", path]);
        assert!(success, "{text}");
        text.split_once("  chart    keystone ").unwrap().1.to_owned()
    };
    let whole = default("conf.keystone.oslo_messaging_notifications");
    assert_eq!(whole, "has the key (map), its default:\n    driver: messagingv2\n");
    let list = default("conf.logging.handlers.keys");
    assert_eq!(
        list,
        "has the key (list), its default in outline (--charts shows it whole):\n    - stdout\n    - stderr\n    - \"null\"\n"
    );
    // What a text says that is long is in the chart alone.
    let script = default("bootstrap");
    assert!(script.contains(" whole):\n    enabled: ") && script.contains("\n    script: <string>\n"), "{script}");
    assert!(default("conf").ends_with(" more lines, which --output json has\n"));
    assert_eq!(default("bootstrap.script"), "has the key (string)\n");
    let (json, _) = explain("minimal", &["keystone", "conf.keystone.database", "-o", "json"]);
    let answers: Vec<Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(answers[0]["chart"]["default"], json!({"connection": "", "max_retries": -1}));
}

#[test]
fn a_chart_of_another_version_is_judged_by_its_own_files_alone() {
    let own = read("deploy/samples/minimal.yaml")
        .replace("heat: {enabled: true}", "heat: {enabled: true}, nova: {releases: {nova: {version: 2026.1.0}}}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cloud.yaml"), &own).unwrap();
    let explain = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
        command.current_dir(folder.path()).args(["explain", "-f", "cloud.yaml", "nova", "network.backends"]);
        let output = command.args(more).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.success())
    };
    let (text, success) = explain(&[]);
    assert!(
        success && text.contains("nova its keys in version 2026.1.0 are not known here (name its folder"),
        "{text}"
    );
    let (text, success) = explain(&["--charts", &path("tests/charts").to_string_lossy()]);
    assert!(!success && text.contains("nova has no such key, did you mean \"backend\"?"), "{text}");
}

#[test]
fn a_key_that_no_chart_knows_fails_with_the_nearest_name() {
    let (text, success) = explain("minimal", &["nova", "podd.replicas"]);
    assert!(!success && text.contains("chart    nova has no such key, did you mean \"pod\"?"), "{text}");
    let (text, success) = explain("minimal", &["podd.replicas"]);
    assert!(!success && text.contains("no layer sets podd.replicas of any release"), "{text}");
    let (text, success) = explain("minimal", &["nva", "pod.replicas"]);
    assert!(!success && text.contains("there is no release \"nva\" in this cloud, did you mean \"nova\"?"), "{text}");
    let (text, success) = explain("minimal", &["nova", "pod..replicas"]);
    assert!(!success && text.contains("is not a valid path: a key is empty"), "{text}");
}

#[test]
fn what_holds_on_some_nodes_alone_is_told_with_the_nodes_and_its_line() {
    let own = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud, namespace: openstack}\nspec:\n  openstackRelease: \"2026.1\"\n  \
               presets: [core]\n  services: {nova: {releases: {nova: {values: {conf: {nova: {libvirt: {cpu_mode: none}}}}}}}}\n  nodes:\n    overrides:\n    - name: one\n      \
               nodes: [n2, n1]\n      releases: {nova: {values: {conf: {nova: {libvirt: {cpu_mode: custom}}}}}}\n    - name: two\n      selector: {matchLabels: {rack: \
               a}}\n      releases: {nova: {values: {conf: {nova: {libvirt: {my_password: hunter2}}}}}}\n";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cloud.yaml"), own).unwrap();
    let explain = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
        command.current_dir(folder.path()).env_remove("KUBECONFIG").args(["explain", "-f", "cloud.yaml"]).args(words);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let mode = explain(&["nova", "conf.nova.libvirt.cpu_mode"]);
    assert!(mode.starts_with("nova conf.nova.libvirt.cpu_mode = \"none\"\n"), "{mode}");
    let line = "  on nodes n1, n2 = \"custom\", from cloud.yaml:12 (spec.nodes.overrides[0].releases.nova.values)\n";
    assert!(mode.contains(line), "{mode}");
    let hidden = explain(&["conf.nova.libvirt.my_password"]);
    assert!(
        hidden.starts_with("nova conf.nova.libvirt.my_password is set for some nodes alone, and has no default\n"),
        "{hidden}"
    );
    assert!(
        hidden.contains("  on nodes rack in (a) = \"<redacted>\", from cloud.yaml:15 (spec.nodes.overrides[1]"),
        "{hidden}"
    );
    let json: Vec<Value> =
        serde_json::from_str(&explain(&["nova", "conf.nova.libvirt.cpu_mode", "-o", "json"])).unwrap();
    assert_eq!((&json[0]["nodes"][0]["nodes"], &json[0]["nodes"][0]["value"]), (&json!("n1, n2"), &json!("custom")));
}

#[test]
fn an_entry_of_a_list_is_not_said_to_be_set_by_nobody() {
    let (text, success) = explain("minimal", &["nova", "network.backend[0]"]);
    let said = "osdpl: network.backend[0] is an entry of a list, and helm takes lists whole, so that none of an entry is told: ask for network.backend\n";
    assert!(!success && text == said, "{text}");
}
