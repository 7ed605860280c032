//! The first process of the node: mounts the node's root file system, and starts the node's programs again whenever
//! they exit.
//!
//! It runs in its own namespaces of processes, mounts, network, host name, System V IPC and control groups, which
//! `unshare` creates. When it exits, the kernel kills every other process of the node.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::fs::FileType;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::process::{WaitOptions, pivot_root, wait};

use super::chroot::{Device, bind, device, devices, filesystem, overlay};
use super::node::Plan;
use super::number::Number;
use super::run::{folder, write};
use super::{cgroup, settings};
use crate::Program;
use crate::folder::Folder;

/// The time between the exit of a program and its next start.
const PAUSE: Duration = Duration::from_secs(1);

/// The folder in which kube-controller-manager creates volumes (`pkg/volume/hostpath/host_path.go` in Kubernetes).
pub(super) const VOLUMES: &str = "tmp/hostpath_pv";

/// Devices that pods use, in addition to the devices that module `chroot` creates in every `/dev`.
const DEVICES: [Device; 5] = [
    ("console", 5, 1, 0o600),
    ("kmsg", 1, 11, 0o644),
    ("fuse", 10, 229, 0o666),
    ("net/tun", 10, 200, 0o666),
    ("loop-control", 10, 237, 0o660),
];

/// Settings of the kernel that a kubelet requires (Kubernetes' `pkg/kubelet/cm/container_manager_linux.go`). A change
/// of the settings would affect the whole machine. So files with these values cover the settings in the node's
/// `/proc/sys`, and the kernel's settings stay unchanged.
const SYSCTLS: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// Runs the node until this process is killed.
pub(super) fn run(plan: &Plan) -> anyhow::Result<std::convert::Infallible> {
    // `/proc` is still the machine's, so this is the process ID outside of the node's namespace.
    let me = std::fs::read_link("/proc/self").context("cannot read /proc/self")?;
    let cluster = Folder::new(&plan.folder)?;
    mount_root(plan)?;
    println!("{}", me.display());
    std::io::stdout().flush().context("cannot report the process ID")?;
    // The caller connects this process's network namespace, and then writes a line. If it fails, it writes nothing.
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("cannot read standard input")?;
    ensure!(!line.is_empty(), "the node was not connected to the network");
    supervise(plan, &cluster)
}

/// Builds the node's root file system and makes it the root of this mount namespace.
fn mount_root(plan: &Plan) -> anyhow::Result<()> {
    let root = plan.folder.join("root");
    overlay(&plan.layers, &plan.folder.join("upper"), &plan.folder.join("work"), &root)?;
    for part in ["proc", "sys", "dev", "run", "tmp", "old", "var/lib/containerd", "var/lib/kubelet"] {
        folder(&root.join(part))?;
    }
    filesystem("proc", &root.join("proc"), "")?;
    filesystem("sysfs", &root.join("sys"), "")?;
    cgroup::mount(&root.join("sys/fs/cgroup"), plan.number)?;
    mount_devices(&root.join("dev"))?;
    filesystem("tmpfs", &root.join("run"), "mode=755,size=2g")?;
    folder(&root.join("run/lock"))?;
    // These folders must be outside of the overlay that is the node's root: containerd cannot stack its own overlays on
    // an overlay, and the volumes of pods need a disk.
    for (part, target) in [("containerd", "var/lib/containerd"), ("kubelet", "var/lib/kubelet"), ("tmp", "tmp")] {
        folder(&plan.folder.join(part))?;
        bind(&plan.folder.join(part), &root.join(target))?;
    }
    let everyone = std::fs::Permissions::from_mode(0o1777);
    std::fs::set_permissions(root.join("tmp"), everyone).context("cannot open /tmp for everyone")?;
    // Volumes are folders on the machine, so a pod finds its volume on any node.
    let volumes = root.join(VOLUMES);
    folder(&plan.volumes)?;
    folder(&volumes)?;
    bind(&plan.volumes, &volumes)?;
    // The node's folder has the same path inside the node and on the machine, so that the paths of kubeconfigs and logs
    // are valid on both sides.
    let same = root.join(plan.folder.strip_prefix("/").unwrap_or(&plan.folder));
    folder(&same)?;
    bind(&plan.folder, &same)?;
    hide_sysctls(&root)?;
    name_node(&root, plan.number)?;
    std::env::set_current_dir(&root).context("cannot enter the node's root")?;
    pivot_root(".", "old").context("cannot change the root")?;
    std::env::set_current_dir("/").context("cannot enter the node's root")?;
    unmount("/old", UnmountFlags::DETACH).context("cannot leave the machine's root")?;
    // Mounts of a pod with bidirectional mount propagation reach the node only if the node's root is a shared mount.
    let shared = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    mount_change("/", shared).context("cannot share the mounts of the node")?;
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("cannot enable forwarding between pods")
}

fn mount_devices(target: &Path) -> anyhow::Result<()> {
    devices(target, &DEVICES)?;
    for number in 0..8 {
        device(&target.join(format!("loop{number}")), FileType::BlockDevice, 7, number, 0o660)?;
    }
    if let Some((major, minor)) = numbers(Path::new("/dev/kvm")) {
        device(&target.join("kvm"), FileType::CharacterDevice, major, minor, 0o660)?;
    }
    filesystem("devpts", &target.join("pts"), "newinstance,ptmxmode=0666,mode=620,gid=5")?;
    symlink("pts/ptmx", target.join("ptmx")).context("cannot create /dev/ptmx")?;
    filesystem("tmpfs", &target.join("shm"), "mode=1777,size=1g")?;
    for part in ["mqueue", "hugepages"] {
        folder(&target.join(part))?;
    }
    filesystem("mqueue", &target.join("mqueue"), "")
}

fn numbers(path: &Path) -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt;
    let number = std::fs::metadata(path).ok()?.rdev();
    Some((rustix::fs::major(number), rustix::fs::minor(number)))
}

fn hide_sysctls(root: &Path) -> anyhow::Result<()> {
    for (name, value) in SYSCTLS {
        let (file, target) = (root.join("run/sysctl").join(name), root.join("proc/sys").join(name));
        if target.exists() {
            write(&file, &format!("{value}\n"))?;
            bind(&file, &target)?;
        }
    }
    Ok(())
}

fn name_node(root: &Path, node: Number) -> anyhow::Result<()> {
    rustix::system::sethostname(node.name().as_bytes()).context("cannot set the host name")?;
    write(&root.join("etc/hostname"), &format!("{}\n", node.name()))?;
    let hosts = Number::all().map(|node| format!("{} {}", node.address(), node.name()));
    let hosts: Vec<String> = ["127.0.0.1 localhost".to_owned()].into_iter().chain(hosts).collect();
    write(&root.join("etc/hosts"), &format!("{}\n", hosts.join("\n")))?;
    // The kubelet gives the node's resolv.conf to pods with the DNS policy `Default`, and to pods on the host network
    // with the policy `ClusterFirst`. The file names the cluster's DNS server, so these pods can resolve the names of
    // Services, too.
    write(&root.join("etc/resolv.conf"), "search cluster.local\nnameserver 10.96.0.10\n")?;
    let id = std::fs::read_to_string("/proc/sys/kernel/random/uuid").context("cannot read a random ID")?;
    write(&root.join("etc/machine-id"), &id.replace('-', ""))?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").context("cannot read the kernel's version")?;
    // Charts mount the folder of the kernel's modules, so it must exist even if the kernel has no modules.
    folder(&root.join("lib/modules").join(release.trim()))
}

/// Starts all programs, and starts each program again when it exits. Also reaps processes whose parents have exited.
fn supervise(plan: &Plan, cluster: &Folder) -> anyhow::Result<std::convert::Infallible> {
    let mut running: BTreeMap<i32, Program> = BTreeMap::new();
    let mut due: Vec<(Instant, Program)> =
        settings::components(plan.number).into_iter().map(|program| (Instant::now(), program)).collect();
    loop {
        let now = Instant::now();
        for (_, program) in due.extract_if(.., |(at, _)| *at <= now) {
            running.insert(start(program, plan, cluster)?, program);
        }
        // Let `wait` block only if no program must be started again soon.
        let options = if due.is_empty() { WaitOptions::empty() } else { WaitOptions::NOHANG };
        match wait(options) {
            Ok(Some((pid, status))) => {
                if let Some(program) = running.remove(&pid.as_raw_nonzero().get()) {
                    eprintln!("{program} has exited ({status:?}) and starts again");
                    due.push((Instant::now() + PAUSE, program));
                }
            }
            Ok(None) => std::thread::sleep(PAUSE / 10),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CHILD) => {}
            Err(error) => return Err(error).context("cannot wait for the node's programs"),
        }
    }
}

fn start(program: Program, plan: &Plan, cluster: &Folder) -> anyhow::Result<i32> {
    let log = cluster.log(program.executable());
    let failed = || format!("cannot write {}", log.display());
    let output = std::fs::OpenOptions::new().create(true).append(true).open(&log).with_context(failed)?;
    let errors = output.try_clone().with_context(failed)?;
    let path = cluster.bin();
    let mut command = Command::new(path.join(program.executable()));
    command.args(settings::arguments(program, cluster, plan.number)).env_clear().env("HOME", "/root");
    command.env("PATH", format!("{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", path.display()));
    command.stdin(Stdio::null()).stdout(output).stderr(errors).current_dir(&plan.folder);
    let child = command.spawn().with_context(|| format!("cannot start {program}"))?;
    // `wait` in `supervise` reaps the child.
    i32::try_from(child.id()).context("a process ID is too large")
}
