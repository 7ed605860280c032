//! Serves the operator's probes and metrics over HTTP: `/livez`, `/readyz`, `/metrics`.

use std::net::SocketAddr;

use anyhow::Context as _;
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

/// Opens the port for probes and metrics. The operator calls this before it reads the catalogue or connects to the
/// cluster.
///
/// # Errors
/// If the operator cannot listen on the address, for example because another process does.
pub async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| {
        format!(
            "cannot listen on {address} for probes and metrics; set another address with --listen or --metrics-listen"
        )
    })
}

/// Serves the probes and the metrics until `stop` is cancelled. Without a listener for metrics, serves both on `probes`.
///
/// # Errors
/// If serving fails.
pub async fn serve(
    (probes, scrapes): (TcpListener, Option<TcpListener>),
    metrics: Metrics,
    runner: Runner,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let own = Router::new().route("/livez", get(|| async { "ok\n" })).route("/readyz", get(readyz));
    let metrics_only = Router::new().route("/metrics", get(scrape));
    let state = (metrics, runner);
    match scrapes {
        Some(scrapes) => {
            let own = serve_on(probes, own.with_state(state.clone()), stop.clone());
            tokio::try_join!(own, serve_on(scrapes, metrics_only.with_state(state), stop)).map(|_| ())
        }
        None => serve_on(probes, own.merge(metrics_only).with_state(state), stop).await,
    }
}

async fn serve_on(listener: TcpListener, router: Router, stop: CancellationToken) -> std::io::Result<()> {
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn readyz(State((metrics, _)): State<(Metrics, Runner)>) -> impl IntoResponse {
    if metrics.is_ready() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the operator has not read the cluster completely yet\n")
    }
}

async fn scrape(State((metrics, runner)): State<(Metrics, Runner)>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], metrics.encode(runner.counters()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reports_a_taken_address_with_the_option_to_change_it() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        assert!(listen(taken).await.is_ok(), "the address is free, so that listening succeeds");
        let listener = TcpListener::bind(taken).await.unwrap();
        let message = listen(taken).await.unwrap_err().to_string();
        assert!(message.contains(&taken.to_string()) && message.contains("--listen"), "{message}");
        drop(listener);
    }
}
