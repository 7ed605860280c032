//! Checks the values that the feature `compute` sets, and its errors and warnings.

use serde_json::json;

use super::{reports, sets};

#[test]
fn compute_settings_reach_nova_and_libvirt() {
    sets(&[
        (
            json!({"compute": {"console": "spice"}}),
            &[
                ("nova", "console.console_kind", json!("spice")),
                ("nova", "endpoints.compute_spice_proxy.hosts.public", json!("nova-spiceproxy")),
            ],
        ),
        (
            json!({"compute": {"virtType": "qemu", "cpu": {"mode": "custom", "models": ["Nehalem", "IvyBridge"], "extraFlags": ["pcid"]},
                               "dedicatedCpus": "4-7", "sharedCpus": "2,3", "reservedMemory": 2048,
                               "allocationRatio": {"cpu": 4, "memory": 1.5, "disk": 2}}}),
            &[
                ("nova", "conf.nova.libvirt.virt_type", json!("qemu")),
                ("nova", "conf.nova.libvirt.cpu_mode", json!("custom")),
                ("nova", "conf.nova.libvirt.cpu_models", json!("Nehalem,IvyBridge")),
                ("nova", "conf.nova.libvirt.cpu_model_extra_flags", json!("pcid")),
                ("nova", "conf.nova.compute.cpu_dedicated_set", json!("4-7")),
                ("nova", "conf.nova.compute.cpu_shared_set", json!("2,3")),
                ("nova", "conf.nova.DEFAULT.reserved_host_memory_mb", json!(2048)),
                ("nova", "conf.nova.DEFAULT.cpu_allocation_ratio", json!(4)),
                ("nova", "conf.nova.DEFAULT.ram_allocation_ratio", json!(1.5)),
                ("nova", "conf.nova.DEFAULT.disk_allocation_ratio", json!(2)),
            ],
        ),
        (json!({"compute": {"disks": "raw"}}), &[("nova", "conf.nova.libvirt.images_type", json!("raw"))]),
        (
            json!({"compute": {"disks": "qcow2"}, "storage": {"backend": "ceph"}}),
            &[("nova", "conf.nova.libvirt.images_type", json!("qcow2"))],
        ),
        (
            json!({"compute": {"disks": "ceph"}, "storage": {"backend": "ceph"}}),
            &[("nova", "conf.nova.libvirt.images_type", json!("rbd"))],
        ),
    ]);
}

#[test]
fn migration_settings_reach_nova_and_libvirt() {
    sets(&[
        (
            json!({"compute": {"liveMigration": {"interface": "eth1", "autoConverge": true, "postCopy": false, "concurrent": 2}}}),
            &[
                ("nova", "conf.libvirt.live_migration_interface", json!("eth1")),
                ("libvirt", "conf.dynamic_options.libvirt.listen_interface", json!("eth1")),
                ("nova", "conf.nova.libvirt.live_migration_scheme", json!("tcp")),
                ("nova", "conf.nova.libvirt.live_migration_permit_auto_converge", json!(true)),
                ("nova", "conf.nova.libvirt.live_migration_permit_post_copy", json!(false)),
                ("nova", "conf.nova.DEFAULT.max_concurrent_live_migrations", json!(2)),
            ],
        ),
        (
            json!({"compute": {"liveMigration": {"interface": "eth1", "tls": {"serverSecret": "server", "clientSecret": "client"}}}}),
            &[
                ("nova", "conf.nova.libvirt.live_migration_scheme", json!("tls")),
                ("libvirt", "conf.libvirt.listen_tls", json!("1")),
                ("libvirt", "conf.libvirt.listen_tcp", json!("0")),
                ("libvirt", "secrets.tls.server", json!("server")),
                ("libvirt", "secrets.tls.client", json!("client")),
            ],
        ),
        (
            json!({"compute": {"coldMigration": {"enabled": true, "network": "10.1.0.0/16"}}}),
            &[
                ("nova", "network.ssh.enabled", json!(true)),
                ("nova", "network.ssh.from_subnet", json!("10.1.0.0/16")),
                (
                    "nova",
                    "network.ssh.public_key",
                    json!("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEBea1AELUpT14j2uubfV0GgtiLoFDw6FtKVJZQnbmqg\n"),
                ),
            ],
        ),
        (
            json!({"compute": {"coldMigration": {"enabled": true, "given": true}}}),
            &[("nova", "network.ssh.from_subnet", json!("0.0.0.0/0")), ("nova", "manifests.secret_ssh", json!(false))],
        ),
    ]);
}

#[test]
fn refuses_invalid_compute_settings() {
    let compute = |compute| json!({"features": {"compute": compute}});
    let move_over = json!({"interface": "eth1"});
    reports(&[
        (
            compute(json!({"cpu": {"mode": "custom"}})),
            "spec.features.compute.cpu.models",
            &["models is empty", "add at least one model"],
        ),
        (
            compute(json!({"cpu": {"mode": "host-model", "models": ["Nehalem"]}})),
            "spec.features.compute.cpu.models",
            &["is not custom", "set mode to custom"],
        ),
        (
            compute(json!({"cpu": {"mode": "none", "extraFlags": ["pcid"]}})),
            "spec.features.compute.cpu.extraFlags",
            &["no CPU model to add", "choose another mode"],
        ),
        (
            compute(json!({"disks": "ceph"})),
            "spec.features.compute.disks",
            &["the cloud has no Ceph", "set spec.features.storage.backend to ceph"],
        ),
        (
            compute(json!({"liveMigration": move_over})),
            "spec.features.compute.liveMigration.tls",
            &["controls every instance", "set tls"],
        ),
        (
            json!({"features": {"compute": {"liveMigration": move_over}}, "services": {"libvirt": {"enabled": false}}}),
            "spec.features.compute.liveMigration",
            &["not part of the cloud", "enable both"],
        ),
        (compute(json!({"console": "vga"})), "spec.features.compute.console", &["not one of", "choose"]),
    ]);
}
