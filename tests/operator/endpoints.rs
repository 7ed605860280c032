//! The operator probes the APIs of services. If the operator can connect to an API, but the API fails, the cloud is not
//! Ready. If the operator can't connect to an API, the cloud can still become Ready, because the operator may run
//! outside of the cluster's network.

use osdpl_core::api::{ComponentHealth, ComponentStatus, OpenStackDeployment, reason};
use serde_json::json;

use crate::cloud::{BACKENDS, StatusAccess, services, with_values};
use crate::fake_apis::{Behaviour, FakeApis};
use crate::operator::{Operator, Setup};
use crate::world::{World, now, run_test};

const SERVICES: [&str; 2] = ["glance", "keystone"];

impl World {
    /// Starts an operator that sends all requests for OpenStack APIs, including probes, to the fake APIs.
    pub async fn start_with_fake_apis(&self, server: &FakeApis) -> Operator {
        self.setup_with_fake_apis(server).start().await
    }

    /// Returns the setup of an operator that sends all requests for OpenStack APIs, including probes, to the fake APIs.
    pub fn setup_with_fake_apis(&self, server: &FakeApis) -> Setup<'_> {
        let address = server.address.to_string();
        let arguments = ["--probe-period", "1", "--probe-timeout", "1", "--probe-address", &address];
        self.operator().arguments(&arguments)
    }

    async fn until_endpoint(&self, reason: &str) -> (ComponentStatus, OpenStackDeployment) {
        self.until_reason_contains("glance", "endpoint", reason).await
    }

    /// Waits until the cloud is Ready and the status lists exactly the endpoints of these applications, all of which
    /// respond. `applications` is a subset of glance and keystone.
    async fn until_endpoints_respond(&self, applications: &[&str]) {
        let is_expected = |cloud: &OpenStackDeployment| {
            let health = cloud.status().health;
            let endpoint_status = |application: &str| Some(health.get(application)?.get("endpoint")?.status);
            let all = SERVICES.into_iter().all(|application| {
                endpoint_status(application) == applications.contains(&application).then_some(ComponentHealth::Ready)
            });
            (all && cloud.is_ready()).then_some(())
        };
        self.until(&format!("{applications:?} respond, and the cloud is Ready"), is_expected).await;
    }
}

#[test]
fn failing_api_blocks_ready_but_unreachable_does_not() {
    run_test("endpoints", async |world| {
        let server = FakeApis::start(&["identity"]).await;
        let _operator = world.start_with_fake_apis(&server).await;
        world.apply(&world.with_external(services(&SERVICES), &BACKENDS).await).await;
        let (health, _) = world.until_endpoint("catalogue").await;
        assert_eq!(health.reason, "Keystone's catalogue has no endpoint of type \"image\"");
        let password = world.credentials("keystone").await["admin"].clone();
        let login = server.logins().pop().unwrap();
        assert_eq!(login["auth"]["identity"]["password"]["user"]["password"], json!(password));
        server.set_catalogue(&["identity", "image"]);
        world.until_endpoints_respond(&SERVICES).await;
        world.check_openrc(&password);

        // After the cloud has become Ready, the operator writes an event and details of the status. Wait for six more
        // probes, so that the check below does not find these writes.
        server.wait_for_requests(6).await;
        let since = now();
        server.wait_for_requests(6).await;
        let writes: Vec<_> = world.writes_since(since).into_iter().map(|entry| (entry.verb, entry.resource)).collect();
        assert_eq!(writes, [], "probes must cause no write if the responses are unchanged");

        let url = format!("GET http://glance-api.{}.svc.cluster.local:9292/versions", world.namespace);
        server.set_behaviour("glance-api", Behaviour::Unavailable);
        let (health, cloud) = world.until_endpoint("503").await;
        assert_eq!((health.status, health.ready.as_str()), (ComponentHealth::Unhealthy, "0/1"));
        assert_eq!(health.reason, format!("{url}: 503 Service Unavailable"));
        assert_eq!((cloud.is_ready(), cloud.reason()), (false, reason::UNHEALTHY.to_owned()));
        let causes = cloud.status().causes;
        assert_eq!((causes.len(), causes[0].message.clone()), (1, format!("glance/endpoint: {}", health.reason)));
        assert_eq!(causes[0].objects[0].to_string(), format!("Service {}/glance-api", world.namespace));
        let degraded = cloud.condition("Degraded").unwrap();
        assert_eq!((degraded.status.as_str(), degraded.message), ("True", causes[0].message.clone()));

        server.set_behaviour("glance-api", Behaviour::Silent);
        let (health, _) = world.until_endpoint("no response").await;
        assert_eq!(health.reason, format!("{url}: no response within 1 s"));
        server.set_behaviour("glance-api", Behaviour::Normal);
        world.until_endpoints_respond(&SERVICES).await;

        server.set_behaviour("glance-api", Behaviour::Unavailable);
        world.until_endpoint("503").await;
        drop(server);
        world.until_endpoints_respond(&[]).await;
    });
}

#[test]
fn reports_an_untrusted_api_certificate() {
    run_test("certificate", async |world| {
        let server = FakeApis::start(&["identity", "image"]).await;
        let _operator = world.start_with_fake_apis(&server).await;
        let encrypted = json!({"endpoints": {"image": {"scheme": {"default": "https"}}}});
        let spec = world.with_external(services(&SERVICES), &BACKENDS).await;
        world.apply(&with_values(spec.clone(), "glance", encrypted)).await;
        let (health, _) = world.until_endpoint("certificate").await;
        let prefix = format!(
            "GET https://glance-api.{}.svc.cluster.local:9292/versions: osdpl does not accept the server's certificate",
            world.namespace
        );
        assert!(health.reason.starts_with(&prefix), "{}", health.reason);
        world.apply(&spec).await;
        world.until_endpoints_respond(&SERVICES).await;
    });
}
