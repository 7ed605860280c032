//! The validating webhook: what the API server asks before it takes an `OpenStackDeployment`. Shell room.
//!
//! HTTPS with a certificate in two files, which are read anew when they change: cert-manager renews them in place.

mod listener;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::api::SchemaError;
use crate::catalog::Catalog;
use crate::observed::Site;
use crate::rule::{Question, Schemas};
use listener::Secured;

/// Where the API server asks.
pub const PATH: &str = "/validate";

/// Where the certificate and its key are, as PEM.
#[derive(Clone, Debug)]
pub struct Files {
    /// The certificate and those it follows from.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// How long what `ConfigMap`s add is waited for; the API server itself waits ten seconds as shipped.
const PATIENCE: Duration = Duration::from_secs(5);

/// The catalogue for resources of a namespace, once what is added there was read.
pub type CatalogOf = Arc<dyn Fn(String) -> BoxFuture<'static, Arc<Catalog>> + Send + Sync>;

/// What reviews are answered by.
struct Judge {
    catalog_of: CatalogOf,
    schemas: Schemas,
}

/// Serves until `stop`.
///
/// # Errors
/// At once when the certificate can't be read or does not match its key; later when serving breaks down.
pub fn serve(
    listener: TcpListener,
    files: Files,
    (catalog, catalog_of): (Arc<Catalog>, CatalogOf),
    stop: CancellationToken,
) -> anyhow::Result<impl Future<Output = anyhow::Result<()>>> {
    let schemas = Schemas::new(&catalog).map_err(|error: SchemaError| anyhow::anyhow!("{error}"))?;
    let listener = Secured::new(listener, files).context("the webhook's certificate")?;
    let judge = Arc::new(Judge { catalog_of, schemas });
    let router = Router::new().route(PATH, post(review)).with_state(judge);
    let serving = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned());
    Ok(async move { serving.await.context("serving the webhook") })
}

async fn review(State(judge): State<Arc<Judge>>, body: Bytes) -> Result<impl IntoResponse, (StatusCode, String)> {
    let review: Value = serde_json::from_slice(&body)
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("this is no AdmissionReview: {error}\n")))?;
    // The resource may be the first one of its namespace: what is added there is nothing that a pass has taken in.
    let namespace = review["request"]["namespace"].as_str().unwrap_or_default().to_owned();
    let catalog = tokio::time::timeout(PATIENCE, (judge.catalog_of)(namespace)).await.map_err(|_| {
        let why = "the operator has not read the ConfigMaps of the catalogue yet; try again\n";
        (StatusCode::SERVICE_UNAVAILABLE, why.to_owned())
    })?;
    let question = Question { catalog: &catalog, schemas: &judge.schemas, beside: &[], site: &Site::default() };
    Ok(([(CONTENT_TYPE, "application/json")], question.admission(&review).to_string()))
}
