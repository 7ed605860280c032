//! Tests osdpl as a kubectl plugin, with shell completion. Also tests that osdpl exits when the reader of its output
//! closes the pipe.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};

use crate::cloud::services;
use crate::world::{World, run_test};

impl World {
    /// Runs kubectl. PATH contains osdpl under two names: `kubectl-osdpl` is the plugin, and `kubectl_complete-osdpl`
    /// completes the plugin's arguments.
    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        let folder = self.folder.path().join("bin");
        if !folder.exists() {
            std::fs::create_dir(&folder).unwrap();
            for name in ["kubectl-osdpl", "kubectl_complete-osdpl"] {
                symlink(env!("CARGO_BIN_EXE_osdpl"), folder.join(name)).unwrap();
            }
        }
        let mut path = folder.into_os_string();
        path.push(OsString::from(":"));
        path.push(std::env::var_os("PATH").unwrap());
        let mut kubectl = Command::new(self.cluster().kubectl().unwrap());
        kubectl.args(arguments).env("PATH", path).env("KUBECONFIG", self.cluster().kubeconfig());
        let output = self.in_own_folders(&mut kubectl).output().unwrap();
        self.record_output(&[&["kubectl"], arguments].concat(), &output);
        output
    }

    fn candidates(&self, arguments: &[&str]) -> Vec<String> {
        let output = self.kubectl(&[&["__complete", "osdpl"], arguments].concat());
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn kubectl_plugin_completes_and_survives_closed_pipes() {
    run_test("plugin", async |world| {
        world.apply(&services(&["memcached"])).await;
        let plan = world.kubectl(&["osdpl", "plan", "--namespace", &world.namespace]);
        assert!(text(&plan.stdout).contains("memcached      absent           helm upgrade --install"), "{plan:?}");
        let help = world.kubectl(&["osdpl", "plan", "--help"]);
        assert!(text(&help.stdout).contains("Usage: kubectl osdpl plan [OPTIONS] [NAME]"), "{help:?}");
        let wrong = world.kubectl(&["osdpl", "plan", "--context", "nowhere"]);
        assert!(!wrong.status.success() && text(&wrong.stderr).contains("nowhere"), "{wrong:?}");

        assert_eq!(world.candidates(&["pl"]), ["plan", ":4"]);
        assert_eq!(world.candidates(&["plan", "--of"]), ["--offline", ":4"]);
        assert_eq!(world.candidates(&["plan", "--output", ""]), ["table", "json", ":4"]);
        assert_eq!(
            world.candidates(&["plan", "-f", ""]),
            [":0"],
            "kubectl must leave the completion of file names to the shell"
        );
        let all = world.candidates(&[""]);
        assert!(all.contains(&"status".to_owned()) && !all.contains(&"exec-helm".to_owned()), "{all:?}");

        for shell in ["bash", "zsh", "fish"] {
            let script = world.osdpl(&["completions", shell]);
            assert!(
                script.contains("plan") && !script.contains("exec-helm"),
                "{shell} must complete `plan`, but not the internal command `exec-helm`"
            );
        }
        let complete = "source <(\"$0\" completions bash); COMP_WORDS=(osdpl charts ''); COMP_CWORD=2; \
            _osdpl osdpl '' charts; echo \"${COMPREPLY[@]}\"";
        let bash = Command::new("bash").args(["-c", complete, env!("CARGO_BIN_EXE_osdpl")]).output().unwrap();
        assert_eq!(text(&bash.stdout), "-h --help lock pull list help\n");

        let mut reader = Command::new(env!("CARGO_BIN_EXE_osdpl"));
        let mut reader = reader.arg("crd").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(reader.stdout.take());
        let output = reader.wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(141), String::new()));
    });
}
