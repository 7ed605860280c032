use super::super::fake::{self, FakeHelm};
use super::*;

async fn find(answer: &str) -> Result<Program, Error> {
    let fake_helm = FakeHelm::with_script("");
    std::fs::write(fake_helm.home.path().join("script"), answer).unwrap();
    Program::find(Some(fake::helm()), fake_helm.home.path().to_owned()).await
}

#[tokio::test]
async fn accepts_versions_of_both_majors() {
    for (answer, expected) in [
        ("v3.22.0", (3, 22)),
        ("v3.17.0+g301108e", (3, 17)),
        ("v4.3.1", (4, 3)),
        ("v4.0.0-rc.1", (4, 0)),
        ("v4.3", (4, 3)),
    ] {
        let version = find(&format!("echo {answer}")).await.unwrap().version();
        assert_eq!((version.major, version.minor), expected, "{answer}");
    }
}

#[tokio::test]
async fn rejects_unusable_programs_with_a_remedy() {
    for (answer, expected) in [
        ("echo v3.16.4", "is helm 3.16; the operator needs helm 4, or helm 3 from version 3.17 on"),
        ("echo v2.17.0", "is helm 2.17"),
        ("echo v5.0.0", "is helm 5.0"),
        ("echo hello; echo world", "printed \"hello\""),
        ("exit 1", "printed \"\""),
    ] {
        let error = find(answer).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("--helm"), "{error}");
    }
}

#[tokio::test]
async fn rejects_a_missing_program() {
    let error = Program::find(Some("/nowhere/helm".into()), "/nowhere/home".into()).await.unwrap_err().to_string();
    assert!(error.contains("cannot start \"/nowhere/helm\"") && error.contains("install helm"), "{error}");
}

/// Checks the real programs helm 3 and helm 4, if environment variables contain their paths.
#[tokio::test]
async fn accepts_the_real_helms() {
    for (variable, major) in [("OSDPL_TEST_HELM3", 3), ("OSDPL_TEST_HELM4", 4)] {
        if let Some(path) = std::env::var_os(variable) {
            let home = tempfile::tempdir().unwrap();
            let program = Program::find(Some(path.into()), home.path().to_owned()).await.unwrap();
            assert_eq!(program.version().major, major);
        }
    }
}

#[tokio::test]
async fn helm_sees_only_the_listed_variables() {
    let fake_helm = FakeHelm::with_script("env");
    let program = fake_helm.program().await;
    let output = program
        .with_kubeconfig("/own/kubeconfig".into())
        .command("slot")
        .stdout(Stdio::piped())
        .output()
        .await
        .unwrap();
    let environment = String::from_utf8(output.stdout).unwrap();
    let mut names: Vec<&str> =
        environment.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.retain(|name| !PASSED_ON.contains(name) && !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "GOGC",
            "GOMEMLIMIT",
            "HELM_CACHE_HOME",
            "HELM_CONFIG_HOME",
            "HELM_DATA_HOME",
            "HELM_DRIVER",
            "HELM_NO_PLUGINS",
            "HOME",
            "KUBECONFIG",
            "NO_COLOR"
        ]
    );
    let home = fake_helm.home.path().join("slot").display().to_string();
    for line in [
        &format!("HOME={home}"),
        &format!("HELM_CACHE_HOME={home}/cache"),
        "HELM_DRIVER=secret",
        "KUBECONFIG=/own/kubeconfig",
    ] {
        assert!(environment.lines().any(|found| found == line), "{line} is not in\n{environment}");
    }
}
