//! Checks whether releases can be adopted, and asks the operator to adopt them: writes an annotation with their names
//! to the `OpenStackDeployment`. The operator removes the annotation after the adoption.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::bail;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use osdpl_lint::Input;
use osdpl_values::CollectSorted;
use serde_json::json;

use super::Arguments;
use crate::additions::check_additions;
use crate::common::{Target, newest_records, unknown_release};
use crate::connect::readable;
use crate::output;
use osdpl_core::api::{ADOPT, OpenStackDeployment};
use osdpl_core::catalog::Catalog;
use osdpl_core::desired::Selection;
use osdpl_core::observed::ReleaseKey;
use osdpl_core::release::{RecordMeta, RevisionOrigin, Status};
use osdpl_operator::cluster::Reader;

impl Arguments {
    pub(super) async fn request_adoption(self) -> anyhow::Result<ExitCode> {
        let client = self.cluster.client().await?;
        let target = Target { name: self.name, namespace: self.namespace, cluster: self.cluster };
        let deployment = target.find(&client).await?;
        let (extended, errors) = self.catalog.load_live(&client, &deployment).await?;
        check_additions(&errors)?;
        let catalog = extended.catalog;
        let requested = if self.all { None } else { Some(self.releases) };
        let (adoptable, refused) = adoptable_releases(&client, &deployment, &catalog, requested.as_deref()).await?;
        let code = if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        if adoptable.is_empty() {
            return Ok(code);
        }
        // If the annotation's value were `all`, the operator would later also adopt a release that can't be adopted
        // now. So write the names of the adoptable releases into the annotation.
        annotate(client, &deployment, &adoptable).await?;
        output::line(format_args!(
            "the operator adopts {}: releases that match the spec are in sync from then on, and changes to the others wait for approval; see `osdpl plan`",
            adoptable.join(", ")
        ));
        Ok(code)
    }
}

/// Returns the requested releases that osdpl can adopt, and the number of requested releases that it can't adopt. If
/// `requested` is `None`, checks all releases of the cloud.
///
/// Prints why a release can't be adopted, and the releases that osdpl already manages.
///
/// # Errors
/// Returns an error if the user named a release that osdpl can't adopt. The error names all such releases, and the
/// command writes nothing to the cluster.
async fn adoptable_releases(
    client: &Client,
    deployment: &OpenStackDeployment,
    catalog: &Catalog,
    requested: Option<&[String]>,
) -> anyhow::Result<(Vec<String>, usize)> {
    let selection = Input::of_resource(deployment, &deployment.spec, catalog).select();
    let cluster = Reader::new(client.clone());
    let check = AdoptionCheck::new(&cluster, deployment, &selection).await?;
    let names = requested.map_or_else(|| selection.releases.keys().cloned().collect(), <[String]>::to_vec);
    let (mut adoptable, mut managed, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for name in names {
        if catalog.release(&name).is_none() {
            return Err(unknown_release(catalog, &name));
        }
        match check.adoptability(&name).await? {
            Adoptability::Adoptable => adoptable.push(name),
            Adoptability::Managed(revision) => managed.push(format!("{name} (revision {revision})")),
            Adoptability::Absent(_) if requested.is_none() => {}
            Adoptability::Absent(why) | Adoptability::Refused(why) => {
                refused.push(format!("{name} can't be adopted: {why}"));
            }
        }
    }
    if requested.is_some() && !refused.is_empty() {
        bail!("{}", refused.join("\n"));
    }
    for why in &refused {
        eprintln!("osdpl: {why}");
    }
    if !managed.is_empty() {
        output::line(format_args!("already managed by osdpl, nothing to do: {}", managed.join(", ")));
    } else if adoptable.is_empty() && refused.is_empty() {
        output::line("no release of this cloud exists yet: there is nothing to adopt");
    }
    Ok((adoptable, refused.len()))
}

/// Adds the names of releases to the annotation with which users request an adoption. Keeps the names that the
/// annotation already contains.
async fn annotate(client: Client, deployment: &OpenStackDeployment, names: &[String]) -> anyhow::Result<()> {
    let requested = deployment.annotations().get(ADOPT).into_iter().flat_map(|text| text.split(','));
    let names: BTreeSet<&str> = requested.chain(names.iter().map(String::as_str)).collect_set();
    let value = names.into_iter().collect::<Vec<_>>().join(",");
    let api: Api<OpenStackDeployment> = Api::namespaced(client, &deployment.namespace().unwrap_or_default());
    let patch = Patch::Merge(json!({"metadata": {"annotations": {ADOPT: value}}}));
    api.patch(&deployment.name_any(), &PatchParams::default(), &patch).await.map_err(readable)?;
    Ok(())
}

/// Whether osdpl can adopt a release.
enum Adoptability {
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
struct AdoptionCheck<'a> {
    cluster: &'a Reader,
    deployment: &'a OpenStackDeployment,
    selection: &'a Selection,
    /// The newest record of each release in the cloud's namespaces.
    records: BTreeMap<ReleaseKey, RecordMeta>,
}

impl<'a> AdoptionCheck<'a> {
    /// Creates the check. Reads helm's newest record of each release in the cloud's namespaces.
    async fn new(
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
    async fn adoptability(&self, name: &str) -> anyhow::Result<Adoptability> {
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
