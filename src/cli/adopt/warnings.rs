//! Passwords that everyone knows, for people: each with its field and the place to change it at, never the value.

use std::fmt::Write as _;

use serde::Serialize;

use osdpl_core::adopt::Shipped;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::Catalog;

/// How the catalogue begins to speak of a credential that must stay as it is.
const NEVER: &str = "never";

/// One that a running cloud has from upstream's charts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    /// The release, by the catalogue's name.
    pub release: String,
    /// The field of its values.
    pub field: String,
    /// What another one is written into, once the release is taken over.
    pub place: String,
    /// What else that takes, in the catalogue's words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub besides: String,
}

/// All of them, but those that can never become others.
pub fn of(shipped: &Shipped, spec: &OpenStackDeploymentSpec, catalog: &Catalog) -> Vec<Warning> {
    let rotation = |service: &str, name: &str| {
        let credential = catalog.services.get(service).and_then(|service| service.credentials.get(name));
        credential.map(|credential| credential.rotation.clone()).unwrap_or_default()
    };
    let changeable = shipped.iter().filter(|((service, name), _)| !rotation(service, name).starts_with(NEVER));
    let warned = changeable.map(|((service, name), (release, path))| {
        let given = spec.services.get(service).and_then(|own| own.credentials.get(name));
        let own = || spec.services.values().find_map(|own| own.releases.get(release))?.values_from.first();
        let place = match (given, own()) {
            (Some(key), _) => format!("Secret {}, key {}", key.name, key.key),
            (None, Some(values)) => format!("Secret {}, its values", values.name),
            (None, None) => format!("a Secret that spec.services.{service}.credentials.{name} names"),
        };
        Warning { release: release.clone(), field: path.to_string(), place, besides: rotation(service, name) }
    });
    warned.collect()
}

/// For people; nothing where there are none.
pub fn told(warnings: &[Warning]) -> String {
    let mut text = String::new();
    if !warnings.is_empty() {
        let _ = writeln!(
            text,
            "warning: {} passwords are those that upstream's charts ship, and everyone knows them. Once a release is taken over, write another into:",
            warnings.len()
        );
    }
    for Warning { release, field, place, besides } in warnings {
        let besides = if besides.is_empty() { String::new() } else { format!(" ({besides})") };
        let _ = writeln!(text, "    {release} {field}: {place}{besides}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use osdpl_values::Path;

    #[test]
    fn the_place_and_the_way_out_are_named() {
        let one = |service: &str, name: &str, release: &str, path: &str| {
            ((service.to_owned(), name.to_owned()), (release.to_owned(), Path::parse(path).unwrap()))
        };
        let shipped = Shipped::from([
            one("keystone", "admin", "keystone", "endpoints.identity.auth.admin.password"),
            one("keystone", "database", "keystone", "endpoints.oslo_db.auth.keystone.password"),
            one("heat", "encryption_key", "heat", "conf.heat.DEFAULT.auth_encryption_key"),
            one("nova", "identity", "cinder", "endpoints.identity.auth.nova.password"),
            one("swift", "hash_suffix", "swift", "conf.swift.swift_hash_path_suffix"),
        ]);
        let key = |key: &str| json!({"name": "own", "key": key});
        let given = json!({"credentials": {"admin": key("admin"), "database": key("database")}});
        let cinder =
            json!({"releases": {"cinder": {"valuesFrom": [{"kind": "Secret", "name": "cloud-adopted-cinder"}]}}});
        let spec = json!({"openstackRelease": "2026.1", "services": {"keystone": given, "cinder": cinder}});
        let said =
            told(&of(&shipped, &serde_json::from_value(spec).unwrap(), &osdpl_core::files::catalog(None).unwrap()));
        let expected = "\
warning: 4 passwords are those that upstream's charts ship, and everyone knows them. Once a release is taken over, write another into:
    heat conf.heat.DEFAULT.auth_encryption_key: a Secret that spec.services.heat.credentials.encryption_key names (rewrite the database first, with heat-manage update_params)
    keystone endpoints.identity.auth.admin.password: Secret own, key admin (keystone's db-sync takes it over; until they are upgraded, the other charts hold the old one)
    keystone endpoints.oslo_db.auth.keystone.password: Secret own, key database (db-init does not change the password of an account that exists; run ALTER USER first)
    cinder endpoints.identity.auth.nova.password: Secret cloud-adopted-cinder, its values (set by the next upgrade; the pods read it from a Secret that no hash covers and must be restarted)
";
        assert_eq!(said, expected);
        assert_eq!(told(&[]), "");
    }
}
