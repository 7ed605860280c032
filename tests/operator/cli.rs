//! Tests subcommands of `osdpl` with a cluster in which the operator runs.

mod diff;
mod plan;
mod plugin;

use std::path::Path;
use std::process::{Command, Output};

use osdpl_core::api::reason;
use serde_json::json;

use crate::cloud::{NAME, StatusAccess, services};
use crate::world::{World, run_test};

/// The options that make a command print credentials on stdout, or write them into files if the command also has the
/// option `--out`.
const SHOWS_CREDENTIALS: [&str; 3] = ["--credentials", "--show-secrets", "--password"];

impl World {
    /// Runs an `osdpl` command as a user with all rights, and returns the output and exit status of the command. The
    /// check at the end of the test searches stderr for secrets, and also stdout unless it must contain credentials.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.run_as(self.cluster().kubeconfig(), arguments)
    }

    fn run_as(&self, kubeconfig: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_osdpl"));
        command.args(arguments).env("KUBECONFIG", kubeconfig).env_remove("RUST_LOG");
        let output = self.in_own_folders(&mut command).output().unwrap();
        let has_credentials = arguments.iter().any(|argument| SHOWS_CREDENTIALS.contains(argument));
        let is_public = !has_credentials || arguments.contains(&"--out");
        let stdout = if is_public { output.stdout.clone() } else { Vec::new() };
        self.record_output(arguments, &Output { stdout, ..output.clone() });
        output
    }

    /// Sets the folders into which a command writes files that its arguments do not name: its home, and the folder for
    /// temporary files. The check at the end of the test searches both folders for secrets.
    pub fn in_own_folders<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        for (variable, name) in [("HOME", "commands-home"), ("TMPDIR", "commands-temporary")] {
            let folder = self.folder.path().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            command.env(variable, folder);
        }
        command
    }

    /// Runs an `osdpl` command, checks that it succeeds, and returns its standard output.
    pub fn osdpl(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "osdpl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs an `osdpl` command, checks that it fails, and returns its standard error.
    pub fn osdpl_fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(!output.status.success(), "osdpl {arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn status_plan_and_wait_agree_with_kubectl_wait() {
    run_test("cli", async |world| {
        assert_eq!(
            world.osdpl_fails(&["status"]),
            "osdpl: there is no matching OpenStackDeployment; create one, or use a name and namespace that `kubectl get osdpl -A` lists\n"
        );
        let mut spec = services(&["mariadb", "memcached"]);
        spec["paused"] = json!(true);
        let _operator = world.operator().start().await;
        world.apply(&spec).await;
        world.until_reason(reason::PAUSED).await;
        let status = world.run(&["status"]);
        let text = String::from_utf8(status.stdout).unwrap();
        assert_eq!(status.status.code(), Some(2), "the exit code must be 2 if a cloud is not Ready: {text}");
        let first = format!("{}/{NAME}  Paused  OpenStack 2026.1  releases 0/2  components 0/3\n", world.namespace);
        assert!(text.starts_with(&first), "{text}");
        assert!(text.contains("· mariadb        absent"), "{text}");
        let plan = world.osdpl(&["plan", "--namespace", &world.namespace, NAME]);
        let waiting = "memcached      absent           paused; set `paused: false` to resume\n";
        let summary = "0 releases would be changed now; waiting: 2, becoming ready: 0, ready: 0.\n";
        assert!(plan.contains(waiting) && plan.ends_with(summary), "{plan}");

        spec["paused"] = json!(false);
        let name = NAME.to_owned();
        world.apply(&spec).await;
        let output = world.osdpl(&["wait", "--timeout", "120"]);
        assert!(output.ends_with(&format!("{name} is Ready\n")), "{output}");
        let mut kubectl = Command::new(world.cluster().kubectl().unwrap());
        kubectl.arg("--kubeconfig").arg(world.cluster().kubeconfig()).args(["--namespace", &world.namespace]);
        let wait = kubectl.args(["wait", "--for=condition=Ready", "--timeout=60s", "osdpl", NAME]).status().unwrap();
        assert!(wait.success());
        let text = world.osdpl(&["status"]);
        assert!(
            text.contains("releases 2/2  components 3/3") && text.contains("✔ memcached      deployed         rev 1"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'), "the output must not contain escape sequences");
        assert!(world.osdpl(&["plan"]).ends_with("Nothing to do: 2 releases are ready.\n"));
        let error = world.osdpl_fails(&["wait", "no-such-cloud"]);
        assert!(error.contains("there is no matching OpenStackDeployment"), "{error}");
        assert!(world.until_ready().await.is_ready());
    });
}

#[test]
fn render_matches_helm_values_except_secrets() {
    run_test("render", async |world| {
        let _operator = world.operator().start().await;
        let spec = services(&["mariadb"]);
        let cloud = world.apply(&spec).await;
        world.until_ready().await;
        let file = world.folder.path().join("cloud.yaml");
        std::fs::write(&file, osdpl_values::yaml::write(&serde_json::to_value(&cloud).unwrap())).unwrap();
        let rendered = world.osdpl(&["render", "--file", file.to_str().unwrap(), "mariadb"]);
        let mut rendered: serde_json::Value = osdpl_values::yaml::parse("render", &rendered).unwrap();
        let mut values = world.helm_values("mariadb");
        assert_eq!(rendered.pointer("/endpoints/oslo_db/auth/admin/password"), Some(&json!("<redacted>")));
        clear_redacted(&mut values, &mut rendered);
        assert_eq!(rendered, values);
    });
}

/// Writes null into `rendered` and `values` for each value that osdpl has redacted in `rendered`. After that, a test
/// can compare the remaining values.
fn clear_redacted(values: &mut serde_json::Value, rendered: &mut serde_json::Value) {
    if *rendered == "<redacted>" {
        assert!(
            values.as_str().is_some_and(|text| text.len() >= 16),
            "osdpl must redact only credentials, which have at least 16 characters"
        );
        (*values, *rendered) = (json!(null), json!(null));
    } else if let (Some(values), Some(rendered)) = (values.as_object_mut(), rendered.as_object_mut()) {
        for (key, rendered) in rendered {
            clear_redacted(values.get_mut(key).unwrap_or(&mut json!(null)), rendered);
        }
    }
}
