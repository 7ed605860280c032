//! Defines the options of the validating webhook, and starts it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use osdpl_maintenance::OpenStackClient;
use osdpl_operator::controller::Context;
use osdpl_operator::webhook::{self, CatalogOf, CertificateFiles, ClusterInfoOf, DeletionObstacleOf, Sources};

#[derive(Args)]
pub(crate) struct Webhook {
    /// The address on which the operator serves the validating webhook (HTTPS, /validate). Without an address, the
    /// webhook is disabled.
    #[arg(id = "webhook_listen", long = "webhook-listen", env = "OSDPL_WEBHOOK_LISTEN", requires_all = ["webhook_certificate", "webhook_key"])]
    listen: Option<SocketAddr>,
    /// The file with the webhook's PEM certificate. The operator reloads the file after a change.
    #[arg(
        id = "webhook_certificate",
        long = "webhook-certificate",
        env = "OSDPL_WEBHOOK_CERTIFICATE",
        value_name = "FILE"
    )]
    certificate: Option<PathBuf>,
    /// The file with the PEM key of the webhook's certificate.
    #[arg(id = "webhook_key", long = "webhook-key", env = "OSDPL_WEBHOOK_KEY", value_name = "FILE")]
    key: Option<PathBuf>,
}

impl Webhook {
    /// Starts a task that serves the webhook until `stop` is cancelled. Returns the handle of this task. If the user
    /// did not enable the webhook, the task ends at once.
    pub(crate) async fn serve(
        &self,
        context: &Arc<Context>,
        openstack: &OpenStackClient,
        stop: &CancellationToken,
    ) -> anyhow::Result<JoinHandle<()>> {
        let (Some(address), Some(certificate), Some(key)) = (self.listen, self.certificate.clone(), self.key.clone())
        else {
            return Ok(tokio::spawn(std::future::ready(())));
        };
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!("the webhook can't listen on {address}; name another address with --webhook-listen")
        })?;
        let shared = Arc::clone(context);
        let catalog_of: CatalogOf = Arc::new(move |namespace, spec| {
            let context = Arc::clone(&shared);
            Box::pin(async move { context.catalog_for(&namespace, &spec).await })
        });
        let shared = Arc::clone(context);
        let cluster_info_of: ClusterInfoOf = Arc::new(move |owner, spec, catalog| {
            let context = Arc::clone(&shared);
            Box::pin(async move { context.cluster_info_for(&owner, &spec, &catalog).await })
        });
        let (shared, client) = (Arc::clone(context), openstack.clone());
        let deletion_obstacle_of: DeletionObstacleOf = Arc::new(move |deployment| {
            let (context, client) = (Arc::clone(&shared), client.clone());
            Box::pin(async move { context.deletion_obstacle(&deployment, &client).await })
        });
        let files = CertificateFiles { certificate, key };
        let sources = Sources { catalog_of, cluster_info_of, deletion_obstacle_of };
        let server = webhook::serve(listener, files, &context.catalog(), sources, stop.clone())?;
        Ok(tokio::spawn(server))
    }
}
