//! Probes and metrics over HTTP: `/livez`, `/readyz`, `/metrics`. Shell room.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::helm::Runner;
use crate::telemetry::Metrics;

/// Serves until `stop`.
///
/// # Errors
/// When the address can't be listened on.
pub async fn serve(
    address: SocketAddr,
    metrics: Metrics,
    runner: Runner,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(scrape))
        .with_state((metrics, runner));
    let listener = TcpListener::bind(address).await?;
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn readyz(State((metrics, _)): State<(Metrics, Runner)>) -> impl IntoResponse {
    if metrics.is_ready() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the cluster is still being listed\n")
    }
}

async fn scrape(State((metrics, runner)): State<(Metrics, Runner)>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], metrics.text(&runner.tally()))
}
