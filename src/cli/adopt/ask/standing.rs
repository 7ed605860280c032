//! How a release of the cloud stands to being taken over.

use std::collections::{BTreeMap, BTreeSet};

use osdpl_core::api::OpenStackDeployment;
use osdpl_core::desired::Selection;
use osdpl_core::observed::Key;
use osdpl_core::release::{Maker, Meta, Status};
use osdpl_operator::cluster::Reader;

/// What can be done.
pub enum Standing {
    /// Someone else made it: it can be taken over.
    Open,
    /// It is osdpl's, whoever made this newest revision of it.
    Ours(u32),
    /// It can't, and why.
    Refused(String),
    /// There is none, and why.
    Absent(String),
}

/// Where it is looked.
pub struct Look<'a> {
    cluster: &'a Reader,
    deployment: &'a OpenStackDeployment,
    selection: &'a Selection,
    /// The newest record of each release in the cloud's namespaces.
    records: BTreeMap<Key, Meta>,
}

impl<'a> Look<'a> {
    /// Looks at what helm has recorded.
    pub async fn new(
        cluster: &'a Reader,
        deployment: &'a OpenStackDeployment,
        selection: &'a Selection,
    ) -> anyhow::Result<Self> {
        let namespaces: BTreeSet<&String> = selection.releases.values().map(|key| &key.namespace).collect();
        let mut records = BTreeMap::new();
        for namespace in namespaces {
            let newest = cluster.newest_records(Some(namespace)).await?;
            records.extend(newest.into_iter().map(|record| (record.release.clone(), record)));
        }
        Ok(Self { cluster, deployment, selection, records })
    }

    /// How the release of this name stands, by the catalogue.
    pub async fn standing(&self, name: &str) -> anyhow::Result<Standing> {
        let Some(key) = self.selection.releases.get(name) else {
            return Ok(Standing::Absent(format!(
                "{} does not want it; enable its service in the resource, with the release's name and namespace where they differ",
                self.selection.name
            )));
        };
        let Some(newest) = self.records.get(key) else {
            return Ok(Standing::Absent(format!(
                "helm has no release {key}; where it runs under another name or in another namespace, say so in the resource (`osdpl adopt` finds both)"
            )));
        };
        if self.is_let_go(name) {
            return Ok(Standing::Refused(
                "the resource lets it go (managed: false); take that out, and where nothing differs it is in sync"
                    .into(),
            ));
        }
        self.of_record(key, newest).await
    }

    fn is_let_go(&self, name: &str) -> bool {
        let own = self.deployment.spec.services.values().find_map(|service| service.releases.get(name));
        own.is_some_and(|own| own.managed == Some(false))
    }

    async fn of_record(&self, key: &Key, newest: &Meta) -> anyhow::Result<Standing> {
        match (&newest.maker, &newest.status) {
            (Maker::Ours(_) | Maker::Inherited(_), _) => return Ok(Standing::Ours(newest.revision)),
            (Maker::Foreign, Status::Deployed) => {}
            (Maker::Foreign, status) => {
                return Ok(Standing::Refused(format!(
                    "revision {} of {key} is {status}, and only what helm has deployed is taken over; bring it there with helm first",
                    newest.revision
                )));
            }
        }
        let objects = match self.cluster.recorded_source(key, newest.revision.into()).await? {
            Ok((_, objects)) => objects,
            Err(problem) => return Ok(Standing::Refused(problem)),
        };
        Ok(match self.cluster.other_owner(key, &objects).await? {
            Some(owner) => Standing::Refused(owner),
            None => Standing::Open,
        })
    }
}
