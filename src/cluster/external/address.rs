//! The addresses of a service outside.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

/// How long a name server may take: a pass waits for it.
const PATIENCE: Duration = Duration::from_secs(2);

/// The addresses of a host; a name is looked up each time it is asked for.
///
/// # Errors
/// Why pods can't be led to it, and what to do.
pub async fn addresses(host: &str, port: u16) -> Result<Vec<IpAddr>, String> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return match address {
            // The API server refuses these in Endpoints.
            address if address.is_loopback() || address.is_unspecified() || address.is_multicast() => {
                Err(format!("{host} can't be reached from other hosts; give an address that pods can reach"))
            }
            address => Ok(vec![address]),
        };
    }
    let found = tokio::time::timeout(PATIENCE, tokio::net::lookup_host((host, port))).await;
    let found = found.map_err(|_| {
        format!(
            "{host} could not be looked up within {} s; it is tried again, or give an IP address",
            PATIENCE.as_secs()
        )
    })?;
    let found =
        found.map_err(|error| format!("{host} has no address ({error}); correct the name or give an IP address"))?;
    let addresses: BTreeSet<IpAddr> =
        found.map(|address| address.ip()).filter(|address| !address.is_loopback()).collect();
    if addresses.is_empty() {
        return Err(format!("{host} has no address that pods can reach; correct the name or give an IP address"));
    }
    Ok(addresses.into_iter().collect())
}

/// What pods are led to, and a doubt about that: a name server that fails takes no service away that runs. `known` are the addresses that the host
/// had last.
///
/// # Errors
/// What is wrong with a host of which nothing is known.
pub fn newest(found: Result<Vec<IpAddr>, String>, known: Vec<IpAddr>) -> Result<(Vec<IpAddr>, Option<String>), String> {
    match found {
        Ok(addresses) => Ok((addresses, None)),
        Err(problem) if known.is_empty() => Err(problem),
        Err(problem) => {
            let last = known.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let doubt = format!("{problem}; until it has an address again, pods are led to {last} as before");
            Ok((known, Some(doubt)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_server_that_fails_takes_nothing_away_and_is_told_of() {
        let known: Vec<IpAddr> = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap()).into();
        let failed = || Err("db.example has no address".to_owned());
        let (addresses, doubt) = newest(failed(), known.clone()).unwrap();
        assert_eq!(addresses, known);
        assert_eq!(
            doubt.as_deref(),
            Some(
                "db.example has no address; until it has an address again, pods are led to 10.0.0.1, 10.0.0.2 as before"
            )
        );
        assert_eq!(newest(failed(), Vec::new()), Err("db.example has no address".to_owned()));
        assert_eq!(newest(Ok(known[..1].to_vec()), known.clone()), Ok((known[..1].to_vec(), None)));
    }
}
