//! Addresses of Ceph monitors.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::ValueError;

/// The monitors' addresses in the format of `mon_host`. They are sorted, so that another order is not a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitors(Vec<String>);

impl Monitors {
    /// Parses addresses separated by commas, spaces or newlines: `10.0.0.1`, `10.0.0.1:6789`, `[fd00::1]:6789`,
    /// `v2:10.0.0.1:3300/0`, and a monitor's address vector `[v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]`.
    ///
    /// # Errors
    /// The number of the invalid address, from 1.
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

    /// Returns an address reserved for documentation (RFC 5737).
    pub(super) fn example() -> Self {
        Self(vec!["192.0.2.1:6789".into()])
    }
}

impl fmt::Display for Monitors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join(","))
    }
}

/// Splits the text into monitors. Commas inside of brackets belong to one monitor.
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

/// Whether a text is `[v1:|v2:]ip[:port][/nonce]`. With a protocol the port is required.
fn is_address(text: &str) -> bool {
    let with_protocol = text.strip_prefix("v1:").or_else(|| text.strip_prefix("v2:"));
    let (address, nonce) =
        with_protocol.unwrap_or(text).split_once('/').unwrap_or((with_protocol.unwrap_or(text), "0"));
    let has_port = address.parse::<SocketAddr>().is_ok_and(|address| address.port() != 0);
    let is_bare = with_protocol.is_none() && !text.contains('/') && address.parse::<IpAddr>().is_ok();
    (has_port || is_bare) && nonce.parse::<u32>().is_ok()
}
