//! Serves the operator's probes and metrics over HTTP: `/livez`, `/readyz`, `/metrics`. The server runs on the
//! [`ProbeThread`].

use std::net::SocketAddr;
use std::time::Duration;

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
use crate::lease::Leadership;
use crate::probe_thread::ProbeThread;
use crate::server;
use crate::telemetry::Metrics;

/// Opens a port for probes or metrics. The tokio runtime of `thread` accepts the connections.
///
/// # Errors
/// Returns an error if the operator cannot listen on the address, for example because another process uses it.
pub fn listen(address: SocketAddr, thread: &ProbeThread) -> anyhow::Result<TcpListener> {
    let bind = || {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let _entered = thread.runtime().enter();
        TcpListener::from_std(listener)
    };
    bind().with_context(|| {
        format!(
            "cannot listen on {address} for probes and metrics; set another address with --listen or --metrics-listen"
        )
    })
}

/// The data about the operator that the probes and the metrics report.
#[derive(Clone)]
pub struct Health {
    /// The operator's metrics.
    pub metrics: Metrics,
    /// The runner, which counts helm processes.
    pub runner: Runner,
    /// Whether this process is the active operator.
    pub leadership: Leadership,
    /// The timeout of a pass. The liveness probe fails if a pass takes more than twice this time.
    pub pass_timeout: Duration,
}

/// Serves the probes and the metrics until `stop` is cancelled. If `scrapes`, the listener for metrics, is `None`,
/// serves both on the listener `probes`.
pub async fn serve(probes: TcpListener, scrapes: Option<TcpListener>, health: Health, stop: CancellationToken) {
    let own = Router::new().route("/livez", get(livez)).route("/readyz", get(readyz));
    let metrics_only = Router::new().route("/metrics", get(scrape));
    match scrapes {
        Some(scrapes) => {
            let own = server::serve(probes, own.with_state(health.clone()), stop.clone());
            tokio::join!(own, server::serve(scrapes, metrics_only.with_state(health), stop));
        }
        None => server::serve(probes, own.merge(metrics_only).with_state(health), stop).await,
    }
}

/// The liveness probe, which fails only if a pass runs for more than twice its timeout. It must not fail while the API
/// server is unreachable: otherwise, the kubelet would restart the operator, and the restart would end the running helm
/// processes.
async fn livez(State(health): State<Health>) -> impl IntoResponse {
    describe_liveness(health.metrics.running_pass(), health.pass_timeout)
}

fn describe_liveness(running_pass: Option<Duration>, timeout: Duration) -> (StatusCode, String) {
    match running_pass.filter(|duration| *duration > timeout * 2) {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(duration) => {
            let (running, limit) = (duration.as_secs(), timeout.as_secs());
            let text = format!("a pass has been running for {running} s, which exceeds its limit of {limit} s\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text)
        }
    }
}

async fn readyz(State(health): State<Health>) -> impl IntoResponse {
    match (health.metrics.is_ready(), health.leadership.is_active()) {
        (true, true) => (StatusCode::OK, "ok: leader\n"),
        (true, false) => (StatusCode::OK, "ok: standby, this operator does not hold the Lease\n"),
        (false, _) => {
            (StatusCode::SERVICE_UNAVAILABLE, "syncing: the operator has not listed all objects of the cluster yet\n")
        }
    }
}

async fn scrape(State(health): State<Health>) -> impl IntoResponse {
    let text = health.metrics.encode(health.runner.counters(), health.leadership.is_active());
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;
    use crate::helm::Config;
    use crate::helm::fake::FakeHelm;

    /// Returns the whole response to a GET request. Until the response arrives, this function blocks the current thread
    /// and its tokio runtime, like a reconcile pass that needs much processor time.
    fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    #[tokio::test]
    async fn probes_report_passes_and_readiness() {
        let (metrics, fake_helm) = (Metrics::default(), FakeHelm::with_script(""));
        let health = Health {
            metrics: metrics.clone(),
            runner: fake_helm.runner(Config::default()).await,
            leadership: Leadership::default(),
            pass_timeout: Duration::ZERO,
        };
        let thread = ProbeThread::start().unwrap();
        let listener = listen("127.0.0.1:0".parse().unwrap(), &thread).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let server = thread.runtime().spawn(serve(listener, None, health, stop.clone()));
        // The pass timeout is zero, so any running pass makes the liveness probe fail.
        let pass = metrics.start_pass();
        assert!(get(address, "/livez").starts_with("HTTP/1.1 500"));
        drop(pass);
        assert!(get(address, "/livez").starts_with("HTTP/1.1 200"));
        let syncing = get(address, "/readyz");
        assert!(syncing.starts_with("HTTP/1.1 503") && syncing.contains("\r\n\r\nsyncing: "), "{syncing}");
        metrics.set_ready();
        let standby = get(address, "/readyz");
        assert!(standby.starts_with("HTTP/1.1 200") && standby.contains("\r\n\r\nok: standby"), "{standby}");
        stop.cancel();
        server.await.unwrap();
    }

    #[test]
    fn is_alive_unless_a_pass_ignores_its_limit() {
        let limit = Duration::from_mins(1);
        for (running, expected) in [(None, StatusCode::OK), (Some(limit * 2), StatusCode::OK)] {
            assert_eq!(describe_liveness(running, limit).0, expected);
        }
        let (code, text) = describe_liveness(Some(limit * 3), limit);
        assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(text, "a pass has been running for 180 s, which exceeds its limit of 60 s\n");
    }

    #[tokio::test]
    async fn reports_a_taken_address_with_the_option_to_change_it() {
        let thread = ProbeThread::start().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        assert!(listen(taken, &thread).is_ok(), "listening on a free address must succeed");
        let listener = TcpListener::bind(taken).await.unwrap();
        let message = listen(taken, &thread).unwrap_err().to_string();
        assert!(message.contains(&taken.to_string()) && message.contains("--listen"), "{message}");
        drop(listener);
    }
}
