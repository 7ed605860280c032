//! Warns about passwords of an existing cloud that are publicly known. A warning names the field that contains the
//! password, and the Secret to which the user must write a new password. It never contains the password.

use std::fmt::Write as _;

use serde::Serialize;

use osdpl_core::adopt::DefaultCredentials;
use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::Catalog;

/// In the catalogue, the rotation note of a credential that must never change begins with this word.
const UNCHANGEABLE: &str = "never";

/// A password of the existing cloud that equals a default of upstream's charts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Warning {
    /// The release's name in the catalogue.
    pub release: String,
    /// The path of the password in the release's values.
    pub field: String,
    /// The Secret to which the user writes a new password after the release is adopted.
    pub location: String,
    /// The catalogue's rotation note: what else happens, or what else the user must do, when the password changes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rotation: String,
}

/// Returns a warning for each publicly known password. Leaves out the passwords that must never change, because the
/// user could not act on the warning.
pub(crate) fn password_warnings(
    shipped: &DefaultCredentials,
    spec: &OpenStackDeploymentSpec,
    catalog: &Catalog,
) -> Vec<Warning> {
    let rotation = |service: &str, name: &str| {
        let credential = catalog.services.get(service).and_then(|service| service.credentials.get(name));
        credential.map(|credential| credential.rotation.clone()).unwrap_or_default()
    };
    let changeable = shipped.iter().filter(|((service, name), _)| !rotation(service, name).starts_with(UNCHANGEABLE));
    let warnings = changeable.map(|((service, name), (release, path))| {
        let secret = spec.services.get(service).and_then(|own| own.credentials.get(name));
        let values_from = || spec.services.values().find_map(|own| own.releases.get(release))?.values_from.first();
        let location = match (secret, values_from()) {
            (Some(key), _) => format!("Secret {}, key {}", key.name, key.key),
            (None, Some(values)) => format!("Secret {}, its values", values.name),
            (None, None) => format!("a new Secret; name it in spec.services.{service}.credentials.{name}"),
        };
        Warning { release: release.clone(), field: path.to_string(), location, rotation: rotation(service, name) }
    });
    warnings.collect()
}

/// Returns the warnings as text; empty if there are none.
pub(crate) fn format(warnings: &[Warning]) -> String {
    let mut text = String::new();
    if !warnings.is_empty() {
        let _ = writeln!(
            text,
            "warning: {} passwords are publicly known defaults of upstream's charts. After you adopt a release, write new passwords to the Secrets that this list names for the release:",
            warnings.len()
        );
    }
    for Warning { release, field, location, rotation } in warnings {
        let rotation = if rotation.is_empty() { String::new() } else { format!(" ({rotation})") };
        let _ = writeln!(text, "    {release} {field}: {location}{rotation}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use osdpl_values::Path;

    #[test]
    fn names_where_to_change_each_password() {
        let password = |service: &str, name: &str, release: &str, path: &str| {
            ((service.to_owned(), name.to_owned()), (release.to_owned(), Path::parse(path).unwrap()))
        };
        let shipped = DefaultCredentials::from([
            password("keystone", "admin", "keystone", "endpoints.identity.auth.admin.password"),
            password("keystone", "database", "keystone", "endpoints.oslo_db.auth.keystone.password"),
            password("heat", "encryption_key", "heat", "conf.heat.DEFAULT.auth_encryption_key"),
            password("nova", "identity", "cinder", "endpoints.identity.auth.nova.password"),
            password("swift", "hash_suffix", "swift", "conf.swift.swift_hash_path_suffix"),
        ]);
        let key = |key: &str| json!({"name": "own", "key": key});
        let given = json!({"credentials": {"admin": key("admin"), "database": key("database")}});
        let cinder =
            json!({"releases": {"cinder": {"valuesFrom": [{"kind": "Secret", "name": "cloud-adopted-cinder"}]}}});
        let spec = json!({"openstackRelease": "2026.1", "services": {"keystone": given, "cinder": cinder}});
        let found = format(&password_warnings(
            &shipped,
            &serde_json::from_value(spec).unwrap(),
            &osdpl_core::files::load_catalog(None).unwrap(),
        ));
        let expected = "\
warning: 4 passwords are publicly known defaults of upstream's charts. After you adopt a release, write new passwords to the Secrets that this list names for the release:
    heat conf.heat.DEFAULT.auth_encryption_key: a new Secret; name it in spec.services.heat.credentials.encryption_key (re-encrypt the database first, with heat-manage update_params)
    keystone endpoints.identity.auth.admin.password: Secret own, key admin (keystone's db-sync sets it; the other charts use the old one until they are upgraded)
    keystone endpoints.oslo_db.auth.keystone.password: Secret own, key database (db-init does not change the password of an account that exists; run ALTER USER first)
    cinder endpoints.identity.auth.nova.password: Secret cloud-adopted-cinder, its values (the next upgrade sets it; then the pods must be restarted, because the new password does not restart them)
";
        assert_eq!(found, expected);
        assert_eq!(format(&[]), "");
    }
}
