//! Default passwords of upstream's charts that a running cloud uses. They are public.

use std::collections::BTreeMap;

use super::describe::credential;
use super::identify::{IdentifiedReleases, InstalledRelease};
use crate::catalog::{Body, Catalog, CredentialKind};
use crate::credentials::Name;
use osdpl_values::{Path, get};

/// Values that OpenStack-Helm's documentation and charts use as passwords (`values.yaml` of the charts as of 2026.1).
/// The defaults of the recorded chart count in addition.
const WORDS: [&str; 11] = [
    "password",
    "insecure",
    "supersecret",
    "chiave_segreta",
    "openstack-cookie",
    "SOMELONGSECRETKEY",
    "psql_exp_pass",
    "changeme",
    "CHANGE_ME",
    "not-secure-passphrase",
    "changemeplease",
];

/// Credentials that still have an upstream default, by service and name, with the release's catalogue name and the path
/// in its values.
pub type DefaultCredentials = BTreeMap<Name, (String, Path)>;

/// Finds credentials with an upstream default.
///
/// If several releases use a credential, the entry names the release of the service that owns it, or else the first.
pub fn find_default_credentials(known: &IdentifiedReleases<'_>, catalog: &Catalog) -> DefaultCredentials {
    let mut all = DefaultCredentials::new();
    for (release, found) in &known.releases {
        let service = catalog.release(release).map_or("", |(service, _)| service);
        for (path, expression) in catalog.bodies(release).flat_map(Body::whole_scalar_expressions) {
            let Some((owner, name)) = credential(&expression) else { continue };
            if is_identifier(catalog, (owner, name)) || !is_default(found, &path) {
                continue;
            }
            let location = (release.clone(), path);
            let key = (owner.to_owned(), name.to_owned());
            if owner == service {
                all.insert(key, location);
            } else {
                all.entry(key).or_insert(location);
            }
        }
    }
    all
}

/// Whether a credential is only an identifier that grants nothing.
fn is_identifier(catalog: &Catalog, (service, name): (&str, &str)) -> bool {
    let credential = catalog.services.get(service).and_then(|service| service.credentials.get(name));
    credential.is_some_and(|credential| credential.kind == CredentialKind::Uuid)
}

/// Whether the value at a path is the chart's own default or a known default of upstream.
fn is_default(found: &InstalledRelease, path: &Path) -> bool {
    let Some(text) =
        get(&found.effective_values, path).and_then(|value| value.as_str()).filter(|text| !text.is_empty())
    else {
        return false;
    };
    let default = get(&found.source.defaults, path).and_then(|value| value.as_str());
    default == Some(text) || WORDS.contains(&text)
}
