//! Checks the values, errors and warnings of the feature `volumes`, and the object store's gateways in the feature
//! `storage`.

use osdpl_core::ceph::{self, DeclaredCeph, Gateway};
use osdpl_values::{Path, get};
use serde_json::{Value, json};

use super::{reports, sets};
use crate::clouds::{at, base_spec, catalogue, refusals, resolved, resolved_with};

#[test]
fn volumes_use_the_configured_backends() {
    let lvm =
        json!({"name": "fast", "type": "lvm", "volumeGroup": "vg0", "default": true, "options": {"lvm_type": "thin"}});
    let nfs =
        json!({"name": "files", "type": "nfs", "host": "10.0.0.3", "path": "/volumes", "mountOptions": "nfsvers=4.1"});
    let ceph = json!({"name": "rbd1", "type": "ceph", "default": true});
    let target = json!([{"name": "target", "mountPath": "/etc/target"}]);
    let other = json!({"name": "array", "type": "other", "options": {"volume_driver": "a.b.C", "san_ip": "10.0.0.9"}});
    sets(&[
        (
            json!({"volumes": {"backends": [lvm, nfs]}}),
            &[
                ("cinder", "conf.cinder.DEFAULT.enabled_backends", json!("fast,files")),
                ("cinder", "conf.cinder.DEFAULT.default_volume_type", json!("fast")),
                ("cinder", "conf.backends.fast.volume_group", json!("vg0")),
                ("cinder", "conf.backends.fast.lvm_type", json!("thin")),
                ("cinder", "conf.backends.fast.volume_backend_name", json!("fast")),
                ("cinder", "conf.backends.files.nas_share_path", json!("/volumes")),
                ("cinder", "conf.backends.files.nas_mount_options", json!("nfsvers=4.1")),
                ("cinder", "conf.backends.rbd1", Value::Null),
                ("cinder", "conf.enable_iscsi", json!(true)),
                ("cinder", "conf.backends.fast.target_helper", json!("lioadm")),
                ("cinder", "pod.mounts.cinder_volume.cinder_volume.volumeMounts", target),
                ("nova", "conf.enable_iscsi", json!(true)),
                ("cinder", "manifests.deployment_volume", json!(true)),
                ("cinder", "manifests.job_storage_init", json!(false)),
                ("cinder", "bootstrap.enabled", json!(true)),
            ],
        ),
        (
            json!({"volumes": {"backends": [ceph, other]}, "storage": {"backend": "ceph"}}),
            &[
                ("cinder", "conf.cinder.DEFAULT.enabled_backends", json!("rbd1,array")),
                ("cinder", "conf.backends.array.volume_driver", json!("a.b.C")),
                ("cinder", "conf.backends.rbd1.rbd_user", json!("placeholder.cinder")),
            ],
        ),
        (
            json!({"volumes": {"highlyAvailable": true}, "storage": {"backend": "ceph"}}),
            &[
                ("cinder", "manifests.statefulset_volume", json!(true)),
                ("cinder", "pod.replicas.volume", json!(3)),
                ("cinder", "conf.cinder.DEFAULT.host", Value::Null),
            ],
        ),
    ]);
}

#[test]
fn backups_use_the_configured_target() {
    sets(&[
        (
            json!({"volumes": {"backup": {"type": "s3", "endpoint": "https://s3.example.org", "bucket": "backups", "secret": "s3"}}}),
            &[
                ("cinder", "conf.cinder.DEFAULT.backup_driver", json!("cinder.backup.drivers.s3.S3BackupDriver")),
                ("cinder", "conf.cinder.DEFAULT.backup_s3_store_bucket", json!("backups")),
                ("cinder", "pod.etcSources.cinder_backup", json!([{"secret": {"name": "s3"}}])),
                ("cinder", "manifests.deployment_backup", json!(true)),
                ("cinder", "manifests.job_backup_storage_init", json!(false)),
            ],
        ),
        (
            json!({"volumes": {"backup": {"type": "nfs", "share": "10.0.0.3:/backups"}}, "storage": {"backend": "ceph"}}),
            &[
                ("cinder", "conf.cinder.DEFAULT.backup_driver", json!("cinder.backup.drivers.nfs.NFSBackupDriver")),
                ("cinder", "conf.cinder.DEFAULT.backup_share", json!("10.0.0.3:/backups")),
            ],
        ),
        (
            json!({"volumes": {"backup": {"type": "none"}}, "storage": {"backend": "ceph"}}),
            &[("cinder", "manifests.deployment_backup", json!(false))],
        ),
    ]);
}

#[test]
fn refuses_invalid_volume_settings() {
    let volumes = |volumes| json!({"features": {"volumes": volumes}});
    let one = |backend: Value| json!({"features": {"volumes": {"backends": [backend]}}});
    let nfs = |name: &str| json!({"name": name, "type": "nfs", "host": "h", "path": "/p"});
    let lvm = json!({"name": "a", "type": "lvm", "volumeGroup": "vg"});
    let field = "spec.features.volumes.backends";
    reports(&[
        (volumes(json!({"backends": [nfs("a"), nfs("b")]})), field, &["exactly one", "set default"]),
        (volumes(json!({"backends": [nfs("a"), nfs("a")]})), field, &["the same name", "use different names"]),
        (one(json!({"name": "other", "type": "ceph"})), field, &["must be named rbd1", "rename it"]),
        (one(nfs("rbd1")), field, &["no other backend may use this name", "rename it"]),
        (one(json!({"name": "rbd1", "type": "ceph"})), field, &["the cloud has no Ceph", "storage.backend to ceph"]),
        (one(json!({"name": "a", "type": "lvm"})), field, &["no volume group", "volumeGroup"]),
        (one(json!({"name": "a", "type": "nfs"})), field, &["no server or path", "set host and path"]),
        (one(json!({"name": "a", "type": "other"})), field, &["no driver", "options.volume_driver"]),
        (
            json!({"features": {"volumes": {"backends": [nfs("a")]}}, "services": {"cinder": {"enabled": false}}}),
            field,
            &["cinder is not part", "enable spec.services.cinder"],
        ),
        (volumes(json!({"backup": {"type": "ceph"}})), "spec.features.volumes.backup.type", &["the cloud has no Ceph"]),
        (
            volumes(json!({"backup": {"type": "s3"}})),
            "spec.features.volumes.backup",
            &["set endpoint, bucket and secret"],
        ),
        (
            volumes(json!({"backup": {"type": "nfs"}})),
            "spec.features.volumes.backup.share",
            &["no server", "set share"],
        ),
        (
            volumes(json!({"backup": {"type": "swift"}})),
            "spec.features.volumes.backup.type",
            &["object store", "swift"],
        ),
        (
            volumes(json!({"highlyAvailable": true, "backends": [lvm]})),
            "spec.features.volumes.highlyAvailable",
            &["belong to one node", "remove"],
        ),
        (
            json!({"presets": ["compute", "ha"], "features": {"volumes": {"backends": [{"name": "rbd1", "type": "ceph", "default": true}, lvm]},
                   "storage": {"backend": "ceph", "ceph": {"mode": "external", "secret": {"name": "ceph"}}}}}),
            field,
            &["preset `ha`", "belongs to one node", "remove that backend"],
        ),
        (
            volumes(json!({"highlyAvailable": true})),
            "spec.features.volumes.highlyAvailable",
            &["no volume backend", "set one"],
        ),
    ]);
}

/// If the chart ceph-rgw installs the object store's gateways (RADOS gateways), users get a URL with the host name from
/// the spec. The endpoint in Keystone and the HTTP route to the gateways must have this host name.
#[test]
fn gateways_of_the_chart_are_public() {
    let key = b"AQABAgMEBQYHCBAApqampqampqampqampqamgQ==".to_vec();
    let secret = [("bootstrap-rgw.key".to_owned(), key)].into();
    let store = json!({"backend": "ceph", "ceph": {"mode": "external", "secret": {"name": "ceph"}, "objectStore": {}}});
    let gate = json!({"enabled": true, "gateway": {"name": "gate", "namespace": "gateways"}});
    for (address, open, host, port) in [
        (None, json!({"enabled": false}), Value::Null, json!(8088)),
        (None, gate.clone(), json!("swift.example.org"), json!(443)),
        (Some("http://objects.example.org:8080"), gate, json!("objects.example.org"), json!(8080)),
    ] {
        let gateway = Gateway::external("openstack/ceph", &secret).unwrap().with_public(address).unwrap();
        let ceph = DeclaredCeph::of(Ok(ceph::example())).with_gateway(Some(Ok(gateway)));
        let features = json!({"storage": store, "publicEndpoints": open});
        let services = json!({"ceph_rgw": {"enabled": true}});
        let spec = base_spec(&json!({"publicDomain": "example.org", "features": features, "services": services}));
        let desired = resolved_with(catalogue(), &spec, ceph);
        assert_eq!(refusals(&desired), Vec::<String>::new());
        let values = &desired.releases["ceph-rgw"].values;
        let found = |path: &str| at(values, path).cloned().unwrap_or_default();
        assert_eq!(found("endpoints.object_store.host_fqdn_override.public.host"), host);
        assert_eq!(found("endpoints.object_store.port.api.public"), port);
        let names = found("extraObjects.object_store_route.spec.hostnames");
        assert_eq!(
            names.get(0).cloned().unwrap_or_default(),
            host,
            "the route must have the host name of the object store's URL"
        );
    }
}

/// Users may set any option of a driver, so osdpl must recognize passwords by the name of the option, and redact them.
#[test]
fn passwords_in_options_are_hidden() {
    let options = json!({"volume_driver": "a.b.C", "san_login": "admin", "san_password": "hunter2"});
    let backends = json!([{"name": "array", "type": "other", "options": options, "default": true}]);
    let desired = resolved(catalogue(), &base_spec(&json!({"features": {"volumes": {"backends": backends}}})));
    let cinder = &desired.releases["cinder"];
    let path = |key: &str| Path::parse(&format!("conf.backends.array.{key}")).unwrap();
    assert_eq!(get(&cinder.values, &path("san_password")), Some(&json!("hunter2")));
    let is_hidden = |key: &str| cinder.secret.iter().any(|hidden| hidden.covers(&path(key)));
    assert!(is_hidden("san_password"));
    assert!(!is_hidden("san_login"));
}
