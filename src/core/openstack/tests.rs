use serde_json::json;

use super::*;

fn service(host: &str) -> nova::Service {
    let service = json!({"id": host, "host": host, "status": "enabled", "state": "up", "disabled_reason": null});
    serde_json::from_value(service).unwrap()
}

#[test]
fn a_node_is_found_by_its_own_name_else_by_the_only_one_that_begins_with_it() {
    let of = |hosts: &[&str], node: &str| {
        let services: Vec<_> = hosts.iter().map(|host| service(host)).collect();
        nova::of_node(&services, node).map(|service| service.host.clone())
    };
    assert_eq!(of(&["n1.example.org", "n1"], "n1").as_deref(), Some("n1"));
    assert_eq!(of(&["n1.example.org", "n11.example.org"], "n1").as_deref(), Some("n1.example.org"));
    assert_eq!(of(&["n1", "n2"], "n2.example.org").as_deref(), Some("n2"));
    assert_eq!(of(&["n1.a.org", "n1.b.org"], "n1"), None, "either of two");
    assert_eq!(of(&["n1.a.org"], "n1.b.org"), None, "another one");
    assert_eq!(of(&[], "n1"), None);
}

#[test]
fn an_api_before_the_version_that_is_needed_is_too_old() {
    let of = |newest: &str| {
        let body = json!({"version": {"id": "v2.1", "version": newest, "min_version": "2.1"}}).to_string();
        nova::versions().read(body.as_bytes()).unwrap().suffice()
    };
    for enough in ["2.53", "2.96", "3.1", "2.100"] {
        assert_eq!(of(enough), Ok(()), "{enough}");
    }
    for (old, told) in [("2.9", "2.9"), ("2.52", "2.52"), ("", "2.0")] {
        let error = of(old).unwrap_err().to_string();
        assert!(error.starts_with(&format!("nova speaks version {told} of its API at most")), "{error}");
    }
}

#[test]
fn pages_go_on_after_the_last_instance_while_there_is_a_link() {
    let page = |links: serde_json::Value| {
        let server = json!({"id": "b", "name": "web", "status": "ACTIVE", "OS-EXT-STS:task_state": null});
        let body = json!({"servers": [server], "servers_links": links}).to_string();
        nova::servers("n1", None).read(body.as_bytes()).unwrap()
    };
    let more = page(json!([{"rel": "next", "href": "https://nova.example.org/v2.1/servers/detail?marker=b"}]));
    assert_eq!(more.next(), Some("b"));
    assert_eq!(page(json!([])).next(), None);
    let path = nova::servers("n 1&x", Some("b")).path;
    assert_eq!(path, "/v2.1/servers/detail?all_tenants=1&host=n%201%26x&limit=200&marker=b");
}

#[test]
fn a_migration_runs_has_failed_or_is_done() {
    let of = |status: &str| nova::Migration { id: 1, server: "a".into(), status: status.into(), destination: None };
    for running in ["accepted", "queued", "preparing", "running", "post-migrating"] {
        assert!(of(running).is_running() && !of(running).has_failed(), "{running}");
    }
    for failed in ["error", "failed", "cancelled"] {
        assert!(!of(failed).is_running() && of(failed).has_failed(), "{failed}");
    }
    assert!(!of("completed").is_running() && !of("completed").has_failed());
}

#[test]
fn refusals_are_told_in_the_apis_own_words_on_one_line() {
    let of = |body: serde_json::Value| said(body.to_string().as_bytes());
    let conflict = of(json!({"conflictingRequest": {"code": 409, "message": "Unable to delete\n  compute service"}}));
    assert_eq!(conflict.as_deref(), Some("Unable to delete compute service"));
    let neutron = of(json!({"NeutronError": {"type": "AgentNotFound", "message": "Agent x not found", "detail": ""}}));
    assert_eq!(neutron.as_deref(), Some("Agent x not found"));
    let version = of(json!({"errors": [{"status": 406, "detail": "Version 2.53 is not supported"}]}));
    assert_eq!(version.as_deref(), Some("Version 2.53 is not supported"));
    assert_eq!(said(b"<html>"), None);
    assert!(of(json!({"x": {"message": "y".repeat(999)}})).unwrap().len() < 400);
}

#[test]
fn a_reason_is_as_long_as_nova_keeps_it() {
    let body = nova::disable("s", &"x".repeat(999)).body.unwrap();
    assert_eq!(body["disabled_reason"].as_str().map(str::len), Some(255));
    assert_eq!(nova::enable("s").body, Some(json!({"status": "enabled"})));
}

#[test]
fn a_token_says_when_it_ends_and_never_what_it_is() {
    let body = json!({"token": {"expires_at": "2026-11-21T18:00:00.000000Z", "catalog": []}}).to_string();
    assert_eq!(expiry(body.as_bytes()), Some("2026-11-21T18:00:00Z".parse().unwrap()));
    assert_eq!(expiry(b"{}"), None);
    assert_eq!(format!("{:?}", crate::endpoint::Token::new("gAAAA")), "token");
}
