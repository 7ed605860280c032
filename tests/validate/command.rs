//! The command: its inputs, exit codes and output.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const WRONG: &str = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud}\nspec: {openstackRelease: '2026.1', presets: [hA]}\n";
const DOUBTFUL: &str = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud}\nspec: {openstackRelease: '2026.1', presets: [core], publicDomain: cloud.local, features: {publicEndpoints: {enabled: true, gateway: {name: a, namespace: b}}}}\n";

pub fn validate(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    command.arg("validate").args(arguments).env_remove("OSDPL_CATALOG").env_remove("KUBECONFIG");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn exit_code_tells_errors_from_unreadable_input() {
    let (code, said, _) = validate(&[], WRONG);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.starts_with("stdin:4: error: spec.presets[0]: there is no preset \"hA\", did you mean \"ha\"?"),
        "{said}"
    );
    let (code, said, _) = validate(&["-"], DOUBTFUL);
    assert_eq!(code, 0, "{said}");
    assert!(said.ends_with("1 resource validated: 0 errors, 1 warning\n"), "{said}");
    assert_eq!(validate(&["--strict", "-"], DOUBTFUL).0, 1);
}

#[test]
fn unreadable_input_hides_no_finding() {
    let unread =
        "/nowhere/cloud.yaml:1: error: can't be read: there is no such file; name an existing one [resource]\n";
    let (code, said, _) = validate(&["/nowhere/cloud.yaml", "-"], WRONG);
    assert_eq!(code, 2);
    assert!(
        said.contains(unread) && said.contains("stdin:4: error: spec.presets[0]: ") && said.contains(": 2 errors"),
        "{said}"
    );
    for format in ["json", "sarif"] {
        let (code, said, _) = validate(&["-o", format, "/nowhere/cloud.yaml"], "");
        assert!(code == 2 && serde_json::from_str::<Value>(&said).is_ok(), "{said}");
    }
}

#[test]
fn names_the_variable_of_a_missing_catalogue() {
    let (code, _, why) = validate(&["--catalog", "", "-"], SOUND);
    assert!(code == 2 && why.contains("in the variable OSDPL_CATALOG; name one, or unset the variable"), "{why}");
}

#[test]
fn reads_folders_and_prints_json_and_sarif() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("clouds")).unwrap();
    std::fs::write(folder.path().join("clouds/one.yaml"), WRONG).unwrap();
    std::fs::write(folder.path().join("two.yml"), DOUBTFUL).unwrap();
    std::fs::write(folder.path().join("notes.txt"), "no YAML: [").unwrap();
    let place = folder.path().to_str().unwrap();
    let (code, said, _) = validate(&["-o", "json", place], "");
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (code, &report["summary"]["resources"], &report["summary"]["errors"]),
        (1, &2.into(), &1.into()),
        "{said}"
    );
    let (_, said, _) = validate(&["--output", "sarif", place], "");
    let log: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(log["runs"][0]["results"].as_array().unwrap().len(), 2, "{said}");
}

pub const SOUND: &str = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud}\nspec: {openstackRelease: '2026.1', presets: [core]}\n";
const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: more}\nstringData: {values.yaml: 'a: 1'}\n";

/// Returns a folder with these files, and its path.
pub fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let place = folder.path().to_str().unwrap().to_owned();
    (folder, place)
}

#[test]
fn input_without_resources_is_one_error() {
    let (_folder, place) = folder(&[
        ("cloud.yaml", SOUND),
        ("secret.yaml", SECRET),
        ("foreign.yaml", "apiVersion: lcm.example.com/v1\nkind: OpenStackDeployment\n"),
        ("empty.yaml", "# nothing\n"),
        ("notes/x.txt", ""),
    ]);
    let at = |name: &str| format!("{place}/{name}");
    for (name, there) in [
        ("secret.yaml", "there is only Secret (v1); name the file"),
        ("foreign.yaml", "there is only OpenStackDeployment (lcm.example.com/v1); name"),
        ("empty.yaml", "it is empty; name"),
        ("notes", "there is no .yaml, .yml or .json file with anything in it; name"),
    ] {
        let (code, said, _) = validate(&[&at(name)], "");
        assert_eq!(code, 1, "{said}");
        let begin =
            format!("{}:1: error: there is no resource of osdpl (OpenStackDeployment or NodeMaintenance, ", at(name));
        assert!(
            said.contains(&begin) && said.contains(there) && said.contains(", 1 error") | said.contains(": 1 error"),
            "{said}"
        );
    }
    let (code, said, _) = validate(&[], "");
    assert!(code == 1 && said.starts_with("stdin:1: error: there is no resource of osdpl"), "{said}");
    assert_eq!(validate(&[&place], "").0, 0, "other manifests are ignored");
    assert_eq!(validate(&[&at("cloud.yaml"), &at("secret.yaml")], "").0, 0, "its value sources may be named");
    assert_eq!(validate(&[&at("cloud.yaml"), &at("foreign.yaml")], "").0, 1);
}

#[test]
fn invalid_yaml_has_a_line_and_is_refused_if_named() {
    let (_folder, place) = folder(&[("cloud.yaml", SOUND), ("other.yaml", "kind: Job\na: [1\n")]);
    let (code, said, _) = validate(&[&format!("{place}/other.yaml")], "");
    assert_eq!(code, 1, "{said}");
    assert!(
        said.starts_with(&format!("{place}/other.yaml:2: error: unclosed bracket '['; correct the YAML [yaml]\n")),
        "{said}"
    );
    let (code, said, _) = validate(&[&place], "");
    assert_eq!(code, 0, "{said}");
    assert!(
        said.starts_with(&format!("{place}/other.yaml:2: warning: unclosed bracket '['; correct the YAML, or ")),
        "{said}"
    );
    assert_eq!(validate(&["--strict", &place], "").0, 1);
    std::fs::write(format!("{place}/latin.yml"), b"a: \xe9\n").unwrap();
    let (code, said, _) = validate(&[&place], "");
    assert!(code == 2 && said.contains(&format!("{place}/latin.yml:1: error: can't be read: ")), "{said}");
}

#[test]
fn cluster_description_must_be_valid() {
    for (option, value, told) in [
        ("--pod-network", "10.0.0.0", "the prefix length is missing; expected a network, such as 10.244.0.0/16"),
        ("--service-network", "services", "this is not an IP address; expected a network"),
        ("--nodes", "three", "invalid digit"),
        ("--storage-class", "A b", "this is not the name of a StorageClass"),
    ] {
        let (code, said, why) = validate(&[option, value, "-"], SOUND);
        assert!((code, said.as_str()) == (2, "") && why.contains(told), "{why}");
    }
    let both = ["--pod-network", "10.244.0.0/16,fd00:10::/48", "--nodes", "3", "-"];
    assert_eq!(validate(&both, SOUND).0, 0);
}

#[test]
fn reports_unusable_documents_at_their_location() {
    let cloud = format!(
        "{}services:\n    keystone: {{credentials: {{admin: {{name: keys, key: admin}}}}}}\n    nova: {{releases: {{nova: {{valuesFrom: [{{kind: Secret, name: more}}]}}}}}}\n",
        SOUND.replace(
            "spec: {openstackRelease: '2026.1', presets: [core]}\n",
            "spec:\n  openstackRelease: '2026.1'\n  presets: [core]\n  "
        )
    );
    let with = |data: &str, more: &str| {
        let keys = format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: keys}}\ndata: {{{data}}}\n");
        validate(&[], &format!("{cloud}{keys}---\n{}", SECRET.replace("'a: 1'", more))).1
    };
    let sound = with("admin: aHVudGVyMg==", "'debug: true'");
    assert!(!sound.contains("error: "), "{sound}");
    let said = with("admin: '!!'", "'debug: [hunter2'");
    assert!(said.contains("stdin:8: error: spec.services.keystone.credentials.admin: Secret keys, key admin: is not base64-encoded text; encode it"), "{said}");
    assert!(said.contains("stdin:9: error: spec.services.nova.releases.nova.valuesFrom[0]: Secret more, key values.yaml:1:8: unclosed bracket"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    let said = with("adm: aHVudGVyMg==", "'debug: true'");
    assert!(
        said.contains("Secret keys has no text under key \"admin\" (it has: adm); add the key or name another one"),
        "{said}"
    );
}
