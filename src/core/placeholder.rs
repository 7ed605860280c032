//! Creates placeholders for the facts that osdpl otherwise reads from a cluster, such as credentials. Commands that
//! evaluate a resource without a cluster use the placeholders.

use crate::catalog::Catalog;
use crate::ceph;
use crate::credentials;
use crate::desired::{Facts, Selection};

/// Returns placeholders for the facts that osdpl reads from a cluster: credentials, a Ceph cluster, and the Secrets to
/// which the settings of features refer.
///
/// The function computes each credential and Secret value from its name, not at random, so every call returns the same
/// values.
pub fn facts(catalog: &Catalog, selection: &Selection) -> Facts {
    let ceph = ceph::DeclaredCeph::of(Ok(ceph::example())).with_gateway(Some(Ok(ceph::example_gateway())));
    let mut facts = Facts { helm_major: 4, ceph: Some(ceph), ..Facts::default() };
    for ((service, name), recipe) in credentials::list_needed_credentials(catalog, selection) {
        let mut seed = osdpl_values::digest([service.as_str(), name.as_str()]).into_bytes();
        let random = |buffer: &mut [u8]| {
            for byte in buffer {
                seed.rotate_left(1);
                seed[0] = seed[0].wrapping_mul(31).wrapping_add(seed[7]);
                *byte = seed[0];
            }
            Ok::<_, std::convert::Infallible>(())
        };
        let Ok(value) = credentials::generate_credential(recipe, random);
        facts.credentials.entry(service).or_default().insert(name, value);
    }
    for field in &selection.secrets {
        let mut text = osdpl_values::digest([field.name.as_str(), field.key.as_str()]);
        text.truncate(32);
        facts.secrets.insert((field.name.clone(), field.key.clone()), Ok(text));
    }
    facts
}
