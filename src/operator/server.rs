//! Serves HTTP over a limited number of connections.
//!
//! Anyone who reaches the port can open connections and send nothing. At the limit, the server closes the oldest
//! connection for each new one. So such clients neither use up the file descriptors of the process nor keep other
//! clients away.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The maximum number of connections that the server keeps open. The API server, the kubelet and Prometheus together
/// need about ten.
const MAX_CONNECTIONS: usize = 64;

/// The time in which a connection that the server closes can still finish its current request.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves `router` to the clients of `listener` until `stop` is cancelled.
pub(crate) async fn serve(mut listener: impl Listener, router: Router, stop: CancellationToken) {
    let (mut connections, mut last) = (JoinSet::new(), 0_u64);
    // The open connections, oldest first, each with the token that closes it.
    let mut open: BTreeMap<u64, CancellationToken> = BTreeMap::new();
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = connections.join_next() => {
                // The task of a connection returns the connection's number, unless the task panicked. In that case, the
                // connection's entry stays in `open` until the code below removes it as the oldest entry.
                ended.ok().and_then(|number| open.remove(&number));
                continue;
            }
            // Also limit the number of connections that are being closed: a client that has sent half a request delays
            // the closing of its connection by `CLOSE_TIMEOUT`. Without the limit, clients could use up the file
            // descriptors.
            (stream, _) = listener.accept(), if connections.len() < 2 * MAX_CONNECTIONS => stream,
        };
        if open.len() >= MAX_CONNECTIONS
            && let Some((_, oldest)) = open.pop_first()
        {
            oldest.cancel();
        }
        last += 1;
        let (number, close, router) = (last, stop.child_token(), router.clone());
        open.insert(number, close.clone());
        connections.spawn(async move {
            serve_connection(stream, router, close).await;
            number
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Serves the requests of a connection until the client closes it, or `close` is cancelled.
async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    router: Router,
    close: CancellationToken,
) {
    let service = TowerToHyperService::new(router);
    let mut connection = pin!(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    // Ignore errors: they only say that the client has ended the connection, or sent no HTTP.
    tokio::select! {
        _ = &mut connection => return,
        () = close.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, connection).await;
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

    async fn response(mut stream: TcpStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn idle_clients_neither_use_up_connections_nor_keep_others_away() {
        let (started, mut starts) = mpsc::unbounded_channel();
        let handler = move || {
            let (finish, finished) = tokio::sync::oneshot::channel::<()>();
            started.send(finish).unwrap();
            async move { finished.await.map_or("", |()| "done") }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let server = tokio::spawn(serve(listener, Router::new().route("/", get(handler)), stop.clone()));
        let connect = async || TcpStream::connect(address).await.unwrap();
        let mut busy = connect().await;
        busy.write_all(REQUEST).await.unwrap();
        let finish = starts.recv().await.unwrap();
        let mut idle = Vec::new();
        for _ in 0..=MAX_CONNECTIONS {
            idle.push(connect().await);
        }
        assert_eq!(response(idle.remove(0)).await, "", "the server closes the oldest idle connection");
        finish.send(()).unwrap();
        assert!(response(busy).await.ends_with("done"), "must complete a request before closing its connection");
        let mut later = connect().await;
        later.write_all(REQUEST).await.unwrap();
        starts.recv().await.unwrap().send(()).unwrap();
        assert!(response(later).await.ends_with("done"));
        stop.cancel();
        server.await.unwrap();
    }
}
