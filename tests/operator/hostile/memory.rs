//! Measures the memory of an operator's process.

use crate::operator::Operator;

/// The most that a test's objects may add to the resident memory of an operator, in KiB.
///
/// The objects of the tests have at least four times this size. An idle operator varies by 2 MiB, and a pass with a
/// helm run by 6 MiB.
const ALLOWED: u64 = 32 << 10;

/// The resident memory of an operator at the start of an attack.
pub struct Baseline<'a> {
    operator: &'a Operator,
    resident: u64,
}

impl<'a> Baseline<'a> {
    /// Notes the present memory, and resets the kernel's peak.
    pub fn of(operator: &'a Operator) -> Self {
        // The value 5 resets the peak to the present size (`proc_pid_clear_refs(5)`).
        std::fs::write(format!("/proc/{}/clear_refs", operator.pid()), "5").unwrap();
        Self { operator, resident: field(operator, "VmRSS") }
    }

    /// Checks that the memory has not even for a moment grown by more than [`ALLOWED`] since the start of the attack.
    pub fn check(&self, what: &str) {
        let grown = peak(self.operator).saturating_sub(self.resident);
        println!("{what}: the operator had {} KiB, and needed up to {grown} KiB more", self.resident);
        assert!(grown < ALLOWED, "{what}: the operator needed {grown} KiB more than {} KiB", self.resident);
        assert!(self.operator.is_live(), "{what}: the liveness probe must succeed");
    }
}

/// Returns the largest resident memory of an operator since its start or its last [`Baseline`], in KiB.
pub fn peak(operator: &Operator) -> u64 {
    field(operator, "VmHWM")
}

/// Returns a field of `/proc/PID/status` in KiB.
fn field(operator: &Operator, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", operator.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim_end_matches("kB").trim().parse().unwrap()
}
