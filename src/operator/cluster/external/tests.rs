use super::*;

fn service(labels: &serde_json::Value) -> Service {
    let ports = json!([{"name": "mysql", "port": 3306}]);
    serde_json::from_value(json!({"metadata": {"name": "mariadb", "labels": labels}, "spec": {"ports": ports}}))
        .unwrap()
}

#[test]
fn a_service_of_somebody_else_is_in_the_way_and_our_own_is_not() {
    let why = |labels| in_the_way(&service(&labels), "cloud");
    assert_eq!(why(json!({DEPLOYMENT_LABEL: "cloud"})), None);
    let foreign = "is not ours (it lacks the label osdpl.dev/deployment=cloud); delete it, or take `external` out";
    assert_eq!(why(json!({})).as_deref(), Some(foreign));
    assert_eq!(why(json!({DEPLOYMENT_LABEL: "other"})).as_deref(), Some(foreign));
    let helms = why(json!({"app.kubernetes.io/managed-by": "Helm"}));
    assert!(helms.is_some_and(|why| why.starts_with("belongs to helm release unknown; uninstall")));
}

fn external(host: &str) -> ExternalService {
    ExternalService {
        service: "mariadb".into(),
        namespace: "openstack".into(),
        host: host.into(),
        port: 3306,
        port_name: "mysql".into(),
    }
}

#[test]
fn a_service_is_written_again_when_our_port_is_another_and_not_for_one_that_someone_added() {
    let known = service(&json!({DEPLOYMENT_LABEL: "cloud"}));
    assert!(has_port(&known, 3306, "mysql"));
    assert!(!has_port(&known, 3307, "mysql") && !has_port(&known, 3306, "db"));
    let ports = json!([{"name": "management", "port": 15672}, {"name": "mysql", "port": 3306}]);
    let more: Service = serde_json::from_value(json!({"spec": {"ports": ports}})).unwrap();
    assert!(has_port(&more, 3306, "mysql"), "an apply leaves what another manager added");
}

#[test]
fn endpoints_say_whose_addresses_they_have() {
    let endpoints = |host: &str| -> Endpoints {
        let metadata = json!({"labels": {DEPLOYMENT_LABEL: "cloud"}, "annotations": {HOST: host}});
        let addresses = json!([{"ip": "10.0.0.2"}, {"ip": "10.0.0.1"}]);
        let subsets = json!([{"addresses": addresses, "ports": [{"name": "mysql", "port": 3306}]}]);
        serde_json::from_value(json!({"metadata": metadata, "subsets": subsets})).unwrap()
    };
    let (known, wanted) = (endpoints("db.example"), external("db.example"));
    let addresses: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap());
    assert!(leads_to(&known, &addresses, &wanted) && !leads_to(&known, &addresses[..1], &wanted));
    assert!(!leads_to(&known, &addresses, &ExternalService { port_name: "db".into(), ..wanted.clone() }));
    assert!(!leads_to(&endpoints("old.example"), &addresses, &wanted));
    assert_eq!(addresses_of(&known, "cloud", "db.example"), [addresses[1], addresses[0]]);
    for (deployment, host) in [("cloud", "old.example"), ("other", "db.example")] {
        assert!(addresses_of(&known, deployment, host).is_empty(), "{deployment} {host}");
    }
}

#[test]
fn what_may_be_another_thing_later_is_looked_at_again() {
    let looked = |host: &str, problem: Option<&str>| {
        let problem = problem.map(str::to_owned);
        Looked { problem, ..Looked::now(&external(host), None, Timestamp::UNIX_EPOCH) }
    };
    let again = |looked: Looked| told(&[("mariadb".to_owned(), looked)].into()).again;
    assert_eq!(again(looked("10.0.0.1", None)), None, "an address stays what it is");
    assert_eq!(again(looked("db.example", None)), Some(Timestamp::UNIX_EPOCH));
    assert_eq!(again(looked("10.0.0.1", Some("in the way"))), Some(Timestamp::UNIX_EPOCH));
    let remembered = looked("10.0.0.1", None).remembered();
    assert_eq!(again(remembered), Some(Timestamp::UNIX_EPOCH), "the pass may have been poked for it");
}

#[test]
fn a_host_in_doubt_is_told_of_and_its_service_is_ready() {
    let until = Timestamp::UNIX_EPOCH;
    let (addresses, lookups) = (vec!["10.0.0.1".parse().unwrap()], Some(Lookups::heard(None, true, until)));
    let looked = Looked { addresses, lookups, ..Looked::now(&external("db.example"), None, until) };
    let found = told(&[("mariadb".to_owned(), looked)].into());
    assert!(found.ready.contains("mariadb") && found.problems.is_empty(), "{found:?}");
    let told = found.doubts[0].to_string();
    let expected = "spec.services.mariadb.external.host: db.example has no address ";
    assert!(told.starts_with(expected) && told.ends_with("led to 10.0.0.1 as before"), "{told}");
}

#[tokio::test]
async fn a_host_that_never_had_an_address_is_told_in_the_same_words_while_others_come_in_turn() {
    let nothing = axum::Router::new();
    let cluster = Cluster::new(kube::Client::new(nothing, "cloud"));
    let wanted = external("127.0.0.1");
    let words = "it took too long".to_owned();
    let refused = Some(Steady::heard(None, words.clone(), crate::cluster::now()));
    let before = Looked { refused, ..Looked::now(&wanted, None, Timestamp::UNIX_EPOCH) };
    let looked = cluster.look("cloud", "mariadb", &wanted, Some(&before)).await;
    assert_eq!(looked.problem, Some(format!("spec.services.mariadb.external.host: {words}")));
    let first = cluster.look("cloud", "mariadb", &wanted, None).await.problem.unwrap();
    assert!(first.contains("127.0.0.1 can't be reached from other hosts"), "{first}");
}
