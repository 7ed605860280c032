//! Parses the network addresses of a Ceph cluster's monitors.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::ValueError;

/// The addresses of all monitors, each in the notation of the option `mon_host` of `ceph.conf`. osdpl sorts the
/// addresses. So if a person or Rook only changes the order of the addresses, `ceph.conf` does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitors(Vec<String>);

impl Monitors {
    /// Parses a string with the addresses of monitors, separated by commas, spaces or newlines.
    ///
    /// An address is written as `10.0.0.1`, `fd00::1`, `10.0.0.1:6789`, `[fd00::1]:6789`, `v2:10.0.0.1:3300/0`, or as
    /// the address vector of a monitor: `[v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]`.
    ///
    /// # Errors
    /// If an address is invalid, returns an error with its position in the string, counted from 1. Also returns an
    /// error if the string contains no address.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let mut found = Vec::new();
        for (index, entry) in entries(text).into_iter().enumerate() {
            if !is_entry(entry) {
                return Err(ValueError::Address(index + 1));
            }
            found.push(entry.to_owned());
        }
        found.sort();
        found.dedup();
        if found.is_empty() { Err(ValueError::Empty) } else { Ok(Self(found)) }
    }

    /// Returns the address of a monitor that does not exist. RFC 5737 reserves this address for documentation.
    pub(super) fn example() -> Self {
        Self(vec!["192.0.2.1:6789".into()])
    }
}

impl fmt::Display for Monitors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join(","))
    }
}

/// Splits a string into the addresses of single monitors. A comma within brackets does not separate monitors: it
/// belongs to the address vector of one monitor.
fn entries(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let pieces = text.split(|c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (c == ',' || c.is_whitespace())
    });
    pieces.filter(|piece| !piece.is_empty()).collect()
}

fn is_entry(entry: &str) -> bool {
    let inner = entry.strip_prefix('[').and_then(|entry| entry.strip_suffix(']'));
    match inner {
        Some(inner) if inner.starts_with('v') => inner.split(',').all(|part| part.starts_with('v') && is_address(part)),
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => is_address(entry),
    }
}

/// Whether a string is one address of the form `[v1:|v2:]ip[:port][/nonce]`. With `v1:`, `v2:` or a nonce, the port is
/// required.
fn is_address(text: &str) -> bool {
    let with_protocol = text.strip_prefix("v1:").or_else(|| text.strip_prefix("v2:"));
    let (address, nonce) =
        with_protocol.unwrap_or(text).split_once('/').unwrap_or((with_protocol.unwrap_or(text), "0"));
    let has_port = address.parse::<SocketAddr>().is_ok_and(|address| address.port() != 0);
    let is_bare = with_protocol.is_none() && !text.contains('/') && address.parse::<IpAddr>().is_ok();
    (has_port || is_bare) && nonce.parse::<u32>().is_ok()
}
