//! Connects the machine and the nodes.
//!
//! Two switches (Linux bridges) connect the nodes. The first one connects their interfaces `eth0` with each other and
//! with the machine. The second one connects only their interfaces `eth1`, which have no addresses, so that a cloud
//! can use them for its external network. The switches are in a network namespace of their own, where the machine's
//! firewall rules do not apply to the frames between the nodes. In the machine's own namespace, the kernel would pass
//! these frames to iptables if `net.bridge.bridge-nf-call-iptables` is set, as Docker does, and iptables could drop
//! them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use rustix::mount::{UnmountFlags, unmount};

use super::number::{MACHINE, Number, PREFIX};
use super::run::{output, write};

/// The name of the machine's network link to the nodes.
const LINK: &str = "osdpl-real";
/// The nodes' interfaces, and the switch of each.
const SWITCHES: [(&str, &str); 2] = [("eth0", "nodes"), ("eth1", "external")];

/// The network namespace with the switches.
pub(super) struct Network {
    /// The file on which the namespace is mounted, so that it exists without a process.
    namespace: PathBuf,
}

impl Network {
    /// Returns the network of the nodes whose folders are in `real`.
    pub fn new(real: &Path) -> Self {
        Self { namespace: real.join("network") }
    }

    /// Creates the switches, and connects the machine with the first one. Does nothing if an earlier call has
    /// completed.
    pub fn create(&self) -> anyhow::Result<()> {
        // The last step sets the machine's link up.
        if ip(&format!("-4 -oneline address show dev {LINK} up")).is_ok_and(|line| !line.is_empty()) {
            return Ok(());
        }
        self.remove()?;
        write(&self.namespace, "")?;
        output(Command::new("unshare").arg(format!("--net={}", self.namespace.display())).arg("true"), "")?;
        for (_, switch) in SWITCHES {
            self.ip(&format!("link add {switch} up type bridge"))?;
        }
        let me = std::process::id();
        self.ip(&format!("link add machine up master nodes type veth peer name {LINK} netns {me}"))?;
        ip(&format!("address add {MACHINE}{PREFIX} dev {LINK}"))?;
        ip(&format!("link set {LINK} up")).map(drop)
    }

    /// Removes the switches and all links.
    pub fn remove(&self) -> anyhow::Result<()> {
        // The kernel removes the links of a network namespace some time after the namespace. So remove the machine's
        // link itself. Ignore errors: they mean that the link or the mount does not exist.
        let _ = ip(&format!("link del {LINK}"));
        let _ = unmount(&self.namespace, UnmountFlags::DETACH);
        if self.namespace.exists() {
            std::fs::remove_file(&self.namespace)
                .with_context(|| format!("cannot remove {}", self.namespace.display()))?;
        }
        Ok(())
    }

    /// Connects a node with the switches. `init` is the node's first process.
    pub fn connect(&self, node: Number, init: i32) -> anyhow::Result<()> {
        let inside = |arguments: &str| ip_in(&format!("/proc/{init}/ns/net"), arguments);
        inside("link set lo up")?;
        for (interface, switch) in SWITCHES {
            let mac = hardware_address(interface, node);
            let link = format!("{}-{interface}", node.name());
            // Remove the link of an earlier run of the node. It still exists if the kernel has not removed the earlier
            // network namespace of the node yet.
            let _ = self.ip(&format!("link del {link}"));
            let peer = format!("{interface} address {mac} netns {init}");
            self.ip(&format!("link add {link} up master {switch} type veth peer name {peer}"))?;
            inside(&format!("link set {interface} up"))?;
        }
        inside(&format!("address add {}{PREFIX} dev eth0", node.address()))?;
        // Some scripts, such as those of neutron's chart, look for the interface of the default route.
        inside(&format!("route add default via {MACHINE}"))?;
        for other in Number::all().filter(|other| *other != node) {
            inside(&format!("route add {} via {}", other.pods(), other.address()))?;
        }
        Ok(())
    }

    fn ip(&self, arguments: &str) -> anyhow::Result<()> {
        ip_in(&self.namespace.display().to_string(), arguments)
    }
}

/// Returns the hardware address of a node's interface. It is the same after each start of the node, because the machine
/// and the other nodes remember it for a while.
fn hardware_address(interface: &str, node: Number) -> String {
    let [a, b, c, d] = node.address().octets();
    let kind = if interface == "eth0" { 0x58 } else { 0x59 };
    format!("0a:{kind:02x}:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

fn ip(arguments: &str) -> anyhow::Result<String> {
    output(Command::new("ip").args(arguments.split(' ')), "")
}

fn ip_in(namespace: &str, arguments: &str) -> anyhow::Result<()> {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={namespace}")).arg("ip").args(arguments.split(' '));
    output(&mut command, "").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_differ() {
        assert_eq!(hardware_address("eth0", Number::FIRST), "0a:58:0a:7b:00:02");
        let all = Number::all().flat_map(|node| SWITCHES.map(|(interface, _)| hardware_address(interface, node)));
        assert_eq!(all.collect::<std::collections::BTreeSet<_>>().len(), 6);
    }
}
