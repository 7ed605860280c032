//! Checks commands that read a file and need no cluster: they validate the file like the API server, and do not connect
//! to a cluster.

use std::process::{Command, Output};

use serde_json::Value;

pub const HEAD: &str = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud}\nspec:\n  openstackRelease: '2026.1'\n  presets: [core]\n";

/// Runs osdpl in a temporary home folder that contains `cloud.yaml` with this text. `kubeconfig` is the value of the
/// variable `KUBECONFIG`; with `None`, no cluster is configured.
pub fn run(text: &str, arguments: &[&str], kubeconfig: Option<&str>) -> Output {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("cloud.yaml"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    command.current_dir(home.path()).args(arguments).env("HOME", home.path());
    command.env_remove("OSDPL_CATALOG").env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST");
    command.envs(kubeconfig.map(|text| ("KUBECONFIG", text)));
    command.output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn refused_resources_are_neither_planned_nor_explained() {
    for (spec, expected) in [
        ("  region: a b\n", "spec.region: "),
        ("  publicDomain: X_Y\n", "spec.publicDomain: "),
        ("  services:\n    nova:\n", "spec.services.nova: the value is null"),
    ] {
        let file = format!("{HEAD}{spec}");
        for arguments in
            [&["plan", "--offline", "-f", "cloud.yaml"][..], &["explain", "-f", "cloud.yaml", "nova", "pod"]]
        {
            let output = run(&file, arguments, None);
            let stderr = text(&output.stderr);
            assert!(!output.status.success() && output.stdout.is_empty() && stderr.contains(expected), "{stderr}");
            assert!(stderr.contains("the resource is refused: 1 error"), "{stderr}");
        }
    }
}

#[test]
fn plan_findings_are_in_json() {
    let file = format!(
        "{HEAD}  publicDomain: cloud.local\n  features: {{publicEndpoints: {{enabled: true, gateway: {{name: a, namespace: b}}}}}}\n"
    );
    let output = run(&file, &["plan", "--offline", "-f", "cloud.yaml", "-o", "json"], None);
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = &plan["findings"][0];
    assert_eq!(finding["level"], "warning", "{plan}");
    assert_eq!((&finding["field"], finding["line"].as_u64()), (&"spec.publicDomain".into(), Some(7)), "{finding}");
    assert!(plan["notes"][0].as_str().unwrap().starts_with("this plan lists only releases; "), "{plan}");
}

#[test]
fn wrong_type_hides_no_other_finding() {
    let file = format!("{HEAD}  region: 5\n  approval: automatic\n  services: {{novaa: {{}}}}\n")
        .replace("[core]", "[core, hA]");
    let commands: [&[&str]; 3] = [
        &["plan", "--offline", "-f", "cloud.yaml"],
        &["render", "-f", "cloud.yaml"],
        &["explain", "-f", "cloud.yaml", "nova", "pod"],
    ];
    for arguments in commands {
        let output = run(&file, arguments, None);
        let stderr = text(&output.stderr);
        for expected in [
            "cloud.yaml:6: error: spec.presets[1]: there is no preset \"hA\" (did you mean",
            "cloud.yaml:7: error: spec.region: 5 is a number, but a string is expected; put it in quotes: \"5\"\n",
            "cloud.yaml:8: error: spec.approval: \"automatic\" is not one of ",
            "cloud.yaml:9: error: spec.services.novaa: there is no service \"novaa\" (did you mean",
            "osdpl: the resource is refused: 4 error(s), see above\n",
        ] {
            assert!(
                output.status.code() == Some(1) && stderr.contains(expected),
                "{arguments:?}: {expected}\n{stderr}"
            );
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
fn refuses_another_version_and_a_similar_kind() {
    let plan = ["plan", "--offline", "-f", "cloud.yaml"];
    for (file, expected) in [
        (
            HEAD.replace("v1alpha1", "v1"),
            "cloud.yaml:1: error: apiVersion: there is no version \"osdpl.dev/v1\" of OpenStackDeployment; write osdpl.dev/v1alpha1",
        ),
        (
            HEAD.replace("OpenStackDep", "OpenstackDep"),
            "cloud.yaml:2: kind: there is no kind \"OpenstackDeployment\" of osdpl (did you mean \"OpenStackDeployment\"?)",
        ),
    ] {
        let output = run(&file, &plan, None);
        let stderr = text(&output.stderr);
        assert!(output.status.code() == Some(1) && stderr.contains(expected), "{stderr}");
    }
    let list = format!("apiVersion: v1\nkind: List\nitems:\n- {}", HEAD.trim_end().replace('\n', "\n  "));
    assert!(run(&list, &plan, None).status.success());
    let two = format!("{HEAD}---\n{}", HEAD.replace("{name: cloud}", "{name: other}"));
    let output = run(&two, &["plan", "--offline", "-f", "cloud.yaml", "other", "-o", "json"], None);
    let plan_of_other: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan_of_other["name"], "other");
}

#[test]
fn unreadable_file_has_its_own_exit_code() {
    let commands: [&[&str]; 4] = [
        &["plan", "--offline", "-f", "nowhere.yaml"],
        &["render", "-f", "nowhere.yaml"],
        &["explain", "-f", "nowhere.yaml", "nova", "pod"],
        &["plan", "--offline", "-f", "."],
    ];
    for arguments in commands {
        let output = run(HEAD, arguments, None);
        let stderr = text(&output.stderr);
        let expected = ["there is no such file; name an existing one", "it is a folder; name a file in it"];
        assert!(
            output.status.code() == Some(2) && expected.iter().any(|expected| stderr.contains(expected)),
            "{stderr}"
        );
    }
    let output = run(HEAD, &["render", "-f", "cloud.yaml", "--out", "cloud.yaml"], None);
    assert!(text(&output.stderr).contains("creating the folder cloud.yaml: a file is in the way; name a folder"));
}

#[test]
fn empty_kubeconfig_counts_as_none() {
    let output = run(HEAD, &["plan", "-f", "cloud.yaml"], Some(""));
    let stderr = text(&output.stderr);
    assert!(
        output.status.success() && stderr.contains("no cluster is configured: this is the plan of a new cloud"),
        "{stderr}"
    );
}

#[test]
fn file_without_a_namespace_uses_the_requested_one() {
    let rendered = text(&run(HEAD, &["render", "-f", "cloud.yaml", "-n", "prod", "keystone"], None).stdout);
    assert!(rendered.contains("# keystone (prod/keystone, "), "{rendered}");
    let explain = ["explain", "-f", "cloud.yaml", "-n", "prod", "keystone", "endpoints.cluster_domain_suffix"];
    let output = run(HEAD, &explain, None);
    assert!(text(&output.stderr).is_empty(), "{}", text(&output.stderr));
    let own = HEAD.replace("{name: cloud}", "{name: cloud, namespace: here}");
    let output = run(&own, &["render", "-f", "cloud.yaml", "-n", "prod"], None);
    assert!(
        text(&output.stderr).contains("the resource is in namespace here, and -n names prod"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn locates_invalid_expression_of_added_preset() {
    let added = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: edge}\ndata:\n  presets.edge.yaml: |\n    preset: edge\n    description: One.\n    fragments:\n    - releases: {keystone: {values: {conf: {keystone: {DEFAULT: {debug: '${spec.regoin}'}}}}}}\n";
    let file = format!("{}{added}", HEAD.replace("[core]", "[core, edge]\n  catalog: [{name: edge}]"));
    let output = run(&file, &["render", "-f", "cloud.yaml"], None);
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("ConfigMap openstack/edge, key presets.edge.yaml fragments[0].conf.keystone.DEFAULT.debug: "),
        "{stderr}"
    );
    assert!(stderr.contains("correct the expression"), "{stderr}");
}

#[test]
fn key_without_default_and_null_above_are_reported() {
    let printed = text(&run(HEAD, &["explain", "-f", "cloud.yaml", "nova", "conf.nova.nofoo.bar"], None).stdout);
    assert!(printed.starts_with("nova conf.nova.nofoo.bar is set by no layer, and has no default\n"), "{printed}");
    let file = format!("{HEAD}  common: {{openstack: {{values: {{pod: {{lifecycle: null}}}}}}}}\n");
    let explain = ["explain", "-f", "cloud.yaml", "nova", "pod.lifecycle.upgrades.deployments.revision_history"];
    let printed = text(&run(&file, &explain, None).stdout);
    assert!(!printed.contains("a value that is not a map"), "{printed}");
    assert!(
        printed.starts_with(
            "nova pod.lifecycle.upgrades.deployments.revision_history is unset: a layer removes a parent key"
        ),
        "{printed}"
    );
}

#[test]
fn mirror_rewrites_images_of_charts() {
    let file = format!(
        "{HEAD}  images: {{mirrors: {{quay.io/airshipit: reg.example.org/osh}}}}\n  services: {{neutron: {{releases: {{neutron: {{version: 1.2.3}}}}}}}}\n"
    );
    let output = run(&file, &["explain", "-f", "cloud.yaml", "mariadb", "images.tags.dep_check"], None);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success() && stdout.contains("reg.example.org/osh/kubernetes-entrypoint:"),
        "{stdout}{stderr}"
    );
    assert!(stderr.contains("unknown: the default images of the charts of neutron"), "{stderr}");
}

#[test]
fn commands_refuse_an_http_repository_unless_it_is_allowed() {
    let commands: [&[&str]; 4] = [
        &["charts", "pull", "--to", "pulled", "memcached"],
        &["charts", "lock", "--out", "locked", "memcached"],
        &["charts", "list"],
        &["plan", "--offline", "-f", "cloud.yaml"],
    ];
    let with = |command: &[&str], extra: &[&str]| {
        let options = ["--charts", "http://127.0.0.1:1", "--helm", "/nowhere/helm"];
        run(HEAD, &[command, &options, extra].concat(), None)
    };
    for command in commands {
        let refused = with(command, &[]);
        let stderr = text(&refused.stderr);
        let expected =
            "charts: \"http://127.0.0.1:1\" is not encrypted, so anyone on the network could replace its charts";
        assert!(refused.status.code() == Some(1) && stderr.contains(expected), "{command:?}: {stderr}");
        assert!(stderr.contains("--allow-http-charts (OSDPL_ALLOW_HTTP_CHARTS=true)"), "{command:?}: {stderr}");
    }
    let allowed = text(&with(commands[0], &["--allow-http-charts"]).stderr);
    assert!(allowed.contains("/nowhere/helm"), "{allowed}");
}
