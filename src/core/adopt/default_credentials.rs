//! Finds credentials of a running cloud that are still the publicly known default passwords of upstream's charts.

use std::collections::BTreeMap;

use super::identify::{IdentifiedReleases, InstalledRelease};
use super::inventory::credential;
use crate::catalog::{Body, Catalog, CredentialKind};
use crate::credentials::Name;
use osdpl_values::{Path, get};

/// Publicly known passwords: those in OpenStack-Helm's documentation, and those in the `values.yaml` of its charts as
/// of release 2026.1.
///
/// [`is_default`] also compares a credential with the default in the release's own chart.
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

/// The credentials of a running cloud that still have a default value of upstream's charts.
///
/// Maps each credential, given by its service and its name, to one place that contains it: the catalogue's name of a
/// release, and a path in the values of this release.
pub type DefaultCredentials = BTreeMap<Name, (String, Path)>;

/// Finds the credentials of a running cloud that still have a default value of upstream's charts.
///
/// If several releases use a credential, the result names a release of the service that owns the credential. If no
/// release of this service uses the credential, the result names the first release, in alphabetical order, that uses
/// it.
pub fn find_default_credentials(known: &IdentifiedReleases<'_>, catalog: &Catalog) -> DefaultCredentials {
    let mut all = DefaultCredentials::new();
    for (release, found) in &known.releases {
        let service = catalog.release(release).map_or("", |(service, _)| service);
        for (path, expression) in catalog.bodies(release).flat_map(Body::whole_scalar_expressions) {
            let Some((owner, name)) = credential(&expression) else { continue };
            if is_identifier(catalog, owner, name) || !is_default(found, &path) {
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

/// Whether a credential is only an identifier, such as a UUID, which gives nobody access.
fn is_identifier(catalog: &Catalog, service: &str, name: &str) -> bool {
    let credential = catalog.services.get(service).and_then(|service| service.credentials.get(name));
    credential.is_some_and(|credential| credential.kind == CredentialKind::Uuid)
}

/// Whether the value of a release at `path` is the default in the release's chart, or one of the publicly known
/// passwords in [`WORDS`].
fn is_default(found: &InstalledRelease, path: &Path) -> bool {
    let Some(text) =
        get(&found.effective_values, path).and_then(|value| value.as_str()).filter(|text| !text.is_empty())
    else {
        return false;
    };
    let default = get(&found.source.defaults, path).and_then(|value| value.as_str());
    default == Some(text) || WORDS.contains(&text)
}
