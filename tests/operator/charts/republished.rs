//! Tests a chart repository that publishes a changed chart under the same version. The operator must refuse the changed
//! chart until the user writes the digest of this chart into the spec.

use std::path::{Path, PathBuf};

use axum::Router;
use axum::extract::{Path as UrlPath, State};
use axum::http::StatusCode;
use axum::routing::get;
use osdpl_core::api::OpenStackDeployment;
use serde_json::json;

use super::{edit, folder};
use crate::cloud::{StatusAccess, services};
use crate::operator::Setup;
use crate::world::{World, run_test};

/// A chart repository: a folder, and an HTTP server on the loopback interface that serves the folder.
struct Repository {
    folder: PathBuf,
    url: String,
}

impl Repository {
    async fn start(world: &World) -> Self {
        let folder = world.folder.path().join("repository");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let files = Router::new().route("/{file}", get(serve)).with_state(folder.clone());
        tokio::spawn(async move { axum::serve(listener, files).await });
        Self { folder, url }
    }

    /// Publishes the chart `memcached` of the folder `charts`. Replaces an archive that has the same version.
    fn publish(&self, world: &World, charts: &Path) {
        let (charts, to) = (charts.to_str().unwrap(), self.folder.to_str().unwrap());
        let cache = world.folder.path().join("publisher");
        let cache = cache.to_str().unwrap();
        world.osdpl(&["charts", "pull", "--charts", charts, "--to", to, "--cache", cache, "memcached"]);
        world.helm_prints(&["repo", "index", to, "--url", &self.url]);
    }

    /// Returns the setup of an operator that takes charts from this repository.
    fn operator<'a>(&self, world: &'a World) -> Setup<'a> {
        world.operator().charts(Path::new(&self.url)).arguments(&["--allow-http-charts"])
    }
}

async fn serve(State(folder): State<PathBuf>, UrlPath(file): UrlPath<String>) -> Result<Vec<u8>, StatusCode> {
    tokio::fs::read(folder.join(file)).await.map_err(|_| StatusCode::NOT_FOUND)
}

#[test]
fn operator_with_an_empty_cache_refuses_a_republished_chart() {
    run_test("republished", async |world| {
        let charts = folder(world);
        let repository = Repository::start(world).await;
        repository.publish(world, &charts);
        let mut spec = services(&["memcached"]);
        spec["services"]["memcached"]["releases"]["memcached"] = json!({"version": "2026.1.0"});
        let operator = repository.operator(world).start().await;
        world.apply(&spec).await;
        let cloud = world.until_ready().await;
        let first = cloud.child("memcached").chart_digest.unwrap();
        let recorded = |digest: &str| [("memcached@2026.1.0".to_owned(), digest.to_owned())].into();
        assert_eq!(cloud.status().charts, recorded(&first));
        operator.kill();

        edit(&charts.join("memcached"), 1);
        repository.publish(world, &charts);
        std::fs::remove_dir_all(world.cache().join("charts")).unwrap();
        let _operator = repository.operator(world).start().await;
        let refused = |cloud: &OpenStackDeployment| {
            let message = cloud.child("memcached").message;
            message.contains("the status has").then_some(message)
        };
        let message = world.until("the operator refuses the republished chart", refused).await;
        assert!(message.contains(&format!("the status has {first}: its content is not")), "{message}");
        let (_, digest) = message.split_once("digest: ").unwrap();
        let digest = digest.split('`').next().unwrap();
        assert!(digest != first && message.contains(&format!("has digest {digest}, ")), "{message}");
        assert_eq!(world.helm_runs().len(), 1);

        // Accept the new content: set its digest in the spec, as the message proposes.
        spec["services"]["memcached"]["releases"]["memcached"]["digest"] = json!(digest);
        world.apply(&spec).await;
        let cloud = world.until_ready().await;
        assert_eq!(cloud.child("memcached").revision, Some(2));
        assert_eq!(cloud.status().charts, recorded(digest));
    });
}
