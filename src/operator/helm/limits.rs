//! Limits the memory and the processor time of the helm processes that only render.
//!
//! Values may contain templates. A template can create gigabytes of text, or run for hours. The operator renders the
//! values also while the change waits for approval. It shares the memory limit of its container with helm, so without a
//! limit for helm, the kernel could kill the operator before anyone approves. Upgrades have no such limit, because a
//! person or the approval policy has accepted their values.

use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::process::Child;

/// The amount of memory that a rendering helm process may write to (`RLIMIT_DATA`), in MiB.
///
/// helm needs less than 200 MiB for the largest chart. The limit is not on the address space (`RLIMIT_AS`), because Go
/// reserves more than 1 GiB of addresses that it never uses. Linux does not compare every request of Go with the limit.
/// So helm can exceed the limit, in experiments with helm 3.22 and 4.3 up to 820 MiB.
const MEMORY_MIB: u64 = 512;

/// Limits the memory of a helm process.
pub(super) fn limit_memory(child: &Child) {
    limit(child, Resource::Data, MEMORY_MIB << 20);
}

/// Limits the processor time of a helm process. At the limit, the kernel kills the process, even if the operator has
/// ended.
pub(super) fn limit_processor_time(child: &Child, time: Duration) {
    limit(child, Resource::Cpu, time.as_secs());
}

/// Sets a limit of a running process, because safe Rust cannot set it between fork and exec. helm needs much longer to
/// reach the limit than the operator needs to set it.
fn limit(child: &Child, resource: Resource, value: u64) {
    // The process has no id if it has ended already.
    let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) else { return };
    let limit = Rlimit { current: Some(value), maximum: Some(value) };
    if let Err(error) = prlimit(Some(pid), resource, limit) {
        tracing::warn!(?resource, %error, "osdpl can't limit the resources of helm; allow the system call prlimit64");
    }
}

/// Returns the error message if helm's stderr says that helm exceeded the limit of its memory, otherwise `None`.
///
/// If Go gets no memory, it ends the process. Its stderr is then a line with the fatal error, and the stacks of all
/// goroutines, which say nothing to users.
pub(super) fn memory_error(stderr: &str) -> Option<String> {
    let fatal = stderr.lines().find(|line| line.starts_with("fatal error: "))?;
    let is_about_memory = fatal.contains("out of memory") || fatal.contains("cannot allocate memory");
    is_about_memory.then(|| {
        format!(
            "helm needed more than {MEMORY_MIB} MiB of memory; make the values smaller, above all the text that \
             templates in the values create, for example in extraObjects"
        )
    })
}
