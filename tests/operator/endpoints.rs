//! Done means more than pods: the APIs of services must answer, where they can be reached.

use osdpl_core::api::{ComponentHealth, ComponentStatus, OpenStackDeployment, reason};
use serde_json::json;

use crate::cloud::{Told, services, with_values};
use crate::operator::{Operator, Setup};
use crate::standin::{Manner, StandIn};
use crate::world::{World, now, story};

const SERVICES: [&str; 5] = ["glance", "keystone", "mariadb", "memcached", "rabbitmq"];

impl World {
    /// An operator that asks the stand-in instead of every Service.
    pub async fn asks(&self, server: &StandIn) -> Operator {
        self.asking(server).start().await
    }

    /// The same, before it starts.
    pub fn asking(&self, server: &StandIn) -> Setup<'_> {
        let address = server.address.to_string();
        let often = ["--probe-period", "1", "--probe-timeout", "1", "--probe-address", &address];
        self.operator().arguments(&often)
    }

    async fn until_endpoint(&self, reason: &str) -> (ComponentStatus, OpenStackDeployment) {
        self.until_told("glance", "endpoint", reason).await
    }

    /// Waits until the cloud is Ready with these endpoints.
    async fn until_answered(&self, applications: &[&str]) {
        let well = |cloud: &OpenStackDeployment| {
            let health = cloud.status().health;
            let of = |application: &str| Some(health.get(application)?.get("endpoint")?.status);
            let all = ["glance", "keystone"].into_iter().all(|application| {
                of(application) == applications.contains(&application).then_some(ComponentHealth::Ready)
            });
            (all && cloud.is_ready()).then_some(())
        };
        self.until(&format!("{applications:?} answer, and the cloud is Ready"), well).await;
    }
}

#[test]
fn an_api_that_answers_badly_keeps_the_cloud_from_being_ready_and_one_that_cannot_be_reached_does_not() {
    story("endpoints", async |world| {
        let server = StandIn::start(&["identity"]).await;
        let _operator = world.asks(&server).await;
        world.apply(&services(&SERVICES)).await;
        let (health, _) = world.until_endpoint("catalogue").await;
        assert_eq!(health.reason, "Keystone's catalogue has no endpoint of type \"image\"");
        let password = world.credentials("keystone").await["admin"].clone();
        let login = server.logins().pop().unwrap();
        assert_eq!(login["auth"]["identity"]["password"]["user"]["password"], json!(password));
        server.catalogue(&["identity", "image"]);
        world.until_answered(&["glance", "keystone"]).await;

        // The event that tells that it is Ready, and details of the status, are written after that.
        server.answered(6).await;
        let since = now();
        server.answered(6).await;
        let written: Vec<_> = world.writes_since(since).into_iter().map(|entry| (entry.verb, entry.resource)).collect();
        assert_eq!(written, [], "an answer that says the same is no news");

        let url = format!("GET http://glance-api.{}.svc.cluster.local:9292/versions", world.namespace);
        server.answers("glance-api", Manner::Badly);
        let (health, cloud) = world.until_endpoint("503").await;
        assert_eq!((health.status, health.ready.as_str()), (ComponentHealth::Unhealthy, "0/1"));
        assert_eq!(health.reason, format!("{url}: 503 Service Unavailable"));
        assert_eq!((cloud.is_ready(), cloud.reason()), (false, reason::UNHEALTHY.to_owned()));
        let causes = cloud.status().causes;
        assert_eq!((causes.len(), causes[0].message.clone()), (1, format!("glance/endpoint: {}", health.reason)));
        assert_eq!(causes[0].objects[0].to_string(), format!("Service {}/glance-api", world.namespace));
        let degraded = cloud.condition("Degraded").unwrap();
        assert_eq!((degraded.status.as_str(), degraded.message), ("True", causes[0].message.clone()));

        server.answers("glance-api", Manner::Never);
        let (health, _) = world.until_endpoint("no answer").await;
        assert_eq!(health.reason, format!("{url}: no response within 1 s"));
        server.answers("glance-api", Manner::Well);
        world.until_answered(&["glance", "keystone"]).await;

        server.answers("glance-api", Manner::Badly);
        world.until_endpoint("503").await;
        drop(server);
        world.until_answered(&[]).await;
    });
}

#[test]
fn an_api_whose_certificate_nobody_trusts_is_told_so() {
    story("certificate", async |world| {
        let server = StandIn::start(&["identity", "image"]).await;
        let _operator = world.asks(&server).await;
        let encrypted = json!({"endpoints": {"image": {"scheme": {"default": "https"}}}});
        world.apply(&with_values(services(&SERVICES), "glance", encrypted)).await;
        let (health, _) = world.until_endpoint("certificate").await;
        let begins =
            format!("GET https://glance-api.{}.svc.cluster.local:9292/versions: certificate: ", world.namespace);
        assert!(health.reason.starts_with(&begins), "{}", health.reason);
        world.apply(&services(&SERVICES)).await;
        world.until_answered(&["glance", "keystone"]).await;
    });
}
