use serde_json::json;

use super::*;

const HELM_3: Version = Version { major: 3, minor: 22 };
const HELM_4: Version = Version { major: 4, minor: 3 };

fn upgrade() -> Upgrade {
    Upgrade {
        chart: "/charts/keystone-1.tgz".into(),
        values: json!({"password": "hunter22"}),
        hook_timeout: Duration::from_mins(30),
        apply: ApplyMode::Server,
        inputs: "0a1b".into(),
        catalog: "c0de".into(),
        images: "1ma9e5".into(),
        instances: None,
        split: None,
        baseline: 0,
        chart_identity: None,
        hooks: None,
        skip_hooks: false,
        catalog_name: "identity".into(),
    }
}

fn line(arguments: &[OsString]) -> String {
    arguments.iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn upgrade_line(upgrade: &Upgrade, helm: Version) -> String {
    let attempt = Attempt::new("p1.x", 7, 3).unwrap();
    line(&upgrade.arguments(&ReleaseKey::new("cloud", "keystone"), &attempt, helm))
}

#[test]
fn upgrades_with_helm_4_force_server_side_apply() {
    assert_eq!(
        upgrade_line(&upgrade(), HELM_4),
        "upgrade --install --reset-values --skip-crds --server-side=true --force-conflicts --values - --history-max 3 --timeout 1800s \
         --labels osdpl.dev/inputs=0a1b,osdpl.dev/catalog=c0de,osdpl.dev/release=identity,osdpl.dev/images=1ma9e5,osdpl.dev/attempt=p1.x-7-v3 \
         --namespace cloud -- keystone \
         /charts/keystone-1.tgz"
    );
}

#[test]
fn label_keeps_the_baseline() {
    let line = upgrade_line(&Upgrade { baseline: 2, ..upgrade() }, HELM_4);
    assert!(line.contains(&format!(",{BASELINE_LABEL}=2,{ATTEMPT_LABEL}=")), "{line}");
}

#[test]
fn label_names_the_chart() {
    let chart_identity = Some(ChartIdentity::new("1.0.0", None, "sha256:00"));
    let label = format!(",{CHART_LABEL}={},{ATTEMPT_LABEL}=", chart_identity.as_ref().unwrap());
    let line = upgrade_line(&Upgrade { chart_identity, ..upgrade() }, HELM_4);
    assert!(line.contains(&label), "{line}");
}

#[test]
fn manual_upgrades_differ_only_in_labels_values_and_chart() {
    let chart = ChartReference {
        name: "keystone".into(),
        flags: ["--repo", "https://charts.example", "--version", "1.2.3"].map(String::from).to_vec(),
    };
    let (key, values) = (ReleaseKey::new("cloud", "keystone"), Path::new("keystone.yaml"));
    let operators_line = upgrade_line(&upgrade(), HELM_4);
    let (before, after) = operators_line.split_once(" --labels ").unwrap();
    let (_, after) = after.split_once(" --namespace").unwrap();
    assert_eq!(
        line(&upgrade().manual_arguments(&key, HELM_4, values, &chart)),
        format!(
            "{} --repo https://charts.example --version 1.2.3 --namespace{}",
            before.replace("--values -", "--values keystone.yaml"),
            after.replace("/charts/keystone-1.tgz", "keystone")
        )
    );
}

#[test]
fn helm_3_gets_only_flags_it_knows() {
    let line = upgrade_line(&upgrade(), HELM_3);
    assert!(!line.contains("server-side") && !line.contains("force"), "{line}");
}

#[test]
fn client_side_apply_does_not_force_conflicts() {
    let line = upgrade_line(&Upgrade { apply: ApplyMode::Client, ..upgrade() }, HELM_4);
    assert!(line.contains("--server-side=false") && !line.contains("force"), "{line}");
}

#[test]
fn upgrades_never_wait_or_roll_back() {
    for helm in [HELM_3, HELM_4] {
        let line = upgrade_line(&upgrade(), helm);
        for flag in [
            "--take-ownership",
            "--wait",
            "--atomic",
            "--rollback-on-failure",
            "--reuse-values",
            "--force-replace",
            "--force ",
        ] {
            assert!(!line.contains(flag), "{line}");
        }
    }
}

#[test]
fn uninstalls_can_skip_hooks_and_never_wait() {
    let release = ReleaseKey::new("cloud", "keystone");
    let uninstall = Uninstall { timeout: Duration::from_millis(1), hooks: true };
    assert_eq!(line(&uninstall.arguments(&release)), "uninstall --timeout 1s --namespace cloud -- keystone");
    let bare = Uninstall { hooks: false, ..uninstall };
    assert_eq!(line(&bare.arguments(&release)), "uninstall --timeout 1s --no-hooks --namespace cloud -- keystone");
}

#[test]
fn arguments_and_debug_output_hide_values() {
    assert!(!upgrade_line(&upgrade(), HELM_4).contains("hunter22"));
    assert!(!format!("{:?}", Operation::Upgrade(Box::new(upgrade()))).contains("hunter22"));
}

#[test]
fn pinned_flags_depend_on_version_and_apply_mode() {
    assert_ne!(pinned_flags(HELM_3, ApplyMode::Server), pinned_flags(HELM_4, ApplyMode::Server));
    assert_ne!(pinned_flags(HELM_4, ApplyMode::Client), pinned_flags(HELM_4, ApplyMode::Server));
    assert_eq!(pinned_flags(HELM_3, ApplyMode::Client), pinned_flags(HELM_3, ApplyMode::Server));
}
