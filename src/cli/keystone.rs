//! Determines how OpenStack's clients log in to a cloud as its administrator.

use anyhow::bail;
use clap::ValueEnum;
use kube::{Client, ResourceExt};

use super::common::newest_records;
use osdpl_core::api::OpenStackDeployment;
use osdpl_core::catalog::Catalog;
use osdpl_core::endpoint::{Interface, Login, Url, url};
use osdpl_core::release::RecordMeta;
use osdpl_decide::owned_releases;
use osdpl_operator::cluster::Reader;
use osdpl_values::{CollectSorted, Values, coalesce};

/// The default region of upstream's charts, for a cloud whose values do not name a region.
const DEFAULT_REGION: &str = "RegionOne";

/// The endpoints that OpenStack's clients use.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InterfaceArgument {
    /// For clients in the Kubernetes cluster.
    Internal,
    /// For clients outside of the cluster; the same as internal if the cloud has no features.publicEndpoints.
    Public,
}

impl From<InterfaceArgument> for Interface {
    fn from(argument: InterfaceArgument) -> Self {
        match argument {
            InterfaceArgument::Internal => Self::Internal,
            InterfaceArgument::Public => Self::Public,
        }
    }
}

/// The data that a client needs to log in to the cloud as its administrator: the login, Keystone's endpoint and the
/// region.
pub(crate) struct KeystoneAccess {
    /// The name of the `OpenStackDeployment`.
    pub cloud: String,
    /// The URL of Keystone.
    pub identity: Url,
    pub interface: Interface,
    /// The name of the region in Keystone's service catalogue.
    pub region: String,
    pub login: Login,
}

/// Reads the administrator's login and the URL of Keystone from the newest record of Keystone's release. The record
/// describes the installed cloud, whereas the spec may contain changes that are not installed yet.
pub(crate) async fn read_access(
    client: Client,
    deployment: &OpenStackDeployment,
    catalog: &Catalog,
    interface: Interface,
) -> anyhow::Result<KeystoneAccess> {
    let reader = Reader::new(client);
    let cloud = deployment.name_any();
    let owned = owned_releases(deployment);
    let mut found = None;
    for namespace in owned.iter().map(|key| key.namespace.as_str()).collect_set() {
        let records = newest_records(&reader, Some(namespace)).await?;
        let endpoint_of = |record: &RecordMeta| {
            let (_, release) = catalog.release(record.catalog_name.as_deref()?)?;
            release.endpoint.as_ref().filter(|endpoint| endpoint.keystone && owned.contains(&record.release))
        };
        found = found.or(records.iter().find_map(|record| Some((record.clone(), endpoint_of(record)?))));
    }
    let Some((record, endpoint)) = found else {
        bail!("{cloud} has no release of Keystone yet; see `osdpl status`");
    };
    let source = reader.recorded_source(&record.release, record.revision.into()).await?;
    let (source, _) = source.map_err(anyhow::Error::msg)?;
    let values = coalesce(&source.defaults, &source.config);
    let Some(login) = Login::from_values(&values) else {
        bail!(
            "osdpl finds no password of Keystone's administrator in the values of release {}; set endpoints.identity.auth.admin.password",
            record.release
        );
    };
    let identity = url(endpoint, &values, &record.release.namespace, interface);
    Ok(KeystoneAccess { cloud, identity, interface, region: region(&values), login })
}

fn region(values: &Values) -> String {
    let admin = values.get("endpoints").and_then(|all| all.get("identity")?.get("auth")?.get("admin"));
    admin.and_then(|admin| admin.get("region_name")?.as_str()).unwrap_or(DEFAULT_REGION).to_owned()
}
