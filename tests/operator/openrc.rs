//! Checks the settings that `osdpl openrc` prints for OpenStack's clients.

use std::process::Command;

use serde_json::json;

use osdpl_values::{Values, yaml};

use crate::world::World;

impl World {
    /// Checks that osdpl prints the settings with which clients log in to the cloud as its administrator, whose
    /// password is `password`. Also checks that osdpl prints the password only on request.
    pub fn check_openrc(&self, password: &str) {
        let script = self.osdpl(&["openrc"]);
        let identity = format!("http://keystone-api.{}.svc.cluster.local:5000/v3", self.namespace);
        let public = format!(
            "export OS_IDENTITY_API_VERSION=3\nexport OS_AUTH_URL={identity}\nexport OS_REGION_NAME=RegionOne\n"
        );
        assert!(script.starts_with(&public), "{script}");
        assert!(!script.contains(password), "without --show-secrets, osdpl must not print the password");

        let shell = format!("{script}\nprintf '%s %s %s' \"$OS_USERNAME\" \"$OS_PROJECT_NAME\" \"$OS_PASSWORD\"");
        let mut shell_command = Command::new("bash");
        shell_command.args(["-euc", &shell]).env("KUBECONFIG", self.cluster().kubeconfig());
        let output = shell_command.output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("admin admin {password}"));

        let arguments = ["openrc", "--output=clouds", "--interface=public", "--project=it's"];
        let clouds: Values = yaml::parse("clouds.yaml", &self.osdpl(&arguments)).unwrap();
        let mut auth = json!({"auth_url": identity, "username": "admin", "user_domain_name": "default",
            "project_name": "it's", "project_domain_name": "default"});
        let cloud = |auth: &serde_json::Value| json!({"nimbus": {"region_name": "RegionOne", "interface": "public", "identity_api_version": 3, "auth": auth}});
        assert_eq!(clouds["clouds"], cloud(&auth));
        let arguments = [&arguments[..], &["--show-secrets"]].concat();
        let clouds: Values = yaml::parse("clouds.yaml", &self.osdpl(&arguments)).unwrap();
        auth["password"] = json!(password);
        assert_eq!(clouds["clouds"], cloud(&auth));
        assert_eq!(self.osdpl(&["openrc", "--password"]), format!("{password}\n"));
    }
}
