//! Checks the command `osdpl validate`: its inputs, exit codes and output.

use std::process::{Command, Output};

use cluster::output_with_input;
use serde_json::Value;

const INVALID: &str = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud}\nspec: {openstackRelease: '2026.1', presets: [hA]}\n";
const WITH_WARNING: &str = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud}\nspec: {openstackRelease: '2026.1', presets: [core], publicDomain: cloud.local, features: {publicEndpoints: {enabled: true, gateway: {name: a, namespace: b}}}}\n";

pub fn validate(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    command.arg("validate").args(arguments).env_remove("OSDPL_CATALOG").env_remove("KUBECONFIG");
    let Output { status, stdout, stderr } = output_with_input(&mut command, input).unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn exit_code_tells_errors_from_unreadable_input() {
    let (code, stdout, _) = validate(&[], INVALID);
    assert_eq!(code, 1, "{stdout}");
    assert!(
        stdout.starts_with("stdin:4: error: spec.presets[0]: there is no preset \"hA\" (did you mean \"ha\"?)"),
        "{stdout}"
    );
    let (code, stdout, _) = validate(&["-"], WITH_WARNING);
    assert_eq!(code, 0, "{stdout}");
    assert!(stdout.ends_with("1 resource validated: 0 errors, 1 warning\n"), "{stdout}");
    assert_eq!(validate(&["--strict", "-"], WITH_WARNING).0, 1);
}

#[test]
fn unreadable_input_hides_no_finding() {
    let unread =
        "/nowhere/cloud.yaml:1: error: can't be read: there is no such file; name an existing one [resource]\n";
    let (code, stdout, _) = validate(&["/nowhere/cloud.yaml", "-"], INVALID);
    assert_eq!(code, 2);
    assert!(
        stdout.contains(unread)
            && stdout.contains("stdin:4: error: spec.presets[0]: ")
            && stdout.contains(": 2 errors"),
        "{stdout}"
    );
    for format in ["json", "sarif"] {
        let (code, stdout, _) = validate(&["-o", format, "/nowhere/cloud.yaml"], "");
        assert!(code == 2 && serde_json::from_str::<Value>(&stdout).is_ok(), "{stdout}");
    }
}

#[test]
fn names_the_variable_of_a_missing_catalogue() {
    let (code, _, stderr) = validate(&["--catalog", "", "-"], VALID);
    assert!(code == 2 && stderr.contains("in the variable OSDPL_CATALOG; name one, or unset the variable"), "{stderr}");
}

#[test]
fn reads_folders_and_prints_json_and_sarif() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("clouds")).unwrap();
    std::fs::write(folder.path().join("clouds/one.yaml"), INVALID).unwrap();
    std::fs::write(folder.path().join("two.yml"), WITH_WARNING).unwrap();
    std::fs::write(folder.path().join("notes.txt"), "no YAML: [").unwrap();
    let path = folder.path().to_str().unwrap();
    let (code, stdout, _) = validate(&["-o", "json", path], "");
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (code, &report["summary"]["resources"], &report["summary"]["errors"]),
        (1, &2.into(), &1.into()),
        "{stdout}"
    );
    let (_, stdout, _) = validate(&["--output", "sarif", path], "");
    let log: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(log["runs"][0]["results"].as_array().unwrap().len(), 2, "{stdout}");
}

pub const VALID: &str = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud}\nspec: {openstackRelease: '2026.1', presets: [core]}\n";
const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: more}\nstringData: {values.yaml: 'a: 1'}\n";

/// Returns a folder with these files, and its path.
pub fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let path = folder.path().to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn input_without_resources_is_one_error() {
    let (_folder, path) = folder(&[
        ("cloud.yaml", VALID),
        ("secret.yaml", SECRET),
        ("foreign.yaml", "apiVersion: lcm.example.com/v1\nkind: OpenStackDeployment\n"),
        ("empty.yaml", "# nothing\n"),
        ("notes/x.txt", ""),
    ]);
    let at = |name: &str| format!("{path}/{name}");
    for (name, there) in [
        ("secret.yaml", "there is only Secret (v1); name the file"),
        ("foreign.yaml", "there is only OpenStackDeployment (lcm.example.com/v1); name"),
        ("empty.yaml", "it is empty; name"),
        ("notes", "there is no .yaml, .yml or .json file with content; name"),
    ] {
        let (code, stdout, _) = validate(&[&at(name)], "");
        assert_eq!(code, 1, "{stdout}");
        let begin =
            format!("{}:1: error: there is no resource of osdpl (OpenStackDeployment or NodeMaintenance, ", at(name));
        assert!(
            stdout.contains(&begin)
                && stdout.contains(there)
                && stdout.contains(", 1 error") | stdout.contains(": 1 error"),
            "{stdout}"
        );
    }
    let (code, stdout, _) = validate(&[], "");
    assert!(code == 1 && stdout.starts_with("stdin:1: error: there is no resource of osdpl"), "{stdout}");
    assert_eq!(validate(&[&path], "").0, 0, "in a folder, the command must ignore manifests that are not osdpl's");
    assert_eq!(
        validate(&[&at("cloud.yaml"), &at("secret.yaml")], "").0,
        0,
        "the command must accept a file with only a Secret if another file has a resource of osdpl"
    );
    assert_eq!(validate(&[&at("cloud.yaml"), &at("foreign.yaml")], "").0, 1);
}

#[test]
fn invalid_yaml_has_a_line_and_is_refused_if_named() {
    let (_folder, path) = folder(&[("cloud.yaml", VALID), ("other.yaml", "kind: Job\na: [1\n")]);
    let (code, stdout, _) = validate(&[&format!("{path}/other.yaml")], "");
    assert_eq!(code, 1, "{stdout}");
    assert!(
        stdout.starts_with(&format!("{path}/other.yaml:2: error: unclosed bracket '['; correct the YAML [yaml]\n")),
        "{stdout}"
    );
    let (code, stdout, _) = validate(&[&path], "");
    assert_eq!(code, 0, "{stdout}");
    assert!(
        stdout.starts_with(&format!("{path}/other.yaml:2: warning: unclosed bracket '[', so osdpl did not validate")),
        "{stdout}"
    );
    assert_eq!(validate(&["--strict", &path], "").0, 1);
    std::fs::write(format!("{path}/latin.yml"), b"a: \xe9\n").unwrap();
    let (code, stdout, _) = validate(&[&path], "");
    assert!(code == 2 && stdout.contains(&format!("{path}/latin.yml:1: error: can't be read: ")), "{stdout}");
}

#[test]
fn cluster_description_must_be_valid() {
    for (option, value, expected) in [
        ("--pod-network", "10.0.0.0", "the prefix length is missing; write a network such as 10.244.0.0/16"),
        ("--service-network", "services", "this is not an IP address; write a network"),
        ("--nodes", "three", "invalid digit"),
        ("--storage-class", "A b", "this is not the name of a StorageClass"),
    ] {
        let (code, stdout, stderr) = validate(&[option, value, "-"], VALID);
        assert!((code, stdout.as_str()) == (2, "") && stderr.contains(expected), "{stderr}");
    }
    let both = ["--pod-network", "10.244.0.0/16,fd00:10::/48", "--nodes", "3", "-"];
    assert_eq!(validate(&both, VALID).0, 0);
}

#[test]
fn reports_unusable_documents_at_their_location() {
    let cloud = format!(
        "{}services:\n    keystone: {{credentials: {{admin: {{name: keys, key: admin}}}}}}\n    nova: {{releases: {{nova: {{valuesFrom: [{{kind: Secret, name: more}}]}}}}}}\n",
        VALID.replace(
            "spec: {openstackRelease: '2026.1', presets: [core]}\n",
            "spec:\n  openstackRelease: '2026.1'\n  presets: [core]\n  "
        )
    );
    let with = |data: &str, more: &str| {
        let keys = format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: keys}}\ndata: {{{data}}}\n");
        validate(&[], &format!("{cloud}{keys}---\n{}", SECRET.replace("'a: 1'", more))).1
    };
    let valid = with("admin: aHVudGVyMg==", "'debug: true'");
    assert!(!valid.contains("error: "), "{valid}");
    let stdout = with("admin: '!!'", "'debug: [hunter2'");
    assert!(stdout.contains("stdin:8: error: spec.services.keystone.credentials.admin: Secret keys, key admin: the value is not base64-encoded text; encode it"), "{stdout}");
    assert!(stdout.contains("stdin:9: error: spec.services.nova.releases.nova.valuesFrom[0]: Secret more, key values.yaml:1:8: unclosed bracket"), "{stdout}");
    assert!(!stdout.contains("hunter2"), "{stdout}");
    let stdout = with("adm: aHVudGVyMg==", "'debug: true'");
    assert!(
        stdout.contains("Secret keys has no text under key \"admin\" (it has: adm); add the key or name another one"),
        "{stdout}"
    );
}
