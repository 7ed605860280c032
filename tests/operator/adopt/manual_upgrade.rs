//! A user upgrades a release of a paused cloud with the files that `osdpl render` writes. After the pause, the operator
//! must find this release in sync.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::chart;
use crate::cloud::{StatusAccess, services, with_values};
use crate::world::{World, run_test};

impl World {
    /// Writes the files of a release with `osdpl render` and runs their `install.sh`.
    fn install_rendered(&self, release: &str) {
        let folder = self.folder.path().join("manual");
        let path = folder.display().to_string();
        let charts = chart("");
        let cache = self.folder.path().join("cache").display().to_string();
        let source = ["--charts", &charts, "--cache", &cache];
        let output = self.osdpl(
            &[&["render", "--credentials", "--out", &path, "-n", &self.namespace, release], &source[..]].concat(),
        );
        assert!(output.contains("with the real credentials"), "{output}");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join(format!("{release}.yaml")))), (0o700, 0o600));
        // `install.sh` runs `helm` and `kubectl` from PATH. The test's copies of these programs have longer file names,
        // so create links with the short names.
        let programs = self.folder.path().join("programs");
        std::fs::create_dir(&programs).unwrap();
        for (name, program) in
            [("helm", self.cluster().helm(4).unwrap()), ("kubectl", self.cluster().kubectl().unwrap())]
        {
            std::os::unix::fs::symlink(program, programs.join(name)).unwrap();
        }
        let path = std::env::join_paths(
            [programs].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        let mut script = Command::new(folder.join("install.sh"));
        let output = script
            .arg(release)
            .env("PATH", path.unwrap())
            .env("HOME", self.folder.path().join("home"))
            .env("KUBECONFIG", self.cluster().kubeconfig())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_manual_upgrade_during_a_pause_is_in_sync_after_it() {
    run_test("manual-upgrade", async |world| {
        let _operator = world.operator().start().await;
        let spec = services(&["mariadb", "memcached"]);
        world.apply(&spec).await;
        world.until_ready().await;
        let mut spec = with_values(spec, "memcached", json!({"conf": {"memcached": {"memory": 512}}}));
        spec["services"]["memcached"]["releases"]["memcached"]["paused"] = json!(true);
        world.apply(&spec).await;
        let is_paused = |cloud: &osdpl_core::api::OpenStackDeployment| {
            cloud.child("memcached").message.starts_with("paused").then_some(())
        };
        world.until("the release is paused", is_paused).await;
        world.install_rendered("memcached");
        let is_upgraded_manually = |cloud: &osdpl_core::api::OpenStackDeployment| {
            let child = cloud.child("memcached");
            (child.revision == Some(2) && child.message.starts_with("paused")).then_some(())
        };
        world.until("memcached is still paused after the manual upgrade to revision 2", is_upgraded_manually).await;
        let pods = world.pods().await;
        spec["services"]["memcached"]["releases"]["memcached"]["paused"] = json!(false);
        world.apply(&spec).await;
        assert_eq!(world.until_ready().await.child("memcached").revision, Some(2));
        assert_eq!(world.pods().await, pods);
        assert_eq!(
            world.helm_runs().iter().filter(|run| run.release() == "memcached").count(),
            1,
            "the operator must run helm for memcached only once, to install it"
        );
    });
}
