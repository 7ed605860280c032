//! Checks the catalogue's instructions for rotating credentials.

use crate::clouds::catalogue;

/// The credentials in the Secret `<service>-ks-etc` of upstream's charts (`templates/secret-ks-etc.yaml`), by service.
/// The pods that mount this Secret have no annotation with the Secret's hash, so a new password does not restart them.
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
fn mounted_passwords_mention_the_restart() {
    let catalog = catalogue();
    for (service, names) in MOUNTED {
        for name in names {
            let rotation = &catalog.services[service].credentials[*name].rotation;
            assert!(rotation.contains("must be restarted"), "{service} {name}: {rotation:?}");
        }
    }
}
