//! Checks the values that the feature `images` sets, and its errors and warnings.

use osdpl_core::ceph::{self, Consumer, DeclaredCeph};
use serde_json::{Value, json};

use super::{cloud, reports, sets};
use crate::clouds::{at, base_spec, catalogue, refusals, resolved, resolved_with};

#[test]
fn images_use_the_configured_backends() {
    let ceph = json!({"backend": "ceph"});
    sets(&[
        (
            json!({"images": {"backends": [{"type": "pvc"}], "claimSize": "100Gi"}}),
            &[
                ("glance", "storage", json!("pvc")),
                ("glance", "volume.size", json!("100Gi")),
                ("glance", "conf.glance.DEFAULT.enabled_backends", json!("file:file,http:http")),
                ("glance", "conf.glance.glance_store.default_backend", json!("file")),
            ],
        ),
        (json!({"images": {"backends": [{"type": "pvc"}]}, "storage": ceph}), &[("glance", "storage", json!("pvc"))]),
        (
            json!({"images": {"backends": [{"type": "ceph"}]}, "storage": ceph}),
            &[
                ("glance", "storage", json!("rbd")),
                ("glance", "conf.glance.rbd.rbd_store_user", json!("placeholder.glance")),
                ("glance", "conf.glance.DEFAULT.enabled_backends", json!("file:file,http:http,rbd:rbd")),
            ],
        ),
        (
            json!({"images": {"backends": [{"type": "cinder"}]}}),
            &[
                ("glance", "storage", json!("cinder")),
                ("glance", "conf.glance.glance_store.default_backend", json!("cinder")),
                ("glance", "pod.security_context.glance.container.glance_api.privileged", json!(true)),
            ],
        ),
    ]);
}

#[test]
fn several_stores_have_their_mounts() {
    let ceph = json!({"backend": "ceph"});
    let (mounts, enabled) = ("pod.mounts.glance_api.glance_api.volumes", "conf.glance.DEFAULT.enabled_backends");
    let mounted = |sources: &[&Value]| json!([{"name": "ceph", "projected": {"defaultMode": 292, "sources": sources}}]);
    let (pvc, rbd, cinder) =
        (json!({"type": "pvc", "default": true}), json!({"type": "ceph"}), json!({"type": "cinder"}));
    let file = json!({"configMap": {"name": "ceph-etc", "items": [{"key": "ceph.conf", "path": "ceph.conf"}]}});
    let images = json!({"secret": {"name": "images-rbd-keyring",
        "items": [{"key": "keyring", "path": "ceph.client.placeholder.glance.keyring"}]}});
    let volumes = json!({"secret": {"name": "cinder-volume-rbd-keyring",
        "items": [{"key": "keyring", "path": "ceph.client.placeholder.cinder.keyring"}]}});
    sets(&[
        (
            json!({"images": {"backends": [pvc, rbd]}, "storage": ceph}),
            &[
                ("glance", "storage", json!("pvc")),
                ("glance", enabled, json!("file:file,http:http,rbd:rbd")),
                ("glance", "conf.glance.glance_store.default_backend", json!("file")),
                ("glance", mounts, mounted(&[&file, &images])),
            ],
        ),
        (
            json!({"images": {"backends": [{"type": "ceph", "default": true}, cinder]}, "storage": ceph,
                "volumes": {"backends": [{"name": "fast", "type": "lvm", "volumeGroup": "vg0"}]}}),
            &[
                ("glance", "storage", json!("cinder")),
                ("glance", enabled, json!("file:file,http:http,rbd:rbd,cinder:cinder")),
                ("glance", "conf.glance.glance_store.default_backend", json!("rbd")),
                ("glance", "pod.useHostNetwork.api", json!(true)),
                ("glance", mounts, mounted(&[&file, &images, &volumes])),
            ],
        ),
        (
            json!({"images": {"backends": [cinder]}, "storage": ceph}),
            &[("glance", mounts, mounted(&[&file, &volumes]))],
        ),
    ]);
}

/// Glance's chart creates and mounts a PVC only if its value `storage` is `pvc`. If Cinder is a second backend,
/// `storage` is `cinder`, so the catalogue creates and mounts the PVC. The chart mounts an empty folder at the path in
/// the chart's setting `filesystem_store_datadir`. So the catalogue writes an unused path there, and writes the path of
/// the PVC into an additional configuration file.
#[test]
fn claim_next_to_cinder_is_mounted_at_its_path() {
    let ceph = json!({"backend": "ceph"});
    let (pvc, cinder) = (json!({"type": "pvc", "default": true}), json!({"type": "cinder"}));
    let (volumes, paths) =
        ("pod.mounts.glance_api.glance_api.volumes", "pod.mounts.glance_api.glance_api.volumeMounts");
    let claim = json!({"name": "claim", "persistentVolumeClaim": {"claimName": "glance-images"}});
    let path = json!({"name": "claim", "mountPath": "/var/lib/glance/images"});
    let file = json!({"configMap": {"name": "glance-images"}});
    let images = json!({"backends": [pvc, cinder, {"type": "swift"}]});
    let with_cinder = [
        ("glance", "storage", json!("cinder")),
        ("glance", "conf.glance.DEFAULT.enabled_backends", json!("file:file,http:http,cinder:cinder,swift:swift")),
        ("glance", "conf.glance.glance_store.default_backend", json!("file")),
        ("glance", "conf.glance.file.filesystem_store_datadir", json!("/var/lib/glance/none")),
        ("glance", "extraObjects.images_path.metadata.name", json!("glance-images")),
        (
            "glance",
            "extraObjects.images_path.data.\"images.conf\"",
            json!("[file]\nfilesystem_store_datadir = /var/lib/glance/images\n"),
        ),
        ("glance", "pod.security_context.glance.pod.fsGroup", json!(42424)),
        ("glance", "pod.etcSources.glance_api", json!([file])),
        ("glance", volumes, json!([claim])),
        ("glance", paths, json!([path])),
    ];
    let catalog = catalogue();
    let services = json!({"swift": {"enabled": true}});
    let desired = resolved(catalog, &base_spec(&json!({"features": {"images": images}, "services": services})));
    assert_eq!(refusals(&desired), Vec::<String>::new());
    for (release, path, value) in with_cinder {
        assert_eq!(at(&desired.releases[release].values, path), Some(&value), "{path}");
    }

    let secret = json!({"secret": {"name": "glance-db-conn"}});
    let images = json!({"backends": [pvc, cinder]});
    sets(&[(
        json!({"images": images, "database": {"declarative": true}}),
        &[("glance", "pod.etcSources.glance_api", json!([secret, file]))],
    )]);
    let both = cloud(catalog, &json!({"images": images, "storage": ceph}));
    let values = &both.releases["glance"].values;
    let names = |path: &str| {
        let list = at(values, path).and_then(Value::as_array).cloned().unwrap_or_default();
        list.iter().map(|entry| entry["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (names(volumes), names(paths)),
        (vec!["ceph".into(), "claim".into()], vec!["ceph".into(), "claim".into()])
    );
}

/// If Glance and Cinder use the same Ceph user, the volume with the Ceph files of Glance's pods must contain the user's
/// keyring only once: Kubernetes refuses a volume with two files of the same name.
#[test]
fn one_ceph_user_for_images_and_volumes_has_one_file() {
    let mut one = ceph::example();
    let mut user = one.users[&Consumer::Glance].clone();
    user.pools = one.users[&Consumer::Cinder].pools.clone();
    one.users.insert(Consumer::Cinder, user);
    let features = json!({"images": {"backends": [{"type": "cinder", "default": true}, {"type": "ceph"}]},
        "storage": {"backend": "ceph", "ceph": {"mode": "external", "secret": {"name": "ceph"}}}});
    let spec = base_spec(&json!({"features": features}));
    let desired = resolved_with(catalogue(), &spec, DeclaredCeph::of(Ok(one)));
    let volumes = at(&desired.releases["glance"].values, "pod.mounts.glance_api.glance_api.volumes").unwrap();
    let sources = volumes[0]["projected"]["sources"].as_array().unwrap();
    let paths: Vec<_> = sources.iter().filter_map(|source| source["secret"]["items"][0]["path"].as_str()).collect();
    assert_eq!(paths, ["ceph.client.placeholder.glance.keyring"]);
}

#[test]
fn refuses_invalid_image_settings() {
    let images = |images| json!({"features": {"images": images}});
    let field = "spec.features.images.backends";
    let default = json!({"type": "pvc", "default": true});
    reports(&[
        (images(json!({"backends": [{"type": "pvc"}, {"type": "swift"}]})), field, &["exactly one", "set default"]),
        (images(json!({"backends": [default, {"type": "swift", "default": true}]})), field, &["exactly one"]),
        (images(json!({"backends": [default, {"type": "pvc"}]})), field, &["listed twice", "once"]),
        (
            json!({"features": {"images": {"backends": [default, {"type": "ceph"}]},
                   "storage": {"backend": "ceph", "ceph": {"mode": "rook", "rook": {"access": "admin"}}}}}),
            field,
            &["for storage rbd only", "leastPrivilege"],
        ),
        (images(json!({"backends": [{"type": "ceph"}]})), field, &["the cloud has no Ceph", "storage.backend to ceph"]),
        (
            json!({"features": {"images": {"backends": [{"type": "cinder"}]}}, "services": {"cinder": {"enabled": false}}}),
            field,
            &["cinder is not part", "enable it"],
        ),
        (images(json!({"backends": [{"type": "swift"}]})), field, &["object store", "enable the service swift"]),
        (
            json!({"presets": ["compute", "storage", "medium"], "features": {"images": {"backends": [{"type": "pvc"}]},
                   "storage": {"ceph": {"mode": "external", "secret": {"name": "ceph"}}}}}),
            field,
            &["`medium`", "one node only", "choose ceph or swift"],
        ),
        (
            json!({"features": {"images": {"claimSize": "1Gi"}, "storage": {"backend": "local"}}}),
            "spec.features.images.claimSize",
            &["no effect", "remove it"],
        ),
        (images(json!({"verifySignatures": true})), "spec.features.images.verifySignatures", &["barbican", "enable"]),
        (images(json!({"claimSize": "big"})), "spec.features.images.claimSize", &["does not match", "such as 100Gi"]),
    ]);
}
