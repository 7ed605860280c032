//! Lookups of external hosts: steadiness of what is reported.

use std::net::IpAddr;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// Returns the addresses to publish. A name server that fails takes no service away: `known` are the addresses that the host had last.
///
/// # Errors
/// When a host that never had an address has none now.
pub fn newest(found: Result<Vec<IpAddr>, String>, known: Vec<IpAddr>) -> Result<Vec<IpAddr>, String> {
    if known.is_empty() { found } else { Ok(found.unwrap_or(known)) }
}

/// How long results must differ before the report changes. Each change is an event, and a host is looked up every few seconds.
const LASTS: SignedDuration = SignedDuration::from_mins(2);

/// A report that changes only when results have differed from it for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steady<T> {
    /// The report.
    report: T,
    /// Since when each result has differed.
    otherwise: Option<Timestamp>,
}

impl<T: PartialEq> Steady<T> {
    /// Takes one more result. The first one counts at once: it may have been so for long, before the operator started.
    pub fn after(before: Option<Self>, report: T, now: Timestamp) -> Self {
        let agree = |report| Self { report, otherwise: None };
        let Some(before) = before.filter(|before| before.report != report) else { return agree(report) };
        let since = before.otherwise.unwrap_or(now);
        if now.duration_since(since) >= LASTS { agree(report) } else { Self { otherwise: Some(since), ..before } }
    }

    /// The report.
    pub fn report(&self) -> &T {
        &self.report
    }
}

/// Whether lookups of a host that has addresses are reported to fail.
pub type Lookups = Steady<bool>;

impl Lookups {
    /// The warning about the host, where lookups fail. Its text does not depend on the single failure.
    pub fn warning(self, host: &str, addresses: &[IpAddr]) -> Option<String> {
        let last = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        self.report.then(|| {
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

    /// Runs `tell` after each lookup, one every 15 s: `+` works and `-` fails.
    fn after_each(lookups: &str, tell: impl Fn(Option<Lookups>, Lookups) -> char) -> String {
        let mut all = None;
        let one = |(index, lookup): (usize, char)| {
            let before = all;
            let heard = Lookups::after(before, lookup == '-', at(15 * i64::try_from(index).unwrap()));
            all = Some(heard);
            tell(before, heard)
        };
        lookups.chars().enumerate().map(one).collect()
    }

    #[test]
    fn a_failing_name_server_takes_nothing_away() {
        let failed = || Err("db.example has no address".to_owned());
        assert_eq!(newest(failed(), known()), Ok(known()));
        assert_eq!(newest(failed(), Vec::new()), failed());
        assert_eq!(newest(Ok(known()[..1].to_vec()), known()), Ok(known()[..1].to_vec()));
    }

    #[test]
    fn reports_failures_and_recoveries_that_last() {
        let said = |lookups: &str| {
            after_each(lookups, |_, heard| if heard.warning("db.example", &known()).is_some() { '-' } else { '+' })
        };
        assert_eq!(said("+-+--+---+"), "++++++++++", "now and then is nothing");
        assert_eq!(said("+---------"), "+++++++++-");
        assert_eq!(said("-+-++-+++-"), "----------", "the same on the way back");
        assert_eq!(said("-+++++++++"), "---------+");
    }

    #[test]
    fn the_report_stays_while_results_alternate() {
        let heard = |before, said: &'static str, seconds| Some(Steady::after(before, said, at(seconds)));
        let mut said = heard(None, "it has no address", 0);
        for (times, words) in ["it took too long", "it has no address"].into_iter().cycle().take(40).enumerate() {
            said = heard(said, words, 15 * i64::try_from(times).unwrap());
            assert_eq!(said.unwrap().report(), &"it has no address");
        }
        said = heard(heard(said, "it took too long", 1000), "it took too long", 1120);
        assert_eq!(said.unwrap().report(), &"it took too long", "that has lasted");
    }

    #[test]
    fn the_warning_names_host_remedy_and_addresses() {
        let fails = Lookups::after(None, true, Timestamp::UNIX_EPOCH);
        let told = fails.warning("db.example", &known()).unwrap();
        assert!(told.starts_with("db.example has no address by the name server"), "{told}");
        assert!(told.contains("give an IP address") && told.ends_with("led to 10.0.0.1, 10.0.0.2 as before"), "{told}");
        assert_eq!(Lookups::after(None, false, Timestamp::UNIX_EPOCH).warning("db.example", &known()), None);
    }
}
