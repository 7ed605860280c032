//! `osdpl openrc`: prints the settings with which OpenStack's clients log in to the cloud as its administrator.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};
use kube::ResourceExt;
use serde_json::json;

use super::additions::warn_about;
use super::common::{CatalogOption, Target};
use super::keystone::{InterfaceArgument, KeystoneAccess, read_access};
use super::output;
use super::shell::{quoted, word};
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::endpoint::Login;
use osdpl_values::yaml;

/// The format of the output.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Shell commands that set environment variables; run them with eval "$(osdpl openrc)".
    Shell,
    /// A clouds.yaml, for OpenStack's clients and libraries.
    Clouds,
}

#[derive(Args)]
pub(crate) struct Arguments {
    /// The format of the output.
    #[arg(long, short, value_enum, default_value_t = Output::Shell)]
    output: Output,
    /// The endpoints that OpenStack's clients use.
    #[arg(long, value_enum, default_value_t = InterfaceArgument::Internal)]
    interface: InterfaceArgument,
    /// The project to work in; default: the administrator's project. Both projects must be in the same domain.
    #[arg(long)]
    project: Option<String>,
    /// Include the password. Without this option, the shell runs osdpl to get the password, and a clouds.yaml has none.
    #[arg(long)]
    show_secrets: bool,
    /// Print only the password.
    #[arg(long, conflicts_with_all = ["output", "interface", "project", "show_secrets"])]
    password: bool,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    catalog: CatalogOption,
}

impl Arguments {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let client = self.target.cluster.client().await?;
        let deployment = self.target.find(&client).await?;
        let (extended, errors) = self.catalog.load_live(&client, &deployment).await?;
        warn_about(&errors);
        let mut access = read_access(client, &deployment, &extended.catalog, self.interface.into()).await?;
        if let Some(project) = &self.project {
            access.login.project.clone_from(project);
        }
        let text = match self.output {
            _ if self.password => format!("{}\n", access.login.reveal_password()),
            Output::Shell => access.shell(&self.password_expression(&deployment, &access.login)?),
            Output::Clouds => access.clouds(self.show_secrets),
        };
        output::print(text);
        Ok(ExitCode::SUCCESS)
    }

    /// Returns a shell expression whose value is the password: the quoted password, or a command substitution that runs
    /// `osdpl openrc --password`.
    fn password_expression(&self, deployment: &OpenStackDeployment, login: &Login) -> anyhow::Result<String> {
        if self.show_secrets {
            return Ok(word(login.reveal_password()));
        }
        let program = std::env::current_exe().context("finding the program osdpl")?;
        let mut command = format!("{} openrc --password {}", quoted(program.as_os_str()), word(&deployment.name_any()));
        let _ = write!(command, " --namespace {}", word(&deployment.namespace().unwrap_or_default()));
        for argument in self.target.cluster.selection() {
            let _ = write!(command, " {}", quoted(argument));
        }
        if let Some(folder) = &self.catalog.catalog {
            let _ = write!(command, " --catalog {}", quoted(folder.as_os_str()));
        }
        Ok(format!("\"$({command})\""))
    }
}

impl KeystoneAccess {
    /// Returns shell commands that set the environment variables of OpenStack's clients (`OS_…`).
    fn shell(&self, password: &str) -> String {
        let Login { user, user_domain, project, project_domain, .. } = &self.login;
        let identity = self.identity.to_string();
        let variables = [
            ("OS_IDENTITY_API_VERSION", "3"),
            ("OS_AUTH_URL", &identity),
            ("OS_REGION_NAME", &self.region),
            ("OS_INTERFACE", self.interface.name()),
            ("OS_USERNAME", user),
            ("OS_USER_DOMAIN_NAME", user_domain),
            ("OS_PROJECT_NAME", project),
            ("OS_PROJECT_DOMAIN_NAME", project_domain),
        ];
        let mut text = String::new();
        for (name, value) in variables {
            let _ = writeln!(text, "export {name}={}", word(value));
        }
        let _ = writeln!(text, "export OS_PASSWORD={password}");
        text
    }

    /// Returns the text of a `clouds.yaml`. If it does not contain the password, OpenStack's clients look for the
    /// password in the file `secure.yaml` in the same folder.
    fn clouds(&self, show_password: bool) -> String {
        let Login { user, user_domain, project, project_domain, .. } = &self.login;
        let mut auth = json!({
            "auth_url": self.identity.to_string(),
            "username": user,
            "user_domain_name": user_domain,
            "project_name": project,
            "project_domain_name": project_domain,
        });
        if show_password {
            auth["password"] = self.login.reveal_password().into();
        }
        let cloud = json!({
            "region_name": self.region,
            "interface": self.interface.name(),
            "identity_api_version": 3,
            "auth": auth,
        });
        yaml::write(&json!({"clouds": {&self.cloud: cloud}}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Parsed {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn inner_command_gets_the_options() {
        let options = ["openrc", "--kubeconfig", "k", "--context", "lab", "--catalog", "my files"];
        let Parsed { arguments } = <Parsed as clap::Parser>::parse_from(options);
        let deployment = json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
            "metadata": {"name": "cloud", "namespace": "site"}, "spec": {"openstackRelease": "2026.1"},
        });
        let values = json!({"endpoints": {"identity": {"auth": {"admin": {"password": "hunter2"}}}}});
        let login = Login::from_values(values.as_object().unwrap()).unwrap();
        let expression = arguments.password_expression(&serde_json::from_value(deployment).unwrap(), &login).unwrap();
        let expected = "openrc --password cloud --namespace site --kubeconfig k --context lab --catalog 'my files')\"";
        assert!(expression.ends_with(expected), "{expression}");
    }
}
