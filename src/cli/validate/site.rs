//! What is told of the cluster that a resource is meant for.

use clap::Args;

use crate::observed::{Census, Class, Range, Site};

#[derive(Args)]
pub struct SiteOptions {
    /// How many nodes the cluster has, each for every role: servers that need a node each are counted.
    #[arg(long, value_name = "NUMBER")]
    nodes: Option<usize>,
    /// A StorageClass of the cluster, or NAME=PROVISIONER; name all of them, one each.
    #[arg(long = "storage-class", value_name = "NAME")]
    classes: Vec<String>,
    /// A network that the cluster's pods get addresses from.
    #[arg(long = "pod-network", value_name = "CIDR")]
    pods: Vec<String>,
    /// A network that its Services get addresses from.
    #[arg(long = "service-network", value_name = "CIDR")]
    services: Vec<String>,
}

impl SiteOptions {
    /// What rules are told of the cluster.
    pub fn site(&self) -> Site {
        let range = |what: &str, cidr: &String| Range { what: what.into(), cidr: cidr.clone() };
        let pods = self.pods.iter().map(|cidr| range("the cluster's pods (--pod-network)", cidr));
        let services = self.services.iter().map(|cidr| range("its Services (--service-network)", cidr));
        let classes = self.classes.iter().map(|text| {
            let (name, provisioner) = text.split_once('=').unwrap_or((text, ""));
            Class { name: name.into(), provisioner: provisioner.into(), is_default: false }
        });
        Site {
            nodes: self.nodes.map(Census::All),
            classes: (!self.classes.is_empty()).then(|| classes.collect()),
            networks: pods.chain(services).collect(),
        }
    }
}
