//! `osdpl detach`: ends osdpl's management of single releases (`managed: false`), or of the whole cloud. The releases
//! keep running, and can be managed by hand with helm.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{ArgGroup, Args};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::additions::warn_about;
use super::common::{CatalogOption, ResourceOption, Target, unknown_release};
use super::connect::readable;
use super::output;
use osdpl_core::api::OpenStackDeployment;
use osdpl_lint::Input;

#[derive(Args)]
#[command(group(ArgGroup::new("what").args(["releases", "all"]).required(true)))]
pub(crate) struct Arguments {
    /// The releases that osdpl stops managing, by their names in the catalogue.
    releases: Vec<String>,
    /// Detach the whole cloud: delete the resource, but keep all releases, Secrets and node labels.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    resource: ResourceOption,
    #[command(flatten)]
    catalog: CatalogOption,
}

impl Arguments {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let client = self.resource.cluster.client().await?;
        let deployment = Target::from(&self.resource).find(&client).await?;
        let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
        let releases = if self.all { Vec::new() } else { self.managed_releases(&client, &deployment).await? };
        if releases.is_empty() && !self.all {
            return Ok(ExitCode::SUCCESS);
        }
        let spec = if self.all { json!({"deletionPolicy": "Detach"}) } else { unmanage_patch(&releases) };
        let api: Api<OpenStackDeployment> = Api::namespaced(client, &namespace);
        change_spec(&api, &deployment, &spec).await?;
        if self.all {
            delete(&api, &deployment).await?;
            output::line(format_args!("{name} is detached: releases, Secrets and node labels stay as they are"));
        } else {
            let names = releases.iter().map(|(_, release)| release.as_str()).collect::<Vec<_>>().join(", ");
            output::line(format_args!(
                "{names} of {name} will be unmanaged; `osdpl plan` shows when this is done; set `managed: false` in the resource's file, too"
            ));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the requested releases that osdpl manages, as pairs of service name and release name. For each requested
    /// release that is already unmanaged (`managed: false`), prints a line and leaves it out.
    async fn managed_releases(
        &self,
        client: &Client,
        deployment: &OpenStackDeployment,
    ) -> anyhow::Result<Vec<(String, String)>> {
        let (extended, errors) = self.catalog.load_live(client, deployment).await?;
        warn_about(&errors);
        let catalog = extended.catalog;
        let selection = Input::of_resource(deployment, &deployment.spec, &catalog).select();
        let mut managed = Vec::new();
        for release in &self.releases {
            let Some((service, _)) = catalog.release(release) else { return Err(unknown_release(&catalog, release)) };
            if !selection.releases.contains_key(release) {
                bail!(
                    "{release} is not part of {}, so there is nothing to unmanage; see `osdpl plan`",
                    deployment.name_any()
                );
            }
            let own = deployment.spec.services.get(service).and_then(|own| own.releases.get(release));
            if own.is_some_and(|own| own.managed == Some(false)) {
                output::line(format_args!("{release} is already unmanaged, nothing to do"));
            } else {
                managed.push((service.to_owned(), release.clone()));
            }
        }
        Ok(managed)
    }
}

/// Patches the spec of the `OpenStackDeployment`. If the resource was deleted, and a new resource has the same name,
/// the API server refuses the patch, because the patch contains the uid of the deleted resource.
async fn change_spec(
    api: &Api<OpenStackDeployment>,
    deployment: &OpenStackDeployment,
    spec: &Value,
) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({"metadata": {"uid": deployment.uid()}, "spec": spec}));
    api.patch(&deployment.name_any(), &PatchParams::default(), &patch).await.map_err(readable)?;
    Ok(())
}

/// Deletes the `OpenStackDeployment`. If it was deleted already, and a new resource has the same name, the API server
/// refuses the request, because the request contains the uid of the deleted resource.
async fn delete(api: &Api<OpenStackDeployment>, deployment: &OpenStackDeployment) -> anyhow::Result<()> {
    let preconditions = Some(Preconditions { uid: deployment.uid(), ..Preconditions::default() });
    let params = DeleteParams { preconditions, ..DeleteParams::default() };
    api.delete(&deployment.name_any(), &params).await.map_err(readable).context("deleting the resource")?;
    Ok(())
}

/// Returns a merge patch for the spec that sets `managed: false` for each release. An item of `releases` is a pair of a
/// service and one of its releases.
fn unmanage_patch(releases: &[(String, String)]) -> Value {
    let mut services = json!({});
    for (service, release) in releases {
        services[service.as_str()]["releases"][release.as_str()]["managed"] = false.into();
    }
    json!({"services": services})
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::Router;
    use axum::body::{Body, to_bytes};

    use super::*;

    #[tokio::test]
    async fn detaches_no_newer_resource_of_the_same_name() {
        let deployment = json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment",
            "metadata": {"name": "nimbus", "namespace": "openstack", "uid": "seen"},
            "spec": {"openstackRelease": "2026.1"},
        });
        let bodies = Arc::<Mutex<Vec<Value>>>::default();
        let (response, received) = (deployment.to_string(), Arc::clone(&bodies));
        let router = Router::new().fallback(async move |body: Body| {
            let body = to_bytes(body, 4096).await.unwrap();
            received.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
            response
        });
        let api = Api::namespaced(Client::new(router, "openstack"), "openstack");
        let deployment = serde_json::from_value(deployment).unwrap();
        change_spec(&api, &deployment, &json!({"deletionPolicy": "Detach"})).await.unwrap();
        delete(&api, &deployment).await.unwrap();
        let bodies = bodies.lock().unwrap();
        assert_eq!(bodies[0]["metadata"]["uid"], "seen");
        assert_eq!(bodies[1]["preconditions"], json!({"uid": "seen"}));
    }
}
