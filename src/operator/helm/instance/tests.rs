use std::fs;

use tempfile::TempDir;

use super::*;
use osdpl_core::release::Attempt;

const BOOT: &str = "6d6e2f3a-0000-4000-8000-000000000001\n";

/// A temporary folder with the files of `/proc` that osdpl reads.
struct Proc(TempDir);

impl Proc {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("sys/kernel/random")).unwrap();
        fs::create_dir_all(folder.path().join("self/ns")).unwrap();
        fs::write(folder.path().join("sys/kernel/random/boot_id"), BOOT).unwrap();
        std::os::unix::fs::symlink("pid:[4026531836]", folder.path().join("self/ns/pid")).unwrap();
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn process(&self, pid: u32, state: char, started: u64) -> &Self {
        let folder = self.path().join(pid.to_string());
        fs::create_dir_all(&folder).unwrap();
        let numbers = "0 ".repeat(18);
        fs::write(folder.join("stat"), format!("{pid} (a) b) {state} {numbers}{started} 0 0\n")).unwrap();
        self
    }

    fn marked(&self, pid: u32, environment: &str) -> &Self {
        self.process(pid, 'S', 1);
        fs::write(self.path().join(pid.to_string()).join("environ"), environment).unwrap();
        self
    }

    fn instance(&self, pid: u32, pod: Option<&str>) -> Instance {
        Instance::of(pid, pod, self.path()).unwrap()
    }
}

const POD: &str = "0b7c2f3e-1111-4222-8333-444455556666";

#[test]
fn the_identity_of_this_process_fits_an_attempt() {
    for pod in [None, Some(POD)] {
        let instance = Instance::of_this_process(pod).unwrap();
        assert_eq!(instance, Instance::of_this_process(pod).unwrap());
        let attempt = instance.attempt(u32::MAX, u32::MAX);
        assert_eq!(attempt.to_string().parse::<Attempt>(), Ok(attempt.clone()));
        assert_eq!(instance.liveness(attempt.instance()), Liveness::Us);
    }
}

#[test]
fn the_longest_identity_fits() {
    let proc = Proc::new();
    let instance = proc.process(4_194_304, 'S', u64::MAX).instance(4_194_304, None);
    assert!(instance.as_str().len() <= 40, "{instance}");
}

#[test]
fn a_local_process_has_ended_if_its_id_is_free_or_reused() {
    let proc = Proc::new();
    let own = proc.process(1, 'S', 1).instance(1, None);
    let other = proc.process(77, 'S', 500).instance(77, None);
    assert_eq!(own.state_in(other.as_str(), proc.path()), ProcessState::Running);
    proc.process(77, 'Z', 500);
    assert_eq!(own.state_in(other.as_str(), proc.path()), ProcessState::Ended);
    proc.process(77, 'S', 501);
    assert_eq!(own.state_in(other.as_str(), proc.path()), ProcessState::Ended);
    fs::remove_dir_all(proc.path().join("77")).unwrap();
    assert_eq!(own.state_in(other.as_str(), proc.path()), ProcessState::Ended);
}

#[test]
fn a_surviving_helm_process_keeps_its_operator_alive() {
    let proc = Proc::new();
    let own = proc.process(1, 'S', 1).instance(1, None);
    let other = proc.process(77, 'S', 500).instance(77, None);
    fs::remove_dir_all(proc.path().join("77")).unwrap();
    proc.marked(78, &format!("A=1\0{INSTANCE_VARIABLE}={other}\0"));
    assert_eq!(own.state_in(other.as_str(), proc.path()), ProcessState::Running);
    proc.marked(78, &format!("A={INSTANCE_VARIABLE}={other}\0{INSTANCE_VARIABLE}={other}x\0"));
    assert_eq!(own.state_in(other.as_str(), proc.path()), ProcessState::Ended);
}

#[test]
fn processes_of_other_machines_are_elsewhere() {
    let (local, remote) = (Proc::new(), Proc::new());
    fs::write(remote.path().join("sys/kernel/random/boot_id"), "another").unwrap();
    let other = remote.process(77, 'S', 500).instance(77, None);
    let own = local.process(1, 'S', 1).instance(1, None);
    assert_eq!(own.state_in(other.as_str(), local.path()), ProcessState::Elsewhere);
}

#[test]
fn an_earlier_process_of_the_same_pod_has_ended() {
    let proc = Proc::new();
    let former = proc.process(1, 'S', 1).instance(1, Some(POD));
    let own = proc.process(1, 'S', 2).instance(1, Some(POD));
    assert_eq!(own.state_in(former.as_str(), proc.path()), ProcessState::Ended);
}

#[test]
fn a_second_process_of_the_same_pod_is_running() {
    let proc = Proc::new();
    let own = proc.process(1, 'S', 1).instance(1, Some(POD));
    let other = proc.process(7, 'S', 2).instance(7, Some(POD));
    assert_eq!(own.state_in(other.as_str(), proc.path()), ProcessState::Running);
}

#[test]
fn processes_of_other_pods_are_elsewhere() {
    let proc = Proc::new();
    let other = proc.process(1, 'S', 1).instance(1, Some(POD));
    for own in [proc.instance(1, Some("another-pod")), proc.instance(1, None)] {
        assert_eq!(own.state_in(other.as_str(), proc.path()), ProcessState::Elsewhere);
    }
    assert_eq!(pod_token(POD), "0b7c2f3e111142228333444455556666");
}

#[test]
fn attempts_of_earlier_holders_are_dead() {
    let instance = Instance::of_this_process(None).unwrap();
    for other in ["habcdef0123.1.2", "p0b7c.abcdef"] {
        assert_eq!(instance.liveness(other), Liveness::Dead);
    }
}

#[test]
fn pod_tokens_of_long_uids_are_unique() {
    let long = "x".repeat(100);
    assert_eq!(pod_token(&long).len(), 32);
    assert_ne!(pod_token(&long), pod_token(&"y".repeat(100)));
    assert_eq!(pod_token("").len(), 32);
}

#[test]
fn unknown_identities_are_elsewhere() {
    let proc = Proc::new();
    let own = proc.process(1, 'S', 1).instance(1, None);
    for other in ["", "x", "h", "h.1.2", "habc.x.2", "qabc.1.2", "é.1", "H1.1.1"] {
        assert_eq!(own.state_in(other, proc.path()), ProcessState::Elsewhere, "{other:?}");
    }
}
