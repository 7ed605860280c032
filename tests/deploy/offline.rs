//! What commands make of a file where no cluster is asked: they judge it as the API server would, and look for no cluster that nobody named.

use std::process::{Command, Output};

use serde_json::Value;

const HEAD: &str = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud}\nspec:\n  openstackRelease: '2026.1'\n  presets: [core]\n";

/// A command on a file with this text, in a home without a kubeconfig.
fn run(text: &str, arguments: &[&str], kubeconfig: Option<&str>) -> Output {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("cloud.yaml"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    command.current_dir(home.path()).args(arguments).env("HOME", home.path());
    command.env_remove("OSDPL_CATALOG").env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST");
    command.envs(kubeconfig.map(|text| ("KUBECONFIG", text)));
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn what_the_api_server_would_refuse_is_no_plan_and_explains_nothing() {
    for (spec, told) in [
        ("  region: a b\n", "spec.region: "),
        ("  publicDomain: X_Y\n", "spec.publicDomain: "),
        ("  services:\n    nova:\n", "spec.services.nova: nothing stands here"),
    ] {
        let file = format!("{HEAD}{spec}");
        for arguments in
            [&["plan", "--offline", "-f", "cloud.yaml"][..], &["explain", "-f", "cloud.yaml", "nova", "pod"]]
        {
            let output = run(&file, arguments, None);
            let why = text(&output.stderr);
            assert!(!output.status.success() && output.stdout.is_empty() && why.contains(told), "{why}");
            assert!(why.contains("the resource is refused: 1 error"), "{why}");
        }
    }
}

#[test]
fn programs_are_told_the_findings_of_a_plan_too() {
    let file = format!(
        "{HEAD}  publicDomain: cloud.local\n  features: {{publicEndpoints: {{enabled: true, gateway: {{name: a, namespace: b}}}}}}\n"
    );
    let output = run(&file, &["plan", "--offline", "-f", "cloud.yaml", "-o", "json"], None);
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = &plan["findings"][0];
    assert_eq!(finding["level"], "warning", "{plan}");
    assert!(finding["message"].as_str().unwrap().starts_with("spec.publicDomain: "), "{finding}");
}

#[test]
fn what_has_another_type_hides_nothing_else_and_everything_has_its_line() {
    let file = format!("{HEAD}  region: 5\n  approval: automatic\n  services: {{novaa: {{}}}}\n")
        .replace("[core]", "[core, hA]");
    let commands: [&[&str]; 3] = [
        &["plan", "--offline", "-f", "cloud.yaml"],
        &["render", "-f", "cloud.yaml"],
        &["explain", "-f", "cloud.yaml", "nova", "pod"],
    ];
    for arguments in commands {
        let output = run(&file, arguments, None);
        let why = text(&output.stderr);
        for told in [
            "cloud.yaml:6: error: spec.presets[1]: there is no preset \"hA\", did you mean",
            "cloud.yaml:7: error: spec.region: 5 is a number, and a text is wanted; put it in quotes: \"5\"\n",
            "cloud.yaml:8: error: spec.approval: \"automatic\" is not one of ",
            "cloud.yaml:9: error: spec.services.novaa: there is no service \"novaa\", did you mean",
            "osdpl: the resource is refused: 4 error(s), each said above\n",
        ] {
            assert!(output.status.code() == Some(1) && why.contains(told), "{arguments:?}: {told}\n{why}");
        }
    }
    let output = run(&file, &["plan", "--offline", "-f", "cloud.yaml", "-o", "json"], None);
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), &plan["refused"], plan["findings"].as_array().unwrap().len()),
        (Some(1), &true.into(), 4)
    );
}

#[test]
fn another_version_and_a_kind_that_is_almost_ours_are_refused_as_validate_refuses_them() {
    let plan = ["plan", "--offline", "-f", "cloud.yaml"];
    for (file, told) in [
        (
            HEAD.replace("v1alpha1", "v1"),
            "cloud.yaml:1: error: apiVersion: there is no version \"osdpl.dev/v1\" of OpenStackDeployment; write osdpl.dev/v1alpha1",
        ),
        (
            HEAD.replace("OpenStackDep", "OpenstackDep"),
            "cloud.yaml:2: kind: there is no kind \"OpenstackDeployment\" of osdpl, did you mean \"OpenStackDeployment\"?",
        ),
    ] {
        let output = run(&file, &plan, None);
        let why = text(&output.stderr);
        assert!(output.status.code() == Some(1) && why.contains(told), "{why}");
    }
    let list = format!("apiVersion: v1\nkind: List\nitems:\n- {}", HEAD.trim_end().replace('\n', "\n  "));
    assert!(run(&list, &plan, None).status.success());
    let two = format!("{HEAD}---\n{}", HEAD.replace("{name: cloud}", "{name: other}"));
    let output = run(&two, &["plan", "--offline", "-f", "cloud.yaml", "other", "-o", "json"], None);
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown["name"], "other");
}

#[test]
fn a_file_that_can_not_be_read_ends_every_command_with_a_code_of_its_own() {
    let commands: [&[&str]; 4] = [
        &["plan", "--offline", "-f", "nowhere.yaml"],
        &["render", "-f", "nowhere.yaml"],
        &["explain", "-f", "nowhere.yaml", "nova", "pod"],
        &["plan", "--offline", "-f", "."],
    ];
    for arguments in commands {
        let output = run(HEAD, arguments, None);
        let why = text(&output.stderr);
        let told = ["there is no such file; name one that is there", "it is a folder; name a file in it"];
        assert!(output.status.code() == Some(2) && told.iter().any(|told| why.contains(told)), "{why}");
    }
    let output = run(HEAD, &["render", "-f", "cloud.yaml", "--out", "cloud.yaml"], None);
    assert!(text(&output.stderr).contains("making the folder cloud.yaml: a file stands there; name a folder"));
}

#[test]
fn an_empty_kubeconfig_is_as_good_as_none() {
    let output = run(HEAD, &["plan", "-f", "cloud.yaml"], Some(""));
    let why = text(&output.stderr);
    assert!(
        output.status.success() && why.contains("no cluster is configured: this is the plan of a new cloud"),
        "{why}"
    );
}

#[test]
fn a_file_that_names_no_namespace_is_in_the_one_that_is_asked_for() {
    let rendered = text(&run(HEAD, &["render", "-f", "cloud.yaml", "-n", "prod", "keystone"], None).stdout);
    assert!(rendered.contains("# keystone (prod/keystone, "), "{rendered}");
    let explain = ["explain", "-f", "cloud.yaml", "-n", "prod", "keystone", "endpoints.cluster_domain_suffix"];
    let output = run(HEAD, &explain, None);
    assert!(text(&output.stderr).is_empty(), "{}", text(&output.stderr));
    let own = HEAD.replace("{name: cloud}", "{name: cloud, namespace: here}");
    let output = run(&own, &["render", "-f", "cloud.yaml", "-n", "prod"], None);
    assert!(
        text(&output.stderr).contains("the resource is in namespace here, and -n says prod"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_wrong_expression_of_an_added_preset_is_told_where_it_stands() {
    let added = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: edge, labels: {osdpl.dev/catalog: 'true'}}\ndata:\n  presets.edge.yaml: |\n    preset: edge\n    description: One.\n    fragments:\n    - releases: {keystone: {values: {conf: {keystone: {DEFAULT: {debug: '${spec.regoin}'}}}}}}\n";
    let file = format!("{}{added}", HEAD.replace("[core]", "[core, edge]"));
    let output = run(&file, &["render", "-f", "cloud.yaml"], None);
    let why = text(&output.stderr);
    assert!(
        why.contains("ConfigMap openstack/edge, key presets.edge.yaml fragments[0].conf.keystone.DEFAULT.debug: "),
        "{why}"
    );
    assert!(why.contains("correct the expression"), "{why}");
}

#[test]
fn a_key_without_a_default_is_not_said_to_have_one_and_a_null_above_is_a_null() {
    let said = text(&run(HEAD, &["explain", "-f", "cloud.yaml", "nova", "conf.nova.nofoo.bar"], None).stdout);
    assert!(said.starts_with("nova conf.nova.nofoo.bar is set by no layer, and has no default\n"), "{said}");
    let file = format!("{HEAD}  common: {{openstack: {{values: {{pod: {{lifecycle: null}}}}}}}}\n");
    let explain = ["explain", "-f", "cloud.yaml", "nova", "pod.lifecycle.upgrades.deployments.revision_history"];
    let said = text(&run(&file, &explain, None).stdout);
    assert!(!said.contains("something that is no map"), "{said}");
    assert!(
        said.starts_with("nova pod.lifecycle.upgrades.deployments.revision_history is removed with what is above it"),
        "{said}"
    );
}

#[test]
fn a_mirror_reaches_the_images_that_charts_name_themselves() {
    let file = format!(
        "{HEAD}  images: {{mirrors: {{quay.io/airshipit: reg.example.org/osh}}}}\n  services: {{heat: {{releases: {{heat: {{version: 1.2.3}}}}}}}}\n"
    );
    let output = run(&file, &["explain", "-f", "cloud.yaml", "mariadb", "images.tags.dep_check"], None);
    let (said, why) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && said.contains("reg.example.org/osh/kubernetes-entrypoint:"), "{said}{why}");
    assert!(why.contains("not seen: the images that the charts of heat name themselves"), "{why}");
}

/// A kubeconfig of a cluster that does not answer.
const SILENT: &str = "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: a, user: {}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n";

#[test]
fn whatever_reads_a_file_says_of_one_that_is_misshapen_what_validate_says() {
    let file = HEAD.replace("v1alpha1", "v1").replace("[core]", "[corr]")
        + "  foo: 1\n  approval: maybe\n  services: {novaa: {}}\n";
    let lines = |said: &str| -> Vec<String> {
        let of_file = said.lines().filter(|line| line.contains("cloud.yaml:"));
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
        let said = lines(&text(&output.stderr));
        assert_eq!(said, known, "{arguments:?}");
        assert!(!output.status.success(), "{arguments:?}");
    }
    let cases = "file: cloud.yaml\ncases:\n- name: it is\n  expect: [{release: nova, wanted: true}]\n";
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("cloud.yaml"), &file).unwrap();
    std::fs::write(home.path().join("cases.yaml"), cases).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    let output = command.current_dir(home.path()).args(["test", "cases.yaml"]).output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.code() == Some(2) && known.iter().all(|line| said.contains(line)), "{said}");
}

#[test]
fn explain_tells_programs_what_is_wrong_with_a_file_as_validate_does() {
    let file = format!("{HEAD}  paused: maybe\n");
    let output = run(&file, &["explain", "-f", "cloud.yaml", "nova", "pod", "-o", "json"], None);
    let validated = run(&file, &["validate", "cloud.yaml", "-o", "json"], None);
    let [said, known] = [&output, &validated].map(|output| serde_json::from_slice::<Value>(&output.stdout).unwrap());
    assert_eq!((&said, output.status.code()), (&known, validated.status.code()));
    assert_eq!(said["findings"][0]["field"], "spec.paused");
    let unread = run("a: [\n", &["explain", "-f", "cloud.yaml", "nova", "pod", "-o", "json"], None);
    let said: Value = serde_json::from_slice(&unread.stdout).unwrap();
    assert_eq!((&said["findings"][0]["rule"], unread.status.code()), (&"yaml".into(), Some(1)), "{said}");
}

#[test]
fn the_plan_of_a_new_cloud_knows_the_images_of_the_charts_that_are_named() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let file = HEAD.replace("  presets: [core]\n", "  services: {keystone: {enabled: true}}\n")
        + &format!("  images: {{digests: {{'quay.io/airshipit/keystone:2062.1': '{digest}'}}}}\n");
    let charts = crate::path("tests/charts").display().to_string();
    let output = run(&file, &["plan", "--offline", "-f", "cloud.yaml", "--charts", &charts], None);
    let why = text(&output.stderr);
    let told = "cloud.yaml:7: warning: spec.images.digests[quay.io/airshipit/keystone:2062.1]: pins nothing: no release has the image quay.io/airshipit/keystone:2062.1, did you mean";
    assert!(output.status.success() && why.contains(told), "{why}");
    let known = run(
        &file.replace("2062.1", "2026.1-ubuntu_noble"),
        &["plan", "--offline", "-f", "cloud.yaml", "--charts", &charts],
        None,
    );
    assert!(known.status.success() && !text(&known.stderr).contains("pins nothing"), "{}", text(&known.stderr));
}

#[test]
fn help_is_as_wide_as_the_terminal_and_has_a_hint_for_a_slip() {
    let home = tempfile::tempdir().unwrap();
    let help = |columns: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
        let output = command.current_dir(home.path()).args(arguments).env("COLUMNS", columns).output().unwrap();
        text(&output.stdout) + &text(&output.stderr)
    };
    let widest = |columns| help(columns, &["help", "render"]).lines().map(|line| line.chars().count()).max();
    assert!(widest("60") < widest("100"), "{:?}", widest("60"));
    for arguments in [&["help", "validat"][..], &["validat"]] {
        let said = help("100", arguments);
        assert!(said.contains("a similar subcommand exists: 'validate'"), "{said}");
    }
    let said = help("100", &["help", "preset", "dif"]);
    assert!(said.contains("a similar subcommand exists: 'diff'"), "{said}");
}

#[test]
fn unknown_keys_of_a_plan_stand_each_on_its_own_line_as_validate_tells_them() {
    let values = "  services:\n    keystone:\n      releases:\n        keystone:\n          valuesFrom: [{kind: ConfigMap, name: more}]\n          values:\n            pod:\n              \
                  replicass: 1\n            jbs: {}\n";
    let more = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\ndata: {values.yaml: 'lables: {a: b}'}\n";
    let file = format!("{HEAD}{values}{more}");
    let output = run(&file, &["plan", "--offline", "-f", "cloud.yaml"], None);
    let why = text(&output.stderr);
    let own = "spec.services.keystone.releases.keystone";
    for told in [
        format!(
            "cloud.yaml:11: warning: {own}.valuesFrom[0].lables: the values of chart keystone have no lables, did you mean \"labels\"?: "
        ),
        format!(
            "cloud.yaml:14: warning: {own}.values.pod.replicass: the values of chart keystone have no pod.replicass, did you mean \"replicas\"?: "
        ),
        format!(
            "cloud.yaml:15: warning: {own}.values.jbs: the values of chart keystone have no jbs, did you mean \"jobs\"?: "
        ),
    ] {
        assert!(why.contains(&told), "{told}\n{why}");
    }
    let output = run(&file, &["plan", "--offline", "-f", "cloud.yaml", "-o", "json"], None);
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let fields = plan["findings"].as_array().unwrap().iter().filter_map(|finding| finding["field"].as_str());
    assert!(fields.into_iter().any(|field| field == format!("{own}.values.pod.replicass")), "{plan}");
}

#[test]
fn what_is_deployed_is_asked_by_whatever_reads_a_file() {
    let file = format!("{HEAD}status: {{openstackRelease: {{deployed: '2024.1'}}}}\n");
    for arguments in [
        &["plan", "--offline", "-f", "cloud.yaml"][..],
        &["render", "-f", "cloud.yaml", "--placeholders", "keystone"],
        &["validate", "cloud.yaml"],
    ] {
        let output = run(&file, arguments, None);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(
            said.contains("2024.1 is deployed, and moving to 2026.1 is not supported yet"),
            "{arguments:?}: {said}"
        );
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
}
