//! The programs of the node, their command lines and their configuration files.

use serde_json::{Value, json};

use crate::folder::Folder;
use crate::options::OPENSTACK_LABELS;
use crate::{Error, Program};

/// The name of the node.
pub(super) const NODE: &str = "node1";
/// The address of the node, and the machine's address on the link between the two.
pub(super) const NODE_ADDRESS: &str = "10.123.0.2";
pub(super) const MACHINE_ADDRESS: &str = "10.123.0.1";
/// The prefix length of the network that connects the machine and the node.
pub(super) const LINK_PREFIX: &str = "/30";
/// The address ranges of pods and of Services.
const PODS: &str = "10.244.0.0/16";
const SERVICES: &str = "10.96.0.0/16";
/// The address of the cluster's DNS server, which `node/base.yaml` assigns to the Service kube-dns.
const DNS: &str = "10.96.0.10";
/// The image of the pause container. `images.yaml` lists it, too.
const PAUSE: &str = "registry.k8s.io/pause:3.10.1";

/// The client certificates of the node's programs: file name, user, group.
pub(super) const CLIENTS: [(&str, &str, Option<&str>); 6] = [
    ("admin", "admin", Some("system:masters")),
    ("apiserver-kubelet", "apiserver-kubelet", Some("system:masters")),
    ("kube-controller-manager", "system:kube-controller-manager", None),
    ("kube-scheduler", "system:kube-scheduler", None),
    ("kubelet", "system:node:node1", Some("system:nodes")),
    ("kube-proxy", "system:kube-proxy", None),
];

/// The programs that run as long as the node does.
pub(super) const COMPONENTS: [Program; 7] = [
    Program::Containerd,
    Program::Etcd,
    Program::KubeApiserver,
    Program::KubeControllerManager,
    Program::KubeScheduler,
    Program::Kubelet,
    Program::KubeProxy,
];

/// Returns the URL of the node's API server.
pub(super) fn server() -> String {
    format!("https://{NODE_ADDRESS}:6443")
}

/// Returns the names and addresses in the API server's certificate.
pub(super) fn server_names() -> Vec<&'static str> {
    crate::pki::API_SERVER_NAMES.into_iter().chain([NODE_ADDRESS]).collect()
}

/// Returns the arguments of a component's command line.
pub(super) fn arguments(program: Program, folder: &Folder) -> Vec<String> {
    match program {
        Program::Containerd => vec![format!("--config={}", path(folder, "containerd.toml")), "--log-level=warn".into()],
        Program::Etcd => etcd(folder),
        Program::KubeApiserver => apiserver(folder),
        Program::KubeControllerManager => controller_manager(folder),
        Program::KubeScheduler => scheduler(folder),
        Program::Kubelet => kubelet(folder),
        Program::KubeProxy => {
            vec![format!("--config={}", path(folder, "kube-proxy.json")), format!("--hostname-override={NODE}")]
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
        format!("--advertise-address={NODE_ADDRESS}"),
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
        "--allocate-node-cidrs".into(),
        format!("--cluster-cidr={PODS}"),
        "--kube-api-qps=200".into(),
        "--kube-api-burst=400".into(),
    ]
}

fn scheduler(folder: &Folder) -> Vec<String> {
    let own = folder.kubeconfig_of("kube-scheduler");
    vec![format!("--kubeconfig={}", own.display()), "--secure-port=0".into(), "--leader-elect=false".into()]
}

fn kubelet(folder: &Folder) -> Vec<String> {
    let labels: Vec<String> = OPENSTACK_LABELS.iter().map(|label| format!("{label}=enabled")).collect();
    vec![
        format!("--config={}", path(folder, "kubelet.json")),
        format!("--kubeconfig={}", folder.kubeconfig_of("kubelet").display()),
        format!("--node-ip={NODE_ADDRESS}"),
        format!("--hostname-override={NODE}"),
        format!("--node-labels={}", labels.join(",")),
    ]
}

/// Returns the kubelet's configuration (`KubeletConfiguration`, kubelet.config.k8s.io/v1beta1).
fn kubelet_configuration(folder: &Folder) -> Value {
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
        "tlsCertFile": folder.pki("kubelet-server.crt"),
        "tlsPrivateKeyFile": folder.pki("kubelet-server.key"),
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

fn network() -> Value {
    let ipam = json!({"type": "host-local", "ranges": [[{"subnet": PODS}]]});
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
pub(super) fn write(folder: &Folder) -> Result<(), Error> {
    let etc = folder.path().join("etc");
    let networks = etc.join("cni");
    std::fs::create_dir_all(&networks).map_err(Error::file("create", &networks))?;
    let files = [
        ("kubelet.json", format!("{:#}\n", kubelet_configuration(folder))),
        ("kube-proxy.json", format!("{:#}\n", proxy_configuration(folder))),
        ("cni/pods.conflist", format!("{:#}\n", network())),
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

    #[test]
    fn kubelet_runs_without_systemd_and_keeps_images() {
        let configuration = kubelet_configuration(&folder());
        assert_eq!(configuration["cgroupDriver"], "cgroupfs");
        assert_eq!(configuration["failCgroupV1"], false);
        assert_eq!(configuration["imageGCHighThresholdPercent"], 100);
        assert_eq!(configuration["tlsCertFile"], "/node/pki/kubelet-server.crt");
    }

    #[test]
    fn node_has_every_label_of_openstack() {
        let arguments = kubelet(&folder()).join(" ");
        assert!(OPENSTACK_LABELS.iter().all(|label| arguments.contains(&format!("{label}=enabled"))), "{arguments}");
    }

    #[test]
    fn user_of_the_kubelet_names_the_node() {
        assert!(CLIENTS.iter().any(|(_, user, _)| *user == format!("system:node:{NODE}")));
    }

    #[test]
    fn recipes_list_the_pause_image_and_containerd_uses_it() {
        let always = super::super::recipe::Recipes::read().unwrap().always("2026.1").unwrap();
        assert!(always.iter().any(|image| image.to_string() == PAUSE));
        assert!(containerd(&folder()).contains(PAUSE));
    }

    #[test]
    fn every_component_has_arguments() {
        for program in COMPONENTS {
            assert!(!arguments(program, &folder()).is_empty(), "{program}");
        }
    }
}
