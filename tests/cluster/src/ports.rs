//! Finds free ports on the loopback interface, so that several clusters can run at once.

use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, TcpListener};

use serde::{Deserialize, Serialize};

use crate::Error;

/// The first port of the range in which clusters get their ports. The range is below Linux' ephemeral ports (32768 …).
/// Otherwise an outgoing connection could take a port after [`claim`] has checked that the port is free, and before a
/// component listens on it.
const FIRST: u16 = 20_000;
/// The number of blocks of ports. Each cluster uses one block.
const BLOCKS: u16 = 1_000;
/// The number of ports in a block.
const PORTS: u16 = 4;

/// The ports of a cluster, all on 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// The port of etcd to which the API server connects.
    pub etcd: u16,
    /// The port on which etcd listens for other members of an etcd cluster. etcd always opens this port, although this
    /// etcd cluster has only one member.
    pub etcd_peer: u16,
    /// The HTTPS port of the API server.
    pub apiserver: u16,
    /// The HTTPS port of the simulated kubelets, from which the API server reads the logs of pods.
    pub kubelet: u16,
}

/// The ports of a cluster. While this value exists, a file lock keeps other clusters from using these ports.
#[derive(Debug)]
pub(crate) struct Claim {
    pub ports: Ports,
    _lock: Option<File>,
}

/// Finds and locks a block of free ports. The search starts at a block that depends on `seed`.
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

/// Locks the block of ports that begins with `first`. Returns an error if another cluster has locked the block. Returns
/// `None` if the lock file cannot be created, for example in a folder that belongs to another user. Then the caller
/// uses the block without a lock if all ports of the block are free.
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
