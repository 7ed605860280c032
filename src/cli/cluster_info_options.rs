//! Defines the options with which the user describes the target cluster to commands that do not query it.

use clap::Args;

use osdpl_core::observed::{Class, ClusterInfo, NodeCount, Range};
use osdpl_lint::rule::check_network;

/// The options with which the user describes the target cluster to commands that do not query it.
#[derive(Args)]
#[command(next_help_heading = "Target cluster")]
pub(crate) struct ClusterInfoOptions {
    /// The number of nodes of the cluster. osdpl checks whether there are enough nodes for replicas that must run on
    /// different nodes, and assumes that each node has every role.
    #[arg(long, value_name = "NUMBER")]
    nodes: Option<usize>,
    /// The name of a StorageClass of the cluster, or NAME=PROVISIONER; repeat the option for each StorageClass.
    #[arg(long = "storage-class", value_name = "NAME", value_parser = class)]
    classes: Vec<Class>,
    /// A network of the cluster's pods, such as 10.244.0.0/16.
    #[arg(long = "pod-network", value_name = "CIDR", value_delimiter = ',', value_parser = network)]
    pods: Vec<String>,
    /// A network of the cluster's Services, such as 10.96.0.0/12.
    #[arg(long = "service-network", value_name = "CIDR", value_delimiter = ',', value_parser = network)]
    services: Vec<String>,
}

impl ClusterInfoOptions {
    /// Returns the cluster's properties that the user gave as options: its nodes, StorageClasses and IP ranges. osdpl
    /// validates the `OpenStackDeployment` against these properties.
    pub(crate) fn to_cluster_info(&self) -> ClusterInfo {
        let range = |description: &str, is_of_pods, cidr: &String| Range {
            description: description.into(),
            is_of_pods,
            cidr: cidr.clone(),
        };
        let pods = self.pods.iter().map(|cidr| range("the cluster's pods (--pod-network)", true, cidr));
        let services = self.services.iter().map(|cidr| range("its Services (--service-network)", false, cidr));
        ClusterInfo {
            nodes: self.nodes.map(NodeCount::All),
            classes: (!self.classes.is_empty()).then(|| self.classes.clone()),
            networks: pods.chain(services).collect(),
        }
    }

    /// Whether the user set any of the options in this struct.
    pub(crate) fn is_set(&self) -> bool {
        self.to_cluster_info() != ClusterInfo::default()
    }
}

fn network(text: &str) -> Result<String, String> {
    check_network(text).map(|()| text.to_owned())
}

fn class(text: &str) -> Result<Class, String> {
    let (name, provisioner) = text.split_once('=').unwrap_or((text, ""));
    // Kubernetes permits only these characters in the name of an object (RFC 1123).
    let is_valid = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter);
    if name.is_empty() || !name.chars().all(is_valid) {
        return Err(
            "this is not the name of a StorageClass; write one as `kubectl get storageclass` shows it, such as general or general=rook-ceph.rbd.csi.ceph.com"
                .into(),
        );
    }
    Ok(Class { name: name.into(), provisioner: provisioner.into(), is_default: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_invalid_class_names() {
        let parsed = class("general=rook-ceph.rbd.csi.ceph.com").unwrap();
        assert_eq!((parsed.name.as_str(), parsed.provisioner.as_str()), ("general", "rook-ceph.rbd.csi.ceph.com"));
        for text in ["", "=x", "a,b", "General"] {
            let error = class(text).unwrap_err();
            assert!(error.contains("this is not the name of a StorageClass; write one as"), "{text}: {error}");
        }
    }
}
