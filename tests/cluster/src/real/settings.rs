//! The programs of a node, their command lines and their configuration files.

use serde_json::{Value, json};

use super::number::Number;
use crate::folder::Folder;
use crate::options::OPENSTACK_LABELS;
use crate::{Error, Program};

/// The address ranges of pods and of Services.
const PODS: &str = "10.244.0.0/16";
const SERVICES: &str = "10.96.0.0/16";
/// The address of the cluster's DNS server, which `node/base.yaml` assigns to the Service kube-dns.
const DNS: &str = "10.96.0.10";
/// The image of the pause container. `images.yaml` lists it, too.
const PAUSE: &str = "registry.k8s.io/pause:3.10.1";

/// The programs of the control plane, which run on the first node as long as the node does.
const CONTROL_PLANE: [Program; 4] =
    [Program::Etcd, Program::KubeApiserver, Program::KubeControllerManager, Program::KubeScheduler];
/// The programs that run on every node as long as the node does.
const COMPONENTS: [Program; 3] = [Program::Containerd, Program::Kubelet, Program::KubeProxy];

/// Returns the programs that run on a node as long as the node does.
pub(super) fn components(node: Number) -> Vec<Program> {
    let control_plane = if node == Number::FIRST { &CONTROL_PLANE[..] } else { &[] };
    [&COMPONENTS, control_plane].concat()
}

/// Returns the URL of the API server.
pub(super) fn server() -> String {
    format!("https://{}:6443", Number::FIRST.address())
}

/// Returns the arguments of a component's command line.
pub(super) fn arguments(program: Program, folder: &Folder, node: Number) -> Vec<String> {
    match program {
        Program::Containerd => vec![format!("--config={}", path(folder, "containerd.toml")), "--log-level=warn".into()],
        Program::Etcd => etcd(folder),
        Program::KubeApiserver => apiserver(folder),
        Program::KubeControllerManager => controller_manager(folder),
        Program::KubeScheduler => scheduler(folder),
        Program::Kubelet => kubelet(folder, node),
        Program::KubeProxy => {
            vec![
                format!("--config={}", path(folder, "kube-proxy.json")),
                format!("--hostname-override={}", node.name()),
            ]
        }
        _ => Vec::new(),
    }
}

fn path(folder: &Folder, file: &str) -> String {
    folder.path().join("etc").join(file).display().to_string()
}

fn etcd(folder: &Folder) -> Vec<String> {
    vec![
        format!("--data-dir={}", folder.etcd().display()),
        "--name=node".into(),
        "--listen-client-urls=http://127.0.0.1:2379".into(),
        "--advertise-client-urls=http://127.0.0.1:2379".into(),
        "--listen-peer-urls=http://127.0.0.1:2380".into(),
        "--initial-advertise-peer-urls=http://127.0.0.1:2380".into(),
        "--initial-cluster=node=http://127.0.0.1:2380".into(),
        // No fsync: the data need not survive a crash of the machine.
        "--unsafe-no-fsync".into(),
        "--quota-backend-bytes=4294967296".into(),
        "--log-level=warn".into(),
    ]
}

fn apiserver(folder: &Folder) -> Vec<String> {
    let pki = |flag: &str, file: &str| format!("--{flag}={}", folder.pki(file).display());
    vec![
        "--etcd-servers=http://127.0.0.1:2379".into(),
        "--bind-address=0.0.0.0".into(),
        "--secure-port=6443".into(),
        format!("--advertise-address={}", Number::FIRST.address()),
        pki("tls-cert-file", "apiserver.crt"),
        pki("tls-private-key-file", "apiserver.key"),
        pki("client-ca-file", "ca.crt"),
        pki("kubelet-certificate-authority", "ca.crt"),
        pki("kubelet-client-certificate", "apiserver-kubelet.crt"),
        pki("kubelet-client-key", "apiserver-kubelet.key"),
        "--kubelet-preferred-address-types=InternalIP".into(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".into(),
        pki("service-account-key-file", "service-accounts.pub"),
        pki("service-account-signing-key-file", "service-accounts.key"),
        format!("--service-cluster-ip-range={SERVICES}"),
        // The pods of OpenStack's agents are privileged.
        "--allow-privileged=true".into(),
        "--authorization-mode=Node,RBAC".into(),
        "--enable-admission-plugins=NodeRestriction".into(),
        "--profiling=false".into(),
    ]
}

fn controller_manager(folder: &Folder) -> Vec<String> {
    let own = folder.kubeconfig_of("kube-controller-manager");
    let pki = |flag: &str, file: &str| format!("--{flag}={}", folder.pki(file).display());
    vec![
        format!("--kubeconfig={}", own.display()),
        "--secure-port=0".into(),
        "--leader-elect=false".into(),
        "--use-service-account-credentials".into(),
        pki("service-account-private-key-file", "service-accounts.key"),
        pki("root-ca-file", "ca.crt"),
        // This provisioner creates the volumes of the StorageClass in node/base.yaml as folders in /tmp/hostpath_pv.
        "--enable-hostpath-provisioner".into(),
        "--kube-api-qps=200".into(),
        "--kube-api-burst=400".into(),
    ]
}

fn scheduler(folder: &Folder) -> Vec<String> {
    let own = folder.kubeconfig_of("kube-scheduler");
    vec![format!("--kubeconfig={}", own.display()), "--secure-port=0".into(), "--leader-elect=false".into()]
}

fn kubelet(folder: &Folder, node: Number) -> Vec<String> {
    let mut arguments = vec![
        format!("--config={}", path(folder, "kubelet.json")),
        format!("--kubeconfig={}", folder.kubeconfig_of("kubelet").display()),
        format!("--node-ip={}", node.address()),
        format!("--hostname-override={}", node.name()),
    ];
    // The first node has every role, so that a cloud on one node need not assign any. The spec of a cloud on several
    // nodes assigns the roles of the others (spec.nodes.roles).
    if node == Number::FIRST {
        let labels: Vec<String> = OPENSTACK_LABELS.iter().map(|label| format!("{label}=enabled")).collect();
        arguments.push(format!("--node-labels={}", labels.join(",")));
    }
    arguments
}

/// Returns the kubelet's configuration (`KubeletConfiguration`, kubelet.config.k8s.io/v1beta1).
fn kubelet_configuration(folder: &Folder, node: Number) -> Value {
    // The kubelet evicts pods if less memory or disk space than this is free. The limits are low, because the node
    // shares the disk and memory of the machine, where little may be free.
    let little = json!({
        "memory.available": "300Mi",
        "nodefs.available": "1%",
        "imagefs.available": "1%",
        "nodefs.inodesFree": "1%",
        "imagefs.inodesFree": "1%",
    });
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        // The node has no systemd that could manage control groups.
        "cgroupDriver": "cgroupfs",
        // By default, a kubelet refuses machines with control groups of version 1 since Kubernetes 1.35.
        "failCgroupV1": false,
        "failSwapOn": false,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": folder.pki("ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": folder.pki(&format!("{}-server.crt", node.name())),
        "tlsPrivateKeyFile": folder.pki(&format!("{}-server.key", node.name())),
        "clusterDNS": [DNS],
        "clusterDomain": "cluster.local",
        "resolvConf": "/etc/resolv.conf",
        "maxPods": 250,
        "evictionHard": little,
        // The kubelet must not remove images, because no registry has them.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    })
}

fn proxy_configuration(folder: &Folder) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": folder.kubeconfig_of("kube-proxy")},
        "clusterCIDR": PODS,
        // With these values, kube-proxy does not change the kernel's settings for connection tracking.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    })
}

fn network(node: Number) -> Value {
    let ipam = json!({"type": "host-local", "ranges": [[{"subnet": node.pods()}]]});
    let bridge =
        json!({"type": "bridge", "bridge": "cni0", "isDefaultGateway": true, "hairpinMode": true, "ipam": ipam});
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [bridge, {"type": "portmap", "capabilities": {"portMappings": true}}],
    })
}

fn containerd(folder: &Folder) -> String {
    let networks = folder.path().join("etc/cni");
    format!(
        r#"version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
disable_apparmor = true
# Without CAP_SYS_RESOURCE, a process may only raise its OOM score.
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "{}"
[plugins."io.containerd.nri.v1.nri"]
disable = true
"#,
        networks.display()
    )
}

/// Writes the configuration files of all programs.
pub(super) fn write(folder: &Folder, node: Number) -> Result<(), Error> {
    let etc = folder.path().join("etc");
    let networks = etc.join("cni");
    std::fs::create_dir_all(&networks).map_err(Error::file("create", &networks))?;
    let files = [
        ("kubelet.json", format!("{:#}\n", kubelet_configuration(folder, node))),
        ("kube-proxy.json", format!("{:#}\n", proxy_configuration(folder))),
        ("cni/pods.conflist", format!("{:#}\n", network(node))),
        ("containerd.toml", containerd(folder)),
    ];
    for (name, text) in files {
        let path = etc.join(name);
        std::fs::write(&path, text).map_err(Error::file("write", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn folder() -> Folder {
        Folder::new(Path::new("/node")).unwrap()
    }

    fn arguments_of(program: Program, node: Number) -> String {
        arguments(program, &folder(), node).join(" ")
    }

    #[test]
    fn kubelet_runs_without_systemd_and_keeps_images() {
        let configuration = kubelet_configuration(&folder(), Number::FIRST);
        assert_eq!(configuration["cgroupDriver"], "cgroupfs");
        assert_eq!(configuration["failCgroupV1"], false);
        assert_eq!(configuration["imageGCHighThresholdPercent"], 100);
        assert_eq!(configuration["tlsCertFile"], "/node/pki/node1-server.crt");
    }

    #[test]
    fn only_the_first_node_has_the_labels_of_openstack() {
        let arguments = kubelet(&folder(), Number::FIRST).join(" ");
        assert!(OPENSTACK_LABELS.iter().all(|label| arguments.contains(&format!("{label}=enabled"))), "{arguments}");
        assert!(!kubelet(&folder(), Number::parse("node2").unwrap()).join(" ").contains("--node-labels"));
    }

    #[test]
    fn nodes_differ_in_name_address_and_pods() {
        let node = Number::parse("node2").unwrap();
        let arguments = kubelet(&folder(), node).join(" ");
        assert!(arguments.contains("--node-ip=10.123.0.3 --hostname-override=node2"), "{arguments}");
        assert!(arguments_of(Program::KubeProxy, node).contains("--hostname-override=node2"));
        assert_eq!(network(node)["plugins"][0]["ipam"]["ranges"][0][0]["subnet"], "10.244.2.0/24");
    }

    #[test]
    fn only_the_first_node_runs_the_control_plane() {
        let has_etcd = |node| components(node).contains(&Program::Etcd);
        assert_eq!(Number::all().map(has_etcd).collect::<Vec<_>>(), [true, false, false]);
        assert!(Number::all().all(|node| components(node).contains(&Program::Kubelet)));
    }

    #[test]
    fn recipes_list_the_pause_image_and_containerd_uses_it() {
        let always = super::super::recipe::Recipes::read().unwrap().always("2026.1").unwrap();
        assert!(always.iter().any(|image| image.to_string() == PAUSE));
        assert!(containerd(&folder()).contains(PAUSE));
    }

    #[test]
    fn every_component_has_arguments() {
        for program in components(Number::FIRST) {
            assert!(!arguments_of(program, Number::FIRST).is_empty(), "{program}");
        }
    }
}
