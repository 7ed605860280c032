//! Loads the cloud from the cluster, together with its desired state.

use std::path::Path;
use std::sync::Arc;

use kube::{Client, ResourceExt};

use super::common::{CatalogOption, Document, ResourceOption, Target};
use super::offline::well_formed;
use super::place::ChartsOption;
use super::plan::{after_apply, find_live};
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::Catalog;
use osdpl_operator::controller::{ChartSource, Preview, preview};

/// The cloud to load, and with which catalogue and charts.
pub struct LiveQuery<'a> {
    pub resource: &'a ResourceOption,
    /// The resource's file, as if it were applied; default: the cluster's resource.
    pub file: Option<&'a Path>,
    pub catalog: &'a CatalogOption,
    pub place: &'a ChartsOption,
}

/// The loaded cloud.
pub struct Live {
    pub client: Client,
    pub deployment: OpenStackDeployment,
    /// The resource in the cluster, if it exists.
    pub current: Option<OpenStackDeployment>,
    pub catalog: Arc<Catalog>,
    pub preview: Preview,
    /// The file that the resource was read from, if any.
    pub document: Option<Document>,
}

impl LiveQuery<'_> {
    /// Reads what the operator reads and writes nothing.
    pub async fn load(self) -> anyhow::Result<Live> {
        let client = self.resource.cluster.client().await?;
        let (deployment, live, catalog, document) = if let Some(file) = self.file {
            let document = Document::read(file)?.within(self.resource.namespace.clone());
            let catalog = self.catalog.load_from(&client, &document.namespace(), self.file).await?;
            let file = well_formed(&document, &catalog)?;
            let live = find_live(&client, &file).await?;
            (after_apply(&file, live.as_ref()), live, catalog, Some(document))
        } else {
            let live = Target::from(self.resource).find(&client).await?;
            let catalog = self.catalog.load_from(&client, &live.namespace().unwrap_or_default(), None).await?;
            (live.clone(), Some(live), catalog, None)
        };
        let source = match self.place.source() {
            Some(_) => Some(ChartSource::new(self.place.open().await?, &Arc::default())),
            None => None,
        };
        let catalog = Arc::new(catalog);
        let preview = preview(&client, &catalog, &deployment, live.as_ref(), source.as_ref()).await?;
        Ok(Live { client, deployment, current: live, catalog, preview, document })
    }
}
