//! What a person should know of a cloud before it is taken over, beside the findings about its spec.

use crate::adopt::Shipped;
use crate::api::OpenStackDeploymentSpec;
use crate::values::Path;

/// Passwords that everyone knows: each release and field, never the value, and how it is changed.
pub fn of(shipped: &Shipped, spec: &OpenStackDeploymentSpec) -> Vec<String> {
    let told = shipped.iter().map(|((service, name), (release, path))| {
        let given = spec.services.get(service).and_then(|own| own.credentials.get(name));
        let place = given.map_or_else(
            || format!("a Secret that spec.services.{service}.credentials.{name} names"),
            |key| format!("key {} of Secret {}", key.key, key.name),
        );
        format!(
            "warning: {release}: {path} is what upstream's charts ship, and everyone knows it: once {release} is taken over, write another into {place}{}",
            besides(service, path)
        )
    });
    told.collect()
}

/// What else a new value takes. OpenStack-Helm's Jobs set the passwords of users of Keystone and `RabbitMQ` anew, and leave those of a database's
/// users that are there (helm-toolkit, `_db-init.py.tpl`: `CREATE USER IF NOT EXISTS`), but for MariaDB's own, which its pods set when they start.
fn besides(service: &str, path: &Path) -> &'static str {
    match path.keys() {
        [endpoints, database, ..] if endpoints == "endpoints" && database.starts_with("oslo_db") => {
            if service == "mariadb" { "" } else { ", after ALTER USER in MariaDB: upgrades do not do that" }
        }
        [endpoints, ..] if endpoints == "endpoints" => "",
        _ => "; where it encrypts what is stored, think of that first",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_place_and_the_way_out_are_named() {
        let one = |service: &str, name: &str, path: &str| {
            ((service.to_owned(), name.to_owned()), (service.to_owned(), Path::parse(path).unwrap()))
        };
        let shipped = Shipped::from([
            one("keystone", "admin", "endpoints.identity.auth.admin.password"),
            one("keystone", "database", "endpoints.oslo_db.auth.keystone.password"),
            one("heat", "auth", "conf.heat.DEFAULT.auth_encryption_key"),
        ]);
        let credentials = json!({"admin": {"name": "own", "key": "admin"}});
        let spec = json!({"openstackRelease": "2026.1", "services": {"keystone": {"credentials": credentials}}});
        let spec = serde_json::from_value(spec).unwrap();
        let said = of(&shipped, &spec);
        assert!(
            said[0].ends_with(
                "spec.services.heat.credentials.auth names; where it encrypts what is stored, think of that first"
            ),
            "{said:?}"
        );
        assert_eq!(
            said[1],
            "warning: keystone: endpoints.identity.auth.admin.password is what upstream's charts ship, and everyone knows it: \
             once keystone is taken over, write another into key admin of Secret own"
        );
        assert!(said[2].ends_with("names, after ALTER USER in MariaDB: upgrades do not do that"), "{said:?}");
    }
}
