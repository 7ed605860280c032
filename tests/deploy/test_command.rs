//! Runs `osdpl test` with expectations about clouds, as users do.

use std::process::{Command, Output};

use serde_json::Value;

use crate::path;

fn test(arguments: &[&str]) -> (String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    let output: Output =
        command.current_dir(path("")).arg("test").args(arguments).env_remove("KUBECONFIG").output().unwrap();
    let printed = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    (String::from_utf8(printed).unwrap(), output.status.code())
}

/// Runs `osdpl test` with one case for each expectation about the minimal sample. Returns the output and the exit code.
fn expecting(expectations: &[&str], arguments: &[&str]) -> (String, Option<i32>) {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("cases.yaml");
    let minimal = path("deploy/samples/minimal.yaml").display().to_string();
    let case = |expectation: &&str| format!("- name: one\n  expect:\n  - {expectation}\n");
    let text = format!("file: {minimal}\ncases:\n{}", expectations.iter().map(case).collect::<Vec<_>>().concat());
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let (printed, code) = test(&[&[file.as_str()], arguments].concat());
    (printed.replace(&file, "cases.yaml"), code)
}

#[test]
fn shipped_cases_pass() {
    let (printed, code) = test(&["deploy/tests.yaml"]);
    assert!(printed.starts_with("ok    with preset ha, keystone has at least three replicas\n"), "{printed}");
    assert!(printed.ends_with("5 passed, 0 failed.\n"), "{printed}");
    assert_eq!(code, Some(0));
}

#[test]
fn reports_wrong_case_and_misspelt_path() {
    let cases = [
        "{release: keystone, path: pod.replicas.apii, exists: false}",
        "{release: nova, wanted: true}",
        "{release: nova}",
    ];
    let (printed, code) = expecting(&cases, &[]);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(
        lines,
        [
            "ERR   one",
            "      cases.yaml:5: no layer sets pod.replicas.apii, and chart keystone does not have this key (did you mean \"api\"?); correct the path",
            "ok    one",
            "ERR   one",
            "      cases.yaml:11: this expectation sets 0 of the following fields; set exactly one: equals, atLeast, atMost, matches, exists, holds, wanted, refused, warns",
            "1 passed, 0 failed, 2 invalid."
        ],
        "{printed}"
    );
    assert_eq!(code, Some(2));
}

#[test]
fn reports_failures_with_line_and_value() {
    let password = "endpoints.identity.auth.admin.password";
    let cases = [
        (
            "{release: keystone, path: conf.keystone.nonsense.x, atLeast: 1}",
            "keystone conf.keystone.nonsense.x: expected at least 1, found nothing",
        ),
        (
            "{release: keystone, path: pod.replicas.api, atLeast: 2}",
            "keystone pod.replicas.api: expected at least 2, found 1 (the default of chart keystone)",
        ),
        (
            "{release: keystone, path: endpoints.identity.auth.admin.region_name, equals: X}",
            "expected \"X\", found \"RegionOne\"",
        ),
        (
            &format!("{{release: keystone, path: {password}, equals: hunter22}}"),
            "expected \"hunter22\", found a secret",
        ),
        (&format!("{{release: keystone, path: {password}, exists: false}}"), "expected no value, found a secret"),
        (
            "{release: keystone, holds: values.pod.no.such > 1}",
            "keystone: `values.pod.no.such > 1` can't be evaluated: there is no key",
        ),
        (
            "{release: keystone, holds: '!has(values.endpoints)'}",
            "expected that `!has(values.endpoints)` holds, but it does not",
        ),
        ("{release: octavia, wanted: true}", "expected release octavia, but it is not part of this cloud"),
        ("{release: nova, wanted: false}", "expected no release nova, but it is part of this cloud"),
        ("{refused: nonsense}", "expected an error that contains \"nonsense\", found: none"),
        ("{warns: nonsense}", "expected a warning that contains \"nonsense\", found: "),
    ];
    let (printed, code) = expecting(&cases.map(|(expectation, _)| expectation), &[]);
    let lines: Vec<&str> = printed.lines().filter(|line| line.starts_with("      ")).collect();
    assert_eq!((lines.len(), code), (cases.len(), Some(1)), "{printed}");
    for (number, (line, (_, wanted))) in lines.iter().zip(cases).enumerate() {
        assert!(
            line.starts_with(&format!("      cases.yaml:{}: ", 5 + 3 * number)) && line.contains(wanted),
            "{line}\n{wanted}"
        );
    }
    assert!(printed.ends_with("0 passed, 11 failed.\n"), "{printed}");
}

#[test]
fn uses_chart_defaults_like_explain() {
    let (printed, code) = expecting(
        &[
            "{release: keystone, path: pod.replicas.api, equals: 1}",
            "{release: keystone, path: pod.replicas.api, exists: true}",
            "{release: keystone, path: conf.keystone.nonsense.x, exists: false}",
            "{release: keystone, path: conf.keystone.oslo_messaging_notifications, equals: {driver: messagingv2}}",
            "{release: keystone, path: conf.logging.handlers.keys, exists: true}",
        ],
        &[],
    );
    assert!(code == Some(0) && printed.ends_with("5 passed, 0 failed.\n"), "{printed}");
    let removed = "cases:\n- name: one\n  spec: {openstackRelease: '2026.1', presets: [core]}\n  \
                   with: {services: {keystone: {releases: {keystone: {unset: [pod.replicas]}}}}}\n  \
                   expect: [{release: keystone, path: pod.replicas.api, exists: false}]\n";
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("cases.yaml"), removed).unwrap();
    let (printed, code) = test(&[home.path().join("cases.yaml").to_str().unwrap()]);
    assert_eq!(
        code,
        Some(0),
        "if a layer removes a parent key, the chart's default below this key must not count as a value: {printed}"
    );
}

#[test]
fn prints_json_and_junit() {
    let expectations = ["{release: nova, wanted: true}", "{release: nova, wanted: false}"];
    let (json, code) = expecting(&expectations, &["-o", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["passed"], &json["failed"], code), (&1.into(), &1.into(), Some(1)));
    assert_eq!(json["cases"][1]["failures"][0]["message"], "expected no release nova, but it is part of this cloud");
    let (xml, _) = expecting(&expectations, &["-o", "junit"]);
    assert!(xml.contains("<testsuite name=\"osdpl\" tests=\"2\" failures=\"1\" errors=\"0\">"), "{xml}");
    assert!(
        xml.contains("<failure>cases.yaml:8: expected no release nova, but it is part of this cloud</failure>"),
        "{xml}"
    );
}

#[test]
fn invalid_file_has_its_own_exit_code() {
    let (printed, code) = expecting(&["{release: keystoen, wanted: true}"], &[]);
    assert!(
        printed.contains("cases.yaml:5: the catalogue has no release \"keystoen\" (did you mean \"keystone\"?)"),
        "{printed}"
    );
    assert_eq!(code, Some(2));
    let (printed, code) = expecting(&["{release: keystone, hold: x}"], &[]);
    assert!(
        printed
            .contains("cases.yaml:5: there is no field `hold` (did you mean \"holds\"?); choose from release, path,"),
        "{printed}"
    );
    assert_eq!(code, Some(2));
    let (printed, code) = expecting(&["{release: keystone, holds: values.a ==}"], &[]);
    assert!(printed.contains("cases.yaml:5: `values.a ==` is not a valid CEL expression"), "{printed}");
    assert_eq!(code, Some(2));
    assert_eq!(test(&["no-such-file.yaml"]).1, Some(2));
}

#[test]
fn invalid_case_hides_no_other_result() {
    let (printed, code) = test(&["deploy/tests.yaml", "no-such-file.yaml", "-o", "junit"]);
    assert!(printed.contains("tests=\"6\" failures=\"0\" errors=\"1\">"), "{printed}");
    assert!(
        printed.contains("    <error>reading no-such-file.yaml: there is no such file; name an existing one</error>"),
        "{printed}"
    );
    assert_eq!(code, Some(2));
    let (printed, code) = expecting(
        &[
            "{release: keystoen, wanted: true}",
            "{release: keystone, path: conf.keystone.DEFAULT.no_such, equals: null}",
        ],
        &[],
    );
    assert!(printed.contains("ERR   one\n      cases.yaml:5: the catalogue has no release"), "{printed}");
    assert!(
        printed.contains("keystone conf.keystone.DEFAULT.no_such: expected null, found nothing"),
        "`equals: null` must fail for an unset value: {printed}"
    );
    assert!(printed.ends_with("0 passed, 1 failed, 1 invalid.\n"), "{printed}");
    assert_eq!(code, Some(2));
}
