//! The certificates and kubeconfigs of the nodes.

use anyhow::Context;

use super::number::Number;
use super::settings;
use crate::folder::Folder;
use crate::pki::{self, API_SERVER_NAMES, Client, Server};
use crate::{Error, kubeconfig};

/// The client certificates of all programs except for the kubelets: file name, user, group.
const CLIENTS: [Client<'_>; 5] = [
    ("admin", "admin", Some("system:masters")),
    ("apiserver-kubelet", "apiserver-kubelet", Some("system:masters")),
    ("kube-controller-manager", "system:kube-controller-manager", None),
    ("kube-scheduler", "system:kube-scheduler", None),
    ("kube-proxy", "system:kube-proxy", None),
];

/// The file names of a kubelet's certificates, which are also its names in the cluster.
struct Kubelet {
    client: String,
    user: String,
    server: String,
    address: String,
}

impl Kubelet {
    fn of(node: Number) -> Self {
        let name = node.name();
        let (user, server) = (format!("system:node:{name}"), format!("{name}-server"));
        Self { client: name, user, server, address: node.address().to_string() }
    }
}

/// Creates the certificates of all nodes that can exist, and the kubeconfigs of the control plane and of the
/// administrator, in the folder of the first node. So nodes can be added to a running cluster. Keeps the files of an
/// earlier call.
pub(super) fn create(first: &Folder) -> Result<(), Error> {
    if first.kubeconfig().is_file() {
        return Ok(());
    }
    let kubelets: Vec<Kubelet> = Number::all().map(Kubelet::of).collect();
    let address = Number::FIRST.address().to_string();
    let names: Vec<&str> = API_SERVER_NAMES.into_iter().chain([address.as_str()]).collect();
    let own: Vec<[&str; 2]> = kubelets.iter().map(|one| [one.address.as_str(), one.client.as_str()]).collect();
    let mut servers: Vec<Server<'_>> = vec![("apiserver", &names)];
    servers.extend(kubelets.iter().zip(&own).map(|(one, names)| (one.server.as_str(), names.as_slice())));
    let mut clients: Vec<Client<'_>> = CLIENTS.to_vec();
    clients.extend(kubelets.iter().map(|one| (one.client.as_str(), one.user.as_str(), Some("system:nodes"))));
    pki::write(first, &servers, &clients)?;
    for name in ["kube-controller-manager", "kube-scheduler"] {
        kubeconfig::write(first, &first.kubeconfig_of(name), &settings::server(), name)?;
    }
    kubeconfig::write(first, &first.kubeconfig(), &settings::server(), "admin")
}

/// Writes the kubeconfigs of the programs of a node, and copies the certificates that these programs need from the
/// folder of the first node to the folder `own` of the node.
pub(super) fn provide(first: &Folder, own: &Folder, node: Number) -> anyhow::Result<()> {
    let kubelet = Kubelet::of(node);
    if own != first {
        let pairs = ["kube-proxy", &kubelet.client, &kubelet.server];
        let pairs = pairs.iter().flat_map(|name| [format!("{name}.crt"), format!("{name}.key")]);
        for file in pairs.chain(["ca.crt".into()]) {
            let from = first.pki(&file);
            std::fs::copy(&from, own.pki(&file)).with_context(|| format!("cannot copy {}", from.display()))?;
        }
    }
    for (name, certificate) in [("kubelet", kubelet.client.as_str()), ("kube-proxy", "kube-proxy")] {
        kubeconfig::write(own, &own.kubeconfig_of(name), &settings::server(), certificate)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_of_a_kubelet_names_its_node() {
        // The authorizer of Kubernetes accepts kubelets by this user name (Kubernetes' documentation, "Using Node
        // Authorization").
        assert_eq!(Kubelet::of(Number::parse("node3").unwrap()).user, "system:node:node3");
    }

    #[test]
    fn other_nodes_get_only_their_own_keys() {
        let folder = tempfile::tempdir().unwrap();
        let [first, own] = ["first", "own"].map(|name| Folder::new(&folder.path().join(name)).unwrap());
        for one in [&first, &own] {
            std::fs::create_dir_all(one.path().join("pki")).unwrap();
        }
        create(&first).unwrap();
        provide(&first, &own, Number::parse("node2").unwrap()).unwrap();
        let mut files: Vec<String> = std::fs::read_dir(own.path().join("pki"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let expected = "ca.crt kube-proxy.crt kube-proxy.key kube-proxy.kubeconfig kubelet.kubeconfig node2-server.crt \
             node2-server.key node2.crt node2.key";
        assert_eq!(files.join(" "), expected);
    }
}
