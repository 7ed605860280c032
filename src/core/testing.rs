//! Fixtures for the unit tests of all crates. Not part of the public interface.

#![allow(missing_docs, clippy::missing_panics_doc, reason = "fixtures for tests")]

pub mod fixture;

use crate::catalog::Files;

/// Returns a small catalogue with invented names, with the changes of a test applied.
pub fn files(changes: &[(&str, &str)]) -> Files {
    let mut files: Files = [
        (
            "values/services/store.yaml",
            "service: store\ndescription: A database.\ngroup: infra\ncredentials: {admin: {}}\n\
             external: {service: store, portName: sql, port: 3306}\nreleases:\n  store:\n    components: {store/server: StatefulSet}\n\
             \x20   values: {auth: {admin: '${credentials.store.admin}'}}\n",
        ),
        (
            "values/services/front.yaml",
            "service: front\ndescription: An API.\ngroup: openstack\ncredentials: {user: {}}\nreleases:\n  front:\n\
             \x20   needs: [{component: store/server}]\n    components: {front/api: Deployment}\n    plainJobs: [front-setup]\n\
             \x20   values:\n      conf: {region: '${spec.region}', password: '${credentials.front.user}'}\n",
        ),
        ("values/features/colour.yaml",
         "feature: colour\ndescription: Its colour.\nschema: {type: object, properties: {name: {type: string, enum: [red, blue]}, code: {type: string, pattern: '^#[0-9a-f]+$', maxLength: 7}}}\n\
          default: {name: red}\nfragments:\n- when: features.colour.name == 'blue'\n  releases: {front: {values: {conf: {colour: blue}}}}\n"),
        ("values/openstack/2026.1.yaml", "openstackRelease: '2026.1'\ndescription: Gazpacho\nvariables: {tag: t1}\n"),
        ("values/shared/auth.yaml",
         "shared: auth\ndescription: Repeated credentials.\nfragments:\n- every: {values: {auth: {admin: '${credentials.store.admin}', no: 1}}}\n"),
        ("values/keys/front.yaml", "conf: {region: string, password: string, colour: string}\nauth: {admin: string}\n"),
        ("values/lock.yaml", "charts:\n  front: {version: 1.0.0}\n  store: {version: 1.0.0}\n"),
        ("presets/small.yaml", "preset: small\ndescription: A small cloud.\nservices: [store, front]\n"),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned().into()))
    .into();
    for (path, text) in changes {
        files.insert((*path).to_owned(), (*text).to_owned().into());
    }
    files
}
