//! The networks of the cluster's Services.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use super::{Error, Explain, Reader};
use osdpl_core::observed::Range;

impl Reader {
    /// What Services get their addresses from: what `ServiceCIDR` objects say (Kubernetes 1.33 and newer). Where there are none, or they may not be seen, the
    /// address of the API server's own Service is known to be one of them.
    ///
    /// # Errors
    /// When the API server does not answer, or lets neither be seen.
    pub async fn service_networks(&self) -> Result<Vec<Range>, Error> {
        let all: Api<ServiceCIDR> = Api::all(self.client.clone());
        match all.list(&ListParams::default()).await {
            Ok(all) if !all.items.is_empty() => Ok(all.items.iter().flat_map(ranges).collect()),
            Ok(_) => of_server(&self.client).await,
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_forbidden() => {
                of_server(&self.client).await
            }
            Err(error) => Err(error).because(|| "listing ServiceCIDRs".into()),
        }
    }
}

fn ranges(object: &ServiceCIDR) -> Vec<Range> {
    let cidrs = object.spec.as_ref().and_then(|spec| spec.cidrs.clone()).unwrap_or_default();
    let what = format!("Services (ServiceCIDR {})", object.name_any());
    cidrs.into_iter().map(|cidr| Range { description: what.clone(), is_of_pods: false, cidr }).collect()
}

async fn of_server(client: &Client) -> Result<Vec<Range>, Error> {
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let service = services.get_opt("kubernetes").await.because(|| "reading Service default/kubernetes".into())?;
    let addresses = service.and_then(|service| service.spec?.cluster_ips).unwrap_or_default();
    let range = |address: String| {
        let width = if address.contains(':') { 128 } else { 32 };
        let cidr = format!("{address}/{width}");
        Range { description: "Service default/kubernetes".into(), is_of_pods: false, cidr }
    };
    Ok(addresses.into_iter().map(range).collect())
}
