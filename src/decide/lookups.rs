//! Decides which addresses of external hosts osdpl publishes, and when it reports that DNS lookups of a host fail.

use std::net::IpAddr;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// Returns the addresses of an external host to publish in its Endpoints.
///
/// If the last lookup succeeded, the result is `found`: the addresses from this lookup. If it failed, the result is
/// `known`: the addresses that osdpl already knew.
///
/// # Errors
/// Returns an error if the lookup failed and no address is known.
pub(crate) fn newest(found: Result<Vec<IpAddr>, String>, known: Vec<IpAddr>) -> Result<Vec<IpAddr>, String> {
    if known.is_empty() { found } else { Ok(found.unwrap_or(known)) }
}

/// The time for which the DNS lookups of a host must differ from the reported result before osdpl reports the new
/// result.
///
/// osdpl looks up a host every few seconds. Without the delay, each change of the result would cause an event.
const DAMPING: SignedDuration = SignedDuration::from_mins(2);

/// The result of the DNS lookups that osdpl reports for a host. If the result changes only for a short time, osdpl does
/// not report the change.
///
/// osdpl replaces the reported result only when all lookups during the time [`DAMPING`] had other results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damped<T> {
    /// The result that osdpl reports now.
    report: T,
    /// Since when all lookups have had other results than `report`; `None` if the last lookup had the result `report`.
    differs_since: Option<Timestamp>,
}

impl<T: PartialEq> Damped<T> {
    /// Returns the new state of a host after one more lookup with the result `report`.
    ///
    /// `before` is the state before this lookup; `None` for the first lookup, whose result osdpl reports at once.
    pub(crate) fn after(before: Option<Self>, report: T, now: Timestamp) -> Self {
        let report_now = |report| Self { report, differs_since: None };
        let Some(before) = before.filter(|before| before.report != report) else { return report_now(report) };
        let since = before.differs_since.unwrap_or(now);
        if now.duration_since(since) >= DAMPING {
            report_now(report)
        } else {
            Self { differs_since: Some(since), ..before }
        }
    }

    /// Returns the result that osdpl reports now.
    pub(crate) fn report(&self) -> &T {
        &self.report
    }
}

/// Whether osdpl reports that the lookups of a host fail. A result that lasts only for a few lookups does not change
/// the report.
pub(crate) type Lookups = Damped<bool>;

impl Lookups {
    /// Returns the warning that the lookups of a host fail; `None` if osdpl reports no failure.
    ///
    /// The warning does not contain the last error, because the errors of several lookups may differ, and each new text
    /// would cause an event.
    pub(crate) fn warning(self, host: &str, addresses: &[IpAddr]) -> Option<String> {
        let last = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        self.report.then(|| {
            format!(
                "{host} has no address according to the name server, or none that pods can reach; check the name \
                 server, correct the name, or give an IP address; until the name has an address again, pods use \
                 {last}"
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

    /// Returns what osdpl reports after each lookup of a host: `-` for a warning, and `+` for no warning. `lookups`
    /// contains one character for each lookup, every 15 s: `-` if the lookup fails, and `+` if it succeeds. The report
    /// changes only after failures or successes that last.
    fn reports(lookups: &str) -> String {
        let mut before = None;
        let one = |(index, lookup): (usize, char)| {
            let report = Lookups::after(before, lookup == '-', at(15 * i64::try_from(index).unwrap()));
            before = Some(report);
            if report.warning("db.example", &known()).is_some() { '-' } else { '+' }
        };
        lookups.chars().enumerate().map(one).collect()
    }

    #[test]
    fn keeps_addresses_while_the_name_server_fails() {
        let failed = || Err("db.example has no address".to_owned());
        assert_eq!(newest(failed(), known()), Ok(known()));
        assert_eq!(newest(failed(), Vec::new()), failed());
        assert_eq!(newest(Ok(known()[..1].to_vec()), known()), Ok(known()[..1].to_vec()));
    }

    #[test]
    fn reports_failures_and_recoveries_that_last() {
        assert_eq!(reports("+-+--+---+"), "++++++++++", "single failures are not reported");
        assert_eq!(reports("+---------"), "+++++++++-");
        assert_eq!(reports("-+-++-+++-"), "----------", "single successes are not reported");
        assert_eq!(reports("-+++++++++"), "---------+");
    }

    #[test]
    fn keeps_the_report_while_results_alternate() {
        let after = |before, result: &'static str, seconds| Some(Damped::after(before, result, at(seconds)));
        let mut report = after(None, "it has no address", 0);
        for (times, result) in ["it took too long", "it has no address"].into_iter().cycle().take(40).enumerate() {
            report = after(report, result, 15 * i64::try_from(times).unwrap());
            assert_eq!(report.unwrap().report(), &"it has no address");
        }
        report = after(after(report, "it took too long", 1000), "it took too long", 1120);
        assert_eq!(
            report.unwrap().report(),
            &"it took too long",
            "osdpl reports a new result after the result has lasted for two minutes"
        );
    }

    #[test]
    fn the_warning_names_host_remedy_and_addresses() {
        let fails = Lookups::after(None, true, Timestamp::UNIX_EPOCH);
        let warning = fails.warning("db.example", &known()).unwrap();
        assert!(warning.starts_with("db.example has no address according to the name server"), "{warning}");
        assert!(
            warning.contains("give an IP address") && warning.ends_with("pods use 10.0.0.1, 10.0.0.2"),
            "{warning}"
        );
        assert_eq!(Lookups::after(None, false, Timestamp::UNIX_EPOCH).warning("db.example", &known()), None);
    }
}
