//! The cloud as it stands in the cluster, and as it is wanted.

use std::path::Path;
use std::sync::Arc;

use kube::{Client, ResourceExt};

use super::common::{CatalogOption, Document, ResourceOption, Target};
use super::offline::shaped;
use super::place::Place;
use super::plan::{applied, standing};
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::Catalog;
use osdpl_operator::controller::{ChartSource, Preview, preview};

/// Which cloud, and by what it is judged.
pub struct Question<'a> {
    pub resource: &'a ResourceOption,
    /// The resource, as if it were applied; the cluster's where unset.
    pub file: Option<&'a Path>,
    pub catalog: &'a CatalogOption,
    pub place: &'a Place,
}

/// What was found.
pub struct Live {
    pub client: Client,
    pub deployment: OpenStackDeployment,
    /// As it is in the cluster, where it is.
    pub standing: Option<OpenStackDeployment>,
    pub catalog: Arc<Catalog>,
    pub preview: Preview,
    /// What it was read from, where that is a file.
    pub document: Option<Document>,
}

impl Question<'_> {
    /// Reads what the operator reads; writes nothing.
    pub async fn look(self) -> anyhow::Result<Live> {
        let client = self.resource.cluster.client().await?;
        let (deployment, live, catalog, document) = if let Some(file) = self.file {
            let document = Document::read(file)?.within(self.resource.namespace.clone());
            let catalog = self.catalog.load_from(&client, &document.namespace(), self.file).await?;
            let file = shaped(&document, &catalog)?;
            let live = standing(&client, &file).await?;
            (applied(&file, live.as_ref()), live, catalog, Some(document))
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
        Ok(Live { client, deployment, standing: live, catalog, preview, document })
    }
}
