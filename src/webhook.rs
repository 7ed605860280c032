//! The validating webhook: what the API server asks before it takes an `OpenStackDeployment`. Shell room.
//!
//! HTTPS with a certificate in two files, which are read anew when they change: cert-manager renews them in place.

mod listener;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
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

/// What reviews are answered by.
struct Judge {
    catalog: watch::Receiver<Arc<Catalog>>,
    schemas: Schemas,
}

/// Serves until `stop`.
///
/// # Errors
/// At once when the certificate can't be read or does not match its key; later when serving breaks down.
pub fn serve(
    listener: TcpListener,
    files: Files,
    catalog: watch::Receiver<Arc<Catalog>>,
    stop: CancellationToken,
) -> anyhow::Result<impl Future<Output = anyhow::Result<()>>> {
    let schemas = Schemas::new(&catalog.borrow()).map_err(|error: SchemaError| anyhow::anyhow!("{error}"))?;
    let listener = Secured::new(listener, files).context("the webhook's certificate")?;
    let judge = Arc::new(Judge { catalog, schemas });
    let router = Router::new().route(PATH, post(review)).with_state(judge);
    let serving = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned());
    Ok(async move { serving.await.context("serving the webhook") })
}

async fn review(State(judge): State<Arc<Judge>>, body: Bytes) -> Result<impl IntoResponse, (StatusCode, String)> {
    let review: Value = serde_json::from_slice(&body)
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("this is no AdmissionReview: {error}\n")))?;
    let catalog = Arc::clone(&judge.catalog.borrow());
    let question = Question { catalog: &catalog, schemas: &judge.schemas, beside: &[], site: &Site::default() };
    Ok(([(CONTENT_TYPE, "application/json")], question.admission(&review).to_string()))
}
