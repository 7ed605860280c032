//! Executes the one-off reads that a plan requests: they read data that no watch reports.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, PersistentVolumeClaim, Secret, Service};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::PartialObjectMeta;
use kube::{Resource, ResourceExt};
use osdpl_client::list_metadata;
use serde::de::DeserializeOwned;

use super::external::resolve_host;
use super::records::Decoded;
use super::rook::{describe_refusal, rook_resource};
use super::{Error, ErrorContext, Reader};
use osdpl_core::api::{DEPLOYMENT_LABEL, ValuesKind};
use osdpl_core::observed::{Range, ReleaseKey};
use osdpl_core::release;
use osdpl_decide::{OBJECT_STORE, Published, Read, Recorded, Reference, Response, Stored};

/// The namespace and name of an object, and its uid.
type ObjectId = (ReleaseKey, String);

impl Reader {
    /// Executes a read that a plan requested. `owner` is the value of osdpl's label on the objects of the cloud.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails and the plan requires the response.
    pub(crate) async fn execute(&self, read: &Read, owner: &str) -> Result<Response, Error> {
        if let Some(response) = self.response_outside(read) {
            return Ok(response);
        }
        let own = || format!("{DEPLOYMENT_LABEL}={owner}");
        Ok(match read {
            Read::Values { release, revision, required } => {
                let values = match self.recorded_values(release, *revision).await {
                    Err(error) if !required => Err(error.to_string()),
                    values => values?,
                };
                Response::Values(values.map(Arc::new))
            }
            Read::Source { release, revision, owner } => {
                Response::Source(self.recorded_revision(release, *revision, *owner).await?.map(Arc::new))
            }
            Read::Stored(reference) => Response::Stored(self.stored(reference).await?),
            Read::Service(key) => {
                Response::Service(self.published(key).await.map(Box::new).map_err(|error| error.to_string()))
            }
            Read::Addresses(host, port) => Response::Addresses(resolve_host(host, *port).await),
            Read::Rook(kind, key) => Response::Rook(self.rook_object(kind, key).await?),
            Read::ServiceNetworks(_) => {
                Response::Networks(self.service_networks().await.map_err(|error| error.to_string()))
            }
            Read::Crd(name) => Response::Crd(match self.crd(name).await {
                Ok(found) => Ok(found.map(Arc::new)),
                Err(error) => Err(error.to_string()),
            }),
            Read::AbandonedCrds(release) => {
                Response::AbandonedCrds(self.abandoned_crds(release).await.map_err(|error| error.to_string()))
            }
            Read::RenderedCrds { .. } => Response::RenderedCrds(Err("only the active operator renders charts".into())),
            Read::OwnServices => {
                let services = self.scope.apis::<Service>(&self.client);
                Response::Objects(self.list(services, &own(), |_| true).await?)
            }
            Read::OwnStores => Response::Objects(self.object_stores(&own()).await?),
            // If the read fails, respond that the node does not exist: the plan then leaves the node's name in the
            // annotation `osdpl.dev/forget-nodes`, and a later pass repeats the read. For a node that exists, the plan
            // would remove the name.
            Read::Node(name) => Response::Node(self.has_node(name).await.unwrap_or_default()),
            Read::Jobs(release) => {
                let labels = format!("release_group={}", release.name);
                let jobs = Api::<Job>::namespaced(self.client.clone(), &release.namespace);
                Response::Objects(self.list(vec![jobs], &labels, |job| belongs_to(job, release)).await?)
            }
            Read::Claims(release) => Response::Objects(self.volume_claims(release).await?),
            Read::Leftovers { release, cleanup, others } => {
                Response::Leftovers(self.leftovers(release, cleanup, others).await)
            }
        })
    }

    /// Executes a read like [`Self::execute`]. If the read takes longer than `limit`, responds with an error.
    ///
    /// Reads whose responses can't be errors have no limit: the pass can't continue without their responses.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Self::execute`].
    pub(crate) async fn execute_within(&self, limit: Duration, read: &Read, owner: &str) -> Result<Response, Error> {
        let Some(late) = late_response(read) else { return self.execute(read, owner).await };
        tokio::time::timeout(limit, Box::pin(self.execute(read, owner))).await.unwrap_or(Ok(late))
    }

    /// Responds to some kinds of reads if the operator has no rights in their namespace; otherwise returns `None`.
    ///
    /// The function sends no request. Its response usually says that nothing exists, because without rights, the
    /// operator cannot have created objects in the namespace.
    fn response_outside(&self, read: &Read) -> Option<Response> {
        let (namespace, response) = match read {
            Read::Stored(reference) => (&reference.namespace, Response::Stored(Stored::Nothing)),
            Read::Values { release, .. } => (
                &release.namespace,
                Response::Values(Err("the operator has no rights in the release's namespace".into())),
            ),
            Read::Jobs(release) | Read::Claims(release) => (&release.namespace, Response::Objects(Vec::new())),
            _ => return None,
        };
        (!self.scope.contains(namespace)).then_some(response)
    }

    /// Returns the IP address ranges from which Kubernetes assigns addresses to Services.
    ///
    /// In Kubernetes 1.33 and newer, `ServiceCIDR` objects contain these ranges. If the cluster has no `ServiceCIDR`,
    /// or osdpl lacks the right to list them, the result contains only the addresses of the API server's own Service.
    ///
    /// # Errors
    /// Returns an error if the API server's Service can't be read. Also returns an error if the list of `ServiceCIDR`s
    /// fails, except if the cluster does not serve this kind or osdpl lacks the right to list it.
    pub(crate) async fn service_networks(&self) -> Result<Vec<Range>, Error> {
        let all: Api<ServiceCIDR> = Api::all(self.client.clone());
        match all.list(&ListParams::default()).await {
            Ok(all) if !all.items.is_empty() => Ok(all.items.iter().flat_map(ranges).collect()),
            Ok(_) => self.kubernetes_service_addresses().await,
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_forbidden() => {
                self.kubernetes_service_addresses().await
            }
            Err(error) => Err(error).with_context(|| "listing ServiceCIDRs".into()),
        }
    }

    async fn kubernetes_service_addresses(&self) -> Result<Vec<Range>, Error> {
        let services: Api<Service> = Api::namespaced(self.client.clone(), "default");
        let service =
            services.get_opt("kubernetes").await.with_context(|| "reading Service default/kubernetes".into())?;
        let addresses = service.and_then(|service| service.spec?.cluster_ips).unwrap_or_default();
        let range = |address: String| {
            let width = if address.contains(':') { 128 } else { 32 };
            let cidr = format!("{address}/{width}");
            Range { description: "Service default/kubernetes".into(), is_of_pods: false, cidr }
        };
        Ok(addresses.into_iter().map(range).collect())
    }

    async fn recorded_revision(
        &self,
        key: &ReleaseKey,
        revision: i64,
        with_owner: bool,
    ) -> Result<Decoded<Recorded>, Error> {
        let (source, objects) = match self.recorded_source(key, revision).await? {
            Ok(found) => found,
            Err(problem) => return Ok(Err(problem)),
        };
        let owner = if with_owner { self.other_owner(key, &objects).await? } else { None };
        Ok(Ok(Recorded { source, owner }))
    }

    async fn stored(&self, reference: &Reference) -> Result<Stored, Error> {
        let Reference { kind, namespace, name } = reference;
        let what = || format!("reading {reference}");
        let found = match kind {
            ValuesKind::Secret => {
                let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
                api.get_opt(name).await.with_context(what)?.map(|secret| Stored::Secret(Box::new(secret)))
            }
            ValuesKind::ConfigMap => {
                let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
                api.get_opt(name).await.with_context(what)?.map(|map| Stored::Map(Box::new(map)))
            }
        };
        Ok(found.unwrap_or(Stored::Nothing))
    }

    async fn published(&self, key: &ReleaseKey) -> Result<Published, Error> {
        let what = || format!("publishing external service {key}");
        let services: Api<Service> = Api::namespaced(self.client.clone(), &key.namespace);
        let service = services.get_opt(&key.name).await.with_context(what)?;
        let endpoints: Api<Endpoints> = Api::namespaced(self.client.clone(), &key.namespace);
        let endpoints = endpoints.get_opt(&key.name).await.with_context(what)?;
        Ok(Published { service, endpoints })
    }

    async fn rook_object(
        &self,
        kind: &'static str,
        key: &ReleaseKey,
    ) -> Result<Result<Option<Arc<serde_json::Value>>, String>, Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &key.namespace, &rook_resource(kind));
        match api.get_opt(&key.name).await {
            Ok(found) => Ok(Ok(found.and_then(|found| serde_json::to_value(found).ok()).map(Arc::new))),
            Err(kube::Error::Api(status)) => Ok(Err(describe_refusal(&format!("{kind} {key}"), &status))),
            Err(error) => Err(error).with_context(|| format!("reading {kind} {key}")),
        }
    }

    async fn object_stores(&self, labels: &str) -> Result<Vec<ObjectId>, Error> {
        let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &rook_resource(OBJECT_STORE));
        match list_metadata(&all, &ListParams::default().labels(labels), |object| Some(object_id(object))).await {
            // Return no object stores in two cases: the API server does not know the kind, because Rook is not
            // installed; or the operator has no rights for Rook. If the operator has lost its rights, osdpl's fields
            // and label stay on the object stores that it configured before.
            Err(kube::Error::Api(status)) if status.code == 404 || status.is_forbidden() => Ok(Vec::new()),
            found => found.with_context(|| format!("listing {OBJECT_STORE}s")),
        }
    }

    /// Lists the objects that have these labels, and for whose metadata `is_listed` returns true.
    async fn list<K>(
        &self,
        apis: Vec<Api<K>>,
        labels: &str,
        is_listed: impl Fn(&ObjectMeta) -> bool,
    ) -> Result<Vec<ObjectId>, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let mut ids = Vec::new();
        for api in apis {
            // Leave out objects that are already being deleted, because the plan need not delete them again. A
            // finalizer of another controller may keep such an object for a long time.
            let left = |object: &PartialObjectMeta<K>| {
                let metadata = &object.metadata;
                (metadata.deletion_timestamp.is_none() && is_listed(metadata)).then(|| object_id(object))
            };
            let found = list_metadata(&api, &ListParams::default().labels(labels), left).await;
            ids.extend(found.with_context(|| format!("listing {}s with {labels}", K::kind(&())))?);
        }
        Ok(ids)
    }

    /// Lists the volume claims of a release, see [`belongs_to`].
    async fn volume_claims(&self, release: &ReleaseKey) -> Result<Vec<ObjectId>, Error> {
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &release.namespace);
        let own = |claim: &PartialObjectMeta<PersistentVolumeClaim>| {
            let is_active = claim.metadata.deletion_timestamp.is_none();
            (is_active && belongs_to(&claim.metadata, release)).then(|| object_id(claim))
        };
        let claims = list_metadata(&api, &ListParams::default(), own).await;
        let claims = claims.with_context(|| format!("listing claims in {}", release.namespace))?;
        Ok(claims.into_iter().collect::<BTreeSet<_>>().into_iter().collect())
    }
}

/// Whether an object belongs to a release: helm's annotations name the release, or the object has no annotations of
/// helm, and its label `release_group` names the release.
///
/// helm annotates the objects in a chart's templates. It annotates neither the objects of hooks nor the claims that a
/// `StatefulSet` created, so these name their release only in the label.
fn belongs_to(metadata: &ObjectMeta, release: &ReleaseKey) -> bool {
    let group = metadata.labels.as_ref().and_then(|labels| labels.get("release_group"));
    let is_labelled = || group.is_some_and(|group| *group == release.name);
    release::helm_owner(metadata).map_or_else(is_labelled, |owner| owner == *release)
}

/// Returns the response to a read that takes too long; `None` if a plan can't be made without the data.
fn late_response(read: &Read) -> Option<Response> {
    let why = "the read took too long, so osdpl stopped it; osdpl repeats it later; if this lasts, check whether the \
               API server or its webhooks are slow";
    let why = why.to_owned();
    Some(match read {
        Read::Values { required: false, .. } => Response::Values(Err(why)),
        Read::Service(_) => Response::Service(Err(why)),
        Read::Addresses(..) => Response::Addresses(Err(why)),
        Read::Rook(..) => Response::Rook(Err(why)),
        Read::ServiceNetworks(_) => Response::Networks(Err(why)),
        Read::Crd(_) => Response::Crd(Err(why)),
        Read::AbandonedCrds(_) => Response::AbandonedCrds(Err(why)),
        Read::RenderedCrds { .. } => Response::RenderedCrds(Err(why)),
        Read::Node(_) => Response::Node(false),
        Read::Leftovers { .. } => Response::Leftovers(Err(why)),
        Read::Values { required: true, .. }
        | Read::Source { .. }
        | Read::Stored(_)
        | Read::OwnServices
        | Read::OwnStores
        | Read::Jobs(_)
        | Read::Claims(_) => return None,
    })
}

fn object_id(object: &impl ResourceExt) -> ObjectId {
    (ReleaseKey::new(object.namespace().unwrap_or_default(), object.name_any()), object.uid().unwrap_or_default())
}

fn ranges(object: &ServiceCIDR) -> Vec<Range> {
    let cidrs = object.spec.as_ref().and_then(|spec| spec.cidrs.clone()).unwrap_or_default();
    let description = format!("Services (ServiceCIDR {})", object.name_any());
    cidrs.into_iter().map(|cidr| Range { description: description.clone(), is_of_pods: false, cidr }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::RefusingServer;
    use super::*;

    /// Returns the metadata of an object with the label `release_group`, and with helm's annotations if `owner` is not
    /// empty.
    fn labelled(name: &str, owner: &str) -> Value {
        let annotations = json!({"meta.helm.sh/release-name": owner, "meta.helm.sh/release-namespace": "openstack"});
        let annotations = if owner.is_empty() { json!({}) } else { annotations };
        let labels = json!({"release_group": "mariadb"});
        json!({"metadata": {"name": name, "namespace": "openstack", "labels": labels, "annotations": annotations}})
    }

    #[tokio::test]
    async fn lists_no_objects_of_other_helm_releases() {
        let server = RefusingServer::new(|_| {
            let items = [labelled("hook", ""), labelled("own", "mariadb"), labelled("theirs", "backups")];
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {}, "items": items})
        });
        let release = ReleaseKey::new("openstack", "mariadb");
        for read in [Read::Jobs(release.clone()), Read::Claims(release)] {
            let Ok(Response::Objects(objects)) = server.cluster().execute(&read, "").await else {
                panic!("{read:?} must list objects");
            };
            let names: Vec<&str> = objects.iter().map(|(key, _)| key.name.as_str()).collect();
            assert_eq!(names, ["hook", "own"], "{read:?}");
        }
    }
}
