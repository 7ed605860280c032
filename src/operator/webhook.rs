//! The validating webhook: what the API server asks before it takes an `OpenStackDeployment`. Shell room.
//!
//! HTTPS with a certificate in two files, which are read anew when they change: cert-manager renews them in place.

mod listener;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use listener::Secured;
use osdpl_core::api::{OpenStackDeploymentSpec, SchemaError};
use osdpl_core::catalog::{Catalog, Level};
use osdpl_core::desired::Finding;
use osdpl_core::observed::Site;
use osdpl_lint::rule::{Question, Schemas, asked};

/// Where the API server asks.
pub const PATH: &str = "/validate";

/// Where the certificate and its key are, as PEM.
#[derive(Clone, Debug)]
pub struct Files {
    /// The certificate and those it follows from.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// How long what `ConfigMap`s add is waited for: with [`LOOK`] less than the API server waits, which the chart ships as `webhook.timeoutSeconds`.
const PATIENCE: Duration = Duration::from_secs(3);

/// A catalogue, and what is wrong with what was added to it.
pub type Whole = (Arc<Catalog>, Vec<Finding>);

/// The catalogue for resources of a namespace, once what is added there was read.
pub type CatalogOf = Arc<dyn Fn(String) -> BoxFuture<'static, Whole> + Send + Sync>;

/// How long the cluster is looked at; what is not known by then is left out, and nothing is refused for it.
const LOOK: Duration = Duration::from_secs(1);

/// The cluster that a spec is meant for, as far as the operator knows it by now.
pub type SiteOf = Arc<dyn Fn(OpenStackDeploymentSpec, Arc<Catalog>) -> BoxFuture<'static, Site> + Send + Sync>;

/// What the operator knows, and reviews are answered by.
#[derive(Clone)]
pub struct Known {
    /// The catalogue.
    pub catalog_of: CatalogOf,
    /// The cluster.
    pub site_of: SiteOf,
}

/// What reviews are answered by.
struct Judge {
    known: Known,
    schemas: Schemas,
}

/// Serves until `stop`.
///
/// # Errors
/// At once when the certificate can't be read or does not match its key; later when serving breaks down.
pub fn serve(
    listener: TcpListener,
    files: Files,
    (catalog, known): (&Catalog, Known),
    stop: CancellationToken,
) -> anyhow::Result<impl Future<Output = anyhow::Result<()>> + use<>> {
    let schemas = Schemas::new(catalog).map_err(|error: SchemaError| anyhow::anyhow!("{error}"))?;
    let listener = Secured::new(listener, files).context("the webhook's certificate")?;
    let judge = Arc::new(Judge { known, schemas });
    let router = Router::new().route(PATH, post(review)).with_state(judge);
    let serving = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned());
    Ok(async move { serving.await.context("serving the webhook") })
}

async fn review(State(judge): State<Arc<Judge>>, body: Bytes) -> Result<impl IntoResponse, (StatusCode, String)> {
    let review: Value = serde_json::from_slice(&body)
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("this is no AdmissionReview: {error}\n")))?;
    let answer = judge.answer(&review).await;
    let answer = answer.map_err(|why| (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")))?;
    Ok(([(CONTENT_TYPE, "application/json")], answer.to_string()))
}

impl Judge {
    /// # Errors
    /// Why there is none yet.
    async fn answer(&self, review: &Value) -> Result<Value, &'static str> {
        let Known { catalog_of, site_of } = &self.known;
        // The resource may be the first one of its namespace: what is added there is nothing that a pass has taken in.
        let namespace = review["request"]["namespace"].as_str().unwrap_or_default().to_owned();
        let catalog = tokio::time::timeout(PATIENCE, catalog_of(namespace)).await;
        let (catalog, findings) =
            catalog.map_err(|_| "the operator has not read the ConfigMaps of the catalogue yet; try again")?;
        let (mut site, mut doubts) = (Site::default(), Vec::new());
        if let Some(spec) = asked(review) {
            let looked = tokio::time::timeout(LOOK, site_of(spec, Arc::clone(&catalog))).await;
            (site, doubts) = (looked.unwrap_or_default(), findings);
        }
        let question = Question { catalog: &catalog, schemas: &self.schemas, beside: &[], site: &site, now: None };
        let is_whole = doubts.iter().all(|doubt| doubt.level != Level::Error);
        Ok(warned(question.admission(review, is_whole), &doubts))
    }
}

/// The answer with what is wrong with the catalogue before all other warnings: what is told of a resource may follow from it.
fn warned(mut answer: Value, doubts: &[Finding]) -> Value {
    if !doubts.is_empty() {
        let warnings = &mut answer["response"]["warnings"];
        let others = warnings.as_array().cloned().unwrap_or_default();
        let doubts = doubts.iter().map(|doubt| Value::from(doubt.to_string()));
        *warnings = doubts.chain(others).collect();
    }
    answer
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use osdpl_core::observed::{Census, Class, Range};

    fn judge(look: impl Fn() -> BoxFuture<'static, Site> + Send + Sync + 'static) -> Judge {
        doubting(Vec::new(), look)
    }

    fn doubting(findings: Vec<Finding>, look: impl Fn() -> BoxFuture<'static, Site> + Send + Sync + 'static) -> Judge {
        let catalog = Arc::new(osdpl_core::files::catalog(None).unwrap());
        let schemas = Schemas::new(&catalog).unwrap();
        let catalog_of: CatalogOf =
            Arc::new(move |_| Box::pin(std::future::ready((Arc::clone(&catalog), findings.clone()))));
        Judge { known: Known { catalog_of, site_of: Arc::new(move |_, _| look()) }, schemas }
    }

    async fn answer(judge: &Judge, presets: &[&str], old: Value) -> Value {
        answer_to(judge, presets, &json!({}), old).await
    }

    /// With more fields of the spec.
    async fn answer_to(judge: &Judge, presets: &[&str], more: &Value, old: Value) -> Value {
        let mut object = json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "metadata": {"name": "cloud", "namespace": "openstack"},
            "spec": {"openstackRelease": "2026.1", "presets": presets, "storageClass": "slow"},
        });
        let spec = object["spec"].as_object_mut().unwrap();
        spec.extend(more.as_object().unwrap().clone());
        let review = json!({"request": {"uid": "1", "namespace": "openstack", "object": object, "oldObject": old}});
        judge.answer(&review).await.unwrap()
    }

    async fn warnings(judge: &Judge, old: Value) -> String {
        let answer = answer(judge, &["compute", "ha"], old).await;
        assert_eq!(answer["response"]["allowed"], true, "{answer}");
        answer["response"]["warnings"].to_string()
    }

    #[tokio::test]
    async fn a_resource_is_judged_by_the_cluster_that_it_is_meant_for() {
        let class = Class { name: "fast".into(), provisioner: "example.com/disks".into(), is_default: true };
        let site = Site { nodes: Some(Census::All(1)), classes: Some(vec![class]), ..Site::default() };
        let judge = judge(move || Box::pin(std::future::ready(site.clone())));
        let said = warnings(&judge, Value::Null).await;
        assert!(said.contains("spec.storageClass: there is no StorageClass \\\"slow\\\""), "{said}");
        assert!(said.contains("3 database servers (mariadb) are wanted, and 1 node carries"), "{said}");
        let same =
            json!({"spec": {"openstackRelease": "2026.1", "presets": ["compute", "ha"], "storageClass": "slow"}});
        assert_eq!(warnings(&judge, same).await, "null", "what keeps its spec is let through");
    }

    #[tokio::test]
    async fn a_cluster_that_is_not_known_yet_holds_up_no_answer() {
        let judge = judge(|| Box::pin(std::future::pending()));
        let said = warnings(&judge, Value::Null).await;
        assert!(!said.contains("StorageClass") && !said.contains("are wanted"), "{said}");
    }

    #[tokio::test]
    async fn values_that_a_missing_preset_may_mend_lock_nothing_that_stands_and_presets_that_exclude_each_other_do() {
        let message = "the catalogue: ConfigMaps can't be listed".to_owned();
        let doubt = Finding { level: Level::Error, field: "the catalogue".into(), message };
        let judge = doubting(vec![doubt], || Box::pin(std::future::ready(Site::default())));
        let backends = json!({"conf": {"glance": {"DEFAULT": {"enabled_backends": "fast:rbd"}}}});
        let services = json!({"services": {"glance": {"releases": {"glance": {"values": backends}}}}});
        let stands = json!({"spec": {"openstackRelease": "2026.1"}});
        let edited = answer_to(&judge, &["core", "edge"], &services, stands.clone()).await;
        assert_eq!(edited["response"]["allowed"], true, "{edited}");
        let warnings = edited["response"]["warnings"].to_string();
        assert!(warnings.contains("there is no preset") && warnings.contains("is the default"), "{warnings}");
        let excluded = answer_to(&judge, &["edge", "single", "ha"], &json!({}), stands).await;
        let message = excluded["response"]["status"]["message"].as_str().unwrap();
        assert!(message.starts_with("spec.presets[2]: ") && !message.contains("edge"), "{message}");
    }

    #[tokio::test]
    async fn a_warning_of_the_whole_resource_begins_with_what_is_wrong() {
        let range = |is_of_pods, cidr: &str| Range { what: "one".into(), is_of_pods, cidr: cidr.into() };
        let networks = vec![range(true, "10.96.0.0/16"), range(false, "10.96.0.0/12")];
        let site = Site { networks, ..Site::default() };
        let judge = judge(move || Box::pin(std::future::ready(site.clone())));
        let said: Value = serde_json::from_str(&warnings(&judge, Value::Null).await).unwrap();
        let of_all = said.as_array().unwrap().iter().filter_map(Value::as_str);
        assert!(of_all.clone().any(|told| told.starts_with("10.96.0.0/16 of one overlaps ")), "{said}");
    }

    #[test]
    fn an_answer_comes_before_the_api_server_gives_up() {
        let shipped: Value =
            osdpl_values::yaml::parse("values.yaml", include_str!("../../deploy/osdpl/values.yaml")).unwrap();
        let given = Duration::from_secs(shipped["webhook"]["timeoutSeconds"].as_u64().unwrap());
        assert!(PATIENCE + LOOK < given, "{PATIENCE:?} + {LOOK:?} in {given:?}");
    }

    #[tokio::test]
    async fn what_is_wrong_with_the_catalogue_is_told_first_of_what_is_judged_and_not_of_what_is_let_through() {
        let message = "ConfigMap openstack/edge: there is no service \"keystne\"".to_owned();
        let doubt = Finding { level: Level::Warning, field: "ConfigMap openstack/edge".into(), message };
        let judge = doubting(vec![doubt.clone()], || Box::pin(std::future::ready(Site::default())));
        let said: Value = serde_json::from_str(&warnings(&judge, Value::Null).await).unwrap();
        assert_eq!(said[0], doubt.to_string());
        let same =
            json!({"spec": {"openstackRelease": "2026.1", "presets": ["compute", "ha"], "storageClass": "slow"}});
        assert_eq!(warnings(&judge, same).await, "null");
    }

    #[tokio::test]
    async fn what_may_be_added_and_is_not_known_locks_nothing_that_stands_and_lets_nothing_else_through() {
        let doubt = |level| {
            let message = "the catalogue: ConfigMaps can't be listed".to_owned();
            Finding { level, field: "the catalogue".into(), message }
        };
        let of = async |level, domain: &str, old: Value| {
            let judge = doubting(vec![doubt(level)], || Box::pin(std::future::ready(Site::default())));
            let more = json!({"publicDomain": domain});
            answer_to(&judge, &["compute", "edge"], &more, old).await["response"].take()
        };
        let (good, stands) = ("cloud.example.org", json!({"spec": {"openstackRelease": "2026.1"}}));
        let unknown = of(Level::Error, good, stands.clone()).await;
        assert_eq!(
            (&unknown["allowed"], &unknown["uid"], &unknown["status"]),
            (&true.into(), &"1".into(), &Value::Null)
        );
        assert_eq!(unknown["warnings"][0], "the catalogue: ConfigMaps can't be listed");
        let missing = unknown["warnings"][1].as_str().unwrap();
        assert!(missing.starts_with("spec.presets[1]: there is no preset \"edge\""), "{missing}");
        let known = of(Level::Warning, good, stands.clone()).await;
        assert_eq!(known["allowed"], false, "what is known and wrong is refused");
        let other = of(Level::Error, "cluster.local", stands).await;
        let message = other["status"]["message"].as_str().unwrap();
        assert!(message.starts_with("spec.publicDomain: ") && !message.contains("edge"), "{message}");
        let new = of(Level::Error, good, Value::Null).await;
        assert_eq!((&new["allowed"], &new["warnings"][0]), (&false.into(), &unknown["warnings"][0]));
    }
}
