//! `osdpl status`: prints the status of the cloud as a tree that is readable without colour. `--watch` prints every
//! change.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Args;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::common::Target;
use super::output::{self, Format};
use super::wait::{follow, is_ready, stale_status_message};
use osdpl_client::Stored;
use osdpl_core::api::{
    ComponentHealth, HelmReleaseStatus, NodeMaintenance, OpenStackDeployment, RoleStatus, RolloutStatus,
    RootCauseStatus, TestStatus,
};
use osdpl_core::nodes::format_names;
use osdpl_core::status::rollout_line;
use osdpl_operator::lease::describe_inactivity;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// The output format. JSON has the resource's name, generation and status, and whether the cloud is ready.
    #[arg(long, short, value_enum, default_value_t = Format::Text, conflicts_with = "watch")]
    output: Format,
    /// Follow the status until the cloud is Ready or the command is interrupted.
    #[arg(long, short)]
    watch: bool,
}

impl Arguments {
    pub(crate) async fn run(&self) -> anyhow::Result<ExitCode> {
        let client = self.target.cluster.client().await?;
        let deployment = self.target.find(&client).await?;
        if !self.watch {
            match self.output {
                Format::Text => {
                    output::print(tree(&deployment) + &maintenances(&client).await + &inactivity(&client).await);
                }
                Format::Json => output::line(serde_json::to_string_pretty(&json(&deployment))?),
            }
            return Ok(if is_ready(&deployment) { ExitCode::SUCCESS } else { ExitCode::from(2) });
        }
        let mut last = Vec::new();
        let report = |deployment: &OpenStackDeployment| {
            if std::io::stdout().is_terminal() {
                output::print(format_args!("\x1b[H\x1b[2J{}", tree(deployment)));
            } else {
                last = print_changes(deployment, &last);
            }
            is_ready(deployment).then_some(ExitCode::SUCCESS)
        };
        follow(client, &deployment, self.target.cluster.timeout(), report).await
    }
}

/// Prints the status of the releases, one line each, except for the lines in `last`. Returns all lines; the next call
/// gets them as `last`. `--watch` uses this function if standard output is not a terminal.
fn print_changes(deployment: &OpenStackDeployment, last: &[String]) -> Vec<String> {
    let status = deployment.status.clone().unwrap_or_default();
    let children = status.children.iter().map(|(name, child)| line(name, child));
    let lines: Vec<String> = stale_status_message(deployment).into_iter().chain(children).collect();
    for line in lines.iter().filter(|line| !last.contains(line)) {
        output::line(line);
    }
    lines
}

/// Returns the symbol for the state of a release: ready (✔), failed or unmanaged (✘), not installed (·), or in progress
/// (…).
fn mark(child: &HelmReleaseStatus) -> char {
    match (child.ready, child.status.as_str()) {
        (true, _) => '✔',
        (false, "failed" | "unmanaged") => '✘',
        (false, "absent") => '·',
        (false, _) => '…',
    }
}

/// Returns one line with the symbol, name, helm status, revision and message of a release.
fn line(name: &str, child: &HelmReleaseStatus) -> String {
    let revision = child.revision.map(|revision| format!("rev {revision}")).unwrap_or_default();
    format!("{} {name:<14} {:<16} {revision:<7} {}", mark(child), child.status, child.message).trim_end().to_owned()
}

/// Returns the status as JSON.
fn json(deployment: &OpenStackDeployment) -> serde_json::Value {
    serde_json::json!({
        "namespace": deployment.namespace(),
        "name": deployment.name_any(),
        "generation": deployment.metadata.generation,
        "ready": is_ready(deployment),
        "status": deployment.status,
    })
}

/// Returns the status as text, without the NodeMaintenances and without the warning about an inactive operator.
pub(crate) fn tree(deployment: &OpenStackDeployment) -> String {
    let status = deployment.status.clone().unwrap_or_default();
    let stale = stale_status_message(deployment).map(|message| format!("{message}; the status below is older"));
    let phase = match (&stale, status.phase) {
        (Some(_), _) => "Outdated".to_owned(),
        (None, phase) => phase.map(|phase| format!("{phase:?}")).unwrap_or_default(),
    };
    let release = &status.openstack_release;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}/{}  {phase}  OpenStack {}  releases {}  components {}",
        deployment.namespace().unwrap_or_default(),
        deployment.name_any(),
        release.deployed.as_deref().or(release.target.as_deref()).unwrap_or("?"),
        status.releases,
        status.components
    );
    let _ = writeln!(text, "{}\n", stale.unwrap_or(status.message));
    for (name, child) in &status.children {
        let _ = writeln!(text, "{}", line(name, child));
        for (component, health) in status.health.get(name).into_iter().flatten() {
            if health.status != ComponentHealth::Ready {
                let line = format!(
                    "    {component:<22} {:<12} {:<6} {}",
                    format!("{:?}", health.status),
                    health.ready,
                    health.reason
                );
                let _ = writeln!(text, "{}", line.trim_end());
            }
        }
    }
    text.push_str(&previous_images(&status.children));
    text.push_str(&roles(&status.roles));
    text.push_str(&rollouts(&status.rollouts));
    text.push_str(&tests(&status.tests));
    text.push_str(&causes(&status.causes));
    if let Some(hash) = &status.approval {
        let _ = writeln!(text, "\nChanges wait for approval: osdpl plan, then osdpl approve {hash}");
    }
    text
}

/// Formats the digests of images that pods no longer run because their tag has moved, for the text of the status; empty
/// if there are none.
fn previous_images(children: &BTreeMap<String, HelmReleaseStatus>) -> String {
    let mut text = String::new();
    for (name, child) in children {
        for image in &child.previous_images {
            let head = if text.is_empty() { "\nImages that changed because their tag has moved:\n " } else { " " };
            let _ = writeln!(text, "{head} {name:<14} ran {image} before");
        }
    }
    text
}

/// Formats the roles, for the text of the status: the number, names and labels of the nodes of each role. The result is
/// empty if there are no roles.
fn roles(roles: &BTreeMap<String, RoleStatus>) -> String {
    let mut text = String::new();
    for (name, role) in roles {
        let RoleStatus { labels, count, nodes } = role;
        let count = usize::try_from(*count).unwrap_or_default();
        let nodes = format_names(nodes.iter().map(String::as_str), count);
        let _ = writeln!(
            text,
            "{} {name:<14} {nodes}: {}",
            if text.is_empty() { "\nRoles:\n " } else { " " },
            labels.join(", ")
        );
    }
    text
}

/// Formats the active rollouts of the data plane, for the text of the status; empty if no rollout is active.
fn rollouts(rollouts: &BTreeMap<String, RolloutStatus>) -> String {
    let active = rollouts.iter().filter(|(_, rollout)| rollout.phase.is_active());
    let lines = active.map(|(name, rollout)| format!("  {}\n", rollout_line(name, rollout)));
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\nRollouts:\n{lines}") }
}

/// Formats the last result of each scheduled test, for the text of the status; empty if there are no tests.
fn tests(tests: &BTreeMap<String, TestStatus>) -> String {
    let line = |(name, test): (&String, &TestStatus)| {
        let result = match test.passed {
            None => "has not run yet".to_owned(),
            Some(true) => "passed".to_owned(),
            Some(false) => format!("failed ({})", test.reason),
        };
        let time = test.time.as_ref().map(|time| format!(" at {:.0}", time.0)).unwrap_or_default();
        let job = test.job.as_ref().map(|job| format!("log of Job {job}, ")).unwrap_or_default();
        format!("  {name:<22} {result}{time}\n      see {job}{}\n", test.results)
    };
    let lines: String = tests.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\nTests:\n{lines}") }
}

/// Formats the `NodeMaintenance` resources, for the text of the status. If osdpl can't list these resources, the result
/// is empty, so that the user still sees the rest of the status.
async fn maintenances(client: &kube::Client) -> String {
    let all = Api::<Stored<NodeMaintenance>>::all(client.clone()).list(&ListParams::default()).await;
    let mut text = String::new();
    for stored in all.into_iter().flatten() {
        let head = if text.is_empty() { "\nMaintenance:\n " } else { " " };
        let maintenance = match stored.content() {
            Ok(maintenance) => maintenance,
            Err(why) => {
                let _ = writeln!(text, "{head} osdpl can't read {}: {why}", stored.name_any());
                continue;
            }
        };
        let status = maintenance.status.clone().unwrap_or_default();
        let phase = status.phase.map(|phase| format!("{phase:?}")).unwrap_or_default();
        let _ = writeln!(
            text,
            "{head} {:<14} {phase} ({}): {}",
            maintenance.spec.node,
            maintenance.name_any(),
            status.message
        );
    }
    text
}

/// If no operator is active, returns a warning that the status may be outdated, because only an active operator updates
/// it. Returns an empty string if an operator is active, or if the user may not read the operators' Lease.
async fn inactivity(client: &kube::Client) -> String {
    let why = describe_inactivity(client).await;
    why.map_or_else(String::new, |why| {
        format!(
            "\nNo operator is active, so the status may be outdated: {why}; start the operator, or install its chart\n"
        )
    })
}

/// Formats the root causes, for the text of the status: each cause, the objects that the user should inspect, and the
/// objects that are not ready because of the cause.
fn causes(causes: &[RootCauseStatus]) -> String {
    let mut text = String::new();
    if !causes.is_empty() {
        text.push_str("\nCauses (`osdpl why` shows the complete chains):\n");
    }
    for cause in causes {
        let _ = writeln!(text, "  {}", cause.message);
        let objects: Vec<_> = cause.objects.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "      see {}", objects.join(", "));
        if !cause.affected.is_empty() {
            let _ = writeln!(text, "      waiting for it: {}", cause.affected.join(", "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cloud(observed: i64) -> OpenStackDeployment {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
            "metadata": {"name": "cloud", "namespace": "n", "generation": 5}, "spec": {"openstackRelease": "2026.1"},
            "status": {"observedGeneration": observed, "phase": "Ready", "message": "all 1 releases are ready", "releases": "1/1",
                "components": "0/0", "children": {"keystone": {"status": "deployed", "ready": true, "revision": 1, "chart": "keystone"}}},
        }))
        .unwrap()
    }

    #[test]
    fn marks_the_status_of_an_older_spec() {
        let (current, older) = (tree(&cloud(5)), tree(&cloud(4)));
        assert!(current.starts_with("n/cloud  Ready  ") && current.contains("all 1 releases are ready"), "{current}");
        assert!(older.starts_with("n/cloud  Outdated  "), "{older}");
        assert!(
            older.contains("\nnot yet observed by the operator: generation 5, observed 4; the status below is older\n"),
            "{older}"
        );
        assert!(!older.contains("Ready") && !older.contains("are ready") && older.contains("keystone"), "{older}");
    }
}
