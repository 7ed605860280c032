//! Checks whether a release of the cloud can be adopted.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::newest_records;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::desired::Selection;
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release::{RecordMeta, RevisionOrigin, Status};
use osdpl_operator::cluster::Reader;
use osdpl_values::CollectSorted;

/// Whether osdpl can adopt a release that the user named.
pub(crate) enum Adoptability {
    /// Another tool installed the release, and osdpl can adopt it.
    Adoptable,
    /// osdpl already manages the release. Contains the number of the release's newest revision, even if another tool
    /// created this revision.
    Managed(u32),
    /// The release can't be adopted; the text says why.
    Refused(String),
    /// The `OpenStackDeployment` does not select the release, or helm has no record of the release. The text describes
    /// the problem and the remedy.
    Absent(String),
}

/// Checks whether osdpl can adopt a release. The check needs the `OpenStackDeployment`, the releases that the
/// `OpenStackDeployment` selects, and helm's records.
pub(crate) struct AdoptionCheck<'a> {
    cluster: &'a Reader,
    deployment: &'a OpenStackDeployment,
    selection: &'a Selection,
    /// The newest record of each release in the cloud's namespaces.
    records: BTreeMap<ReleaseKey, RecordMeta>,
}

impl<'a> AdoptionCheck<'a> {
    /// Creates the check. Reads helm's newest record of each release in the cloud's namespaces.
    pub(crate) async fn new(
        cluster: &'a Reader,
        deployment: &'a OpenStackDeployment,
        selection: &'a Selection,
    ) -> anyhow::Result<Self> {
        let namespaces: BTreeSet<&String> = selection.releases.values().map(|key| &key.namespace).collect_set();
        let mut records = BTreeMap::new();
        for namespace in namespaces {
            let newest = newest_records(cluster, Some(namespace)).await?;
            records.extend(newest.into_iter().map(|record| (record.release.clone(), record)));
        }
        Ok(Self { cluster, deployment, selection, records })
    }

    /// Returns whether osdpl can adopt the release that has this name in the catalogue.
    pub(crate) async fn adoptability(&self, name: &str) -> anyhow::Result<Adoptability> {
        let Some(key) = self.selection.releases.get(name) else {
            return Ok(Adoptability::Absent(format!(
                "this release is not part of {}; enable its service in the resource, with the release's name and namespace if they differ from the catalogue's",
                self.selection.name
            )));
        };
        let Some(newest) = self.records.get(key) else {
            return Ok(Adoptability::Absent(format!(
                "helm has no release {key}; if it has another name or namespace, set these in the resource (`osdpl adopt` finds both)"
            )));
        };
        if self.is_unmanaged(name) {
            return Ok(Adoptability::Refused(
                "the resource sets `managed: false` for this release; remove the field to let osdpl manage the release, which is then in sync if it matches the spec"
                    .into(),
            ));
        }
        self.check_record(key, newest).await
    }

    fn is_unmanaged(&self, name: &str) -> bool {
        let release = self.deployment.spec.services.values().find_map(|service| service.releases.get(name));
        release.is_some_and(|release| release.managed == Some(false))
    }

    /// Returns whether osdpl can adopt a release. Checks the release's newest record in helm, and whether another tool
    /// owns the release's objects.
    async fn check_record(&self, key: &ReleaseKey, newest: &RecordMeta) -> anyhow::Result<Adoptability> {
        match (&newest.origin, &newest.status) {
            (RevisionOrigin::Ours(_) | RevisionOrigin::Inherited(_), _) => {
                return Ok(Adoptability::Managed(newest.revision));
            }
            (RevisionOrigin::Foreign, Status::Deployed) => {}
            (RevisionOrigin::Foreign, status) => {
                return Ok(Adoptability::Refused(format!(
                    "revision {} of {key} is {status}, and only deployed releases can be adopted; repair it with helm first",
                    newest.revision
                )));
            }
        }
        let objects = match self.cluster.recorded_source(key, newest.revision.into()).await? {
            Ok((_, objects)) => objects,
            Err(problem) => return Ok(Adoptability::Refused(problem)),
        };
        Ok(match self.cluster.other_owner(key, &objects).await? {
            Some(owner) => Adoptability::Refused(owner),
            None => Adoptability::Adoptable,
        })
    }
}
