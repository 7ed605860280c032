//! The operator's requests to Nova and Neutron, without a cluster.

use std::time::Duration;

use k8s_openapi::jiff::SignedDuration;
use osdpl_core::endpoint::{Login, Url};
use osdpl_core::openstack::{Access, Error, neutron, nova};
use osdpl_operator::http::{Cloud, HttpConfig};
use serde_json::json;

use crate::nova::Moves;
use crate::pool::RUNTIME;
use crate::standin::{Behaviour, StandIn};

const PASSWORD: &str = "correct-horse";

fn access() -> Access {
    let url = |service: &str, port, path: &str| Url {
        tls: false,
        host: format!("{service}.openstack.svc.cluster.local"),
        port,
        path: path.into(),
    };
    let values = json!({"endpoints": {"identity": {"auth": {"admin": {"password": PASSWORD}}}}});
    Access {
        login: Login::from_values(&serde_json::from_value(values).unwrap()).unwrap(),
        identity: url("keystone-api", 5000, "/v3"),
        compute: Some(url("nova-api", 8774, "/")),
        network: Some(url("neutron-server", 9696, "/")),
    }
}

fn with_stand_in(tell: impl AsyncFnOnce(&StandIn, &Cloud, &Access)) {
    RUNTIME.block_on(async {
        let server = StandIn::start(&["compute", "network"]).await;
        let reach =
            HttpConfig { address: Some(server.address.to_string()), timeout: Duration::from_secs(2), ca: Vec::new() };
        tell(&server, &Cloud::new(reach), &access()).await;
    });
}

#[test]
fn disables_services_and_migrates_instances_by_page() {
    with_stand_in(async |server, cloud, access| {
        server.nova.compute("n1");
        server.nova.compute("n2");
        for id in ["a", "b", "c", "d", "e"] {
            server.nova.server("n1", id, "ACTIVE");
        }
        let services = cloud.call(access, &nova::services()).await.unwrap().services;
        let own = nova::find_service(&services, "n1").unwrap().clone();
        cloud.call(access, &nova::disable(&own.id, "tired")).await.unwrap();
        assert_eq!(server.nova.service("n1"), (false, "tired".into()));
        let servers = cloud.servers(access, "n1").await.unwrap();
        assert_eq!(servers.iter().map(|server| server.id.as_str()).collect::<String>(), "abcde");
        let refused = cloud.call(access, &nova::delete_service(&own.id)).await.unwrap_err();
        assert!(refused.is_conflict() && refused.to_string().ends_with("that is hosting instances."), "{refused}");
        server.nova.moves(Moves::Fail);
        cloud.call(access, &nova::live_migrate("a")).await.unwrap();
        assert!(cloud.call(access, &nova::migrations("n1")).await.unwrap().migrations[0].has_failed());
        server.nova.moves(Moves::AtOnce);
        for server in servers {
            cloud.call(access, &nova::live_migrate(&server.id)).await.unwrap();
        }
        assert_eq!(cloud.servers(access, "n1").await.unwrap(), []);
        cloud.call(access, &nova::delete_service(&own.id)).await.unwrap();
        let hypervisors = cloud.hypervisors(access).await.unwrap();
        assert_eq!(hypervisors.iter().map(|one| one.service.host.as_str()).collect::<Vec<_>>(), ["n2"]);
        let agents = cloud.call(access, &neutron::agents("n1")).await.unwrap().agents;
        assert!(agents[0].alive && agents[0].enabled && agents.len() == 1, "{agents:?}");
        cloud.call(access, &neutron::delete_agent(&agents[0].id)).await.unwrap();
        assert!(cloud.call(access, &neutron::delete_agent(&agents[0].id)).await.unwrap_err().is_not_found());
        assert_eq!(server.logins().len(), 1, "one token for all of it");
    });
}

#[test]
fn removes_a_gone_host_once_it_has_no_instances() {
    with_stand_in(async |server, cloud, access| {
        server.nova.compute("n1");
        server.nova.compute("n2");
        server.nova.server("n1", "a", "ACTIVE");
        assert!(cloud.delete_host(access, "n1", "compute-n1").await.unwrap_err().is_conflict());
        let agents = async || cloud.call(access, &neutron::agents("n1")).await.unwrap().agents.len();
        server.nova.remove_server("a");
        server.answers("neutron-server", Behaviour::Badly);
        cloud.delete_host(access, "n1", "compute-n1").await.unwrap_err();
        let services = cloud.call(access, &nova::services()).await.unwrap().services;
        assert_eq!(services.len(), 2, "an incompletely removed host is still found");
        server.answers("neutron-server", Behaviour::Well);
        cloud.delete_host(access, "n1", "compute-n1").await.unwrap();
        assert_eq!(agents().await, 0);
        assert_eq!(
            cloud.delete_host(access, "n1", "compute-n1").await.unwrap(),
            0,
            "a removed host counts as forgotten"
        );
        let alone = Access { network: None, ..access.clone() };
        assert_eq!(cloud.delete_host(&alone, "n2", "compute-n2").await.unwrap(), 0);
    });
}

#[test]
fn renews_an_invalid_token() {
    with_stand_in(async |server, cloud, access| {
        server.nova.compute("n1");
        cloud.call(access, &nova::services()).await.unwrap();
        server.nova.expire();
        cloud.call(access, &nova::services()).await.unwrap();
        assert_eq!(server.logins().len(), 2);
        server.nova.tokens_last(SignedDuration::from_secs(30));
        server.nova.expire();
        cloud.call(access, &nova::services()).await.unwrap();
        cloud.call(access, &nova::services()).await.unwrap();
        assert_eq!(server.logins().len(), 4, "one that is about to end is not used again");
    });
}

#[test]
fn reports_api_errors_without_secrets() {
    with_stand_in(async |server, cloud, access| {
        server.nova.speaks(52);
        let old = cloud.call(access, &nova::services()).await.unwrap_err();
        assert_eq!(old, Error::TooOld { has: "2.52".into(), wanted: "2.53".into() });
        server.nova.speaks(53);
        server.answers("nova-api", Behaviour::Badly);
        let busy = cloud.call(access, &nova::services()).await.unwrap_err();
        assert!(matches!(busy, Error::Refused { code: 503, .. }), "{busy}");
        server.answers("keystone-api", Behaviour::Badly);
        server.nova.expire();
        server.answers("nova-api", Behaviour::Well);
        let alone = Access { compute: None, ..access.clone() };
        let other = Cloud::new(HttpConfig {
            address: Some(server.address.to_string()),
            timeout: Duration::from_secs(2),
            ca: Vec::new(),
        });
        let login = other.call(access, &nova::services()).await.unwrap_err();
        assert!(login.to_string().contains("as the cloud's administrator: 503"), "{login}");
        let absent = cloud.call(&alone, &nova::services()).await.unwrap_err();
        assert_eq!(absent.to_string(), "nova is not part of this cloud");
        let nobody =
            HttpConfig { address: Some("127.0.0.1:1".into()), timeout: Duration::from_secs(2), ca: Vec::new() };
        let away = Cloud::new(nobody).call(access, &nova::services()).await.unwrap_err();
        assert!(away.to_string().contains(":5000/v3/auth/tokens: connection failed"), "{away}");
        let all = format!("{access:?} {old:?} {busy:?} {login:?} {absent:?} {away:?} {old} {busy} {login} {away}");
        assert!(!all.contains(PASSWORD) && !all.contains("gaaaa"), "{all}");
    });
}
