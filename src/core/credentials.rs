//! Determines which credentials (passwords and secret keys) a cloud needs, and at which paths the values of releases
//! contain each credential. Also generates credentials.
//!
//! Pure module (no I/O); the caller passes a function that returns random bytes. If the user names a Secret for a
//! credential in the spec, osdpl reads the credential only from this Secret. Otherwise osdpl searches first in its own
//! Secret with the credentials of the service, and then in the helm records of installed releases. If osdpl does not
//! find the credential there, it generates the credential, and stores it in its own Secret.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use base64::Engine as _;

use crate::api::{OpenStackDeploymentSpec, SecretKey};
use crate::catalog::{Body, Catalog, CredentialKind, file};
use crate::desired::Selection;
use osdpl_values::{CollectSorted, Path, Values, get};

/// Identifies a credential: the name of the service that owns the credential, and the credential's name in that
/// service.
pub type Name = (String, String);

/// Returns the credentials that the selected services and the external services own, and those that the values of the
/// selected releases use. Each credential has the recipe with which osdpl generates it.
pub fn list_needed_credentials<'a>(
    catalog: &'a Catalog,
    selection: &Selection,
) -> BTreeMap<Name, &'a file::Credential> {
    let mut names: BTreeSet<Name> = BTreeSet::new();
    for service in selection.services.iter().chain(selection.external.keys()) {
        let owned = catalog.services.get(service).into_iter().flat_map(|entry| entry.credentials.keys());
        names.extend(owned.map(|name| (service.clone(), name.clone())));
    }
    for release in selection.releases.keys() {
        names.extend(catalog.credentials_of(release).iter().cloned());
    }
    let recipe = |(service, name): Name| {
        let credential = catalog.services.get(&service)?.credentials.get(&name)?;
        Some(((service, name), credential))
    };
    names.into_iter().filter_map(recipe).collect_map()
}

/// Returns the Secret and key that the user names in the spec for a credential; `None` if the spec names no Secret.
pub fn user_secret<'a>(spec: &'a OpenStackDeploymentSpec, (service, name): &Name) -> Option<&'a SecretKey> {
    spec.services.get(service)?.credentials.get(name)
}

/// Returns the name of the Secret in which osdpl stores the generated credentials of a service.
pub fn secret_name(deployment: &str, service: &str) -> String {
    format!("{deployment}-credentials-{}", service.replace('_', "-"))
}

/// A Secret with generated credentials that someone edited. osdpl has restored its previous values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredSecret {
    /// The name of the service that owns the credentials.
    pub service: String,
    /// The name of the Secret, in the namespace of the OpenStackDeployment.
    pub secret: String,
    /// The keys in the Secret's data whose values osdpl restored.
    pub keys: Vec<String>,
}

impl std::fmt::Display for RestoredSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { service, secret, keys } = self;
        write!(
            formatter,
            "someone edited Secret {secret}, but releases run with the former values, so osdpl restored {}; to rotate a credential, name a Secret of your own in spec.services.{service}.credentials",
            keys.join(", ")
        )
    }
}

/// Returns the paths at which the catalogue sets a value of the release to the credential alone, without other text. At
/// these paths, osdpl can find the credential in the values of an installed release.
pub fn find_credential_paths(catalog: &Catalog, release: &str, (service, name): &Name) -> Vec<Path> {
    let wanted = format!("credentials.{service}.{name}");
    // To parse a body (the values of a fragment or service) takes much longer than to search its text. So parse only
    // bodies whose text contains `wanted`. The search misses no body, because JSON never escapes the characters of a
    // credential's name.
    let mentions = |body: &&Body| body.source.contains(&wanted);
    let expressions = catalog.bodies(release).filter(mentions).flat_map(Body::whole_scalar_expressions);
    expressions.filter(|(_, source)| *source == wanted).map(|(path, _)| path).collect()
}

/// Reads a credential from `recorded`, the values in a release's helm record; `None` if the values do not contain it.
pub fn read_recorded_credential(catalog: &Catalog, release: &str, recorded: &Values, name: &Name) -> Option<String> {
    find_credential_paths(catalog, release, name)
        .iter()
        .find_map(|path| Some(get(recorded, path)?.as_str()?.to_owned()))
}

/// Generates a credential according to its recipe in the catalogue. The caller's function `random` fills a buffer with
/// random bytes.
///
/// # Errors
/// Returns the error of `random` if it fails.
pub fn generate_credential<E>(
    recipe: &file::Credential,
    mut random: impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<String, E> {
    let mut bytes = vec![0; recipe.length.max(16)];
    let mut hex = |length: usize| -> Result<String, E> {
        random(&mut bytes[..length.div_ceil(2)])?;
        let text = bytes[..length.div_ceil(2)].iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        Ok(text[..length].to_owned())
    };
    match recipe.kind {
        CredentialKind::Hex => hex(recipe.length),
        CredentialKind::Uuid => {
            let text = hex(32)?;
            // RFC 9562 fixes two digits of a random UUID: the version (4) and the variant (binary 10, here `a`).
            Ok(format!("{}-{}-4{}-a{}-{}", &text[..8], &text[8..12], &text[13..16], &text[17..20], &text[20..]))
        }
        CredentialKind::Base64 => {
            random(&mut bytes[..recipe.length])?;
            Ok(base64::engine::general_purpose::STANDARD.encode(&bytes[..recipe.length]))
        }
        CredentialKind::Password => password(recipe.length, random),
    }
}

/// Generates a password of `[A-Za-z0-9]` that starts with a letter.
///
/// To make all 62 characters equally likely, the function discards random bytes of 248 (4 · 62) or more.
fn password<E>(length: usize, mut random: impl FnMut(&mut [u8]) -> Result<(), E>) -> Result<String, E> {
    const ALPHABET: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let mut text = String::with_capacity(length);
    let mut bytes = [0; 64];
    while text.len() < length {
        random(&mut bytes)?;
        for byte in bytes.iter().filter(|byte| **byte < 248) {
            let character = char::from(ALPHABET[usize::from(byte % 62)]);
            if text.len() < length && (!text.is_empty() || character.is_ascii_alphabetic()) {
                text.push(character);
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn recipe(kind: CredentialKind, length: usize) -> file::Credential {
        file::Credential { kind, length, description: String::new(), rotation: String::new(), external: false }
    }

    fn generated(kind: CredentialKind, length: usize) -> String {
        let mut state = 7_u8;
        let random = |buffer: &mut [u8]| {
            for byte in buffer {
                state = state.wrapping_mul(73).wrapping_add(41);
                *byte = state;
            }
            Ok::<_, Infallible>(())
        };
        generate_credential(&recipe(kind, length), random).unwrap()
    }

    #[test]
    fn each_kind_has_its_alphabet_and_length() {
        let password = generated(CredentialKind::Password, 32);
        assert!(password.len() == 32 && password.chars().all(|c| c.is_ascii_alphanumeric()), "{password}");
        let hex = generated(CredentialKind::Hex, 33);
        assert!(hex.len() == 33 && hex.chars().all(|c| c.is_ascii_hexdigit()), "{hex}");
        let uuid = generated(CredentialKind::Uuid, 0);
        assert!(uuid.len() == 36 && uuid.as_bytes()[14] == b'4', "{uuid}");
        assert_eq!(generated(CredentialKind::Base64, 32).len(), 44);
    }

    #[test]
    fn reads_back_a_credential_from_values() {
        let catalog = Catalog::load(&crate::testing::files(&[])).unwrap();
        let name = ("store".to_owned(), "admin".to_owned());
        let recorded = serde_json::from_str(r#"{"auth": {"admin": "s3cret"}}"#).unwrap();
        assert_eq!(read_recorded_credential(&catalog, "front", &recorded, &name).as_deref(), Some("s3cret"));
        assert_eq!(read_recorded_credential(&catalog, "store", &recorded, &name).as_deref(), Some("s3cret"));
        assert_eq!(
            read_recorded_credential(&catalog, "front", &recorded, &("front".to_owned(), "user".to_owned())),
            None
        );
    }

    #[test]
    fn needs_all_credentials_that_releases_use() {
        let catalog = Catalog::load(&crate::testing::files(&[])).unwrap();
        let spec = serde_json::from_str(r#"{"openstackRelease": "2026.1", "services": {"front": {"enabled": true}}}"#)
            .unwrap();
        let selection = crate::desired::select("cloud", "openstack", &spec, &catalog);
        let names: Vec<_> = list_needed_credentials(&catalog, &selection)
            .into_keys()
            .map(|(service, name)| format!("{service}.{name}"))
            .collect();
        assert_eq!(names, ["front.user", "store.admin"]);
    }
}
