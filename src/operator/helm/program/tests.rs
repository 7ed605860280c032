use super::super::fake::{self, Stage};
use super::*;

async fn find(answer: &str) -> Result<Program, Error> {
    let stage = Stage::of("");
    std::fs::write(stage.home.path().join("play"), answer).unwrap();
    Program::find(Some(fake::helm()), stage.home.path().to_owned()).await
}

#[tokio::test]
async fn both_majors_are_accepted_however_they_spell_their_version() {
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
async fn an_unusable_program_is_refused_saying_what_it_is_and_what_to_do() {
    for (answer, expected) in [
        ("echo v3.16.4", "is helm 3.16; the operator needs helm 3.17 or newer within 3, or any helm 4"),
        ("echo v2.17.0", "is helm 2.17"),
        ("echo v5.0.0", "is helm 5.0"),
        ("echo hello; echo world", "answered \"hello\""),
        ("exit 1", "answered \"\""),
    ] {
        let error = find(answer).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("--helm"), "{error}");
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_refused() {
    let error = Program::find(Some("/nowhere/helm".into()), "/nowhere/home".into()).await.unwrap_err().to_string();
    assert!(error.contains("cannot start \"/nowhere/helm\"") && error.contains("install helm"), "{error}");
}

/// The real programs, where the caller has them.
#[tokio::test]
async fn the_real_helms_are_accepted() {
    for (variable, major) in [("OSDPL_TEST_HELM3", 3), ("OSDPL_TEST_HELM4", 4)] {
        if let Some(path) = std::env::var_os(variable) {
            let home = tempfile::tempdir().unwrap();
            let program = Program::find(Some(path.into()), home.path().to_owned()).await.unwrap();
            assert_eq!(program.version().major, major);
        }
    }
}

#[tokio::test]
async fn helm_sees_only_what_is_written_down() {
    let stage = Stage::of("env");
    let program = stage.program().await;
    let output = program
        .with_kubeconfig("/own/kubeconfig".into())
        .command("slot")
        .stdout(Stdio::piped())
        .output()
        .await
        .unwrap();
    let seen = String::from_utf8(output.stdout).unwrap();
    let mut names: Vec<&str> = seen.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
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
    let home = stage.home.path().join("slot").display().to_string();
    for line in [
        &format!("HOME={home}"),
        &format!("HELM_CACHE_HOME={home}/cache"),
        "HELM_DRIVER=secret",
        "KUBECONFIG=/own/kubeconfig",
    ] {
        assert!(seen.lines().any(|seen| seen == line), "{line} is not in\n{seen}");
    }
}
