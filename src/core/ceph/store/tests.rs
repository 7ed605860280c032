use super::*;

fn store(feature: &Value) -> ObjectStore {
    ObjectStore::from_feature(&json!({"objectStore": feature})).unwrap()
}

fn keystone() -> Keystone {
    Keystone { url: "http://keystone-api.openstack.svc.cluster.local:5000".into(), password: "s3cret".into() }
}

#[test]
fn writes_the_settings_that_rook_reads() {
    assert_eq!(ObjectStore::from_feature(&json!({"mode": "rook"})), None);
    let store = store(&json!({"name": "objects"}));
    assert_eq!(
        store.settings("cloud", &keystone().url),
        json!({
            "auth": {"keystone": {
                "url": "http://keystone-api.openstack.svc.cluster.local:5000", "serviceUserSecretName": "cloud-rgw-keystone",
                "acceptedRoles": ["admin", "member"], "implicitTenants": "true",
            }},
            "protocols": {"swift": {"accountInUrl": true, "urlPrefix": "swift"}, "s3": {"authUseKeystone": true}},
        })
    );
    let secret = store.secret("rook-ceph", "cloud", &keystone());
    assert_eq!(secret.to_string(), "Secret rook-ceph/cloud-rgw-keystone");
    let text = |key: &str| secret.data[key].as_str();
    assert_eq!((text("OS_AUTH_TYPE"), text("OS_IDENTITY_API_VERSION")), ("password", "3"));
    assert_eq!((text("OS_USERNAME"), text("OS_PASSWORD")), ("swift", "s3cret"));
    // Rook requires the same domain for both.
    assert_eq!(text("OS_PROJECT_DOMAIN_NAME"), text("OS_USER_DOMAIN_NAME"));
    assert!(text("OS_AUTH_URL").ends_with(":5000/v3") && !secret.data.contains_key("cabundle"));
    assert!(!format!("{secret:?}").contains("s3cret"));
}

#[test]
fn applies_every_setting_of_the_feature() {
    let store = store(&json!({
        "name": "objects", "acceptedRoles": ["user", "admin"], "implicitTenants": "swift", "tokenCacheSize": 0, "s3": false, "caBundle": "PEM",
    }));
    let settings = store.settings("cloud", "https://keystone.example.org");
    let keystone = &settings["auth"]["keystone"];
    assert_eq!((&keystone["implicitTenants"], &keystone["tokenCacheSize"]), (&json!("swift"), &json!(0)));
    assert_eq!(keystone["acceptedRoles"], json!(["user", "admin"]));
    assert_eq!(settings["protocols"]["s3"]["authUseKeystone"], false);
    assert_eq!(settings["gateway"]["caBundleRef"], "cloud-rgw-keystone");
    let data = store.secret("rook-ceph", "cloud", &self::keystone()).data;
    assert_eq!((&*data["cabundle"], &*data["rgw_keystone_accepted_roles"]), ("PEM", "user,admin"));
}
