//! The command: what it reads, how it ends, what it prints.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const WRONG: &str = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud}\nspec: {openstackRelease: '2026.1', presets: [hA]}\n";
const DOUBTFUL: &str = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud}\nspec: {openstackRelease: '2026.1', presets: [compute], publicDomain: cloud.local, features: {publicEndpoints: {enabled: true, gateway: {name: a, namespace: b}}}}\n";

fn validate(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    command.arg("validate").args(arguments).env_remove("OSDPL_CATALOG").env_remove("KUBECONFIG");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn the_code_says_whether_anything_is_refused_or_could_not_be_read() {
    let (code, said, _) = validate(&[], WRONG);
    assert_eq!(code, 1, "{said}");
    assert!(said.starts_with("-:4: error: spec.presets[0]: there is no preset \"hA\", did you mean \"ha\"?"), "{said}");
    let (code, said, _) = validate(&["-"], DOUBTFUL);
    assert_eq!(code, 0, "{said}");
    assert!(said.ends_with("1 resource judged: 0 errors, 1 warning\n"), "{said}");
    assert_eq!(validate(&["--strict", "-"], DOUBTFUL).0, 1);
    let (code, said, why) = validate(&["/nowhere/cloud.yaml"], "");
    assert_eq!((code, said.as_str()), (2, ""));
    assert!(why.starts_with("osdpl: reading /nowhere/cloud.yaml: "), "{why}");
}

#[test]
fn a_folder_is_read_whole_and_programs_are_told_in_json_and_sarif() {
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
