//! Checks `osdpl render --out`, which writes values, and install.sh, which installs the releases with these values.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use osdpl_values::yaml;
use serde_json::{Value, json};

use crate::path;

/// Runs `osdpl render --out` for a sample, with `folder` as the output folder.
fn render(sample: &str, folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    command.current_dir(path("")).args(["render", "-f", &format!("deploy/samples/{sample}.yaml"), "--out"]).arg(folder);
    command
        .args(arguments)
        .env_remove("KUBECONFIG")
        .env("XDG_CACHE_HOME", folder.with_extension("cache"))
        .output()
        .unwrap()
}

/// Runs install.sh with a helm and a kubectl that only record their arguments. Returns the script's output and the
/// recorded arguments.
fn run(folder: &Path, releases: &[&str]) -> (Output, String) {
    let programs = folder.with_extension("programs");
    std::fs::create_dir_all(&programs).unwrap();
    let log = programs.join("log");
    for name in ["helm", "kubectl"] {
        let program = programs.join(name);
        std::fs::write(&program, format!("#!/bin/sh\necho {name} \"$@\" $HELM_DRIVER >>{}\n", log.display())).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let rest = std::env::var_os("PATH").unwrap();
    let all = std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&rest))).unwrap();
    let output = Command::new(folder.join("install.sh")).args(releases).env("PATH", all).output().unwrap();
    (output, std::fs::read_to_string(log).unwrap_or_default())
}

fn error_text(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn writes_values_and_commands_in_dependency_order() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("out");
    let output = render("minimal", &folder, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let script = std::fs::read_to_string(folder.join("install.sh")).unwrap();
    let at = |release: &str| script.find(&format!("\nif wanted {release}; then\n")).unwrap();
    assert!(at("mariadb") < at("keystone") && at("keystone") < at("glance"), "{script}");
    let line = "  helm upgrade --install --reset-values --skip-crds --server-side=true --force-conflicts --values keystone.yaml \
                --history-max 3 --timeout 1800s --repo https://tarballs.opendev.org/openstack/openstack-helm --version 2026.1.";
    let found = script.lines().find(|found| found.starts_with(line)).expect(&script);
    assert!(found.ends_with(" --namespace openstack -- keystone keystone"), "{found}");
    let values: Value = yaml::parse("values", &std::fs::read_to_string(folder.join("keystone.yaml")).unwrap()).unwrap();
    assert_eq!(values.pointer("/endpoints/oslo_db/auth/admin/password"), Some(&json!("<redacted>")));
    // The commands for helm 3 must not have the flag `--server-side`, which helm 3 does not know.
    let third = render("minimal", &folder, &["--helm-major", "3"]);
    assert!(third.status.success());
    assert!(!std::fs::read_to_string(folder.join("install.sh")).unwrap().contains("--server-side="));
}

#[test]
fn refuses_to_install_without_real_credentials() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("out");
    assert!(render("minimal", &folder, &[]).status.success());
    let (output, log) = run(&folder, &["keystone"]);
    assert!(error_text(&output).contains("keystone.yaml has no credentials"), "{output:?}");
    assert_eq!(log, "");
    let (output, _) = run(&folder, &["keystoen"]);
    assert!(error_text(&output).starts_with("there is no release keystoen here; choose from "), "{output:?}");
    assert!(render("minimal", &folder, &["--placeholders"]).status.success());
    let (output, log) = run(&folder, &[]);
    assert!(error_text(&output).contains("placeholders, which are publicly known"), "{output:?}");
    assert_eq!(log, "");
}

#[test]
fn writes_charts_and_uses_their_namespaces() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("out");
    let output = render("minimal", &folder, &["memcached", "--charts", "tests/charts"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut names: Vec<String> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(
        names,
        ["charts", "install.sh", "memcached.yaml"],
        "the folder must contain only the files of the requested release"
    );
    std::fs::write(folder.join("memcached.yaml"), "{}\n").unwrap();
    let (output, log) = run(&folder, &[]);
    assert!(output.status.success(), "{output:?}");
    let lines: Vec<&str> = log.lines().collect();
    let [namespace, helm] = lines.as_slice() else { panic!("{log}") };
    // `cd out` in a shell with this CDPATH would enter another folder `out`. The script's `cd` must ignore CDPATH.
    std::fs::create_dir_all(home.path().join("other/out")).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["out/install.sh", "none"]).current_dir(home.path()).env("CDPATH", home.path().join("other"));
    assert!(error_text(&shell.output().unwrap()).starts_with("there is no release none here; choose from memcached"));
    assert_eq!(*namespace, "kubectl get namespace openstack secret");
    let (before, archive) = helm.split_once(" --namespace openstack -- memcached ").unwrap();
    let pinned = "helm upgrade --install --reset-values --skip-crds ";
    assert!(before.starts_with(pinned) && before.contains("--values memcached.yaml"), "{helm}");
    let archive = archive.strip_suffix(" secret").unwrap();
    assert!(archive.starts_with("charts/memcached-") && folder.join(archive).is_file(), "{helm}");
}

#[test]
fn real_credentials_need_a_private_folder() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("out");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let refused = error_text(&render("minimal", &folder, &["--credentials"]));
    assert!(refused.contains("is accessible to others") && refused.contains("chmod 700"), "{refused}");
    let alone = error_text(&render("minimal", &folder, &["--name", "cloud"]));
    assert!(alone.contains("cannot be used with") || alone.contains("--credentials"), "{alone}");
}

#[test]
fn manifests_are_stable_and_without_secrets() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("out");
    let helm = crate::render::program(cluster::Program::Helm4).to_str().unwrap();
    let arguments = ["mariadb", "keystone", "--charts", "tests/charts", "--helm", helm];
    let output = render("minimal", &folder, &[&arguments[..], &["--manifests"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let manifest = read("keystone.manifest.yaml");
    let objects = crate::render::documents(&format!("\n---\n{manifest}"));
    let secrets: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "Secret").collect();
    assert!(!secrets.is_empty() && objects.iter().any(|object| object["kind"] == "Deployment"), "{manifest}");
    for data in secrets.iter().flat_map(|secret| ["data", "stringData"].map(|part| &secret[part])) {
        assert!(data.as_object().into_iter().flatten().all(|(_, value)| value == "<redacted>"), "{data}");
    }
    // The manifest must contain no placeholder for a password. To find out the placeholder, render the values again
    // with `--placeholders`, which prints it instead of `<redacted>`.
    assert!(render("minimal", &folder, &[&arguments[..], &["--placeholders"]].concat()).status.success());
    let values: Value = yaml::parse("values", &read("keystone.yaml")).unwrap();
    let password = values.pointer("/endpoints/identity/auth/admin/password").unwrap().as_str().unwrap();
    assert!(password.len() > 8 && !manifest.contains(password), "{manifest}");
    assert!(render("minimal", &folder, &[&arguments[..], &["--manifests"]].concat()).status.success());
    assert_eq!(read("keystone.manifest.yaml"), manifest);
    let lacking = error_text(&render("minimal", &folder, &["--manifests"]));
    assert!(lacking.contains("name the operator's charts with --charts"), "{lacking}");
}

#[test]
fn removes_only_files_of_an_earlier_run() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("out");
    assert!(render("minimal", &folder, &[]).status.success());
    std::fs::write(folder.join("glance.manifest.yaml"), "notes").unwrap();
    std::fs::write(folder.join("notes.yaml"), "notes").unwrap();
    assert!(render("minimal", &folder, &["keystone"]).status.success());
    let mut names: Vec<String> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["glance.manifest.yaml", "install.sh", "keystone.yaml", "notes.yaml"]);
}

#[test]
fn writes_no_commands_for_refused_resources() {
    let home = tempfile::tempdir().unwrap();
    let render = |metadata: &str, services: &str| {
        let file = home.path().join("cloud.yaml");
        let text = format!(
            "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {metadata}\nspec: {{openstackRelease: '2026.1', presets: [compute], services: {services}}}\n"
        );
        std::fs::write(&file, text).unwrap();
        let folder = home.path().join("out");
        let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
        command.args(["render", "-f"]).arg(&file).arg("--out").arg(&folder).env_remove("KUBECONFIG");
        let output = command.output().unwrap();
        (error_text(&output), folder.join("install.sh").exists())
    };
    let (stderr, exists) = render("{name: \"cloud\\ntouch /tmp/x #\"}", "{}");
    assert!(
        stderr.contains("metadata.name: ") && stderr.contains("the resource is refused: 1 error") && !exists,
        "{stderr}"
    );
    let (stderr, exists) = render("{name: cloud}", "{keystone: {releases: {keystone: {namespace: $(touch /tmp/x)}}}}");
    assert!(stderr.contains("spec.services.keystone.releases.keystone.namespace: ") && !exists, "{stderr}");
}

#[test]
fn refuses_ignored_options() {
    for (option, value) in [("--helm-major", "3"), ("--kubeconfig", "none"), ("--context", "none")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
        command.current_dir(path("")).args(["render", "-f", "deploy/samples/minimal.yaml", option, value]);
        let refused = error_text(&command.output().unwrap());
        assert!(refused.contains("the following required arguments were not provided"), "{option}: {refused}");
    }
}
