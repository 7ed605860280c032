use serde_json::json;

use super::*;

fn service(host: &str) -> nova::Service {
    let service = json!({"id": host, "host": host, "status": "enabled", "state": "up", "disabled_reason": null});
    serde_json::from_value(service).unwrap()
}

#[test]
fn finds_service_by_node_name_or_first_label() {
    let of = |hosts: &[&str], node: &str| {
        let services: Vec<_> = hosts.iter().map(|host| service(host)).collect();
        nova::find_service(&services, node).map(|service| service.host.clone())
    };
    assert_eq!(of(&["n1.example.org", "n1"], "n1").as_deref(), Some("n1"));
    assert_eq!(of(&["n1.example.org", "n11.example.org"], "n1").as_deref(), Some("n1.example.org"));
    assert_eq!(of(&["n1", "n2"], "n2.example.org").as_deref(), Some("n2"));
    assert_eq!(
        of(&["n1.a.org", "n1.b.org"], "n1"),
        None,
        "a node name without a domain finds no service if two hosts have this name before the first dot"
    );
    assert_eq!(of(&["n1.a.org"], "n1.b.org"), None, "two different full names belong to two hosts");
    assert_eq!(of(&[], "n1"), None);
}

#[test]
fn rejects_old_api_versions() {
    let of = |newest: &str| {
        let body = json!({"version": {"id": "v2.1", "version": newest, "min_version": "2.1"}}).to_string();
        nova::versions().read(body.as_bytes()).unwrap().check()
    };
    for enough in ["2.53", "2.96", "3.1", "2.100"] {
        assert_eq!(of(enough), Ok(()), "{enough}");
    }
    for (old, reported) in [("2.9", "2.9"), ("2.52", "2.52"), ("", "2.0")] {
        let error = of(old).unwrap_err().to_string();
        assert!(error.starts_with(&format!("Nova supports API version {reported} at most")), "{error}");
    }
}

#[test]
fn next_page_starts_after_the_last_instance() {
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
fn classifies_migration_status() {
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
fn extracts_error_messages_on_one_line() {
    let of = |body: serde_json::Value| error_message(body.to_string().as_bytes());
    let conflict = of(json!({"conflictingRequest": {"code": 409, "message": "Unable to delete\n  compute service"}}));
    assert_eq!(conflict.as_deref(), Some("Unable to delete compute service"));
    let neutron = of(json!({"NeutronError": {"type": "AgentNotFound", "message": "Agent x not found", "detail": ""}}));
    assert_eq!(neutron.as_deref(), Some("Agent x not found"));
    let version = of(json!({"errors": [{"status": 406, "detail": "Version 2.53 is not supported"}]}));
    assert_eq!(version.as_deref(), Some("Version 2.53 is not supported"));
    assert_eq!(error_message(b"<html>"), None);
    assert!(of(json!({"x": {"message": "y".repeat(999)}})).unwrap().len() < 400);
}

#[test]
fn shortens_disabled_reason() {
    let body = nova::disable("s", &"x".repeat(999)).body.unwrap();
    assert_eq!(body["disabled_reason"].as_str().map(str::len), Some(255));
    assert_eq!(nova::enable("s").body, Some(json!({"status": "enabled"})));
}

#[test]
fn reads_token_expiry_and_hides_the_token() {
    let body = json!({"token": {"expires_at": "2026-11-21T18:00:00.000000Z", "catalog": []}}).to_string();
    assert_eq!(token_expiry(body.as_bytes()), Some("2026-11-21T18:00:00Z".parse().unwrap()));
    assert_eq!(token_expiry(b"{}"), None);
    assert_eq!(format!("{:?}", crate::endpoint::Token::new("gAAAA")), "token");
}
