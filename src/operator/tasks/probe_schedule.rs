//! Decides when the endpoints task probes each API of an OpenStack service, and keeps the results of the probes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use osdpl_core::endpoint::{Target, Types};
use osdpl_core::observed::{EndpointProbe, ReleaseKey};
use osdpl_values::CollectSorted;

/// The delay until the next probe of an API that has responded with a fault.
const RETRY_PERIOD: Duration = Duration::from_secs(5);

/// The number of times in a row that an API must respond with a fault before the task reports the fault.
///
/// One fault is not enough, because the first response after a rollout may come from a proxy instead of the service.
const FAULT_THRESHOLD: u32 = 2;

/// The time for which the task caches Keystone's service catalogue.
///
/// The time can be long, because the service catalogue changes only when an OpenStack service is added or removed. The
/// APIs to probe then change, too, and the task requests the service catalogue at once.
const CATALOGUE_TTL: Duration = Duration::from_mins(10);

/// The APIs to probe, by release. Each pass sets them.
pub(super) type Wanted = BTreeMap<ReleaseKey, Target>;

/// The results of the latest probes, by release.
pub(super) type Found = BTreeMap<ReleaseKey, EndpointProbe>;

/// The result of probing an API.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ProbeResult {
    /// No connection to the API is possible, or the task has not probed the API yet.
    Unreachable,
    /// The API responds as expected.
    Healthy,
    /// The API responds with a fault. The field describes the fault.
    Bad(String),
}

/// The state of probing one API: the target, the time of the next probe and the latest result.
///
/// osdpl keeps this state only in memory. So after a restart of the operator, the task probes all APIs at once.
struct Probed {
    target: Arc<Target>,
    due: Instant,
    in_flight: bool,
    /// The number of consecutive probes that the API answered with a fault. The task reports a fault only after
    /// [`FAULT_THRESHOLD`] such probes. After a restart of the operator, it counts from 0 again.
    failures: u32,
    /// The result of the last probe, which counts until the next probe has ended. After a restart of the operator, the
    /// API has no result until its first probe has ended.
    result: ProbeResult,
}

/// The service types, such as `compute`, that Keystone's service catalogue contained when the task last requested it.
///
/// The task caches them, because each request for the service catalogue creates a token in Keystone. After a restart of
/// the operator, the task requests the service catalogue once.
struct Catalogue {
    types: Types,
    /// The releases whose APIs the service catalogue had to contain at the last request, because helm had deployed
    /// these releases.
    registered: BTreeSet<ReleaseKey>,
    until: Instant,
}

/// A probe that the task must run now.
pub(super) struct DueProbe {
    pub(super) key: ReleaseKey,
    pub(super) target: Arc<Target>,
    /// Whether a probe of Keystone also requests the service catalogue. Probes of other APIs ignore this field.
    pub(super) catalogue: bool,
}

/// A probe that has finished, with its result.
pub(super) struct FinishedProbe {
    pub(super) key: ReleaseKey,
    pub(super) target: Arc<Target>,
    pub(super) result: ProbeResult,
    pub(super) types: Option<Types>,
}

/// The times of the next probes, and the results of the last probes, by API.
pub(super) struct ProbeSchedule {
    period: Duration,
    probed: BTreeMap<ReleaseKey, Probed>,
    catalogue: Option<Catalogue>,
}

impl ProbeSchedule {
    pub(super) fn new(period: Duration) -> Self {
        Self { period, probed: BTreeMap::new(), catalogue: None }
    }

    /// Replaces the APIs to probe. A probe of each new or changed API becomes due immediately.
    ///
    /// The probe of Keystone can also request the service catalogue. So if an API is new or has changed, and the cached
    /// service catalogue is out of date, the probe of Keystone becomes due, too.
    pub(super) fn set_targets(&mut self, wanted: &Wanted, now: Instant) {
        self.probed.retain(|key, _| wanted.contains_key(key));
        let mut changed = false;
        for (key, target) in wanted {
            match self.probed.get_mut(key) {
                Some(probed) if *probed.target == *target => {}
                Some(probed) => {
                    if probed.target.url != target.url {
                        probed.result = ProbeResult::Unreachable;
                    }
                    (probed.target, probed.due, probed.failures) = (Arc::new(target.clone()), now, 0);
                    changed = true;
                }
                None => {
                    let target = Arc::new(target.clone());
                    self.probed.insert(
                        key.clone(),
                        Probed { target, due: now, in_flight: false, failures: 0, result: ProbeResult::Unreachable },
                    );
                    changed = true;
                }
            }
        }
        if changed && self.needs_catalogue(now) {
            self.probed.values_mut().filter(|probed| probed.target.login.is_some()).for_each(|probed| probed.due = now);
        }
    }

    fn registered(&self) -> BTreeSet<ReleaseKey> {
        let registered = self.probed.iter().filter(|(_, probed)| probed.target.registered);
        registered.map(|(key, _)| key.clone()).collect_set()
    }

    /// Whether the task must request Keystone's service catalogue again.
    ///
    /// The service catalogue must contain the APIs of all releases that helm has deployed. So the result is true if the
    /// cached service catalogue lacks the service type of one of these APIs, or if the set of these APIs has changed
    /// since the last request. It is also true if the task has cached no service catalogue, or if the cached one has
    /// expired.
    fn needs_catalogue(&self, now: Instant) -> bool {
        let Some(known) = &self.catalogue else { return true };
        let lacks =
            self.probed.values().any(|probed| probed.target.registered && !known.types.contains(&probed.target.type_));
        lacks || known.until <= now || known.registered != self.registered()
    }

    /// Returns at most `limit` probes that are due, and marks them as in flight.
    pub(super) fn due(&mut self, now: Instant, limit: usize) -> Vec<DueProbe> {
        let catalogue = self.needs_catalogue(now);
        let due = self.probed.iter_mut().filter(|(_, probed)| !probed.in_flight && probed.due <= now).take(limit);
        due.map(|(key, probed)| {
            probed.in_flight = true;
            DueProbe { key: key.clone(), target: Arc::clone(&probed.target), catalogue }
        })
        .collect()
    }

    /// Returns the time at which the next probe is due; `None` if all APIs are being probed, or there are none to
    /// probe.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.probed.values().filter(|probed| !probed.in_flight).map(|probed| probed.due).min()
    }

    /// Stores the result of a probe, and sets the time of the next probe of the API.
    pub(super) fn store_result(&mut self, done: FinishedProbe, now: Instant) {
        let registered = self.registered();
        let Some(probed) = self.probed.get_mut(&done.key) else { return };
        probed.in_flight = false;
        // If the target has changed since the probe started, drop the result, which describes the old target.
        if !Arc::ptr_eq(&probed.target, &done.target) {
            return;
        }
        probed.due = now + self.period;
        match done.result {
            ProbeResult::Bad(fault) => {
                probed.failures = probed.failures.saturating_add(1);
                probed.due = now + self.period.min(RETRY_PERIOD);
                if probed.failures >= FAULT_THRESHOLD {
                    probed.result = ProbeResult::Bad(fault);
                }
            }
            result => (probed.failures, probed.result) = (0, result),
        }
        if let Some(types) = done.types {
            self.catalogue = Some(Catalogue { types, registered, until: now + CATALOGUE_TTL });
        }
    }

    /// Returns the result to report for each API to which a connection is possible: the latest result, but a fault only
    /// after [`FAULT_THRESHOLD`] consecutive faults.
    pub(super) fn found(&self) -> Found {
        let known = self.probed.iter().filter_map(|(key, probed)| {
            let Target { application, service, .. } = &*probed.target;
            let trouble = match &probed.result {
                ProbeResult::Unreachable => return None,
                ProbeResult::Healthy => self.unregistered(key, &probed.target),
                ProbeResult::Bad(fault) => Some(fault.clone()),
            };
            Some((key.clone(), EndpointProbe { application: application.clone(), service: service.clone(), trouble }))
        });
        known.collect_map()
    }

    fn unregistered(&self, key: &ReleaseKey, target: &Target) -> Option<String> {
        let known = self.catalogue.as_ref().filter(|known| target.registered && known.registered.contains(key))?;
        let type_ = &target.type_;
        (!known.types.contains(type_)).then(|| format!("Keystone's catalogue has no endpoint of type {type_:?}"))
    }
}

#[cfg(test)]
mod tests;
