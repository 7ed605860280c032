//! Passwords that everyone knows, for people: each with its field and the place to change it at, never the value.

use std::fmt::Write as _;

use serde::Serialize;

use crate::adopt::Shipped;
use crate::api::OpenStackDeploymentSpec;
use crate::values::Path;

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
    /// What else that takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub besides: Option<&'static str>,
}

/// All of them.
pub fn of(shipped: &Shipped, spec: &OpenStackDeploymentSpec) -> Vec<Warning> {
    let warned = shipped.iter().map(|((service, name), (release, path))| {
        let given = spec.services.get(service).and_then(|own| own.credentials.get(name));
        let own = || spec.services.values().find_map(|own| own.releases.get(release))?.values_from.first();
        let place = match (given, own()) {
            (Some(key), _) => format!("Secret {}, key {}", key.name, key.key),
            (None, Some(values)) => format!("Secret {}, its values", values.name),
            (None, None) => format!("a Secret that spec.services.{service}.credentials.{name} names"),
        };
        Warning { release: release.clone(), field: path.to_string(), place, besides: besides(service, path) }
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
        let besides = besides.map(|besides| format!(" ({besides})")).unwrap_or_default();
        let _ = writeln!(text, "    {release} {field}: {place}{besides}");
    }
    text
}

/// What else a new value takes. OpenStack-Helm's Jobs set the passwords of users of Keystone and `RabbitMQ` anew, and leave those of a database's
/// users that are there (helm-toolkit, `_db-init.py.tpl`: `CREATE USER IF NOT EXISTS`), but for MariaDB's own, which its pods set when they start.
fn besides(service: &str, path: &Path) -> Option<&'static str> {
    match path.keys() {
        [endpoints, database, ..] if endpoints == "endpoints" && database.starts_with("oslo_db") => {
            (service != "mariadb").then_some("after ALTER USER in MariaDB, which no upgrade does")
        }
        [endpoints, ..] if endpoints == "endpoints" => None,
        _ => Some("where it encrypts what is stored, think of that first"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_place_and_the_way_out_are_named() {
        let one = |service: &str, name: &str, release: &str, path: &str| {
            ((service.to_owned(), name.to_owned()), (release.to_owned(), Path::parse(path).unwrap()))
        };
        let shipped = Shipped::from([
            one("keystone", "admin", "keystone", "endpoints.identity.auth.admin.password"),
            one("keystone", "database", "keystone", "endpoints.oslo_db.auth.keystone.password"),
            one("heat", "auth", "heat", "conf.heat.DEFAULT.auth_encryption_key"),
            one("nova", "identity", "cinder", "endpoints.identity.auth.nova.password"),
        ]);
        let key = |key: &str| json!({"name": "own", "key": key});
        let given = json!({"credentials": {"admin": key("admin"), "database": key("database")}});
        let cinder =
            json!({"releases": {"cinder": {"valuesFrom": [{"kind": "Secret", "name": "cloud-adopted-cinder"}]}}});
        let spec = json!({"openstackRelease": "2026.1", "services": {"keystone": given, "cinder": cinder}});
        let said = told(&of(&shipped, &serde_json::from_value(spec).unwrap()));
        let expected = "\
warning: 4 passwords are those that upstream's charts ship, and everyone knows them. Once a release is taken over, write another into:
    heat conf.heat.DEFAULT.auth_encryption_key: a Secret that spec.services.heat.credentials.auth names (where it encrypts what is stored, think of that first)
    keystone endpoints.identity.auth.admin.password: Secret own, key admin
    keystone endpoints.oslo_db.auth.keystone.password: Secret own, key database (after ALTER USER in MariaDB, which no upgrade does)
    cinder endpoints.identity.auth.nova.password: Secret cloud-adopted-cinder, its values
";
        assert_eq!(said, expected);
        assert_eq!(told(&[]), "");
    }
}
