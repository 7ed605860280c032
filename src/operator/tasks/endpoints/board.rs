//! What was asked and answered, and what is to be asked next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Found, Wanted};
use osdpl_core::endpoint::{Target, Types};
use osdpl_core::observed::{EndpointSeen, Key};

/// How soon one is asked again that answered badly.
const AGAIN: Duration = Duration::from_secs(5);

/// How often it must answer badly in a row before it is told: the first answer after a rollout may be a proxy's.
const TOLD: u32 = 2;

/// How long Keystone's catalogue is believed: it changes when services come and go, which are asked for at once.
const CATALOGUE: Duration = Duration::from_mins(10);

/// What came of asking an API.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Judgement {
    /// Nothing could be connected to.
    Unreachable,
    /// It answers as it should.
    Well,
    /// It does not, and why.
    Bad(String),
}

/// What is known of one API.
struct Probed {
    target: Arc<Target>,
    due: Instant,
    in_flight: bool,
    /// How often in a row it answered badly.
    bad: u32,
    judgement: Judgement,
}

/// Keystone's catalogue, as it was read last.
struct Catalogue {
    types: Types,
    /// Who was registered then.
    of: BTreeSet<Key>,
    until: Instant,
}

/// What is to be asked now.
pub(super) struct Due {
    pub(super) key: Key,
    pub(super) target: Arc<Target>,
    /// Whether Keystone's catalogue is wanted as well.
    pub(super) catalogue: bool,
}

/// What came of it.
pub(super) struct Done {
    pub(super) key: Key,
    pub(super) target: Arc<Target>,
    pub(super) judgement: Judgement,
    pub(super) types: Option<Types>,
}

/// What was asked and answered.
pub(super) struct Board {
    period: Duration,
    probed: BTreeMap<Key, Probed>,
    catalogue: Option<Catalogue>,
}

impl Board {
    pub(super) fn new(period: Duration) -> Self {
        Self { period, probed: BTreeMap::new(), catalogue: None }
    }

    /// Takes the wish: what is new or has changed is asked at once, and Keystone where someone was registered.
    pub(super) fn want(&mut self, wanted: &Wanted, now: Instant) {
        self.probed.retain(|key, _| wanted.contains_key(key));
        let mut changed = false;
        for (key, target) in wanted {
            match self.probed.get_mut(key) {
                Some(probed) if *probed.target == *target => {}
                Some(probed) => {
                    if probed.target.url != target.url {
                        probed.judgement = Judgement::Unreachable;
                    }
                    (probed.target, probed.due, probed.bad) = (Arc::new(target.clone()), now, 0);
                    changed = true;
                }
                None => {
                    let target = Arc::new(target.clone());
                    self.probed.insert(
                        key.clone(),
                        Probed { target, due: now, in_flight: false, bad: 0, judgement: Judgement::Unreachable },
                    );
                    changed = true;
                }
            }
        }
        if changed && self.wants_catalogue(now) {
            self.probed.values_mut().filter(|probed| probed.target.login.is_some()).for_each(|probed| probed.due = now);
        }
    }

    fn registered(&self) -> BTreeSet<Key> {
        let registered = self.probed.iter().filter(|(_, probed)| probed.target.registered);
        registered.map(|(key, _)| key.clone()).collect()
    }

    /// Whether the catalogue is old, was read for others, or lacks someone.
    fn wants_catalogue(&self, now: Instant) -> bool {
        let Some(known) = &self.catalogue else { return true };
        let lacks =
            self.probed.values().any(|probed| probed.target.registered && !known.types.contains(&probed.target.type_));
        lacks || known.until <= now || known.of != self.registered()
    }

    /// At most so many that are to be asked now; they count as asked.
    pub(super) fn due(&mut self, now: Instant, most: usize) -> Vec<Due> {
        let catalogue = self.wants_catalogue(now);
        let due = self.probed.iter_mut().filter(|(_, probed)| !probed.in_flight && probed.due <= now).take(most);
        due.map(|(key, probed)| {
            probed.in_flight = true;
            Due { key: key.clone(), target: Arc::clone(&probed.target), catalogue }
        })
        .collect()
    }

    /// When the next one is to be asked.
    pub(super) fn next(&self) -> Option<Instant> {
        self.probed.values().filter(|probed| !probed.in_flight).map(|probed| probed.due).min()
    }

    /// Keeps an answer.
    pub(super) fn keep(&mut self, done: Done, now: Instant) {
        let registered = self.registered();
        let Some(probed) = self.probed.get_mut(&done.key) else { return };
        probed.in_flight = false;
        // It was asked about what has changed meanwhile.
        if !Arc::ptr_eq(&probed.target, &done.target) {
            return;
        }
        probed.due = now + self.period;
        match done.judgement {
            Judgement::Bad(wrong) => {
                probed.bad = probed.bad.saturating_add(1);
                probed.due = now + self.period.min(AGAIN);
                if probed.bad >= TOLD {
                    probed.judgement = Judgement::Bad(wrong);
                }
            }
            other => (probed.bad, probed.judgement) = (0, other),
        }
        if let Some(types) = done.types {
            self.catalogue = Some(Catalogue { types, of: registered, until: now + CATALOGUE });
        }
    }

    /// What is told.
    pub(super) fn found(&self) -> Found {
        let known = self.probed.iter().filter_map(|(key, probed)| {
            let Target { application, service, .. } = &*probed.target;
            let trouble = match &probed.judgement {
                Judgement::Unreachable => return None,
                Judgement::Well => self.unregistered(key, &probed.target),
                Judgement::Bad(wrong) => Some(wrong.clone()),
            };
            Some((key.clone(), EndpointSeen { application: application.clone(), service: service.clone(), trouble }))
        });
        known.collect()
    }

    fn unregistered(&self, key: &Key, target: &Target) -> Option<String> {
        let known = self.catalogue.as_ref().filter(|known| target.registered && known.of.contains(key))?;
        let type_ = &target.type_;
        (!known.types.contains(type_)).then(|| format!("Keystone's catalogue has no endpoint of type {type_:?}"))
    }
}

#[cfg(test)]
mod tests;
