//! Loads a cloud and its plan from the cluster. The spec comes from the `OpenStackDeployment` in the cluster, or from a
//! file.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use kube::{Api, Client, ResourceExt};

use super::additions::check_additions;
use super::chart_options::ChartOptions;
use super::common::{CatalogOption, ResourceOption, StoredDeployment, Target, content};
use super::connect::readable;
use super::document::Document;
use super::offline::well_formed;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::Catalog;
use osdpl_operator::controller::{ChartSource, Preview, preview};

/// The options that select the cloud to load: the `OpenStackDeployment`, the catalogue and the charts.
pub(crate) struct LiveQuery<'a> {
    pub resource: &'a ResourceOption,
    /// A file with an `OpenStackDeployment`. osdpl loads the cloud as if this file were applied.
    pub file: Option<&'a Path>,
    pub catalog: &'a CatalogOption,
    pub chart_options: &'a ChartOptions,
}

/// A cloud that was loaded from the cluster, with the plan that the operator would make for it.
pub(crate) struct Live {
    pub client: Client,
    /// The `OpenStackDeployment` from which the plan was made: the one in the cluster or, if the user named a file, the
    /// one that would result from applying the file.
    pub deployment: OpenStackDeployment,
    /// The resource as it is in the cluster now; `None` if it does not exist, and applying the file would create it.
    pub current: Option<OpenStackDeployment>,
    pub catalog: Arc<Catalog>,
    pub preview: Preview,
    /// The file's document that contains the `OpenStackDeployment`; `None` if osdpl read the `OpenStackDeployment` from
    /// the cluster.
    pub document: Option<Document>,
}

impl LiveQuery<'_> {
    /// Loads the cloud. Reads the same objects as the operator, and writes nothing.
    pub(crate) async fn load(self) -> anyhow::Result<Live> {
        let client = self.resource.cluster.client().await?;
        let (deployment, live, (extended, errors), document) = if let Some(file) = self.file {
            let document = Document::read(file)?.with_namespace(self.resource.namespace.clone());
            let extended = self.catalog.load_applied(&client, &document).await?;
            let file = well_formed(&document, &extended.0.catalog)?;
            let live = find_live(&client, &file).await?;
            (after_apply(&file, live.as_ref()), live, extended, Some(document))
        } else {
            let live = Target::from(self.resource).find(&client).await?;
            let extended = self.catalog.load_live(&client, &live).await?;
            (live.clone(), Some(live), extended, None)
        };
        check_additions(&errors)?;
        let source = match self.chart_options.source() {
            Some(_) => Some(ChartSource::new(self.chart_options.open().await?, &Arc::default())),
            None => None,
        };
        let catalog = Arc::new(extended.catalog);
        let with_findings = (Arc::clone(&catalog), errors);
        let limit = self.resource.cluster.timeout();
        let preview = preview(&client, &with_findings, &deployment, live.as_ref(), source.as_ref(), limit).await?;
        Ok(Live { client, deployment, current: live, catalog, preview, document })
    }
}

/// Returns the `OpenStackDeployment` in the cluster that has the name and namespace of the one in the file; `None` if
/// there is none.
pub(crate) async fn find_live(
    client: &Client,
    file: &OpenStackDeployment,
) -> anyhow::Result<Option<OpenStackDeployment>> {
    let namespace = file.namespace().unwrap_or_default();
    let api: Api<StoredDeployment> = Api::namespaced(client.clone(), &namespace);
    let name = file.name_any();
    let found = api.get_opt(&name).await.map_err(readable);
    let found = found.with_context(|| format!("reading OpenStackDeployment {namespace}/{name}"))?;
    found.map(content).transpose()
}

/// Returns the resource that `kubectl apply --server-side` would produce from the file: `live`, the resource in the
/// cluster, with the spec and the annotations of the file. If `live` is `None`, returns the resource of the file.
pub(crate) fn after_apply(file: &OpenStackDeployment, live: Option<&OpenStackDeployment>) -> OpenStackDeployment {
    let Some(live) = live else { return file.clone() };
    let mut applied = live.clone();
    applied.spec = file.spec.clone();
    if live.spec != file.spec {
        applied.metadata.generation = live.metadata.generation.map(|generation| generation + 1);
    }
    let annotations = applied.annotations_mut();
    annotations.extend(file.annotations().clone());
    // `kubectl apply` without `--server-side` keeps a copy of the spec in this annotation. Remove the copy, because it
    // does not match the new spec.
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    applied
}

/// Returns a note for the user if the operator ignores this resource because the cluster has an older
/// `OpenStackDeployment`. The operator manages only the oldest one in a cluster.
pub(crate) async fn superseded_by(
    client: &Client,
    live: Option<&OpenStackDeployment>,
) -> anyhow::Result<Option<String>> {
    let all: Api<StoredDeployment> = Api::all(client.clone());
    let all = all.list(&kube::api::ListParams::default()).await.map_err(readable)?;
    let older = osdpl_decide::find_older(&all.items, live);
    Ok(older.map(|older| {
        let other = format!("{}/{}", older.namespace().unwrap_or_default(), older.name_any());
        let unreadable = older.content().err().map(|why| format!("; it can't read {other} either: {why}"));
        format!(
            "the operator runs only one cloud per cluster: it ignores this resource, because {other} is older{}",
            unreadable.unwrap_or_default()
        )
    }))
}
