//! Tests `osdpl diff`, which compares the running cloud with a file. The user of the command may only read objects.

use std::path::Path;

use serde_json::{Value, json};

use super::plan::ALL;
use crate::cloud::{services, with_values};
use crate::world::{World, run_test};

impl World {
    /// Runs `osdpl diff` as the user of the kubeconfig `reader`. Returns its output and exit code.
    fn diff(&self, reader: &Path, arguments: &[&str]) -> (String, Option<i32>) {
        let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts").display().to_string();
        let cache = self.folder.path().join("cache").display().to_string();
        let helm = self.cluster().helm(4).unwrap().display().to_string();
        let common = ["diff", "-n", &self.namespace, "--charts", &charts, "--cache", &cache, "--helm", &helm];
        let output = self.run_as(reader, &[&common[..], arguments].concat());
        let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
        (String::from_utf8(text).unwrap(), output.status.code())
    }
}

#[test]
fn diff_compares_file_and_cloud_without_secrets() {
    run_test("diff", async |world| {
        let _operator = world.operator().start().await;
        let spec = services(&["mariadb", "memcached"]);
        world.apply(&spec).await;
        world.until_ready().await;
        let reader = world.reader("differ", &ALL).await;
        let file = world.file(&spec).display().to_string();
        let (output, code) = world.diff(&reader, &["-f", &file, "--manifests"]);
        assert_eq!((output.lines().next(), code), (Some("2 as desired."), Some(0)), "{output}");

        let password = json!({"endpoints": {"oslo_db": {"auth": {"admin": {"password": "rotated-by-hand"}}}}});
        let mut next = with_values(services(&["mariadb", "memcached", "rabbitmq"]), "mariadb", password);
        next["services"]["memcached"]["enabled"] = json!(false);
        let file = world.file(&next).display().to_string();
        let (output, code) = world.diff(&reader, &["-f", &file]);
        let lines: Vec<&str> = output.lines().collect();
        let namespace = &world.namespace;
        assert!(
            lines.contains(&format!("memcached ({namespace}/memcached) would be uninstalled").as_str()),
            "{output}"
        );
        assert!(lines.contains(&format!("rabbitmq ({namespace}/rabbitmq) would be installed").as_str()), "{output}");
        assert!(lines.contains(&"  endpoints.oslo_db.auth.admin.password: changed (secret, not shown)"), "{output}");
        assert!(lines.contains(&"1 would be changed, 1 installed, 1 uninstalled, 0 as desired."), "{output}");
        assert_eq!(code, Some(1), "{output}");

        let values = world.helm_values("mariadb");
        let password = values.pointer("/endpoints/oslo_db/auth/admin/password").and_then(Value::as_str).unwrap();
        let (output, code) = world.diff(&reader, &["-f", &file, "--manifests", "-o", "json"]);
        assert_eq!(code, Some(1), "{output}");
        assert!(!output.contains(password) && !output.contains("rotated-by-hand"), "{output}");
        let report: Value = serde_json::from_str(&output).unwrap();
        let objects = |release: &str| report["releases"][release]["objects"].as_array().cloned().unwrap_or_default();
        assert!(objects("rabbitmq").iter().all(|object| object["effect"]["what"] == "added"), "{output}");
        assert!(objects("rabbitmq").iter().any(|object| object["kind"] == "StatefulSet"), "{output}");
        let changed = objects("mariadb");
        assert!(!changed.is_empty() && changed.iter().all(|object| object["effect"]["what"] != "added"), "{output}");

        let (output, code) = world.diff(&reader, &["-f", &file, "mariadbb"]);
        assert!(
            output.contains("there is no release \"mariadbb\" in this cloud (did you mean \"mariadb\"?)"),
            "{output}"
        );
        assert_eq!(code, Some(2));
    });
}
