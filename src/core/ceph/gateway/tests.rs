use super::*;

const KEY: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamgQ==";

#[test]
fn parses_urls_without_path() {
    let read = |text: &str| Url::parse(text).map(|url| (url.scheme, url.host, url.port));
    let is = |scheme: &str, host: &str, port| Ok((scheme.to_owned(), host.to_owned(), port));
    assert_eq!(read("http://rgw.example.org"), is("http", "rgw.example.org", 80));
    assert_eq!(read("https://rgw.example.org/\n"), is("https", "rgw.example.org", 443));
    assert_eq!(read("https://10.0.0.1:8443"), is("https", "10.0.0.1", 8443));
    assert_eq!(read("http://[fd00::1]:8080/"), is("http", "[fd00::1]", 8080));
    assert_eq!(read("http://[fd00::1]"), is("http", "[fd00::1]", 80));
    for text in [
        "rgw.example.org",
        "ftp://rgw.example.org",
        "https://rgw.example.org/swift/v1",
        "https://user:word@rgw.example.org",
        "https://:443",
        "https://rgw:0",
        "https://rgw:x",
        "https://[10.0.0.1]",
        "https://rgw.example.org?x",
    ] {
        assert_eq!(read(text), Err(ValueError::Url), "{text}");
    }
}

fn external(pairs: &[(&str, &str)]) -> Result<Gateway, String> {
    let data = pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
    Gateway::external("openstack/ceph", &data).map_err(|problem| problem.to_string())
}

#[test]
fn reads_urls_or_the_bootstrap_key() {
    let urls = external(&[("rgw_internal", "http://10.0.0.1:8080"), ("rgw_external", "https://objects.example.org/")]);
    let variable = urls.unwrap().variable(None);
    assert_eq!(
        variable,
        json!({
            "chart": false,
            "internal": {"scheme": "http", "host": "10.0.0.1", "port": 8080},
            "public": {"scheme": "https", "host": "objects.example.org", "port": 443},
        })
    );
    let one = external(&[("rgw_external", "https://objects.example.org")]).unwrap().variable(None);
    assert_eq!(one["internal"], one["public"]);
    let chart = external(&[("bootstrap-rgw.key", KEY)]).unwrap();
    assert!(chart.objects("openstack")[0].data["ceph.keyring"].ends_with(&format!("    key = {KEY}\n")));
    assert!(!format!("{chart:?} {}", chart.variable(None)).contains(KEY));
    assert_eq!(chart.variable(None).get("public"), None, "no public address is set");
    let named = chart.with_public(Some("https://objects.example.org:8443")).unwrap();
    assert_eq!(named.variable(None)["public"], json!({"scheme": "https", "host": "objects.example.org", "port": 8443}));
    assert_eq!(named.objects("openstack").len(), 1, "the chart still runs the gateways");
    assert_eq!(named.with_public(Some("objects")), Err(ValueError::Url));
    let error = external(&[]).unwrap_err();
    assert!(
        error.starts_with("Secret openstack/ceph, key rgw_internal: is missing, but features.storage.ceph.objectStore")
    );
    let error = external(&[("rgw_internal", "http://10.0.0.1/path")]).unwrap_err();
    assert!(
        error.ends_with("key rgw_internal: is not a URL of the form http[s]://host[:port], without a path"),
        "{error}"
    );
}

#[test]
fn waits_for_rooks_endpoints() {
    let read = |status: Value| Gateway::rook("rook-ceph/objects", &status);
    let error = read(json!({"phase": "Progressing"})).unwrap_err().to_string();
    assert!(error.starts_with("CephObjectStore rook-ceph/objects is Progressing and has no endpoints yet"), "{error}");
    let (plain, secure) = ("http://rgw.rook-ceph.svc:80", "https://rgw.rook-ceph.svc:443");
    let both = read(json!({"endpoints": {"secure": [secure], "insecure": [plain]}})).unwrap();
    assert_eq!(both.variable(None)["internal"]["scheme"], "http");
    let sealed = read(json!({"endpoints": {"secure": [secure], "insecure": null}})).unwrap();
    let moved = sealed.with_public(Some("https://objects.example.org")).unwrap().variable(None);
    assert_eq!((&moved["internal"]["port"], &moved["public"]["host"]), (&json!(443), &json!("objects.example.org")));
}
