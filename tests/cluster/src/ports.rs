//! Free ports on the loopback interface, so that several clusters can run at once.

use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, TcpListener};

use serde::{Deserialize, Serialize};

use crate::Error;

/// Below Linux' ephemeral range (32768 …), so that no outgoing connection can take a port between the check and the
/// program's bind.
const FIRST: u16 = 20_000;
/// The number of blocks of [`PORTS`] ports to check.
const BLOCKS: u16 = 1_000;
const PORTS: u16 = 4;

/// The ports of a cluster, all on 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// etcd for its client, the API server.
    pub etcd: u16,
    /// etcd for its peers, although there are none.
    pub etcd_peer: u16,
    /// The API server.
    pub apiserver: u16,
    /// The part of a kubelet from which the API server reads pods' logs.
    pub kubelet: u16,
}

/// Ports, with a lock that other clusters respect while this value exists.
#[derive(Debug)]
pub(crate) struct Claim {
    pub ports: Ports,
    _lock: Option<File>,
}

/// Finds a block of free ports, starting at a position that depends on `seed`.
pub(crate) fn claim(seed: u32) -> Result<Claim, Error> {
    let start = u16::try_from(seed % u32::from(BLOCKS)).unwrap_or_default();
    for step in 0..BLOCKS {
        let block = (start + step) % BLOCKS;
        let first = FIRST + block * PORTS;
        let Ok(lock) = lock(first) else { continue };
        if (first..first + PORTS).all(is_free) {
            let ports = Ports { etcd: first, etcd_peer: first + 1, apiserver: first + 2, kubelet: first + 3 };
            return Ok(Claim { ports, _lock: lock });
        }
    }
    Err(Error::Ports { first: FIRST, last: FIRST + BLOCKS * PORTS - 1 })
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Returns `Err` if another cluster holds the block; `Ok(None)` if locks are not available (another user's folder) and
/// only a check of the ports is possible.
fn lock(first: u16) -> Result<Option<File>, std::fs::TryLockError> {
    let folder = std::env::temp_dir().join("local-control-plane-ports");
    if std::fs::create_dir_all(&folder).is_err() {
        return Ok(None);
    }
    let path = folder.join(first.to_string());
    let Ok(file) = OpenOptions::new().write(true).create(true).truncate(false).open(path) else {
        return Ok(None);
    };
    file.try_lock()?;
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_claims_never_share_a_port() {
        let first = claim(7).unwrap();
        let second = claim(7).unwrap();
        assert!(second.ports.etcd > first.ports.kubelet || second.ports.kubelet < first.ports.etcd);
    }
}
