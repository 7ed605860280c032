//! Loads a cloud from the cluster, with the real credentials, for `osdpl render --credentials`.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Client, ResourceExt};
use osdpl_values::CollectSorted;

use super::script::ClusterIdentity;
use super::{Arguments, Cloud};
use crate::connect::readable;
use crate::live::{Live, LiveQuery};
use crate::offline::report_findings;
use osdpl_core::catalog::Catalog;
use osdpl_core::credentials::{list_needed_credentials, secret_name, user_secret};
use osdpl_core::plan::jobs_to_delete;
use osdpl_operator::controller::{Preview, collect_secrets};
use osdpl_operator::helm::Version;

impl Arguments {
    /// Returns the cloud with the values that the operator would pass to helm now.
    pub(super) async fn read_cluster(&self) -> anyhow::Result<Cloud> {
        let (resource, file) = (&self.resource, self.file.as_deref());
        let query = LiveQuery { resource, file, catalog: &self.catalog, chart_options: &self.chart_options };
        let Live { client, deployment, catalog, preview, .. } = query.load().await?;
        let mut preview = preview;
        for finding in &mut preview.desired.findings {
            *finding = finding.clone().scrubbed(&|text| preview.scrubber.scrub(text));
        }
        report_findings(&preview.desired)?;
        for unknown in &preview.unknown {
            eprintln!("unknown: {}", preview.scrubber.scrub(unknown));
        }
        check_stored(&client, &preview, &catalog).await?;
        let major = u32::try_from(preview.facts.helm_major).unwrap_or(4);
        Ok(Cloud {
            name: deployment.name_any(),
            namespace: deployment.namespace().unwrap_or_default(),
            jobs: list_jobs_to_delete(&preview),
            secrets: collect_secrets(&preview.facts).into_iter().map(Into::into).collect(),
            helm: Version { major: self.helm_major.unwrap_or(major), minor: 0 },
            cluster: Some(identify_cluster(&client, preview.selection.namespace.clone()).await?),
            spec: preview.spec,
            catalog,
            desired: preview.desired,
            user_secrets: BTreeMap::new(),
            placeholders: Vec::new(),
        })
    }
}

/// Returns the namespace and its UID, by which install.sh recognizes the cluster. When install.sh starts, it reads the
/// UID of this namespace from the cluster that kubectl selects, and stops unless it finds the same UID.
async fn identify_cluster(client: &Client, namespace: String) -> anyhow::Result<ClusterIdentity> {
    let found = Api::<Namespace>::all(client.clone()).get_metadata(&namespace).await;
    let found = found.map_err(readable).with_context(|| {
        format!("reading the UID of namespace {namespace}, by which install.sh recognizes the cluster (you need permission to get the namespace)")
    })?;
    let uid = found.uid().with_context(|| format!("the namespace {namespace} has no UID"))?;
    Ok(ClusterIdentity { namespace, uid })
}

/// Returns the Jobs that the operator would delete before it upgrades a release. The keys are the names of the
/// releases.
fn list_jobs_to_delete(preview: &Preview) -> BTreeMap<String, Vec<String>> {
    let jobs = preview.desired.releases.iter().filter_map(|(name, release)| {
        let observed = preview.observed.releases.get(&release.key)?;
        Some((name.clone(), jobs_to_delete(release, observed).unwrap_or_else(|| release.plain_jobs.clone())))
    });
    jobs.collect_map()
}

/// Checks that the operator has stored every generated credential in the cluster. For a credential that is not stored
/// yet, osdpl has put a random password into the values. The command must not write these values, because the operator
/// will generate another password.
async fn check_stored(client: &Client, preview: &Preview, catalog: &Catalog) -> anyhow::Result<()> {
    let selection = &preview.selection;
    let api: Api<Secret> = Api::namespaced(client.clone(), &selection.namespace);
    let mut stored_secrets: BTreeMap<String, BTreeMap<String, Vec<u8>>> = BTreeMap::new();
    let mut missing = Vec::new();
    for (name, _) in list_needed_credentials(catalog, selection) {
        let Some(value) = preview.facts.credentials.get(&name.0).and_then(|all| all.get(&name.1)) else { continue };
        if user_secret(&preview.spec, &name).is_some() {
            continue;
        }
        let secret = secret_name(&selection.name, &name.0);
        if !stored_secrets.contains_key(&secret) {
            let found =
                api.get_opt(&secret).await.map_err(readable).with_context(|| format!("reading Secret {secret}"))?;
            let data = found.and_then(|found| found.data).unwrap_or_default();
            stored_secrets.insert(secret.clone(), data.into_iter().map(|(key, value)| (key, value.0)).collect_map());
        }
        if stored_secrets[&secret].get(&name.1).is_none_or(|stored| stored != value.as_bytes()) {
            missing.push(format!("{secret}/{}", name.1));
        }
    }
    if !missing.is_empty() {
        bail!(
            "credentials are not stored yet: {}; apply the resource without `paused`, so that the operator generates them, and try again",
            missing.join(", ")
        );
    }
    Ok(())
}
