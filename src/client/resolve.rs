//! Resolves host names on threads that do nothing else.
//!
//! The C library can wait half a minute for a DNS server, and nothing can interrupt a waiting thread. tokio would
//! resolve the names on its threads for blocking work. Then other work of these threads, decoding release records and
//! reading charts, would have to wait.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use tokio::sync::{Semaphore, oneshot};

/// The maximum number of host names that are resolved at the same time. Without this limit, the number of threads would
/// grow during a DNS outage.
const LOOKUPS: usize = 4;

static RUNNING: Semaphore = Semaphore::const_new(LOOKUPS);

/// Returns the addresses of `host`, each with `port`.
///
/// The function has no timeout. When the caller drops the future, the thread that resolves the name continues to wait
/// for the DNS server.
///
/// # Errors
/// Returns an error if the host has no address, or no DNS server responds.
pub async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let name = (host.to_owned(), port);
    run(move || Ok(name.to_socket_addrs()?.collect())).await
}

async fn run(lookup: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static) -> io::Result<Vec<SocketAddr>> {
    let running = RUNNING.acquire().await.map_err(io::Error::other)?;
    let (sender, receiver) = oneshot::channel();
    std::thread::Builder::new().name("dns".into()).spawn(move || {
        // `send` fails only if the caller has dropped the future. Then nobody needs the addresses, so ignore the error.
        let _ = sender.send(lookup());
        drop(running);
    })?;
    receiver.await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn silent_dns_server_does_not_stop_other_work() {
        // Use a runtime like the operator's, which has only one thread for blocking work.
        let runtime = crate::runtime().unwrap();
        runtime.block_on(async {
            let mut servers = Vec::new();
            let mut lookups = Vec::new();
            for _ in 0..2 * LOOKUPS {
                let (server, response) = mpsc::channel();
                servers.push(server);
                let (started, is_started) = oneshot::channel();
                lookups.push(tokio::spawn(run(move || {
                    let _ = started.send(());
                    response.recv().map_err(io::Error::other)
                })));
                if servers.len() <= LOOKUPS {
                    is_started.await.unwrap();
                }
            }
            assert_eq!(tokio::task::spawn_blocking(|| "decoded").await.unwrap(), "decoded");
            assert_eq!(resolve("192.0.2.1", 80).await.unwrap(), ["192.0.2.1:80".parse().unwrap()]);
            assert!(lookups.iter().all(|lookup| !lookup.is_finished()));
            assert_eq!(RUNNING.available_permits(), 0, "further lookups wait instead of starting threads");
            drop(servers);
            for lookup in lookups {
                assert!(lookup.await.unwrap().is_err());
            }
            assert!(!resolve("localhost", 80).await.unwrap().is_empty());
        });
    }
}
