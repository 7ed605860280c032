//! Tests osdpl's OpenStack client with fake APIs of Nova and Neutron. These tests need no cluster.

use std::time::Duration;

use k8s_openapi::jiff::SignedDuration;
use osdpl_client::{HttpConfig, Permit};
use osdpl_core::endpoint::{Login, Url};
use osdpl_core::openstack::{Access, Error, neutron, nova};
use osdpl_maintenance::OpenStackClient;
use serde_json::json;

use crate::canaries::collect::TOKEN;
use crate::fake_apis::{Behaviour, FakeApis};
use crate::nova::MigrationOutcome;
use crate::pool::RUNTIME;

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

fn run_with_fake_apis(run: impl AsyncFnOnce(&FakeApis, &OpenStackClient, &Access)) {
    RUNTIME.block_on(async {
        let server = FakeApis::start(&["compute", "network"]).await;
        let config = HttpConfig {
            address: Some(server.address.to_string()),
            timeout: Duration::from_secs(2),
            ca: Vec::new(),
            permit: Permit::default(),
        };
        run(&server, &OpenStackClient::new(config), &access()).await;
    });
}

#[test]
fn disables_services_and_migrates_instances_by_page() {
    run_with_fake_apis(async |server, cloud, access| {
        server.nova.add_compute("n1");
        server.nova.add_compute("n2");
        for id in ["a", "b", "c", "d", "e"] {
            server.nova.add_server("n1", id, "ACTIVE");
        }
        let services = cloud.call(access, &nova::services()).await.unwrap().services;
        let service = nova::find_service(&services, "n1").unwrap().clone();
        cloud.call(access, &nova::disable(&service.id, "maintenance")).await.unwrap();
        assert_eq!(server.nova.service("n1"), (false, "maintenance".into()));
        let servers = cloud.servers(access, "n1").await.unwrap();
        assert_eq!(servers.iter().map(|server| server.id.as_str()).collect::<String>(), "abcde");
        let refused = cloud.call(access, &nova::delete_service(&service.id)).await.unwrap_err();
        assert!(refused.is_conflict() && refused.to_string().ends_with("that is hosting instances."), "{refused}");
        server.nova.set_migration_outcome(MigrationOutcome::Failed);
        cloud.call(access, &nova::live_migrate("a")).await.unwrap();
        assert!(cloud.call(access, &nova::migrations("n1")).await.unwrap().migrations[0].has_failed());
        server.nova.set_migration_outcome(MigrationOutcome::Immediate);
        for server in servers {
            cloud.call(access, &nova::live_migrate(&server.id)).await.unwrap();
        }
        assert_eq!(cloud.servers(access, "n1").await.unwrap(), []);
        cloud.call(access, &nova::delete_service(&service.id)).await.unwrap();
        let hypervisors = cloud.hypervisors(access).await.unwrap();
        assert_eq!(hypervisors.iter().map(|one| one.service.host.as_str()).collect::<Vec<_>>(), ["n2"]);
        let agents = cloud.call(access, &neutron::agents("n1")).await.unwrap().agents;
        assert!(agents[0].alive && agents[0].enabled && agents.len() == 1, "{agents:?}");
        cloud.call(access, &neutron::delete_agent(&agents[0].id)).await.unwrap();
        assert!(cloud.call(access, &neutron::delete_agent(&agents[0].id)).await.unwrap_err().is_not_found());
        assert_eq!(server.logins().len(), 1, "the client must log in only once for all requests");
    });
}

#[test]
fn removes_a_gone_host_once_it_has_no_instances() {
    run_with_fake_apis(async |server, cloud, access| {
        server.nova.add_compute("n1");
        server.nova.add_compute("n2");
        server.nova.add_server("n1", "a", "ACTIVE");
        assert!(cloud.delete_host(access, "n1", "compute-n1").await.unwrap_err().is_conflict());
        let agents = async || cloud.call(access, &neutron::agents("n1")).await.unwrap().agents.len();
        server.nova.remove_server("a");
        server.set_behaviour("neutron-server", Behaviour::Unavailable);
        cloud.delete_host(access, "n1", "compute-n1").await.unwrap_err();
        let services = cloud.call(access, &nova::services()).await.unwrap().services;
        assert_eq!(services.len(), 2, "the compute service of n1 must stay until its agents in Neutron are deleted");
        server.set_behaviour("neutron-server", Behaviour::Normal);
        cloud.delete_host(access, "n1", "compute-n1").await.unwrap();
        assert_eq!(agents().await, 0);
        assert_eq!(
            cloud.delete_host(access, "n1", "compute-n1").await.unwrap(),
            0,
            "the deletion of a host must succeed if the host is already deleted"
        );
        let without_network = Access { network: None, ..access.clone() };
        assert_eq!(cloud.delete_host(&without_network, "n2", "compute-n2").await.unwrap(), 0);
    });
}

#[test]
fn renews_an_invalid_token() {
    run_with_fake_apis(async |server, cloud, access| {
        server.nova.add_compute("n1");
        cloud.call(access, &nova::services()).await.unwrap();
        server.nova.expire();
        cloud.call(access, &nova::services()).await.unwrap();
        assert_eq!(server.logins().len(), 2);
        server.nova.set_token_lifetime(SignedDuration::from_secs(30));
        server.nova.expire();
        cloud.call(access, &nova::services()).await.unwrap();
        cloud.call(access, &nova::services()).await.unwrap();
        assert_eq!(server.logins().len(), 4, "the client must not reuse a token that is about to expire");
    });
}

#[test]
fn reports_api_errors_without_secrets() {
    run_with_fake_apis(async |server, cloud, access| {
        server.nova.set_api_version(52);
        let old = cloud.call(access, &nova::services()).await.unwrap_err();
        assert_eq!(old, Error::TooOld { has: "2.52".into(), wanted: "2.53".into() });
        server.nova.set_api_version(53);
        server.set_behaviour("nova-api", Behaviour::Unavailable);
        let busy = cloud.call(access, &nova::services()).await.unwrap_err();
        assert!(matches!(busy, Error::Refused { code: 503, .. }), "{busy}");
        server.set_behaviour("keystone-api", Behaviour::Unavailable);
        server.nova.expire();
        server.set_behaviour("nova-api", Behaviour::Normal);
        let without_compute = Access { compute: None, ..access.clone() };
        let other = OpenStackClient::new(HttpConfig {
            address: Some(server.address.to_string()),
            timeout: Duration::from_secs(2),
            ca: Vec::new(),
            permit: Permit::default(),
        });
        let login = other.call(access, &nova::services()).await.unwrap_err();
        assert!(login.to_string().contains("administrator, because Keystone responded with 503"), "{login}");
        let absent = cloud.call(&without_compute, &nova::services()).await.unwrap_err();
        assert_eq!(absent.to_string(), "nova is not part of this cloud");
        let unreachable = HttpConfig {
            address: Some("127.0.0.1:1".into()),
            timeout: Duration::from_secs(2),
            ca: Vec::new(),
            permit: Permit::default(),
        };
        let no_connection = OpenStackClient::new(unreachable).call(access, &nova::services()).await.unwrap_err();
        assert!(no_connection.to_string().contains(":5000/v3/auth/tokens: connection failed"), "{no_connection}");
        let all = format!(
            "{access:?} {old:?} {busy:?} {login:?} {absent:?} {no_connection:?} {old} {busy} {login} {no_connection}"
        );
        assert!(!all.contains(PASSWORD) && !all.contains(TOKEN), "{all}");
    });
}
