//! What a new credential takes, as the catalogue tells it.

use crate::clouds::catalogue;

/// Who is in the Secret `<service>-ks-etc` of upstream's charts (`templates/secret-ks-etc.yaml`), beside the service's own user: pods have it mounted,
/// and no annotation of theirs covers it.
const MOUNTED: [(&str, &[&str]); 7] = [
    ("blazar", &["identity"]),
    ("cinder", &["identity", "nova", "service"]),
    ("cloudkitty", &["identity"]),
    ("neutron", &["identity", "nova", "placement", "designate", "ironic"]),
    ("nova", &["identity", "neutron", "placement", "cinder", "service", "ironic"]),
    ("placement", &["identity"]),
    ("zaqar", &["identity"]),
];

#[test]
fn a_password_that_pods_read_from_a_secret_of_its_own_says_that_they_must_be_restarted() {
    let catalog = catalogue();
    for (service, names) in MOUNTED {
        for name in names {
            let rotation = &catalog.services[service].credentials[*name].rotation;
            assert!(rotation.contains("must be restarted"), "{service} {name}: {rotation:?}");
        }
    }
}
