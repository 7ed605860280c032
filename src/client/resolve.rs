//! Resolves the names of hosts on threads that only this module uses.
//!
//! The C library may wait half a minute for a DNS server, and nothing can stop a thread that waits. If tokio resolved
//! the names, the wait would occupy one of tokio's threads for blocking work, and would delay the other work of these
//! threads: decoding release records and reading charts.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use tokio::sync::{Semaphore, oneshot};

/// The maximum number of names to resolve at once. Without a maximum, a DNS outage would create more and more threads.
const LOOKUPS: usize = 4;

static RUNNING: Semaphore = Semaphore::const_new(LOOKUPS);

/// Returns the addresses of `host`, each with `port`.
///
/// The function has no timeout. If the caller drops the future, the thread that resolves the name still waits for the
/// DNS server.
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
        // Ignore an error. `send` fails only if the caller has dropped the future, so nobody needs the addresses.
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
        // Use the same kind of runtime as the operator: with only one thread for blocking work.
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
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
