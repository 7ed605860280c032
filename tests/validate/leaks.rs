//! Checks that no command prints a secret value from its input files, neither in a finding nor in other output.

use std::process::Command;

use super::command::validate;

const HEAD: &str = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud, namespace: openstack}\nspec:\n  openstackRelease: \"2026.1\"\n  presets: [core]\n  features: {storage: {backend: local}}\n";

/// Writes `text` into the file `cloud.yaml`, and runs osdpl once for each list of arguments in `commands`. Returns the
/// complete output of each run.
fn printed(text: &str, commands: &[&[&str]]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cloud.yaml"), text).unwrap();
    let run = |arguments: &&[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
        command.current_dir(folder.path()).args(*arguments).env_remove("OSDPL_CATALOG").env_remove("KUBECONFIG");
        let output = command.output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    commands.iter().map(run).collect()
}

#[test]
fn hides_secrets_in_extra_objects() {
    let services = "  services:\n    keystone:\n      releases:\n        keystone:\n          values:\n            extraObjects:\n              one: {apiVersion: v1, kind: Secret, metadata: {name: one}, stringData: {config: hunter2}}\n              two: |\n                apiVersion: v1\n                kind: Secret\n                metadata: {name: two}\n                stringData: {config: hunter2}\n    glance:\n      releases:\n        glance:\n          values:\n            extraObjects:\n            - {apiVersion: v1, kind: Secret, metadata: {name: one}, stringData: {config: hunter2}}\n";
    let commands: [&[&str]; 5] = [
        &["render", "-f", "cloud.yaml", "keystone", "glance"],
        &["render", "-f", "cloud.yaml", "--placeholders", "keystone", "glance"],
        &["explain", "-f", "cloud.yaml", "extraObjects"],
        &["explain", "-f", "cloud.yaml", "keystone", "extraObjects.two", "-o", "json"],
        &["plan", "--offline", "-f", "cloud.yaml"],
    ];
    for output in printed(&format!("{HEAD}{services}"), &commands) {
        assert!(!output.contains("hunter2"), "{output}");
    }
    let render = &printed(&format!("{HEAD}{services}"), &commands[..1])[0];
    assert!(render.contains("config: <redacted>") || render.contains("stringData: <redacted>"), "{render}");
}

#[test]
fn misplaced_text_is_not_repeated() {
    let services = "  services:\n    keystone:\n      releases:\n        keystone:\n          values: |\n            endpoints: {identity: {auth: {admin: {password: hunter2}}}}\n";
    let commands: [&[&str]; 5] = [
        &["plan", "--offline", "-f", "cloud.yaml"],
        &["render", "-f", "cloud.yaml"],
        &["explain", "-f", "cloud.yaml", "keystone", "endpoints"],
        &["preset", "diff", "-f", "cloud.yaml", "core", "compute"],
        &["validate", "cloud.yaml"],
    ];
    for output in printed(&format!("{HEAD}{services}"), &commands) {
        assert!(output.contains("found a string") && !output.contains("hunter2"), "{output}");
    }
    let case = "cases:\n- name: a\n  spec: |\n    services: {keystone: {password: hunter2}}\n";
    let output = &printed(case, &[&["test", "cloud.yaml"]])[0];
    assert!(output.contains("`spec` takes a map") && !output.contains("hunter2"), "{output}");
}

/// Returns the text of a file with an `OpenStackDeployment` and a Secret. The Secret contains `values`. The release
/// `service` reads the values from the Secret through `valuesFrom`.
fn with_secret(service: &str, values: &str) -> String {
    let services = format!(
        "  services: {{{service}: {{releases: {{{service}: {{valuesFrom: [{{kind: Secret, name: more}}]}}}}}}}}\n"
    );
    let head = HEAD.replace("[core]\n  features: {storage: {backend: local}}\n", "[compute]\n");
    format!(
        "{head}{services}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: more}}\nstringData:\n  values.yaml: '{values}'\n"
    )
}

#[test]
fn rule_findings_hide_values_from_secrets() {
    let (code, output, _) = validate(&[], &with_secret("nova", "jobs: {cell_setup: {cron: hunter2}}"));
    let expected =
        "stdin:7: error: spec.services.nova.releases.nova.valuesFrom[0].jobs.cell_setup.cron: this is not a schedule; ";
    assert!(code == 1 && output.starts_with(expected) && !output.contains("hunter2"), "{output}");
    let volume = with_secret("glance", "volume: {class_name: hunter2}");
    let (_, output, _) = validate(&["--storage-class", "general", "-"], &volume);
    assert!(
        output.contains(".valuesFrom[0].volume.class_name: there is no StorageClass with the name in this Secret, so"),
        "{output}"
    );
    assert!(!output.contains("hunter2"), "{output}");
}

#[test]
fn lint_warnings_hide_values_from_secrets() {
    let values = "pod: {replicas: {conductor: hunter2a}}, endpoints: {compute: {port: {api: {default: hunter2b}}}}, conf: {nova: {DEFAULT: hunter2c}}, manifests: [hunter2d]";
    let commands: [&[&str]; 5] = [
        &["validate", "cloud.yaml"],
        &["validate", "cloud.yaml", "-o", "json"],
        &["validate", "cloud.yaml", "-o", "sarif"],
        &["plan", "--offline", "-f", "cloud.yaml"],
        &["render", "-f", "cloud.yaml", "nova"],
    ];
    let output = printed(&with_secret("nova", &format!("{{{values}}}")), &commands);
    assert!(output[0].contains("pod.replicas.conductor: this is not a number of pods"), "{}", output[0]);
    assert!(output[0].contains("port.api.default: is a string where the"), "{}", output[0]);
    for output in output {
        assert!(!output.contains("hunter2"), "{output}");
    }
}

#[test]
fn hides_secrets_in_texts_and_below_passwords() {
    let values = "            conf:\n              keystone:\n                ldap: {password: {x: hunter2a}, url: ldap://plain}\n              one: |\n                smtp_auth_password: 'hunter2b'\n              two: |\n                bind_password = \"hunter2c\"\n              three: |\n                password: {{ .Values.plain }}\n            endpoints: {identity: {auth: {admin: {password: {x: hunter2d}}}}}\n";
    let services =
        format!("  services:\n    keystone:\n      releases:\n        keystone:\n          values:\n{values}");
    let commands: [&[&str]; 4] = [
        &["render", "-f", "cloud.yaml", "keystone"],
        &["render", "-f", "cloud.yaml", "--placeholders", "keystone"],
        &["explain", "-f", "cloud.yaml", "keystone", "conf"],
        &["plan", "--offline", "-f", "cloud.yaml"],
    ];
    let output = printed(&format!("{HEAD}{services}"), &commands);
    assert!(output[0].contains("ldap://plain") && output[0].contains("password: {{ .Values.plain }}"), "{}", output[0]);
    for output in output {
        assert!(!output.contains("hunter2"), "{output}");
    }
}

#[test]
fn hides_passwords_in_urls() {
    let proxy = HEAD.replace("backend: local}", "backend: local}, proxy: {http: \"http://me:hunter2@proxy:3128\"}");
    let charts = format!("{HEAD}  charts: {{repository: \"https://me:hunter2@charts.example.org\"}}\n");
    for text in [&proxy, &charts] {
        let (code, output, _) = validate(&[], text);
        assert!(code == 1 && !output.contains("hunter2"), "{output}");
    }
    let (_, output, _) = validate(&[], &proxy);
    assert!(
        output.contains("http://me:[redacted]@proxy:3128")
            && output.contains("it must contain no user and no password"),
        "{output}"
    );
}
