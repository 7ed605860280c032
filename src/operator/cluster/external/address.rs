//! The addresses of a service outside.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

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

/// What pods are led to: a name server that fails takes no service away that runs. `known` are the addresses that the host had last.
///
/// # Errors
/// What is wrong with a host of which nothing is known.
pub fn newest(found: Result<Vec<IpAddr>, String>, known: Vec<IpAddr>) -> Result<Vec<IpAddr>, String> {
    if known.is_empty() { found } else { Ok(found.unwrap_or(known)) }
}

/// How long lookups must go otherwise than before, one after the other, before something else is said of a host: each such word is an event, and a name
/// server that fails now and then is asked every few seconds.
const LASTS: SignedDuration = SignedDuration::from_mins(2);

/// What is said of lookups, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steady<T> {
    /// What is said of them.
    said: T,
    /// Since when each has gone otherwise than that.
    otherwise: Option<Timestamp>,
}

impl<T: PartialEq> Steady<T> {
    /// After one more. The first ever counts at once: it may have failed for long, before the operator started.
    pub fn heard(before: Option<Self>, said: T, now: Timestamp) -> Self {
        let agree = |said| Self { said, otherwise: None };
        let Some(before) = before.filter(|before| before.said != said) else { return agree(said) };
        let since = before.otherwise.unwrap_or(now);
        if now.duration_since(since) >= LASTS { agree(said) } else { Self { otherwise: Some(since), ..before } }
    }

    /// What is said of them.
    pub fn said(&self) -> &T {
        &self.said
    }
}

/// How the lookups of a host that has addresses went: whether they are said to fail.
pub type Lookups = Steady<bool>;

impl Lookups {
    /// Whether a lookup that failed is worth a line of the log: the first, and the first after others that did not.
    pub fn is_news(before: Option<Self>, now: Self) -> bool {
        let fails = |lookups: Self| lookups.said != lookups.otherwise.is_some();
        fails(now) && !before.is_some_and(fails)
    }

    /// What is said of the host, where they fail; always the same words, whatever each of them failed with.
    pub fn doubt(self, host: &str, addresses: &[IpAddr]) -> Option<String> {
        let last = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        self.said.then(|| {
            format!(
                "{host} has no address by the name server, or none that pods can reach; see to the name server, correct the name, or give an IP address; until it has one again, pods are led to {last} as before"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<IpAddr> {
        ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap()).into()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH.checked_add(SignedDuration::from_secs(seconds)).unwrap()
    }

    /// What `tell` says after each lookup, one every 15 s, of which `+` works and `-` fails.
    fn after_each(lookups: &str, tell: impl Fn(Option<Lookups>, Lookups) -> char) -> String {
        let mut all = None;
        let one = |(index, lookup): (usize, char)| {
            let before = all;
            let heard = Lookups::heard(before, lookup == '-', at(15 * i64::try_from(index).unwrap()));
            all = Some(heard);
            tell(before, heard)
        };
        lookups.chars().enumerate().map(one).collect()
    }

    #[test]
    fn a_name_server_that_fails_takes_nothing_away() {
        let failed = || Err("db.example has no address".to_owned());
        assert_eq!(newest(failed(), known()), Ok(known()));
        assert_eq!(newest(failed(), Vec::new()), failed());
        assert_eq!(newest(Ok(known()[..1].to_vec()), known()), Ok(known()[..1].to_vec()));
    }

    #[test]
    fn a_name_server_that_fails_is_told_of_when_that_lasts_and_no_longer_when_it_has_worked_as_long() {
        // Whether it is said to fail after each lookup.
        let said = |lookups: &str| {
            after_each(lookups, |_, heard| if heard.doubt("db.example", &known()).is_some() { '-' } else { '+' })
        };
        assert_eq!(said("+-+--+---+"), "++++++++++", "now and then is nothing");
        assert_eq!(said("+---------"), "+++++++++-");
        assert_eq!(said("-+-++-+++-"), "----------", "the same on the way back");
        assert_eq!(said("-+++++++++"), "---------+");
    }

    #[test]
    fn why_lookups_fail_is_logged_once_of_those_that_fail_in_a_row() {
        let logged = |lookups: &str| {
            after_each(lookups, |before, heard| if Lookups::is_news(before, heard) { '!' } else { '.' })
        };
        assert_eq!(logged("-----------"), "!..........");
        assert_eq!(logged("+-----------"), ".!..........", "also when it is said from then on");
        assert_eq!(logged("--++-++++++++++-"), "!...!..........!");
    }

    #[test]
    fn what_is_wrong_with_a_host_keeps_its_words_while_they_come_in_turn() {
        let heard = |before, said: &'static str, seconds| Some(Steady::heard(before, said, at(seconds)));
        let mut said = heard(None, "it has no address", 0);
        for (times, words) in ["it took too long", "it has no address"].into_iter().cycle().take(40).enumerate() {
            said = heard(said, words, 15 * i64::try_from(times).unwrap());
            assert_eq!(said.unwrap().said(), &"it has no address");
        }
        said = heard(heard(said, "it took too long", 1000), "it took too long", 1120);
        assert_eq!(said.unwrap().said(), &"it took too long", "that has lasted");
    }

    #[test]
    fn a_doubt_names_the_host_what_to_do_and_where_pods_are_led() {
        let fails = Lookups::heard(None, true, Timestamp::UNIX_EPOCH);
        let told = fails.doubt("db.example", &known()).unwrap();
        assert!(told.starts_with("db.example has no address by the name server"), "{told}");
        assert!(told.contains("give an IP address") && told.ends_with("led to 10.0.0.1, 10.0.0.2 as before"), "{told}");
        assert_eq!(Lookups::heard(None, false, Timestamp::UNIX_EPOCH).doubt("db.example", &known()), None);
    }
}
