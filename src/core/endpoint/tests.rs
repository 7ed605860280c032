use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::catalog::{Component, Endpoint};
use osdpl_values::Values;

fn image() -> Endpoint {
    Endpoint {
        component: Component::parse("glance/api").unwrap(),
        endpoint: "image".into(),
        service: "glance-api".into(),
        port_name: "api".into(),
        port: 9292,
        path: "/versions".into(),
        accept: vec![200, 300],
        keystone: false,
    }
}

fn values(value: Value) -> Values {
    serde_json::from_value(value).unwrap()
}

fn url_for(endpoints: &Value) -> String {
    internal(&image(), &values(json!({ "endpoints": endpoints })), "openstack").to_string()
}

fn target(versions: bool) -> Target {
    Target {
        application: "glance".into(),
        service: "glance-api".into(),
        url: internal(&image(), &Values::new(), "openstack"),
        accept: vec![200, 300],
        versions,
        type_: "image".into(),
        registered: true,
        login: None,
        state: Vec::new(),
    }
}

fn answer(code: u16, text: &str, body: &str) -> ProbeResponse {
    ProbeResponse::Status { code, text: text.into(), body: body.into(), token: None }
}

#[test]
fn values_override_the_internal_endpoint() {
    for (values, expected) in [
        (json!({}), "http://glance-api.openstack.svc.cluster.local:9292/versions"),
        (
            json!({"image": {"hosts": {"public": "x"}, "port": {"api": {"public": 80}}}}),
            "http://glance-api.openstack.svc.cluster.local:9292/versions",
        ),
        (
            json!({"image": {"namespace": "images"}, "cluster_domain_suffix": "k8s"}),
            "http://glance-api.images.svc.k8s:9292/versions",
        ),
        (
            json!({"image": {"port": {"api": {"default": 80, "internal": 1080}}}}),
            "http://glance-api.openstack.svc.cluster.local:1080/versions",
        ),
        (
            json!({"image": {"scheme": {"default": "https"}, "host_fqdn_override": {"default": null, "internal": {"host": "images.example.org", "tls": {}}}}}),
            "https://images.example.org:9292/versions",
        ),
        (
            json!({"image": {"host_fqdn_override": {"default": "i.example.org"}, "scheme": "https"}}),
            "https://i.example.org:9292/versions",
        ),
    ] {
        assert_eq!(url_for(&values), expected, "{values}");
    }
}

#[test]
fn describes_bad_responses_in_one_line() {
    let url = "GET http://glance-api.openstack.svc.cluster.local:9292/versions";
    for (answer, expected) in [
        (answer(200, "200 OK", ""), None),
        (answer(300, "300 Multiple Choices", "{}"), None),
        (answer(503, "503 Service Unavailable", ""), Some("503 Service Unavailable")),
        (ProbeResponse::Silence(5), Some("no response within 5 s")),
        (
            ProbeResponse::Certificate("UnknownIssuer".into()),
            Some("osdpl does not accept the server's certificate (UnknownIssuer)"),
        ),
        (ProbeResponse::Broken("no HTTP".into()), Some("no HTTP")),
    ] {
        assert_eq!(find_fault(&target(false), &answer), expected.map(|problem| format!("{url}: {problem}")));
    }
}

#[test]
fn keystone_must_describe_version_3() {
    let version = json!({"version": {"id": "v3.14", "status": "stable", "links": []}}).to_string();
    assert_eq!(find_fault(&target(true), &answer(200, "200 OK", &version)), None);
    for body in ["", "<html>", "{}", r#"{"version": {"id": "v2.0"}}"#] {
        let problem = find_fault(&target(true), &answer(200, "200 OK", body)).unwrap();
        assert!(problem.ends_with("the response does not describe version 3 of Keystone's API"), "{problem}");
    }
}

#[test]
fn logs_in_as_administrator_without_logging_the_password() {
    let auth = |admin: Value| values(json!({"endpoints": {"identity": {"auth": {"admin": admin}}}}));
    let login = Login::from_values(&auth(json!({"password": "s3cret", "project_name": "root"}))).unwrap();
    let body: Value = serde_json::from_slice(&login.body()).unwrap();
    let user = json!({"name": "admin", "domain": {"name": "default"}, "password": "s3cret"});
    assert_eq!(body["auth"]["identity"], json!({"methods": ["password"], "password": {"user": user}}));
    assert_eq!(body["auth"]["scope"]["project"], json!({"name": "root", "domain": {"name": "default"}}));
    let debug_output = format!("{:?}", Target { login: Some(login), ..target(true) });
    assert!(debug_output.contains("admin of default") && !debug_output.contains("s3cret"), "{debug_output}");
    assert_eq!(Login::from_values(&auth(json!({"username": "admin"}))), None);
}

#[test]
fn lists_service_types_with_endpoints() {
    let entry = |kind: &str, endpoints: Value| json!({"type": kind, "name": kind, "endpoints": endpoints});
    let catalogue = [entry("identity", json!([{"interface": "internal"}])), entry("image", json!([]))];
    let body = json!({"token": {"catalog": catalogue}}).to_string();
    assert_eq!(service_types(body.as_bytes()), Some(BTreeSet::from(["identity".to_owned()])));
    assert_eq!(service_types(b"{}"), None);
}

#[test]
fn failing_api_is_unhealthy_and_a_root_cause() {
    let probe = |trouble: Option<&str>| EndpointProbe {
        application: "glance".into(),
        service: "glance-api".into(),
        trouble: trouble.map(str::to_owned),
    };
    let healthy = assess(&probe(None));
    assert_eq!((healthy.status, healthy.ready.as_str(), healthy.reason.as_str()), (ComponentHealth::Ready, "1/1", ""));
    let unhealthy = assess(&probe(Some("GET x: 503")));
    assert_eq!(
        (unhealthy.status, unhealthy.ready.as_str(), unhealthy.reason.as_str()),
        (ComponentHealth::Unhealthy, "0/1", "GET x: 503")
    );
    let found =
        [(ReleaseKey::new("n", "glance"), probe(Some("GET x: 503"))), (ReleaseKey::new("n", "nova"), probe(None))]
            .into();
    let causes = causes(&found);
    assert_eq!((causes.len(), causes[0].message.as_str()), (1, "glance/endpoint: GET x: 503"));
    assert_eq!(causes[0].objects[0].to_string(), "Service n/glance-api");
}
